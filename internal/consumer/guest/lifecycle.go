package guest

import (
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// SessionStarted is the payload of session.started.v1.
type SessionStarted struct {
	GuestSessionID      bff.ID             `json:"guestSessionId"`
	CreatedAt           bff.Timestamp      `json:"createdAt"`
	LocalePreference    bff.Locale         `json:"localePreference"`
	CurrencyPreference  bff.Currency       `json:"currencyPreference"`
	FingerprintHash     consumer.Hash      `json:"fingerprintHash"`
	IPHash              consumer.Hash      `json:"ipHash"`
	CampaignAttribution *consumer.Campaign `json:"campaignAttribution,omitempty"`
	UserAgentClass      string             `json:"userAgentClass"`
}

// NewSessionStarted returns the payload that announces a session.
func NewSessionStarted(s consumer.GuestSession, v *consumer.Visit) SessionStarted {
	return SessionStarted{
		GuestSessionID: s.ID, CreatedAt: bff.At(s.CreatedAt), LocalePreference: s.Locale, CurrencyPreference: s.Currency,
		FingerprintHash: s.Fingerprint, IPHash: v.IP(), CampaignAttribution: s.Campaign, UserAgentClass: v.UserAgentClass,
	}
}

// The subject of each payload.

func (SessionStarted) Subject() consumer.Subject  { return consumer.SubjectSessionStarted }
func (SessionEnded) Subject() consumer.Subject    { return consumer.SubjectSessionEnded }
func (LocaleChanged) Subject() consumer.Subject   { return consumer.SubjectLocaleChanged }
func (CurrencyChanged) Subject() consumer.Subject { return consumer.SubjectCurrencyChanged }

// EndReason says why a session is over.
type EndReason string

// The ways a session ends.
const (
	EndedByGuest    EndReason = "explicit-clear"
	EndedByTime     EndReason = "ttl-expired"
	EndedByRotation EndReason = "rotated"
	// Cleared announces what EndedByGuest does for a guest who allows no telemetry,
	// with nothing but the session's id.
	Cleared EndReason = "cleared"
)

// SessionEnded is the payload of session.ended.v1.
type SessionEnded struct {
	GuestSessionID  bff.ID        `json:"guestSessionId"`
	EndedAt         bff.Timestamp `json:"endedAt,omitzero"`
	Reason          EndReason     `json:"reason"`
	LastSeenAt      bff.Timestamp `json:"lastSeenAt,omitzero"`
	LifetimeSeconds *int64        `json:"lifetimeSeconds,omitempty"`
}

// Clearing returns the event of a session that its guest had purged. It is the one
// event that leaves without consent: what was told of the session before can be
// deleted downstream only by those who hear of it. Of a session of which nothing
// was ever told it reports false.
func Clearing(t *consumer.Telemetry, s consumer.GuestSession, o consumer.Occasion, now time.Time) (bff.Event, bool, error) {
	if s.Consent.Telemetry && !s.Unread {
		return t.Event(s, NewSessionEnded(s, EndedByGuest, now), o, now)
	}
	if s.Silent || s.Unread {
		return bff.Event{}, false, nil
	}
	e, err := t.Unconsented(s.ID, SessionEnded{GuestSessionID: s.ID, Reason: Cleared}, now)
	return e, err == nil, err
}

// NewSessionEnded returns the payload that announces the end of a session.
func NewSessionEnded(s consumer.GuestSession, why EndReason, now time.Time) SessionEnded {
	lifetime := max(0, int64(now.Sub(s.CreatedAt)/time.Second))
	return SessionEnded{
		GuestSessionID: s.ID, EndedAt: bff.At(now), Reason: why, LastSeenAt: bff.At(s.LastSeenAt), LifetimeSeconds: &lifetime,
	}
}

// Trigger says what changed a preference.
type Trigger string

// What can change a locale or a currency.
const (
	TriggerUser           Trigger = "user-explicit"
	TriggerAcceptLanguage Trigger = "accept-language" // a locale only
	TriggerTenant         Trigger = "tenant-default"  // a currency only
	TriggerGeoIP          Trigger = "geo-ip"
)

// LocaleChanged is the payload of locale.changed.v1.
type LocaleChanged struct {
	GuestSessionID bff.ID        `json:"guestSessionId"`
	PreviousLocale bff.Locale    `json:"previousLocale"`
	NewLocale      bff.Locale    `json:"newLocale"`
	Trigger        Trigger       `json:"trigger"`
	OccurredAt     bff.Timestamp `json:"occurredAt"`
}

// NewLocaleChanged returns the payload that announces a change from the session's locale.
func NewLocaleChanged(s consumer.GuestSession, to bff.Locale, by Trigger, now time.Time) LocaleChanged {
	return LocaleChanged{GuestSessionID: s.ID, PreviousLocale: s.Locale, NewLocale: to, Trigger: by, OccurredAt: bff.At(now)}
}

// CurrencyChanged is the payload of currency.changed.v1.
type CurrencyChanged struct {
	GuestSessionID   bff.ID        `json:"guestSessionId"`
	PreviousCurrency bff.Currency  `json:"previousCurrency"`
	NewCurrency      bff.Currency  `json:"newCurrency"`
	Trigger          Trigger       `json:"trigger"`
	OccurredAt       bff.Timestamp `json:"occurredAt"`
}

// NewCurrencyChanged returns the payload that announces a change from the session's currency.
func NewCurrencyChanged(s consumer.GuestSession, to bff.Currency, by Trigger, now time.Time) CurrencyChanged {
	return CurrencyChanged{GuestSessionID: s.ID, PreviousCurrency: s.Currency, NewCurrency: to, Trigger: by, OccurredAt: bff.At(now)}
}
