package backofficehttp

import (
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/web"
)

// sessionView is the answer to "who am I".
type sessionView struct {
	SessionID     bff.ID                   `json:"sessionId"`
	TenantID      bff.ID                   `json:"tenantId"`
	OperatorID    string                   `json:"operatorId"`
	DeviceID      bff.ID                   `json:"deviceId"`
	DisplayName   string                   `json:"displayName"`
	Roles         []backoffice.Role        `json:"roles"`
	PropertyScope backoffice.PropertyScope `json:"propertyScope"`
	// Properties are the first of the scope, PropertyCount how many it has; nil while
	// property-service cannot be asked.
	Properties    *[]hotel        `json:"properties,omitempty"`
	PropertyCount *int            `json:"propertyCount,omitempty"`
	Flags         map[string]bool `json:"flags"`
	LocaleInfo    *bff.LocaleInfo `json:"localeInfo"`
	OpenedAt      bff.Timestamp   `json:"openedAt"`
	ExpiresAt     bff.Timestamp   `json:"expiresAt"`
	ServerTime    bff.Timestamp   `json:"serverTime"`
	Degraded      []Missing       `json:"degraded"`
}

func (a *API) session(w http.ResponseWriter, r *http.Request) error {
	v, at := visitOf(r), now(r)
	s, m := &v.Session, v.Member
	locale, _ := bff.NegotiateLocale(r.Header.Get("Accept-Language"))
	view := sessionView{
		SessionID: s.ID, TenantID: s.Tenant, OperatorID: s.Operator, DeviceID: s.Device, DisplayName: m.DisplayName,
		Roles: m.Roles, PropertyScope: m.Scope, Flags: a.cfg.Flags.Of(m), LocaleInfo: locale.Info(),
		OpenedAt: bff.At(s.OpenedAt), ExpiresAt: bff.At(at.Add(identity.SessionLifetime)), ServerTime: bff.At(at),
	}
	a.nameHotels(r, &view)
	return web.WriteJSON(w, http.StatusOK, view)
}
