package consumerhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/web"
)

type consumedView struct {
	HandoffID      bff.ID               `json:"handoffId"`
	GuestSessionID bff.ID               `json:"guestSessionId"`
	TenantID       bff.ID               `json:"tenantId"`
	PropertyID     bff.ID               `json:"propertyId"`
	Dates          bff.StayDates        `json:"dates"`
	Occupancy      bff.Occupancy        `json:"occupancy"`
	Currency       bff.Currency         `json:"currency"`
	Locale         bff.Locale           `json:"locale"`
	SourceCampaign *consumer.Campaign   `json:"sourceCampaign,omitempty"`
	PriceCheck     booking.PriceVerdict `json:"priceCheck,omitempty"`
	Shown          *booking.Price       `json:"shown,omitempty"`
	CurrentPrice   *booking.Price       `json:"currentPrice,omitempty"`
	MintedAt       bff.Timestamp        `json:"mintedAt"`
	ExpiresAt      bff.Timestamp        `json:"expiresAt"`
	ConsumedAt     bff.Timestamp        `json:"consumedAt"`
}

func (a *API) consume(w http.ResponseWriter, r *http.Request) error {
	now := a.cfg.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, web.From(r.Context()).MaxBody))
	if err != nil {
		return err
	}
	if err := a.cfg.Caller.Check(r, body, now); err != nil {
		return err
	}
	in, err := web.ParseBody(r.Context(), body)
	if err != nil {
		return err
	}
	in.Require("token", "instance")
	token, instance := in.String("token", 512), in.String("instance", 200)
	id, idErr := bff.ParseID(bff.PrefixHandoff, web.PathValue(r, "id"))
	if idErr != nil {
		in.Refuse("id", bff.FieldFormat)
	}
	if err := in.Err(); err != nil {
		return err
	}
	payload, err := a.verify(r.Context(), token, now)
	if err != nil {
		return err
	}
	if payload.ID != id {
		return bff.Errorf(bff.CodeHandoffSignatureInvalid, "the token is not for this hand-off")
	}
	h, err := a.cfg.Ledger.Consume(r.Context(), id, instance, now)
	if bff.CodeOf(err) == bff.CodeHandoffReplayed {
		a.reportReplay(r, h, now)
	}
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, consumedView{
		HandoffID: h.ID, GuestSessionID: h.GuestSessionID, TenantID: h.TenantID, PropertyID: h.PropertyID, Dates: h.Dates,
		Occupancy: bff.Occupancy{
			Adults: h.Occupancy.Adults, Children: h.Occupancy.Children, Rooms: h.Occupancy.Rooms, ChildrenAges: h.ChildrenAges,
		},
		Currency: h.Currency, Locale: h.Locale, SourceCampaign: h.Campaign,
		PriceCheck: h.Receipt.Verdict, Shown: h.Receipt.Shown, CurrentPrice: h.Receipt.Current,
		MintedAt: h.MintedAt, ExpiresAt: h.ExpiresAt, ConsumedAt: bff.At(h.ConsumedAt),
	})
}

// verify checks a token. In the moments after a key was promoted another
// process may sign with it before this one has heard of it: then we look again.
func (a *API) verify(ctx context.Context, token string, now time.Time) (handoff.Payload, error) {
	set := a.cfg.Keys.KeySet()
	p, err := handoff.Verify(a.cfg.Keys, token, now)
	if !errors.Is(err, handoff.ErrUnknownKey) || a.cfg.RefreshKeys == nil {
		return p, err
	}
	if a.cfg.RefreshKeys(ctx) || a.cfg.Keys.KeySet() != set { // by us, or by another request meanwhile
		return handoff.Verify(a.cfg.Keys, token, now)
	}
	return p, err
}

// replayWeight is how much one replayed token says about its bearer.
const replayWeight = 0.5

func (a *API) reportReplay(r *http.Request, h booking.Handoff, now time.Time) {
	s, found, err := a.cfg.Sessions.FindSession(r.Context(), h.GuestSessionID)
	cleared := errors.Is(err, guest.ErrSessionCleared)
	if !cleared && (err != nil || !found) {
		s = consumer.GuestSession{ID: h.GuestSessionID, Consent: consumer.Consent{Telemetry: true}}
		s, cleared = guest.RestoreSession(r.Context(), a.cfg.Sessions, s)
	}
	if cleared {
		s = consumer.GuestSession{ID: h.GuestSessionID} // nothing is told of it
	}
	b := bot.BotSuspected{
		GuestSessionID: h.GuestSessionID, Score: replayWeight, Verdict: "suspect",
		Signals: []bot.Signal{{Kind: "header-anomaly", Weight: replayWeight, Detail: "handoff-replay"}},
		IPHash:  h.IP, UserAgentHash: h.UserAgent, FingerprintHash: h.Fingerprint, EvaluatedAt: bff.At(now), ActionTaken: "none",
	}
	e, err := a.event(r, s, b, now)
	if err == nil {
		err = a.cfg.Suspicions.Suspect(r.Context(), b, e)
	}
	if err != nil {
		web.From(r.Context()).Note("suspicion", "unavailable")
	}
}
