package consumerstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
)

func (s *Store) sessionKey(id bff.ID) string { return s.cfg.Keys.Key("session", id.String()) }

// seenShards spread the record of who was seen when over a cluster's slots.
const seenShards = 16

// seenKey is a sorted set of sessions by the second they were last seen, from
// which the sweep learns who will not come back.
func (s *Store) seenKey(id bff.ID) string {
	bits := id.Bytes()
	return s.seenShard(int(bits[15]) % seenShards)
}

func (s *Store) seenShard(n int) string { return s.cfg.Keys.Key("sessions", "seen", strconv.Itoa(n)) }

// clearedField marks the hash of a session that its guest had purged.
const clearedField = "cleared"

// lifetime is how long Redis keeps what belongs to a session.
const lifetime = int64(consumer.SessionLifetime / time.Second)

var (
	lifetimeText    = strconv.FormatInt(lifetime, 10)
	newLifetimeText = seconds(consumer.NewSessionLifetime)
)

// FindSession reads a session's hash. A blob that cannot be read is as good as
// none: the guest gets an empty session under the same cookie.
func (s *Store) FindSession(ctx context.Context, id bff.ID) (consumer.GuestSession, bool, error) {
	f := s.FindSessions(ctx, []bff.ID{id})[0]
	return f.GuestSession, f.Found, f.Err
}

// FindSessions reads the hashes of many sessions in one pipeline.
func (s *Store) FindSessions(ctx context.Context, ids []bff.ID) []guest.FoundSession {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	cmds := make(rueidis.Commands, len(ids))
	for i, id := range ids {
		cmds[i] = c.B().Hgetall().Key(s.sessionKey(id)).Build()
	}
	found := make([]guest.FoundSession, len(ids))
	results := c.DoMulti(ctx, cmds...)
	for i, id := range ids {
		m, err := results[i].AsStrMap()
		switch {
		case err != nil:
			found[i].Err = fmt.Errorf("find session: %w", err)
		case m[clearedField] != "":
			found[i].Err = guest.ErrSessionCleared
		case len(m) > 0:
			g, err := decodeSession(id, m)
			found[i] = guest.FoundSession{GuestSession: g, Found: err == nil}
		}
	}
	return found
}

// SaveSession writes a session whole, in one round trip.
func (s *Store) SaveSession(ctx context.Context, g consumer.GuestSession) error {
	fields, err := encodeSession(g)
	if err != nil {
		return fmt.Errorf("save session: %w", err)
	}
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c, key := s.cfg.Sessions, s.sessionKey(g.ID)
	set := c.B().Hset().Key(key).FieldValue()
	for f, v := range fields {
		set = set.FieldValue(f, v)
	}
	life := g.ExpiresAt().Sub(g.LastSeenAt)
	cmds := rueidis.Commands{set.Build(), c.B().Expire().Key(key).Seconds(int64(life / time.Second)).Build()}
	if g.Consent.Telemetry { // the end of other sessions is not announced either
		cmds = append(cmds, s.seen(g))
	}
	return all("save session", c.DoMulti(ctx, cmds...))
}

// seen records when a session was seen. One that has not come back counts as seen
// that much earlier.
func (s *Store) seen(g consumer.GuestSession) rueidis.Completed {
	at := g.ExpiresAt().Add(-consumer.SessionLifetime)
	return s.cfg.Sessions.B().Zadd().Key(s.seenKey(g.ID)).ScoreMember().ScoreMember(float64(at.Unix()), g.ID.String()).Build()
}

// restoreScript writes a hash unless there is one, or the mark of its purge.
//
//	KEYS[1] session hash; ARGV[1] life in seconds; ARGV[2…] field, value, …
var restoreScript = newScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1`)

// RestoreSession writes a session that was lost.
func (s *Store) RestoreSession(ctx context.Context, g consumer.GuestSession) error {
	fields, err := encodeSession(g)
	if err != nil {
		return fmt.Errorf("restore session: %w", err)
	}
	args := []string{seconds(g.ExpiresAt().Sub(g.LastSeenAt))}
	for f, v := range fields {
		args = append(args, f, v)
	}
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	restored, err := restoreScript.call(s.sessionKey(g.ID), args...).exec(ctx, s.cfg.Sessions).AsInt64()
	if err != nil {
		return fmt.Errorf("restore session: %w", err)
	}
	if restored == 0 || !g.Consent.Telemetry {
		return nil
	}
	return all("restore session", s.cfg.Sessions.DoMulti(ctx, s.seen(g)))
}

// updateScript writes fields of a hash only if the session is still there: a
// late touch must not bring back what its guest had purged. A session whose cookie
// has not come back keeps its short life.
//
//	KEYS[1] session hash; ARGV[1] life in seconds; ARGV[2…] field, value, …
var updateScript = newScript(`
if redis.call('HEXISTS', KEYS[1], 'createdAt') == 0 then return 0 end
if #ARGV > 1 then redis.call('HSET', KEYS[1], unpack(ARGV, 2)) end
local seen = redis.call('HMGET', KEYS[1], 'createdAt', 'lastSeenAt')
if seen[1] ~= seen[2] then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return 1`)

// UpdateSession writes what changed and slides the life of the session's keys
// together.
func (s *Store) UpdateSession(ctx context.Context, id bff.ID, change consumer.SessionChange) (bool, error) {
	touched, err := s.touch(id, change)
	if err != nil {
		return false, fmt.Errorf("update session: %w", err)
	}
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	there, err := touched.exec(ctx, s.cfg.Sessions).AsInt64()
	if err != nil {
		return false, fmt.Errorf("update session: %w", err)
	}
	if there == 0 {
		return false, nil
	}
	return true, all("update session", s.cfg.Sessions.DoMulti(ctx, s.extend(id, change)...))
}

// touch writes what changed in a session.
func (s *Store) touch(id bff.ID, change consumer.SessionChange) (call, error) {
	args, err := encodeChange(change)
	return updateScript.call(s.sessionKey(id), append([]string{lifetimeText}, args...)...), err
}

// extend lets what belongs to a session live as long as the session. Where the
// session is gone there is nothing to extend but the marks of its purge.
func (s *Store) extend(id bff.ID, change consumer.SessionChange) rueidis.Commands {
	c, key, seen := s.cfg.Sessions, s.sessionKey(id), s.seenKey(id)
	cmds := rueidis.Commands{
		c.B().Expire().Key(key + ":wishlist").Seconds(lifetime).Build(),
		c.B().Expire().Key(key + ":recent").Seconds(lifetime).Build(),
		c.B().Expire().Key(key + ":history").Seconds(lifetime).Build(),
	}
	switch {
	case change.Consent != nil && !change.Consent.Telemetry:
		cmds = append(cmds, c.B().Zrem().Key(seen).Member(id.String()).Build())
	case change.Consent != nil:
		cmds = append(cmds, c.B().Zadd().Key(seen).ScoreMember().ScoreMember(float64(change.SeenAt.Unix()), id.String()).Build())
	case !change.SeenAt.IsZero():
		cmds = append(cmds, c.B().Zadd().Key(seen).Xx().ScoreMember().ScoreMember(float64(change.SeenAt.Unix()), id.String()).Build())
	}
	return cmds
}

// all reports the failures of a pipeline.
func all(doing string, results []rueidis.RedisResult) error {
	var errs []error
	for _, r := range results {
		errs = append(errs, r.Error())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// encodeChange writes the changed fields as field, value, ….
func encodeChange(c consumer.SessionChange) ([]string, error) {
	var out []string
	set := func(field, value string) { out = append(out, field, value) }
	if !c.SeenAt.IsZero() {
		set("lastSeenAt", bff.At(c.SeenAt).String())
	}
	if !c.CookieAt.IsZero() {
		set("cookieAt", bff.At(c.CookieAt).String())
	}
	if c.Locale != "" {
		set("localePreference", string(c.Locale))
	}
	if c.Currency != "" {
		set("currencyPreference", string(c.Currency))
	}
	if c.Campaign != nil {
		b, err := json.Marshal(c.Campaign)
		if err != nil {
			return nil, err
		}
		set("campaignAttribution", string(b))
	}
	if c.Consent != nil {
		set("consentTelemetry", flag(c.Consent.Telemetry))
		set("consentMarketing", flag(c.Consent.Marketing))
		if c.Consent.Telemetry {
			set("silent", flag(false))
		}
	}
	if c.Chosen {
		set("consentChosen", "1")
	}
	if c.Prints != nil {
		set("cookieFingerprintHash", c.Prints.Fingerprint.String())
		set("fingerprintBase", c.Prints.Base.String())
	}
	if c.Rotated {
		set("rotated", "1")
	}
	return out, nil
}

func encodeSession(g consumer.GuestSession) (map[string]string, error) {
	m := map[string]string{
		"id": g.ID.String(), "createdAt": bff.At(g.CreatedAt).String(), "lastSeenAt": bff.At(g.LastSeenAt).String(),
		"cookieAt": bff.At(g.CookieAt).String(), "localePreference": string(g.Locale), "currencyPreference": string(g.Currency),
		"cookieFingerprintHash": g.Fingerprint.String(), "fingerprintBase": g.Base.String(),
		"consentTelemetry": flag(g.Consent.Telemetry), "consentMarketing": flag(g.Consent.Marketing), "consentChosen": flag(g.Chosen),
		"silent": flag(g.Silent),
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
		Chosen:  m["consentChosen"] == "1", Rotated: m["rotated"] == "1",
		Silent: m["silent"] == "1",
	}
	for field, target := range map[string]*time.Time{"createdAt": &g.CreatedAt, "lastSeenAt": &g.LastSeenAt, "cookieAt": &g.CookieAt} {
		var t bff.Timestamp
		if err := t.UnmarshalText([]byte(m[field])); err != nil {
			return g, fmt.Errorf("%s: %w", field, err)
		}
		*target = t.Time
	}
	for field, target := range map[string]*consumer.Hash{"cookieFingerprintHash": &g.Fingerprint, "fingerprintBase": &g.Base} {
		if err := target.UnmarshalText([]byte(m[field])); err != nil {
			return g, fmt.Errorf("%s: %w", field, err)
		}
	}
	if c := m["campaignAttribution"]; c != "" {
		if err := json.Unmarshal([]byte(c), &g.Campaign); err != nil {
			return g, errors.New("campaignAttribution: malformed")
		}
	}
	return g, nil
}
