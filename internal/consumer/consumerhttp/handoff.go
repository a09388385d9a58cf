package consumerhttp

import (
	"encoding/json"
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/web"
)

// mintRoute is the route's name in idempotency keys.
const mintRoute = "POST /handoff"

func (a *API) mint(w http.ResponseWriter, r *http.Request) error {
	key, keyErr := idempotency.KeyFrom(r.Header, bff.CodeIdempotencyKeyRequired)
	req, err := readHandoff(w, r)
	if err != nil {
		return err
	}
	if keyErr != nil {
		return keyErr
	}
	// What the guest sent, before the session completes it: the session may
	// change between two attempts at the same request.
	digest, err := idempotency.Digest(req)
	if err != nil {
		return err
	}
	s, err := a.guest(w, r)
	if err != nil {
		return err
	}
	if req.Locale == "" {
		req.Locale = s.Locale
	}
	if req.Currency == "" {
		req.Currency = s.Currency
	}
	now := a.cfg.Now()
	claim, earlier, err := a.cfg.Ledger.BeginMint(r.Context(), consumer.Once{Guest: s.ID, Route: mintRoute, Key: key, Digest: digest}, now)
	if err != nil {
		return err
	}
	if earlier != nil {
		return a.replayMint(w, r, *earlier)
	}
	defer claim.Release()
	h, minted, initiated, err := a.cfg.Desk.Mint(r.Context(), req, s, visitOf(r), now)
	if err != nil {
		return err
	}
	answer, err := claim.Mint(r.Context(), booking.Mint{Handoff: h, Minted: minted, Initiated: initiated, By: a.announcer(r, s, now)})
	if err != nil {
		return err
	}
	if answer.Replayed { // another process was first
		return a.replayMint(w, r, answer)
	}
	return writeAnswer(w, answer)
}

// replayMint repeats the first answer while its token can still be used.
func (a *API) replayMint(w http.ResponseWriter, r *http.Request, earlier consumer.Answer) error {
	var minted booking.Minted
	if err := json.Unmarshal(earlier.Body, &minted); err != nil {
		return err
	}
	h, err := a.cfg.Ledger.FindHandoff(r.Context(), minted.HandoffID)
	switch {
	case bff.CodeOf(err) == bff.CodeResourceNotFound, err == nil && h.ConsumedAt.IsZero() && !a.cfg.Now().Before(minted.ExpiresAt.Time):
		return bff.Errorf(bff.CodeHandoffExpired, "this hand-off has expired: ask for a new one with a new idempotency key")
	case err != nil:
		return err
	case !h.ConsumedAt.IsZero():
		return bff.Errorf(bff.CodeHandoffReplayed, "this hand-off was already used")
	}
	return writeAnswer(w, earlier)
}

func readHandoff(w http.ResponseWriter, r *http.Request) (booking.HandoffRequest, error) {
	in, err := web.ReadBody(w, r)
	if err != nil {
		return booking.HandoffRequest{}, err
	}
	in.Require("propertyId", "tenantId", "dates", "occupancy")
	req := booking.HandoffRequest{
		PropertyID: in.ID("propertyId", bff.PrefixProperty),
		TenantID:   in.ID("tenantId", bff.PrefixTenant),
		Locale:     in.Locale("locale"),
		Currency:   readCurrency(in),
	}
	if dates := in.Object("dates"); dates != nil {
		req.Dates = readStayAhead(dates, visitOf(r).At)
	}
	if o := in.Object("occupancy"); o != nil {
		req.Occupancy = readOccupancy(o, true)
	}
	if req.Currency == "" {
		req.Currency = headerCurrency(r, in)
	}
	if shown := in.Object("shown"); shown != nil {
		req.Shown = readPrice(shown)
	}
	return req, in.Err()
}

// readPrice reads an amount in minor units, with its moment if that is said.
func readPrice(in *web.Input) *booking.Price {
	in.Require("minor", "currency")
	p := &booking.Price{Minor: in.String("minor", 20), Currency: readCurrency(in)}
	if p.Minor != "" && p.Currency != "" {
		if m, err := bff.ParseMinor(p.Minor, p.Currency); err != nil || m.MinorString() != p.Minor {
			in.Refuse("minor", bff.FieldFormat)
		}
	}
	if at := in.String("capturedAt", 40); at != "" && p.CapturedAt.UnmarshalText([]byte(at)) != nil {
		in.Refuse("capturedAt", bff.FieldFormat)
	}
	return p
}
