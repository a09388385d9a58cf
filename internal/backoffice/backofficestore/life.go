package backofficestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// life knows since when the session tier remembers everything. What it forgot, in a flush
// or when a replica took over that had not got the last writes, are tombstones, sign-outs
// and used proofs: whatever was issued before is refused, so that its holder has to ask
// iam for more.
//
// Every server of the tier has a mark: its replication id, which changes when a replica
// takes over and when a server starts anew, and the moment at which an instance first
// found it so. Each request reads the marks along with everything else. Whether they
// still name the servers is looked at before the first request over a new connection,
// since a server that has taken over is a new connection, and every second besides.
type life struct {
	client rueidis.Client
	keys   Keys
	dials  func() uint64 // connections made so far

	mu    sync.Mutex // held while marks are looked at
	known atomic.Pointer[births]
}

// births are the marks of all servers of the tier.
type births struct {
	names, values []string
	born          time.Time
	dials         uint64 // when they were looked at
}

// reading adds what a request reads of the marks to its commands. It comes last: a tier
// that is flushed before the other reads has lost its mark by then.
func (l *life) reading(ctx context.Context, cmds rueidis.Commands, now time.Time) (rueidis.Commands, *births, error) {
	m := l.known.Load()
	if m == nil {
		var err error
		if m, err = l.look(ctx, nil, now); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range m.names {
		cmds = append(cmds, l.client.B().Get().Key(name).Build())
	}
	return cmds, m, nil
}

// born returns since when the tier remembers everything, by what a request has read.
func (l *life) born(ctx context.Context, m *births, results []rueidis.RedisResult, now time.Time) (time.Time, error) {
	same := m.dials == l.dials()
	for i, r := range results {
		value, err := r.ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return time.Time{}, err
		}
		same = same && value == m.values[i]
	}
	if same {
		return m.born, nil
	}
	m, err := l.look(ctx, m, now)
	if err != nil {
		return time.Time{}, err
	}
	return m.born, nil
}

// bear returns the mark of a server, which it makes if there is none of this life.
//
//	KEYS[1] mark; ARGV[1] moment
var bear = rueidis.NewLuaScript(`
local id = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
local was = redis.call('GET', KEYS[1])
if was and string.sub(was, 1, #id + 1) == id .. ' ' then return was end
was = id .. ' ' .. ARGV[1]
redis.call('SET', KEYS[1], was)
return was`)

// maxMarks is how many names are tried to find one that a server of a cluster keeps.
const maxMarks = 256

// look looks at the marks of all servers, unless another caller has done so since they
// were old. A server of a cluster that does not answer keeps the mark that is known:
// what is kept there cannot be read either.
func (l *life) look(ctx context.Context, old *births, now time.Time) (*births, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.known.Load(); m != nil && m != old && m.dials == l.dials() {
		return m, nil
	}
	m := &births{dials: l.dials()}
	var errs []error
	for _, node := range l.client.Nodes() {
		name, value, err := l.birth(ctx, node, now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if name != "" {
			m.names, m.values = append(m.names, name), append(m.values, value)
		}
	}
	if old != nil && len(errs) > 0 && len(m.names) > 0 {
		for i, name := range old.names {
			if !slices.Contains(m.names, name) {
				m.names, m.values = append(m.names, name), append(m.values, old.values[i])
			}
		}
	}
	if len(m.names) == 0 {
		return nil, errors.Join(append(errs, errors.New("no server of the session tier has told its life"))...)
	}
	for _, value := range m.values {
		_, at, _ := strings.Cut(value, " ")
		m.born = later(m.born, moment(at))
	}
	l.known.Store(m)
	return m, nil
}

// birth finds the mark of one server. It has none if it is a replica.
func (l *life) birth(ctx context.Context, node rueidis.Client, now time.Time) (name, value string, err error) {
	for from, to := 0, 1; from < maxMarks; from, to = to, maxMarks {
		cmds := make(rueidis.Commands, 0, to-from)
		for i := from; i < to; i++ {
			name := l.keys.Birth(i)
			cmds = append(cmds, node.B().Get().Key(name).Build())
		}
		for i, r := range node.DoMulti(ctx, cmds...) {
			if e, refused := rueidis.IsRedisErr(r.Error()); refused {
				if _, moved := e.IsMoved(); moved {
					continue
				}
			}
			if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
				return "", "", err
			}
			name = l.keys.Birth(from + i)
			value, err = bear.Exec(ctx, node, []string{name}, []string{millis(wholeSecond(now))}).ToString()
			if e, refused := rueidis.IsRedisErr(err); refused && strings.HasPrefix(e.Error(), "READONLY") {
				return "", "", nil
			}
			return name, value, err
		}
	}
	return "", "", nil
}

// wholeSecond rounds up: issuers write whole seconds, and a token of the very second in
// which the tier was lost may have been issued before.
func wholeSecond(now time.Time) time.Time {
	if whole := now.Truncate(time.Second); whole.Before(now) {
		return whole.Add(time.Second)
	}
	return now
}

// lookEvery is how often the marks are compared with the servers although nothing speaks
// for a change: a proxy may hide that another server has taken over.
const lookEvery = time.Second

// Watch looks after the tier's life until the context ends.
func (s *Sessions) Watch(ctx context.Context) error {
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-every.C:
			limited, cancel := context.WithTimeout(ctx, s.timeout)
			_, _ = s.life.look(limited, s.life.known.Load(), now) // requests find out for themselves that it does not answer
			cancel()
		}
	}
}

// Ready is a readiness check: the tier takes writes, and tokens that are issued now are
// good. A server whose memory is full answers everything but writes, and every request
// needs one.
func (s *Sessions) Ready(ctx context.Context) error {
	now := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	m := s.life.known.Load()
	if m == nil {
		var err error
		if m, err = s.life.look(ctx, nil, now); err != nil {
			return err
		}
	}
	for i := range m.names {
		name := probeOf(m.names[i])
		probe := s.client.B().Set().Key(name).Value("").PxMilliseconds(time.Minute.Milliseconds()).Build()
		if err := s.client.Do(ctx, probe).Error(); err != nil {
			return fmt.Errorf("the session tier takes no writes: %w", err)
		}
	}
	if now.Before(m.born) {
		return errors.New("the session tier began just now: tokens are good from the next second on")
	}
	return nil
}
