package backofficestore

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
)

// replace puts a session into the index of its device if that is empty or names the
// one expected, and returns what it names then.
//
//	KEYS[1] index; ARGV[1] the session; ARGV[2] the one expected; ARGV[3] life in seconds
var replace = rueidis.NewLuaScript(`
local named = redis.call('GET', KEYS[1])
if named and named ~= ARGV[2] then return named end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
return ARGV[1]`)

// swap replaces a value that is still the one expected, and keeps its life.
//
//	KEYS[1] key; ARGV[1] the value expected; ARGV[2] the new one
var swap = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1`)

// removeIf deletes a key that still has the value.
var removeIf = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

// unlist deletes a field that still has the value.
//
//	KEYS[1] hash; ARGV[1] field; ARGV[2] value
var unlist = rueidis.NewLuaScript(`
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return redis.call('HDEL', KEYS[1], ARGV[1]) end
return 0`)

var errContended = errors.New("too many sessions open at one device at once")

// OpenSession implements identity.Sessions. Its writes, in order: the tombstone of
// the operator who is replaced; the session, for a minute; the index, which decides
// between several that open at once; the session, for its life; the lists. Cut off
// before the index, nothing has happened but a minute's garbage; cut off after it,
// the session stands and the next request writes the rest.
func (s *Sessions) OpenSession(ctx context.Context, c backoffice.Caller, fresh backoffice.Session, old *backoffice.Session) (backoffice.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	opened, err := s.open(ctx, &c, &fresh, old)
	if err != nil && !errors.Is(err, identity.ErrRevoked) {
		err = away(err)
	}
	return opened, err
}

func (s *Sessions) open(ctx context.Context, c *backoffice.Caller, fresh, old *backoffice.Session) (backoffice.Session, error) {
	none := backoffice.Session{}
	expected := ""
	if old != nil {
		expected = old.ID.String()
		if old.Operator != fresh.Operator {
			if err := s.bury(ctx, c.Tenant, c.Device, operatorField+old.Operator, millis(c.TokenIssued)); err != nil {
				return none, err
			}
		}
	} else if found, err := s.unindexed(ctx, c); err != nil || found != nil {
		return deref(found), err
	}
	name, raw, err := s.encode(fresh)
	if err != nil {
		return none, err
	}
	b := s.client.B
	if err := s.client.Do(ctx, b().Set().Key(name).Value(raw).ExSeconds(int64(draftLifetime/time.Second)).Build()).Error(); err != nil {
		return none, err
	}
	at, err := s.place(c)
	if err != nil {
		return none, err
	}
	for range 3 {
		named, err := s.enter(ctx, at.index.Name(), fresh.ID.String(), expected)
		if err != nil {
			return none, err
		}
		if named == fresh.ID.String() {
			return *fresh, s.settle(ctx, c, &at, fresh, old)
		}
		id, err := bff.ParseID(bff.PrefixBackofficeLogin, named)
		if err != nil {
			return none, err
		}
		other, _, err := s.find(ctx, c.Tenant, id)
		if err != nil {
			return none, err
		}
		if other != nil { // was first
			return *other, s.client.Do(ctx, b().Del().Key(name).Build()).Error()
		}
		expected = named // leads nowhere
	}
	return none, errContended
}

func deref(s *backoffice.Session) backoffice.Session {
	if s == nil {
		return backoffice.Session{}
	}
	return *s
}

func (s *Sessions) enter(ctx context.Context, index, id, expected string) (string, error) {
	return replace.Exec(ctx, s.client, []string{index}, []string{id, expected, seconds(identity.SessionLifetime)}).ToString()
}

// unindexed finds the session of a device whose index was lost, and rebuilds it.
func (s *Sessions) unindexed(ctx context.Context, c *backoffice.Caller) (*backoffice.Session, error) {
	t, err := s.keys.Tenant(c.Tenant)
	if err != nil {
		return nil, err
	}
	list := t.Operator(c.Operator).Name()
	id, err := sessionID(s.client.Do(ctx, s.client.B().Hget().Key(list).Field(c.Device.String()).Build()).ToString())
	if err != nil || id.IsZero() {
		return nil, err
	}
	found, _, err := s.find(ctx, c.Tenant, id)
	if err != nil || found == nil || found.Device != c.Device || found.Operator != c.Operator || found.Ended != nil {
		return nil, err
	}
	at, err := s.place(c)
	if err != nil {
		return nil, err
	}
	named, err := s.enter(ctx, at.index.Name(), id.String(), "")
	if err != nil || named != id.String() {
		return nil, err
	}
	return found, nil
}

// settle finishes the opening of a session that has won the index. A revocation that
// came in between has not seen it: whether there was one is looked up once more.
func (s *Sessions) settle(ctx context.Context, c *backoffice.Caller, at *place, fresh, old *backoffice.Session) error {
	name, _, err := s.encode(fresh)
	if err != nil {
		return err
	}
	b := s.client.B
	cmds := append(rueidis.Commands{b().Expire().Key(name).Seconds(lifetimeSeconds).Build()}, s.accessOf(at)...)
	results := s.client.DoMulti(ctx, cmds...)
	if there, err := results[0].AsInt64(); err != nil || there == 0 {
		return errors.Join(errors.New("the session was gone before it was open"), err)
	}
	st, err := readAccess(results[1:], c.Operator)
	if err != nil {
		return err
	}
	if st.Tombstones.Refuse(*c) {
		return errors.Join(identity.ErrRevoked, s.remove(ctx, fresh))
	}
	if old != nil {
		if err := s.removeBlob(ctx, c.Tenant, old.ID); err != nil {
			return err
		}
	}
	return s.list(ctx, fresh)
}

// list enters a session into the lists of its operator and tenant.
func (s *Sessions) list(ctx context.Context, found *backoffice.Session) error {
	t, err := s.keys.Tenant(found.Tenant)
	if err != nil {
		return err
	}
	b := s.client.B
	var cmds rueidis.Commands
	for _, key := range []string{t.Operator(found.Operator).Name(), t.All().Name()} {
		cmds = append(cmds,
			b().Hset().Key(key).FieldValue().FieldValue(found.Device.String(), found.ID.String()).Build(),
			b().Expire().Key(key).Seconds(int64(listLifetime/time.Second)).Build())
	}
	return all(s.client.DoMulti(ctx, cmds...))
}

func all(results []rueidis.RedisResult) error {
	var errs []error
	for _, r := range results {
		errs = append(errs, r.Error())
	}
	return errors.Join(errs...)
}

// Announced implements identity.Sessions.
func (s *Sessions) Announced(ctx context.Context, found backoffice.Session) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if r := found.Replaced; r != nil {
		old := backoffice.Session{ID: r.ID, Tenant: found.Tenant, Operator: r.Operator, Device: found.Device}
		if err := s.remove(ctx, &old); err != nil {
			return away(err)
		}
	}
	_, before, err := s.encode(&found)
	if err != nil {
		return err
	}
	found.Announced = true
	name, after, err := s.encode(&found)
	if err != nil {
		return err
	}
	return away(swap.Exec(ctx, s.client, []string{name}, []string{before, after}).Error())
}

// CloseSession implements identity.Sessions. The sign-out is first written into the
// session itself, which every request reads: from then on it is ended, and a request
// that finds it so does what is left if this process is killed.
func (s *Sessions) CloseSession(ctx context.Context, found backoffice.Session, e backoffice.Ending) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	found.Ended = &e
	for range 3 {
		current, raw, err := s.find(ctx, found.Tenant, found.ID)
		if err != nil {
			return away(err)
		}
		if current == nil || current.Ended != nil { // gone, or under way already
			break
		}
		current.Ended = &e
		name, after, err := s.encode(current)
		if err != nil {
			return err
		}
		swapped, err := swap.Exec(ctx, s.client, []string{name}, []string{raw, after}).AsInt64()
		if err != nil {
			return away(err)
		}
		if swapped == 1 {
			break
		}
	}
	return away(s.finish(ctx, &found))
}

// finish does what is left of a sign-out: tombstone, session, index, lists.
func (s *Sessions) finish(ctx context.Context, ended *backoffice.Session) error {
	e := ended.Ended
	if err := s.bury(ctx, ended.Tenant, ended.Device,
		operatorField+ended.Operator, millis(e.Before()), tokenField+e.TokenHash, millis(e.At)); err != nil {
		return err
	}
	return s.remove(ctx, ended)
}

const (
	// outgrownRead is how many of an operator's listed sessions are looked at when it has
	// too many, outgrownBatch how many end at once. More, of a release without the bound,
	// end with the next openings.
	outgrownRead  = 256
	outgrownBatch = 32
)

// ListOutgrown implements identity.Sessions. Ids of sessions begin with the moment of
// their opening: of many that open in the same moment one may be too many itself. What
// is listed and has ended by itself is taken off the list.
func (s *Sessions) ListOutgrown(ctx context.Context, opened backoffice.Session) ([]backoffice.Session, error) {
	t, err := s.keys.Tenant(opened.Tenant)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	list := t.Operator(opened.Operator).Name()
	listed, err := s.client.Do(ctx, s.client.B().Hgetall().Key(list).Build()).AsStrMap()
	if err != nil || len(listed) <= identity.MaxSessions {
		return nil, away(err)
	}
	devices := slices.SortedFunc(maps.Keys(listed), func(a, b string) int { return strings.Compare(listed[a], listed[b]) })
	tooMany := len(devices) - identity.MaxSessions
	var ended []backoffice.Session
	for _, device := range devices[:min(len(devices), outgrownRead)] {
		if tooMany <= 0 || len(ended) == outgrownBatch {
			break
		}
		id, err := bff.ParseID(bff.PrefixBackofficeLogin, listed[device])
		if err != nil {
			continue // nothing of ours
		}
		found, _, err := s.find(ctx, opened.Tenant, id)
		if err != nil {
			return nil, away(err)
		}
		tooMany--
		if found != nil {
			ended = append(ended, *found)
			continue
		}
		if err := unlist.Exec(ctx, s.client, []string{list}, []string{device, id.String()}).Error(); err != nil {
			return nil, away(err)
		}
	}
	return ended, nil
}

// Refuse implements identity.Sessions.
func (s *Sessions) Refuse(ctx context.Context, sessions []backoffice.Session, at time.Time) error {
	for i := range sessions {
		gone := &sessions[i]
		if err := s.bury(ctx, gone.Tenant, gone.Device, operatorField+gone.Operator, millis(at)); err != nil {
			return away(err)
		}
	}
	return nil
}

// RemoveSessions implements identity.Sessions.
func (s *Sessions) RemoveSessions(ctx context.Context, sessions []backoffice.Session) error {
	for i := range sessions {
		if err := s.remove(ctx, &sessions[i]); err != nil {
			return away(err)
		}
	}
	return nil
}

// remove takes the keys of a session away, the session itself first.
func (s *Sessions) remove(ctx context.Context, gone *backoffice.Session) error {
	if err := s.removeBlob(ctx, gone.Tenant, gone.ID); err != nil {
		return err
	}
	t, err := s.keys.Tenant(gone.Tenant)
	if err != nil {
		return err
	}
	id, device := gone.ID.String(), gone.Device.String()
	errs := []error{removeIf.Exec(ctx, s.client, []string{t.Device(gone.Device).Name()}, []string{id}).Error()}
	for _, key := range []string{t.Operator(gone.Operator).Name(), t.All().Name()} {
		errs = append(errs, unlist.Exec(ctx, s.client, []string{key}, []string{device, id}).Error())
	}
	return errors.Join(errs...)
}

func (s *Sessions) removeBlob(ctx context.Context, tenant, id bff.ID) error {
	name, err := s.sessionKey(tenant, id)
	if err != nil {
		return err
	}
	return s.client.Do(ctx, s.client.B().Del().Key(name).Build()).Error()
}
