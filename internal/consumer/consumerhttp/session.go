package consumerhttp

import (
	"net/http"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/web"
)

type sessionView struct {
	SessionID      bff.ID                     `json:"sessionId"`
	Locale         bff.Locale                 `json:"locale"`
	LocaleInfo     *bff.LocaleInfo            `json:"localeInfo"`
	Currency       bff.Currency               `json:"currency"`
	Consent        consumer.Consent           `json:"consent"`
	RecentlyViewed []guest.RecentlyViewed     `json:"recentlyViewed"`
	SearchHistory  []guest.SearchHistoryEntry `json:"searchHistory"`
	WishlistSize   int                        `json:"wishlistSize"`
	Campaign       *consumer.Campaign         `json:"campaign,omitempty"`
	CreatedAt      bff.Timestamp              `json:"createdAt"`
	ExpiresAt      bff.Timestamp              `json:"expiresAt"`
}

// session serves what the service remembers of a guest.
func (a *API) session(w http.ResponseWriter, r *http.Request) error {
	s, err := a.guest(w, r)
	if err != nil {
		return err
	}
	a.recorder.Flush(r.Context())
	return a.writeSession(w, r, s)
}

// writeSession collects the parts of a session side by side. A part that cannot be
// read is empty: a page must not fail for it.
func (a *API) writeSession(w http.ResponseWriter, r *http.Request, s consumer.GuestSession) error {
	var (
		wg                sync.WaitGroup
		trail             guest.Trail
		wishes            []consumer.WishlistEntry
		trailErr, wishErr error
	)
	if !s.Unread {
		wg.Go(func() { trail, trailErr = a.cfg.Trails.FindTrail(r.Context(), s.ID) })
		wg.Go(func() { wishes, wishErr = a.cfg.Wishlists.ListWishlist(r.Context(), s.ID) })
		wg.Wait()
	}
	if trailErr != nil || wishErr != nil {
		web.From(r.Context()).Note("sessionParts", "unavailable")
	}
	return web.WriteJSON(w, http.StatusOK, sessionView{
		SessionID: s.ID, Locale: s.Locale, LocaleInfo: s.Locale.Info(), Currency: s.Currency, Consent: s.Consent,
		RecentlyViewed: append([]guest.RecentlyViewed{}, trail.RecentlyViewed...),
		SearchHistory:  append([]guest.SearchHistoryEntry{}, trail.SearchHistory...),
		WishlistSize:   len(wishes), Campaign: s.Campaign,
		CreatedAt: bff.At(s.CreatedAt), ExpiresAt: bff.At(s.ExpiresAt()),
	})
}

// change writes what a guest chose and answers with the session as it is then.
func (a *API) change(w http.ResponseWriter, r *http.Request, s consumer.GuestSession, c consumer.SessionChange, f consumer.Fact) error {
	now := a.cfg.Now()
	switch {
	case s.Returned():
		c.SeenAt = now
	case c.Consent != nil: // opened for this very request: its cookie has not come back
		c.SeenAt = s.LastSeenAt
	}
	changed := s.Apply(c)
	if s.Unread {
		return &bff.Error{Code: bff.CodeServiceUnavailable, RetryAfter: retrySession}
	}
	if changed.Consent.Telemetry && !s.Consent.Telemetry {
		if err := a.cfg.Sessions.RemoveRefusal(r.Context(), s.ID); err != nil {
			return err
		}
	}
	found, err := a.cfg.Sessions.UpdateSession(r.Context(), s.ID, c)
	if err == nil && !found { // lost since it was read
		err = a.cfg.Sessions.SaveSession(r.Context(), changed)
	}
	if err != nil {
		return &bff.Error{Code: bff.CodeServiceUnavailable, RetryAfter: retrySession, Err: err}
	}
	if c.Consent != nil && !changed.Consent.Telemetry {
		// The session knows first: when this fails and the client tries again, nothing
		// has left meanwhile.
		if err := a.cfg.Sessions.AddRefusal(r.Context(), changed, now); err != nil {
			return err
		}
	}
	if card := visitOf(r).Card; !card.Describes(changed) {
		a.guests.setCookies(w, consumer.CardOf(changed, now))
	}
	if f != nil {
		a.guests.announce(r, changed, f, now)
	}
	return a.writeSession(w, r, changed)
}

// retrySession is when the session store has probably recovered.
const retrySession = 2 * time.Second

func (a *API) setLocale(w http.ResponseWriter, r *http.Request) error {
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("locale")
	locale := in.Locale("locale")
	if err := in.Err(); err != nil {
		return err
	}
	s, err := a.guest(w, r)
	if err != nil {
		return err
	}
	var f consumer.Fact
	if s.Locale != locale {
		f = guest.NewLocaleChanged(s, locale, guest.TriggerUser, a.cfg.Now())
	}
	return a.change(w, r, s, consumer.SessionChange{Locale: locale}, f)
}

func (a *API) setCurrency(w http.ResponseWriter, r *http.Request) error {
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("currency")
	currency := readCurrency(in)
	if err := in.Err(); err != nil {
		return err
	}
	s, err := a.guest(w, r)
	if err != nil {
		return err
	}
	var f consumer.Fact
	if s.Currency != currency {
		f = guest.NewCurrencyChanged(s, currency, guest.TriggerUser, a.cfg.Now())
	}
	return a.change(w, r, s, consumer.SessionChange{Currency: currency}, f)
}

// setConsent takes the answer to the consent banner, which from then on counts
// more than the browser's do-not-track header.
func (a *API) setConsent(w http.ResponseWriter, r *http.Request) error {
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	telemetry, marketing := in.Bool("telemetry"), in.Bool("marketing")
	if !in.Has("telemetry") && !in.Has("marketing") {
		in.Require("telemetry")
	}
	if err := in.Err(); err != nil {
		return err
	}
	s, err := a.guest(w, r)
	if err != nil {
		return err
	}
	consent := s.Consent
	if telemetry != nil {
		consent.Telemetry = *telemetry
	}
	if marketing != nil {
		consent.Marketing = *marketing
	}
	return a.change(w, r, s, consumer.SessionChange{Consent: &consent, Chosen: true}, nil)
}

// clearSession forgets a guest. Without a session there is nothing to forget; with
// another client's cookie only the session that this very request was given
// instead.
func (a *API) clearSession(w http.ResponseWriter, r *http.Request) error {
	if !visitOf(r).SessionID.IsZero() {
		s, err := a.guest(w, r)
		if err != nil {
			return err
		}
		if s.Unread {
			return &bff.Error{Code: bff.CodeServiceUnavailable, RetryAfter: retrySession}
		}
		now := a.cfg.Now()
		e, leaves, err := guest.Clearing(a.cfg.Telemetry, s, occasion(r), now)
		if err != nil {
			return err
		}
		var event *bff.Event
		if leaves {
			event = &e
		}
		a.recorder.Flush(r.Context()) // what is on its way goes too
		if err := a.cfg.Sessions.PurgeSession(r.Context(), s.ID, event); err != nil {
			return err
		}
	}
	a.guests.expireCookies(w)
	w.Header().Set("Cache-Control", "private, no-store")
	w.WriteHeader(http.StatusNoContent)
	return nil
}
