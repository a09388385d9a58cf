package consumerhttp

import (
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/web"
)

const cookieName = "gms_id"

// guest returns the session of the request and opens one for a newcomer. A
// session whose blob is gone comes back empty under the same cookie.
func (a *API) guest(w http.ResponseWriter, r *http.Request) (consumer.GuestSession, consumer.Visitor, error) {
	now := a.cfg.Now()
	v := a.cfg.Visitors.read(r, now)
	id, err := cookie(w, r)
	if err != nil {
		return consumer.GuestSession{}, v, err
	}
	if id.IsZero() {
		return a.open(w, r, bff.NewID(bff.PrefixGuestSession, now), v, true)
	}
	s, found, err := a.cfg.Sessions.FindSession(r.Context(), id)
	switch {
	case err != nil:
		// Without the session store a guest can still look: the session is what
		// this request says of itself, and nothing of it is kept.
		web.From(r.Context()).Note("sessionStore", "unavailable")
		s = consumer.NewGuestSession(id, v, now)
		s.Unread = true
		return s, v, nil
	case !found:
		return a.open(w, r, id, v, false)
	}
	due := s.CookieDue(now)
	s.LastSeenAt = now
	if due {
		s.CookieAt = now
		setCookie(w, s.ID)
	}
	if err := a.cfg.Sessions.TouchSession(r.Context(), s); err != nil {
		web.From(r.Context()).Note("sessionStore", "unavailable")
	}
	return s, v, nil
}

func (a *API) open(w http.ResponseWriter, r *http.Request, id bff.ID, v consumer.Visitor, announce bool) (consumer.GuestSession, consumer.Visitor, error) {
	now := a.cfg.Now()
	s := consumer.NewGuestSession(id, v, now)
	setCookie(w, id)
	if err := a.cfg.Sessions.SaveSession(r.Context(), s); err != nil {
		web.From(r.Context()).Note("sessionStore", "unavailable")
	}
	if announce {
		a.tell(r, s, s.Started(v), now)
	}
	return s, v, nil
}

// cookie reads the session id. A malformed one is refused and taken back, so
// that the next request begins anew instead of failing for thirty days.
func cookie(w http.ResponseWriter, r *http.Request) (bff.ID, error) {
	cookies := r.CookiesNamed(cookieName)
	if len(cookies) == 0 {
		return bff.ID{}, nil
	}
	id, err := bff.ParseID(bff.PrefixGuestSession, cookies[0].Value)
	for _, c := range cookies[1:] {
		if c.Value != cookies[0].Value { // two sessions in one request: somebody planted one
			err = bff.ErrID
		}
	}
	if err != nil {
		expireCookie(w)
		return bff.ID{}, bff.FieldErrors{{Field: "cookie." + cookieName, Code: bff.FieldFormat}}.Err()
	}
	return id, nil
}

func setCookie(w http.ResponseWriter, id bff.ID) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: id.String(), Path: "/", MaxAge: int(consumer.SessionLifetime / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

func expireCookie(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

type sessionView struct {
	SessionID      bff.ID             `json:"sessionId"`
	Locale         bff.Locale         `json:"locale"`
	Currency       bff.Currency       `json:"currency"`
	Consent        consumer.Consent   `json:"consent"`
	RecentlyViewed []any              `json:"recentlyViewed"`
	SearchHistory  []any              `json:"searchHistory"`
	WishlistSize   int                `json:"wishlistSize"`
	Campaign       *consumer.Campaign `json:"campaign,omitempty"`
	CreatedAt      bff.Timestamp      `json:"createdAt"`
	ExpiresAt      bff.Timestamp      `json:"expiresAt"`
}

func (a *API) session(w http.ResponseWriter, r *http.Request) error {
	s, _, err := a.guest(w, r)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, sessionView{
		SessionID: s.ID, Locale: s.Locale, Currency: s.Currency, Consent: s.Consent,
		RecentlyViewed: []any{}, SearchHistory: []any{}, Campaign: s.Campaign,
		CreatedAt: bff.At(s.CreatedAt), ExpiresAt: bff.At(s.LastSeenAt.Add(consumer.SessionLifetime)),
	})
}
