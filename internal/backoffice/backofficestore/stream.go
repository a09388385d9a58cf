package backofficestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
)

const (
	// A log is cut at this length and age: the session tier evicts nothing. It lives on
	// for an hour without its device, so that one that comes back after a while knows
	// what it missed.
	maxLogEntries = 128
	maxLogAge     = 10 * time.Minute
	logLifetime   = time.Hour
	// appendBatch is how many logs are written in one pipeline: other callers' commands
	// wait behind it.
	appendBatch = 256
)

// StreamLog keeps the logs of streams in the session tier and tells every instance
// what is added to them. One log is one Redis stream; its script touches no other key
// and publishes in the order of the log.
type StreamLog struct {
	client   rueidis.Client
	sessions *Sessions
	keys     Keys
	timeout  time.Duration
	bus      *bus
}

// NewStreamLog returns the logs in the tier of the sessions.
func NewStreamLog(s *Sessions) *StreamLog {
	return &StreamLog{client: s.client, sessions: s, keys: s.keys, timeout: s.timeout, bus: newBus(s.client, s.keys)}
}

var _ stream.Log = (*StreamLog)(nil)

// add appends an entry and publishes it. An entry is one field: kind, moment, heads
// before it, and the rest, on a line each. The first entry of a log names its epoch.
// The oldest are removed by length and by age, but never the last: it has the heads.
//
// An epoch is the second in which the log began and 20 bits that tell the life of the
// server from others: its replication id, which changes when a replica takes over and
// when a server starts anew. A log that began in another life may have lost its end:
// it begins anew, so that readers of the old one name a gap.
//
// A log begins with a stream and lives on while there is one: what is appended for a
// device without a stream within the hour is dropped.
//
//	KEYS[1] log; ARGV[1] kind; ARGV[2] rest; ARGV[3] entries; ARGV[4] age in ms;
//	ARGV[5] life in seconds; ARGV[6] bus; ARGV[7] seal; ARGV[8] 1: a stream is opened, return the log
var add = rueidis.NewLuaScript(`
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if not last and ARGV[8] ~= '1' then return '' end
local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local lives = 1048576
local id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local life = tonumber(string.sub(redis.sha1hex(id or ''), 1, 5), 16)
local second, epoch, seq, heads = tonumber(t[1]), nil, 0, {0, 0, 0, 0, 0, 0, 0}
if last then
  local e, s = string.match(last[1], '^(%d+)-(%d+)$')
  epoch, seq = tonumber(e), tonumber(s)
  if epoch % lives ~= life then
    redis.call('DEL', KEYS[1])
    second, epoch, seq, last = math.max(second, math.floor(epoch / lives) + 1), nil, 0, nil
  end
end
if not epoch then epoch = second * lives + life end
if last then
  local kind, before = string.match(last[2][2], '^(%d+)\n%d+\n([%d,]+)\n')
  local i = 1
  for n in string.gmatch(before, '%d+') do heads[i] = tonumber(n); i = i + 1 end
  heads[math.min(tonumber(kind), 6) + 1] = seq
end
seq = math.max(seq + 1, t[1] * 1000000 + t[2] - math.floor(epoch / lives) * 1000000)
for i = 1, 7 do heads[i] = string.format('%.0f', heads[i]) end
local name = string.format('%.0f-%.0f', epoch, seq)
local body = ARGV[1] .. '\n' .. string.format('%.0f', ms) .. '\n' .. table.concat(heads, ',') .. '\n' .. ARGV[2]
redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[3], name, 'e', body)
for i = 1, 8 do
  local old = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
  if old[1] == name or ms - tonumber(string.match(old[2][2], '^%d+\n(%d+)')) < tonumber(ARGV[4]) then break end
  redis.call('XDEL', KEYS[1], old[1])
end
if ARGV[8] == '1' or redis.call('TTL', KEYS[1]) < 0 then redis.call('EXPIRE', KEYS[1], ARGV[5]) end
redis.call('PUBLISH', ARGV[6], ARGV[7] .. name .. '\n' .. body)
if ARGV[8] == '1' then return redis.call('XRANGE', KEYS[1], '-', '+') end
return name`)

// adding is a call of add.
func (l *StreamLog) adding(a stream.Address, e *stream.Entry, read string) (rueidis.LuaExec, error) {
	t, err := l.keys.Tenant(a.Tenant)
	if err != nil {
		return rueidis.LuaExec{}, err
	}
	channel := backoffice.ChannelSession
	if int(e.Kind) < len(backoffice.Channels()) {
		channel = backoffice.Channels()[e.Kind]
	}
	expires := ""
	if !e.Expires.IsZero() {
		expires = millis(e.Expires)
	}
	bus := t.StreamBus(a.Device)
	return rueidis.LuaExec{
		Keys: []string{t.StreamLog(a.Device).Name()},
		Args: []string{
			strconv.Itoa(int(e.Kind)), strings.Join([]string{e.Property.String(), e.Operator, e.Type, expires, e.Data}, "\n"),
			strconv.Itoa(maxLogEntries), strconv.FormatInt(maxLogAge.Milliseconds(), 10), seconds(logLifetime),
			busName(bus, channel), string(bus.Seal(nil)), read,
		},
	}, nil
}

// Append implements stream.Log.
func (l *StreamLog) Append(ctx context.Context, tenant bff.ID, devices []bff.ID, e stream.Entry) error {
	var errs []error
	for len(devices) > 0 {
		n := min(len(devices), appendBatch)
		errs = append(errs, l.append(ctx, tenant, devices[:n], &e))
		devices = devices[n:]
	}
	return away(errors.Join(errs...))
}

func (l *StreamLog) append(ctx context.Context, tenant bff.ID, devices []bff.ID, e *stream.Entry) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	calls := make([]rueidis.LuaExec, 0, len(devices))
	for _, d := range devices {
		call, err := l.adding(stream.Address{Tenant: tenant, Device: d}, e, "")
		if err != nil {
			return err
		}
		calls = append(calls, call)
	}
	var errs []error
	for i, r := range add.ExecMulti(ctx, l.client, calls...) {
		if r.Error() == nil {
			continue
		}
		if r.NonRedisError() != nil { // the server did not answer
			errs = append(errs, r.NonRedisError())
			continue
		}
		// The log cannot be used: without one its readers come again, and are told of the gap.
		name := calls[i].Keys[0]
		errs = append(errs, l.client.Do(ctx, l.client.B().Del().Key(name).Build()).Error())
	}
	return errors.Join(errs...)
}

// Open implements stream.Log.
func (l *StreamLog) Open(ctx context.Context, a stream.Address) ([]stream.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	call, err := l.adding(a, &stream.Entry{Kind: stream.EntryOpened}, "1")
	if err != nil {
		return nil, err
	}
	log, err := entries(add.Exec(ctx, l.client, call.Keys, call.Args))
	if err == nil && len(log) == 0 {
		err = errors.New("the log of a stream is empty after an entry was added")
	}
	return log, away(err)
}

// Read implements stream.Log.
func (l *StreamLog) Read(ctx context.Context, at []stream.Cursor) []stream.LogReading {
	const each = 5
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	out := make([]stream.LogReading, len(at))
	cmds := make(rueidis.Commands, 0, each*len(at))
	asked := make([]int, 0, len(at))
	b := l.client.B
	for i := range at {
		c := &at[i].Caller
		t, err := l.keys.Tenant(c.Tenant)
		if err != nil {
			out[i].Err = err
			continue
		}
		name := t.StreamLog(c.Device).Name()
		cmds = append(cmds,
			b().Xrange().Key(name).Start(at[i].From.String()).End("+").Build(),
			b().Expire().Key(name).Seconds(int64(logLifetime/time.Second)).Build())
		cmds = append(cmds, l.sessions.accessOf(&place{
			revoked: t.Revoked(c.Device), operator: t.OperatorAccess(c.Operator), tenant: t.TenantAccess(),
		})...)
		asked = append(asked, i)
	}
	results := l.client.DoMulti(ctx, cmds...)
	for k, i := range asked {
		out[i] = l.reading(&at[i].Caller, results[each*k:each*k+each])
	}
	return out
}

func (l *StreamLog) reading(c *backoffice.Caller, results []rueidis.RedisResult) stream.LogReading {
	log, err := entries(results[0])
	if err != nil && results[0].NonRedisError() == nil {
		log, err = nil, nil // not a log any more: it is as good as lost
	}
	st, unread := readAccess(results[2:], c.Operator)
	return stream.LogReading{Log: log, Refused: st.Tombstones.Refuse(*c) || st.Suspended, Err: errors.Join(err, unread)}
}

// entries reads a log.
func entries(r rueidis.RedisResult) ([]stream.Entry, error) {
	raw, err := r.AsXRange()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	log := make([]stream.Entry, len(raw))
	for i, x := range raw {
		if log[i], err = readEntry(x.ID, x.FieldValues["e"]); err != nil {
			return nil, err
		}
	}
	return log, nil
}

// readEntry reads what add has written.
func readEntry(id, body string) (e stream.Entry, err error) {
	broken := func() (stream.Entry, error) {
		return stream.Entry{}, fmt.Errorf("the log of a stream has a broken entry")
	}
	lines := strings.SplitN(body, "\n", 8)
	var ok bool
	if e.ID, ok = stream.ParseEventID(id); !ok || len(lines) != 8 {
		return broken()
	}
	kind, err := strconv.ParseUint(lines[0], 10, 8)
	if err != nil {
		return broken()
	}
	e.Kind = stream.EntryKind(kind)
	heads := strings.Split(lines[2], ",")
	if len(heads) != len(e.Before) {
		return broken()
	}
	for i, text := range heads {
		if e.Before[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			return broken()
		}
	}
	if lines[3] != "" {
		if e.Property, err = bff.ParseID(bff.PrefixProperty, lines[3]); err != nil {
			return broken()
		}
	}
	e.Operator, e.Type, e.Expires, e.Data = lines[4], lines[5], moment(lines[6]), lines[7]
	return e, nil
}

// Marks implements stream.Log.
func (l *StreamLog) Marks(ctx context.Context, tenants []bff.ID) (m stream.Marks, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	if m.Server, err = l.servers(ctx); err != nil {
		return m, away(err)
	}
	for len(tenants) > 0 {
		n := min(len(tenants), appendBatch)
		cmds := make(rueidis.Commands, 0, n)
		for _, tenant := range tenants[:n] {
			t, err := l.keys.Tenant(tenant)
			if err != nil {
				return m, err
			}
			key := t.TenantAccess().Name()
			cmds = append(cmds, l.client.B().Hmget().Key(key).Field(logoutField, suspendedField).Build())
		}
		for _, r := range l.client.DoMulti(ctx, cmds...) {
			texts, err := fields(r, 2)
			if err != nil {
				return m, away(err)
			}
			m.Tenants = append(m.Tenants, "at "+strings.Join(texts, " ")) // never empty: that is no mark
		}
		tenants = tenants[n:]
	}
	return m, nil
}

// servers are the replication ids of the servers that are no replicas.
func (l *StreamLog) servers(ctx context.Context) (string, error) {
	var ids []string
	for _, node := range l.client.Nodes() {
		info, err := node.Do(ctx, node.B().Info().Section("replication").Build()).ToString()
		if err != nil {
			return "", err
		}
		if strings.Contains(info, "role:slave") {
			continue
		}
		_, id, _ := strings.Cut(info, "master_replid:")
		id, _, _ = strings.Cut(id, "\r\n")
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return "of " + strings.Join(ids, " "), nil
}

// Follow implements stream.Log.
func (l *StreamLog) Follow(ctx context.Context, a stream.Address) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return away(l.bus.follow(ctx, a))
}

// Unfollow implements stream.Log.
func (l *StreamLog) Unfollow(ctx context.Context, devices []stream.Address) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	return l.bus.unfollow(ctx, devices)
}

// Run hears what is added to the logs of followed devices until the context ends.
func (l *StreamLog) Run(ctx context.Context, to EntryHandler) error { return l.bus.run(ctx, to) }

// ListSignedInDevices implements stream.SignedInDevices.
func (s *Sessions) ListSignedInDevices(ctx context.Context, tenant bff.ID, operator string) ([]stream.SignedInDevice, error) {
	t, err := s.keys.Tenant(tenant)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	key := t.All()
	if operator != "" {
		key = t.Operator(operator)
	}
	listed, err := s.client.Do(ctx, s.client.B().Hgetall().Key(key.Name()).Build()).AsStrMap()
	if err != nil {
		return nil, away(err)
	}
	if err := s.withLogs(ctx, t, listed); err != nil {
		return nil, away(err)
	}
	devices, err := s.signedIn(ctx, t, listed, operator)
	return devices, away(err)
}

// withLogs removes devices that had no stream within the hour: of what a notice costs
// they take part in this one question.
func (s *Sessions) withLogs(ctx context.Context, t TenantKeys, listed map[string]string) error {
	var (
		names []string
		cmds  rueidis.Commands
	)
	for name := range listed {
		device, err := bff.ParseID(bff.PrefixDevice, name)
		if err != nil {
			continue // nothing of ours
		}
		key := t.StreamLog(device)
		names, cmds = append(names, name), append(cmds, s.client.B().Exists().Key(key.Name()).Build())
	}
	for i, r := range s.client.DoMulti(ctx, cmds...) {
		n, err := r.AsInt64()
		if err != nil {
			return err
		}
		if n == 0 {
			delete(listed, names[i])
		}
	}
	return nil
}

// signedIn finds the operators of listed sessions. A session never changes its operator,
// so that each is read once by a process.
func (s *Sessions) signedIn(ctx context.Context, t TenantKeys, listed map[string]string, operator string) ([]stream.SignedInDevice, error) {
	var (
		signedIn []stream.SignedInDevice
		unknown  []bff.ID // sessions
		cmds     rueidis.Commands
		b        = s.client.B
	)
	for name, session := range listed {
		device, err1 := bff.ParseID(bff.PrefixDevice, name)
		id, err2 := bff.ParseID(bff.PrefixBackofficeLogin, session)
		if err1 != nil || err2 != nil {
			continue // nothing of ours
		}
		who, known := s.operators.Get(id)
		if who = cmp.Or(operator, who); who != "" || known {
			signedIn = append(signedIn, stream.SignedInDevice{Device: device, Operator: who})
			continue
		}
		unknown = append(unknown, id)
		key := t.Session(id)
		cmds = append(cmds, b().Get().Key(key.Name()).Build())
	}
	for i, r := range s.client.DoMulti(ctx, cmds...) {
		raw, err := r.ToString()
		if rueidis.IsRedisNil(err) {
			continue // it has ended
		}
		if err != nil {
			return nil, err
		}
		found, err := s.decode(t.All().Tenant(), unknown[i], raw)
		if err != nil {
			continue // not the tenant's
		}
		s.operators.Put(found.ID, found.Operator)
		signedIn = append(signedIn, stream.SignedInDevice{Device: found.Device, Operator: found.Operator})
	}
	return signedIn, s.versions(ctx, t, signedIn)
}

// versions adds the versions of the operators' memberships.
func (s *Sessions) versions(ctx context.Context, t TenantKeys, signedIn []stream.SignedInDevice) error {
	b := s.client.B
	of := map[string]int{}
	name := t.TenantAccess().Name()
	cmds := rueidis.Commands{b().Hmget().Key(name).Field(versionField).Build()}
	for i := range signedIn {
		if _, asked := of[signedIn[i].Operator]; !asked {
			of[signedIn[i].Operator] = len(cmds)
			key := t.OperatorAccess(signedIn[i].Operator)
			cmds = append(cmds, b().Hmget().Key(key.Name()).Field(versionField).Build())
		}
	}
	texts := make([]string, len(cmds))
	for i, r := range s.client.DoMulti(ctx, cmds...) {
		found, err := fields(r, 1)
		if err != nil {
			return err
		}
		texts[i] = found[0]
	}
	for i := range signedIn {
		signedIn[i].Members = memberVersion(texts[0], texts[of[signedIn[i].Operator]])
	}
	return nil
}
