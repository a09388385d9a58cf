package consumerhttp

import (
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/web"
)

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
