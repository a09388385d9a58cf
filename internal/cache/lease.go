package cache

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// A lease says which process fills a key. It lives for leaseTTL and is renewed while its
// holder lives: a holder that dies is replaced in less than half a second and
// is not waited out. A holder that hangs is replaced after leaseMost, the lock
// time of DATA_MODEL §5.
const (
	leaseTTL  = 350 * time.Millisecond
	leaseBeat = 80 * time.Millisecond
	leaseMost = 5 * time.Second
)

// failedMark begins the value of a lock whose holder failed; what follows is the
// code of the failure. It stays for a moment, so that the waiting
// processes share the failure instead of repeating it one by one.
const failedMark = "!"

var (
	// acquire answers {1}, or {0, milliseconds left, value}. Asked again with
	// the same token, after an answer was lost, it answers 1 again.
	acquireScript = rueidis.NewLuaScript(`
local held = redis.call('GET', KEYS[1])
if not held or held == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return {1}
end
return {0, redis.call('PTTL', KEYS[1]), held}
`)
	renewScript = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
`)
	// release gives up the lock if it is still ours, or leaves the failure
	// there, and wakes the waiting processes.
	releaseScript = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
`)
)

// lease is a bid for one key's lock.
type lease struct {
	store *Store
	key   string // of the entry
	lock  string
	token string
	lost  atomic.Bool
}

func (s *Store) newLease(key string) *lease {
	return &lease{store: s, key: key, lock: s.lockKey(key), token: rand.Text()}
}

// bid is the answer to an attempt.
type bid struct {
	won    bool
	left   time.Duration // of the holder's lease, or of the failure's moment
	failed bool
	code   string // of the holder's failure
}

func (l *lease) acquire(ctx context.Context) (bid, error) {
	var b bid
	err := l.store.link.do(ctx, l.store.writeTimeout, "acquire", func(ctx context.Context, c rueidis.Client) error {
		reply, err := acquireScript.Exec(ctx, c, []string{l.lock}, []string{l.token, millis(l.store.leaseTTL)}).ToArray()
		if err != nil {
			return err
		}
		if b.won = len(reply) != 3; b.won {
			return nil
		}
		left, err := reply[1].AsInt64()
		if err != nil {
			return err
		}
		b.left = max(0, time.Duration(left)*time.Millisecond)
		holder, err := reply[2].ToString()
		b.code, b.failed = strings.CutPrefix(holder, failedMark)
		return err
	})
	return b, err
}

// hold renews the lease until stop is called.
func (l *lease) hold(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithTimeout(ctx, leaseMost)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			pause.For(ctx, leaseBeat)
			if ctx.Err() != nil {
				return
			}
			var kept int64
			err := l.store.link.do(ctx, l.store.writeTimeout, "renew", func(ctx context.Context, c rueidis.Client) (err error) {
				kept, err = renewScript.Exec(ctx, c, []string{l.lock}, []string{l.token, millis(l.store.leaseTTL)}).AsInt64()
				return err
			})
			if err == nil && kept == 0 {
				l.lost.Store(true)
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// release ends the lease; the code of a failure stays behind for a while.
func (l *lease) release(ctx context.Context, code string, hold time.Duration) {
	mark := ""
	if hold >= time.Millisecond {
		mark = failedMark + code
	}
	// An error needs no handling: the lease expires by itself.
	_ = l.store.link.do(ctx, l.store.writeTimeout, "release", func(ctx context.Context, c rueidis.Client) error {
		return releaseScript.Exec(ctx, c, []string{l.lock},
			[]string{l.token, mark, millis(hold), l.store.bus.fills, l.key}).Error()
	})
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
