package consumerhttp

import (
	"encoding/json"
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/web"
)

// mintRoute is the route's name in idempotency keys.
const mintRoute = "POST /handoff"

func (a *API) mint(w http.ResponseWriter, r *http.Request) error {
	key, keyErr := idempotency.KeyFrom(r.Header)
	req, err := readHandoff(w, r)
	if err != nil {
		return err
	}
	if keyErr != nil {
		return keyErr
	}
	s, v, err := a.guest(w, r)
	if err != nil {
		return err
	}
	if req.Locale == "" {
		req.Locale = s.Locale
	}
	if req.Currency == "" {
		req.Currency = s.Currency
	}
	digest, err := idempotency.Digest(req)
	if err != nil {
		return err
	}
	once := consumer.Once{Guest: s.ID, Route: mintRoute, Key: key, Digest: digest}
	now := a.cfg.Now()
	earlier, err := a.cfg.Ledger.FindMint(r.Context(), once, now)
	if err != nil {
		return err
	}
	if earlier != nil {
		return a.replayMint(w, r, *earlier)
	}
	h, minted, initiated, err := a.cfg.Desk.Mint(r.Context(), req, s, v, now)
	if err != nil {
		return err
	}
	announce, err := a.event(r, s, initiated, now)
	if err != nil {
		return err
	}
	answer, err := a.cfg.Ledger.RecordMint(r.Context(), once, h, minted, announce, now)
	if err != nil {
		return err
	}
	if answer.Replayed {
		return a.replayMint(w, r, answer)
	}
	return web.WriteBytes(w, answer.Status, answer.Body)
}

// replayMint repeats the first answer while its token can still be used.
func (a *API) replayMint(w http.ResponseWriter, r *http.Request, earlier consumer.Answer) error {
	var minted consumer.Minted
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
	w.Header().Set("Idempotency-Replayed", "true")
	return web.WriteBytes(w, earlier.Status, earlier.Body)
}

func readHandoff(w http.ResponseWriter, r *http.Request) (consumer.HandoffRequest, error) {
	in, err := web.ReadBody(w, r, handoffBody)
	if err != nil {
		return consumer.HandoffRequest{}, err
	}
	in.Require("propertyId", "tenantId", "dates", "occupancy")
	req := consumer.HandoffRequest{
		PropertyID: in.ID("propertyId", bff.PrefixProperty),
		TenantID:   in.ID("tenantId", bff.PrefixTenant),
		Locale:     in.Locale("locale"),
		Currency:   in.Currency("currency"),
	}
	if dates := in.Object("dates"); dates != nil {
		req.Dates = dates.Stay()
	}
	if o := in.Object("occupancy"); o != nil {
		req.Occupancy = o.Occupancy(true)
	}
	if req.Currency == "" {
		req.Currency = headerCurrency(r, in)
	}
	return req, in.Err()
}
