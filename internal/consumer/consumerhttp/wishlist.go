package consumerhttp

import (
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/web"
)

// The routes' names in idempotency keys.
const (
	addWishRoute    = "POST /wishlist"
	removeWishRoute = "DELETE /wishlist/{propertyId}"
)

// wishlist serves a guest's wishlist with the hotels' cards.
func (a *API) wishlist(w http.ResponseWriter, r *http.Request) error {
	s, err := a.guest(w, r) // the session was proved: only its own list is shown
	if err != nil {
		return err
	}
	entries, err := a.cfg.Wishlists.ListWishlist(r.Context(), s.ID)
	if bff.CodeOf(err) == bff.CodeServiceUnavailable {
		web.From(r.Context()).Note("wishlist", "unavailable")
		return web.WriteJSON(w, http.StatusOK, discovery.UnreadWishlist())
	}
	if err != nil {
		return err
	}
	list := a.cfg.Finder.Wishlist(r.Context(), entries, s.Locale, a.cfg.Now())
	announce(w.Header(), list.Shed)
	return web.WriteJSON(w, http.StatusOK, list)
}

type wish struct {
	PropertyID bff.ID
	Source     string
	Note       string
}

func readWish(w http.ResponseWriter, r *http.Request) (wish, error) {
	in, err := web.ReadBody(w, r)
	if err != nil {
		return wish{}, err
	}
	in.Require("propertyId", "source")
	out := wish{
		PropertyID: in.ID("propertyId", bff.PrefixProperty),
		Source:     in.Enum("source", consumer.WishlistSources()...),
		Note:       in.String("note", consumer.MaxNoteRunes),
	}
	return out, in.Err()
}

// addWish puts a hotel on a guest's wishlist.
func (a *API) addWish(w http.ResponseWriter, r *http.Request) error {
	key, keyErr := idempotency.KeyFrom(r.Header, bff.CodeIdempotencyKeyRequired)
	req, err := readWish(w, r)
	if err != nil {
		return err
	}
	if keyErr != nil {
		return keyErr
	}
	s, err := a.guest(w, r)
	if err != nil {
		return err
	}
	digest, err := idempotency.Digest(req)
	if err != nil {
		return err
	}
	now := a.cfg.Now()
	claim, earlier, err := a.cfg.Wishlists.BeginWishlist(r.Context(), consumer.Once{Guest: s.ID, Route: addWishRoute, Key: key, Digest: digest}, now)
	if err != nil {
		return err
	}
	if earlier != nil {
		return writeAnswer(w, *earlier)
	}
	defer claim.Release()
	tenant, err := a.cfg.Finder.TenantOf(r.Context(), req.PropertyID)
	if err != nil {
		return err
	}
	answer, err := claim.Add(r.Context(), consumer.WishlistEntry{
		ID: bff.NewID(bff.PrefixWishlist, now), PropertyID: req.PropertyID, TenantID: tenant,
		AddedAt: bff.At(now), Source: req.Source, Note: req.Note,
	}, a.announcer(r, s, now))
	if err != nil {
		return err
	}
	return writeAnswer(w, answer)
}

// removeWish takes a hotel off a guest's wishlist.
func (a *API) removeWish(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotency.KeyFrom(r.Header, bff.CodeIdempotencyKeyRequired)
	if err != nil {
		return err
	}
	property, err := bff.ParseID(bff.PrefixProperty, web.PathValue(r, "propertyId"))
	if err != nil {
		return bff.FieldErrors{{Field: "propertyId", Code: bff.FieldFormat}}.Err()
	}
	s, err := a.guest(w, r)
	if err != nil {
		return err
	}
	digest, err := idempotency.Digest(nil, property.String())
	if err != nil {
		return err
	}
	now := a.cfg.Now()
	claim, earlier, err := a.cfg.Wishlists.BeginWishlist(r.Context(), consumer.Once{Guest: s.ID, Route: removeWishRoute, Key: key, Digest: digest}, now)
	if err != nil {
		return err
	}
	if earlier != nil {
		return writeAnswer(w, *earlier)
	}
	defer claim.Release()
	answer, err := claim.Remove(r.Context(), property, a.announcer(r, s, now))
	if err != nil {
		return err
	}
	return writeAnswer(w, answer)
}

// announcer makes the events of a request that are written with its change.
func (a *API) announcer(r *http.Request, s consumer.GuestSession, now time.Time) consumer.Announcer {
	req := web.From(r.Context())
	return consumer.Announcer{
		Telemetry: a.cfg.Telemetry, Session: s, Occasion: consumer.Occasion{RequestID: req.ID, TraceParent: req.TraceParent}, Now: now,
	}
}

// writeAnswer tells a guest what the first attempt was told.
func writeAnswer(w http.ResponseWriter, a consumer.Answer) error {
	if a.Replayed {
		w.Header().Set(consumer.ReplayedHeader, "true")
	}
	if a.Status == http.StatusNoContent {
		w.Header().Set("Cache-Control", "private, no-store")
		w.WriteHeader(a.Status)
		return nil
	}
	return web.WriteBytes(w, a.Status, a.Body)
}
