package backofficestore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
)

// Fields of tombstones and access states. Moments are Unix milliseconds.
const (
	allField      = "*"  // of a device's tombstone: every operator
	operatorField = "o:" // one operator
	tokenField    = "t:" // one token

	revokedField   = "revoked"
	versionField   = "v"
	suspendedField = "suspended"
	logoutField    = "logout" // of a tenant: another text after each forced logout
)

// accessOf reads what may refuse a caller: three commands.
func (s *Sessions) accessOf(at *place) rueidis.Commands {
	b := s.client.B
	return rueidis.Commands{
		b().Hgetall().Key(at.revoked.Name()).Build(),
		b().Hmget().Key(at.operator.Name()).Field(revokedField, versionField).Build(),
		b().Hmget().Key(at.tenant.Name()).Field(revokedField, versionField, suspendedField).Build(),
	}
}

func readAccess(results []rueidis.RedisResult, operator string) (st identity.AccessState, err error) {
	device, err := results[0].AsStrMap()
	if err != nil {
		return st, err
	}
	for field, value := range device {
		switch {
		case field == allField:
			st.Tombstones.Device = moment(value)
		case strings.HasPrefix(field, tokenField):
			st.Tombstones.Tokens = append(st.Tombstones.Tokens, field[len(tokenField):])
		case strings.HasPrefix(field, operatorField) && field[len(operatorField):] == operator:
			st.Tombstones.Here = moment(value)
		}
	}
	own, err := fields(results[1], 2)
	if err != nil {
		return st, err
	}
	all, err := fields(results[2], 3)
	if err != nil {
		return st, err
	}
	st.Tombstones.Operator, st.Tombstones.Tenant = moment(own[0]), moment(all[0])
	st.Members, st.Suspended = memberVersion(all[1], own[1]), all[2] == "1"
	return st, nil
}

// memberVersion is the version of an operator's membership.
func memberVersion(tenant, own string) string { return tenant + "." + own }

// fields are the texts of HMGET, "" where there is none.
func fields(r rueidis.RedisResult, n int) ([]string, error) {
	list, err := r.ToArray()
	if err != nil {
		return nil, err
	}
	out := make([]string, n)
	for i := range min(n, len(list)) {
		text, err := list[i].ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, err
		}
		out[i] = text
	}
	return out, nil
}

func moment(ms string) time.Time {
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

// raise sets fields of a hash to moments, none to an earlier one than it has, and lets
// the hash live on.
//
//	KEYS[1] hash; ARGV[1] life in seconds; ARGV[2…] field, moment, …
var raise = rueidis.NewLuaScript(`
for i = 2, #ARGV, 2 do
  local was = tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or 0) or 0
  if was < tonumber(ARGV[i + 1]) then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
if redis.call('HGET', KEYS[1], 'suspended') ~= '1' then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return 1`)

// bury writes the tombstone of a device.
func (s *Sessions) bury(ctx context.Context, tenant, device bff.ID, marks ...string) error {
	t, err := s.keys.Tenant(tenant)
	if err != nil {
		return err
	}
	return s.raise(ctx, t.Revoked(device).Name(), identity.TokenLifetime, marks...)
}

func (s *Sessions) raise(ctx context.Context, key string, life time.Duration, marks ...string) error {
	return raise.Exec(ctx, s.client, []string{key}, append([]string{seconds(life)}, marks...)).Error()
}

func millis(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }

// Revoke implements identity.Sessions.
func (s *Sessions) Revoke(ctx context.Context, r identity.Revocation) ([]backoffice.Session, error) {
	t, err := s.keys.Tenant(r.Tenant)
	if err != nil {
		return nil, err
	}
	mark, at := allField, millis(r.At)
	if r.Operator != "" {
		mark = operatorField + r.Operator
	}
	var devices []string
	switch {
	case !r.Device.IsZero():
		devices = []string{r.Device.String()}
	case r.Operator != "":
		if err := s.raise(ctx, t.OperatorAccess(r.Operator).Name(), accessLifetime, revokedField, at); err != nil {
			return nil, away(err)
		}
		devices, err = s.listed(ctx, t.Operator(r.Operator).Name())
	default:
		if err := s.raise(ctx, t.TenantAccess().Name(), accessLifetime, revokedField, at); err != nil {
			return nil, away(err)
		}
		devices, err = s.listed(ctx, t.All().Name())
	}
	if err != nil {
		return nil, away(err)
	}
	var ended []backoffice.Session
	for _, name := range devices {
		device, err := bff.ParseID(bff.PrefixDevice, name)
		if err != nil {
			continue // nothing of ours
		}
		if err := s.bury(ctx, r.Tenant, device, mark, at); err != nil {
			return nil, away(err)
		}
		found, err := s.atDevice(ctx, t, device)
		if err != nil {
			return nil, away(err)
		}
		// A sign-in after the revocation has nothing to do with it.
		if found != nil && (r.Operator == "" || found.Operator == r.Operator) && !found.TokenIssued.After(r.At) {
			ended = append(ended, *found)
		}
	}
	// Last, so that an instance which sees it finds all tombstones.
	return ended, away(s.outdate(ctx, t.TenantAccess().Name(), logoutField))
}

// outdate gives a field of an access state another text.
func (s *Sessions) outdate(ctx context.Context, key, field string) error {
	return outdate.Exec(ctx, s.client, []string{key}, []string{seconds(accessLifetime), field}).Error()
}

// listed are the devices of a list.
func (s *Sessions) listed(ctx context.Context, key string) ([]string, error) {
	return s.client.Do(ctx, s.client.B().Hkeys().Key(key).Build()).AsStrSlice()
}

// atDevice is the session that a device's index names; nil if there is none.
func (s *Sessions) atDevice(ctx context.Context, t TenantKeys, device bff.ID) (*backoffice.Session, error) {
	key := t.Device(device)
	id, err := sessionID(s.client.Do(ctx, s.client.B().Get().Key(key.Name()).Build()).ToString())
	if err != nil || id.IsZero() {
		return nil, err
	}
	found, _, err := s.find(ctx, key.Tenant(), id)
	return found, err
}

// sessionID reads which session Redis names; zero when it names none.
func sessionID(text string, err error) (bff.ID, error) {
	switch {
	case rueidis.IsRedisNil(err):
		return bff.ID{}, nil
	case err != nil:
		return bff.ID{}, err
	}
	return bff.ParseID(bff.PrefixBackofficeLogin, text)
}

// OutdateMembers implements identity.Sessions.
func (s *Sessions) OutdateMembers(ctx context.Context, tenant bff.ID, operator string) error {
	t, err := s.keys.Tenant(tenant)
	if err != nil {
		return err
	}
	key := t.TenantAccess()
	if operator != "" {
		key = t.OperatorAccess(operator)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return away(s.outdate(ctx, key.Name(), versionField))
}

// outdate counts a version up: ARGV[2] is its field. A count that began anew after the hash was lost could
// meet a copy of the same number, so the version is a moment of the server's clock.
var outdate = rueidis.NewLuaScript(`
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[2], t[1] .. string.format('%06d', t[2]))
if redis.call('HGET', KEYS[1], 'suspended') == '1' then redis.call('PERSIST', KEYS[1])
else redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return 1`)

// suspend records a tenant's state unless a newer one is known, and makes copies of it
// void. A suspension stays until it is lifted.
//
//	KEYS[1] hash; ARGV[1] 1 or 0; ARGV[2] moment; ARGV[3] life in seconds
var suspend = rueidis.NewLuaScript(`
local at = tonumber(redis.call('HGET', KEYS[1], 'suspendedAt') or 0) or 0
if at <= tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], 'suspended', ARGV[1], 'suspendedAt', ARGV[2]) end
local t = redis.call('TIME')
redis.call('HSET', KEYS[1], 'v', t[1] .. string.format('%06d', t[2]))
if redis.call('HGET', KEYS[1], 'suspended') == '1' then redis.call('PERSIST', KEYS[1])
else redis.call('EXPIRE', KEYS[1], ARGV[3]) end
return 1`)

// SuspendTenant implements identity.Sessions.
func (s *Sessions) SuspendTenant(ctx context.Context, tenant bff.ID, suspended bool, at time.Time) error {
	t, err := s.keys.Tenant(tenant)
	if err != nil {
		return err
	}
	flag := "0"
	if suspended {
		flag = "1"
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return away(suspend.Exec(ctx, s.client, []string{t.TenantAccess().Name()}, []string{flag, millis(at), seconds(accessLifetime)}).Error())
}
