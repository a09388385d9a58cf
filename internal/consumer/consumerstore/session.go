package consumerstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

func (s *Store) sessionKey(id bff.ID) string { return s.cfg.Keys.Key("session", id.String()) }

// FindSession reads a session's hash. A blob that cannot be read is as good as
// none: the guest gets an empty session under the same cookie.
func (s *Store) FindSession(ctx context.Context, id bff.ID) (consumer.GuestSession, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	m, err := c.Do(ctx, c.B().Hgetall().Key(s.sessionKey(id)).Build()).AsStrMap()
	if err != nil {
		return consumer.GuestSession{}, false, fmt.Errorf("find session: %w", err)
	}
	if len(m) == 0 {
		return consumer.GuestSession{}, false, nil
	}
	g, err := decodeSession(id, m)
	if err != nil {
		return consumer.GuestSession{}, false, nil //nolint:nilerr // said above
	}
	return g, true, nil
}

// SaveSession writes a session whole.
func (s *Store) SaveSession(ctx context.Context, g consumer.GuestSession) error {
	fields, err := encodeSession(g)
	if err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	c, key := s.cfg.Sessions, s.sessionKey(g.ID)
	set := c.B().Hset().Key(key).FieldValue()
	for f, v := range fields {
		set = set.FieldValue(f, v)
	}
	for _, r := range c.DoMulti(ctx, set.Build(), c.B().Expire().Key(key).Seconds(int64(consumer.SessionLifetime/time.Second)).Build()) {
		if err := r.Error(); err != nil {
			return fmt.Errorf("save session: %w", err)
		}
	}
	return nil
}

// TouchSession slides the life of the session's keys together.
func (s *Store) TouchSession(ctx context.Context, g consumer.GuestSession) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	c, key := s.cfg.Sessions, s.sessionKey(g.ID)
	life := int64(consumer.SessionLifetime / time.Second)
	var errs []error
	for _, r := range c.DoMulti(
		ctx,
		c.B().Hset().Key(key).FieldValue().
			FieldValue("lastSeenAt", bff.At(g.LastSeenAt).String()).FieldValue("cookieAt", bff.At(g.CookieAt).String()).Build(),
		c.B().Expire().Key(key).Seconds(life).Build(),
		c.B().Expire().Key(key+":wishlist").Seconds(life).Build(),
		c.B().Expire().Key(key+":recent").Seconds(life).Build(),
		c.B().Expire().Key(key+":history").Seconds(life).Build(),
	) {
		errs = append(errs, r.Error())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("touch session: %w", err)
	}
	return nil
}

func encodeSession(g consumer.GuestSession) (map[string]string, error) {
	m := map[string]string{
		"id": g.ID.String(), "createdAt": bff.At(g.CreatedAt).String(), "lastSeenAt": bff.At(g.LastSeenAt).String(),
		"cookieAt": bff.At(g.CookieAt).String(), "localePreference": string(g.Locale), "currencyPreference": string(g.Currency),
		"cookieFingerprintHash": g.Fingerprint.String(),
		"consentTelemetry":      flag(g.Consent.Telemetry), "consentMarketing": flag(g.Consent.Marketing),
	}
	if g.Campaign != nil {
		b, err := json.Marshal(g.Campaign)
		if err != nil {
			return nil, err
		}
		m["campaignAttribution"] = string(b)
	}
	return m, nil
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func decodeSession(id bff.ID, m map[string]string) (consumer.GuestSession, error) {
	g := consumer.GuestSession{
		ID: id, Locale: bff.Locale(m["localePreference"]), Currency: bff.Currency(m["currencyPreference"]),
		Consent: consumer.Consent{Telemetry: m["consentTelemetry"] == "1", Marketing: m["consentMarketing"] == "1"},
	}
	for field, target := range map[string]*time.Time{"createdAt": &g.CreatedAt, "lastSeenAt": &g.LastSeenAt, "cookieAt": &g.CookieAt} {
		var t bff.Timestamp
		if err := t.UnmarshalText([]byte(m[field])); err != nil {
			return g, fmt.Errorf("%s: %w", field, err)
		}
		*target = t.Time
	}
	fp := m["cookieFingerprintHash"]
	if len(fp) != len("sha256:")+64 {
		return g, errors.New("cookieFingerprintHash: malformed")
	}
	if _, err := hex.Decode(g.Fingerprint[:], []byte(fp[len("sha256:"):])); err != nil {
		return g, errors.New("cookieFingerprintHash: malformed")
	}
	if c := m["campaignAttribution"]; c != "" {
		if err := json.Unmarshal([]byte(c), &g.Campaign); err != nil {
			return g, errors.New("campaignAttribution: malformed")
		}
	}
	return g, nil
}
