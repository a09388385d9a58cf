package backofficestore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// Sessions keeps sessions, tombstones, burned proofs and attestations in the session
// tier. No command and no script touches two keys: it runs on a Redis Cluster.
//
// What leads to what: the index of a device names its session; the session is
// written before its index and removed before it. An index that leads nowhere is
// therefore a session that has ended, and never one that has yet to begin. A session
// without an index can be reached by nothing but the list of its operator, from which
// the index is rebuilt.
type Sessions struct {
	client  rueidis.Client
	keys    Keys
	timeout time.Duration
	places  *memo.Memo[placeKey, *place]
	life    *life
	// operators of sessions, by the session's id
	operators *memo.Memo[bff.ID, string]
}

// SessionsConfig says where sessions are.
type SessionsConfig struct {
	Client rueidis.Client
	Keys   Keys
	// Timeout caps every call: requests wait for it, and are refused when it ends.
	// Default 500 ms.
	Timeout time.Duration
	// Dials counts the connections that the client has made; nil = it is not known.
	Dials func() uint64
}

// NewSessions returns the sessions behind a client.
func NewSessions(cfg SessionsConfig) *Sessions {
	dials := cfg.Dials
	if dials == nil {
		dials = func() uint64 { return 0 }
	}
	return &Sessions{
		life:   &life{client: cfg.Client, keys: cfg.Keys, dials: dials},
		client: cfg.Client, keys: cfg.Keys, timeout: cmp.Or(cfg.Timeout, sessionTimeout), places: memo.New[placeKey, *place](maxPlaces),
		operators: memo.New[bff.ID, string](maxPlaces),
	}
}

var (
	_ identity.Sessions       = (*Sessions)(nil)
	_ backoffice.Attestations = (*Sessions)(nil)
)

const (
	maxPlaces      = 16 << 10
	sessionTimeout = 500 * time.Millisecond
	// draftLifetime is how long a session lives that was written and not yet entered
	// into the index: its process may have been killed in between.
	draftLifetime = time.Minute
	// listEvery is how often a session in use is entered into the lists of its operator
	// and tenant again, which live listLifetime after that.
	listEvery    = 10 * time.Minute
	listLifetime = identity.SessionLifetime + time.Hour
	// accessLifetime is far above the life of tokens and of copies of memberships.
	accessLifetime = 24 * time.Hour
)

type placeKey struct {
	tenant, device bff.ID
	operator       string
}

// place is where things are that a request reads, and the session that was there the
// last time: read together with its index, it costs no further round trip.
type place struct {
	index, revoked, operator, tenant redis.TenantKey

	session *backoffice.Session
	raw     string // of the session
	listed  time.Time
}

func (s *Sessions) place(c *backoffice.Caller) (place, error) {
	key := placeKey{c.Tenant, c.Device, c.Operator}
	if p, ok := s.places.Get(key); ok {
		return *p, nil
	}
	t, err := s.keys.Tenant(c.Tenant)
	if err != nil {
		return place{}, err
	}
	return place{
		index: t.Device(c.Device), revoked: t.Revoked(c.Device), operator: t.OperatorAccess(c.Operator), tenant: t.TenantAccess(),
	}, nil
}

// Burn implements identity.Sessions.
func (s *Sessions) Burn(ctx context.Context, p identity.Proof, now time.Time) (st identity.AccessState, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	cmds, known, err := s.life.reading(ctx, rueidis.Commands{s.burn(&p, now)}, now)
	if err != nil {
		return st, away(err)
	}
	results := s.client.DoMulti(ctx, cmds...)
	fresh, err := burned(&p, results[0])
	if err != nil {
		return st, err
	}
	st.Replayed = !fresh
	st.Born, err = s.life.born(ctx, known, results[1:], now)
	return st, away(err)
}

// burn writes a proof's id unless it is there.
func (s *Sessions) burn(p *identity.Proof, now time.Time) rueidis.Completed {
	key := s.keys.Proof(p.KeyPrint, p.ID)
	if p.Look {
		return s.client.B().Exists().Key(key).Build()
	}
	life := max(p.Until.Sub(now), time.Second)
	return s.client.B().Set().Key(key).Value("").Nx().PxMilliseconds(life.Milliseconds()).Build()
}

func burned(p *identity.Proof, r rueidis.RedisResult) (fresh bool, err error) {
	if p.Look {
		n, err := r.AsInt64()
		return n == 0, away(err)
	}
	err = r.Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, away(err)
}

// away marks a failure of the session tier.
func away(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", identity.ErrSessionsAway, err)
}

const lifetimeSeconds = int64(identity.SessionLifetime / time.Second)

// Enter implements identity.Sessions.
func (s *Sessions) Enter(ctx context.Context, c backoffice.Caller, p identity.Proof, now time.Time) (identity.AccessState, error) {
	at, err := s.place(&c)
	if err != nil {
		return identity.AccessState{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	b := s.client.B
	cmds := append(make(rueidis.Commands, 0, 6), s.burn(&p, now))
	cmds = append(cmds, s.accessOf(&at)...)
	cmds = append(cmds, b().Getex().Key(at.index.Name()).ExSeconds(lifetimeSeconds).Build())
	if at.session != nil {
		name, err := s.sessionKey(c.Tenant, at.session.ID)
		if err != nil {
			return identity.AccessState{}, err
		}
		cmds = append(cmds, b().Getex().Key(name).ExSeconds(lifetimeSeconds).Build())
	}
	own := len(cmds)
	cmds, known, err := s.life.reading(ctx, cmds, now)
	if err != nil {
		return identity.AccessState{}, away(err)
	}
	results := s.client.DoMulti(ctx, cmds...)
	fresh, err := burned(&p, results[0])
	if err != nil {
		return identity.AccessState{}, err
	}
	born, err := s.life.born(ctx, known, results[own:], now)
	if err != nil || !fresh || c.TokenIssued.Before(born) {
		return identity.AccessState{Replayed: !fresh, Born: born}, away(err)
	}
	st, err := readAccess(results[1:4], c.Operator)
	st.Born = born
	if err != nil {
		return st, away(err)
	}
	if st.Session, err = s.resolve(ctx, &c, &at, results[4:own]); err != nil {
		return st, away(err)
	}
	if ended := st.Session; ended != nil && ended.Ended != nil {
		if err := s.finish(ctx, ended); err != nil {
			return st, away(err)
		}
		st.Session = nil
		if ended.Operator == c.Operator {
			st.Tombstones.Here = later(st.Tombstones.Here, ended.Ended.Before())
		}
		st.Tombstones.Tokens = append(st.Tombstones.Tokens, ended.Ended.TokenHash)
	}
	if st.Session != nil && now.Sub(at.listed) >= listEvery {
		if err := s.list(ctx, st.Session); err != nil {
			return st, away(err)
		}
		at.listed = now
	}
	s.remember(&c, at, st.Session)
	return st, nil
}

// remember keeps where the caller's session is.
func (s *Sessions) remember(c *backoffice.Caller, at place, found *backoffice.Session) {
	key := placeKey{c.Tenant, c.Device, c.Operator}
	if known, ok := s.places.Get(key); ok && known.session == found && known.raw == at.raw && known.listed.Equal(at.listed) {
		return
	}
	if at.session = found; found == nil {
		at.raw, at.listed = "", time.Time{}
	}
	s.places.Put(key, &at)
}

func (s *Sessions) sessionKey(tenant, id bff.ID) (string, error) {
	t, err := s.keys.Tenant(tenant)
	if err != nil {
		return "", err
	}
	return t.Session(id).Name(), nil
}

// resolve finds the session that the index names: the one that was read along with
// it, or another. An index that is lost is rebuilt from the session.
func (s *Sessions) resolve(ctx context.Context, c *backoffice.Caller, at *place, results []rueidis.RedisResult) (*backoffice.Session, error) {
	id, err := results[0].ToString()
	lost := rueidis.IsRedisNil(err)
	if err != nil && !lost {
		return nil, err
	}
	if len(results) > 1 && (lost || id == at.session.ID.String()) {
		raw, err := results[1].ToString()
		switch {
		case rueidis.IsRedisNil(err):
			return nil, nil //nolint:nilnil // there is no session
		case err != nil:
			return nil, err
		}
		found := at.session
		if raw != at.raw {
			if found, err = s.decode(c.Tenant, at.session.ID, raw); err != nil {
				return nil, err
			}
			at.raw = raw
		}
		if lost && found.Ended == nil {
			_, err = s.enter(ctx, at.index.Name(), found.ID.String(), "")
		}
		return found, err
	}
	if lost {
		return nil, nil //nolint:nilnil // there is no session
	}
	parsed, err := bff.ParseID(bff.PrefixBackofficeLogin, id)
	if err != nil {
		return nil, err
	}
	at.listed = time.Time{}
	found, raw, err := s.find(ctx, c.Tenant, parsed)
	at.raw = raw
	return found, err
}

// find reads a session and lets it live on; nil if there is none.
func (s *Sessions) find(ctx context.Context, tenant, id bff.ID) (*backoffice.Session, string, error) {
	name, err := s.sessionKey(tenant, id)
	if err != nil {
		return nil, "", err
	}
	raw, err := s.client.Do(ctx, s.client.B().Getex().Key(name).ExSeconds(lifetimeSeconds).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	found, err := s.decode(tenant, id, raw)
	return found, raw, err
}

// decode opens a session's blob, which must be the tenant's.
func (s *Sessions) decode(tenant, id bff.ID, raw string) (*backoffice.Session, error) {
	t, err := s.keys.Tenant(tenant)
	if err != nil {
		return nil, err
	}
	blob, err := t.Session(id).Open([]byte(raw))
	if err != nil {
		return nil, err
	}
	var found backoffice.Session
	if err := json.Unmarshal(blob, &found); err != nil {
		return nil, fmt.Errorf("read session: %w", err)
	}
	if found.Tenant != tenant || found.ID != id {
		return nil, fmt.Errorf("read session: it is another's")
	}
	return &found, nil
}

// encode seals a session. The same session always has the same bytes.
func (s *Sessions) encode(found *backoffice.Session) (name, raw string, err error) {
	t, err := s.keys.Tenant(found.Tenant)
	if err != nil {
		return "", "", err
	}
	blob, err := json.Marshal(found)
	if err != nil {
		return "", "", fmt.Errorf("write session: %w", err)
	}
	key := t.Session(found.ID)
	return key.Name(), string(key.Seal(blob)), nil
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
