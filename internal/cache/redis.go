package cache

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// tripAfter failures in a row Redis counts as gone.
const tripAfter = 3

var errRedisDown = errors.New("cache: redis is down")

// link is the way to Redis. Once it has failed a few times in a row it refuses
// calls without trying, so that a server which swallows packets costs a request
// nothing; the reader of the log, in the background, goes on trying and
// restores the link.
type link struct {
	client  rueidis.Client // nil without Redis
	metrics *storeMetrics
	failed  atomic.Int32
	down    atomic.Bool
}

func newLink(c rueidis.Client, m *storeMetrics) *link {
	l := &link{client: c, metrics: m}
	l.down.Store(true) // until the log has been read: entries cannot be judged without it
	return l
}

func (l *link) up() bool { return !l.down.Load() }

// caller is one of the two ways to make a call.
type caller func(ctx context.Context, d time.Duration, op string, f func(context.Context, rueidis.Client) error) error

// do makes one call on behalf of a request.
func (l *link) do(ctx context.Context, d time.Duration, op string, f func(context.Context, rueidis.Client) error) error {
	if !l.up() {
		return errRedisDown
	}
	return l.call(ctx, d, op, f)
}

// call makes one call whatever the state of the link.
func (l *link) call(ctx context.Context, d time.Duration, op string, f func(context.Context, rueidis.Client) error) error {
	if l.client == nil {
		return errRedisDown
	}
	cctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := f(cctx, l.client)
	if err == nil {
		l.failed.Store(0)
		return nil
	}
	if ctx.Err() != nil {
		return err // the caller's own end says nothing about Redis
	}
	l.metrics.redisErrors.WithLabelValues(op).Inc()
	// A refusal is an answer: it came at once, and may concern one key only.
	if _, refused := rueidis.IsRedisErr(err); refused {
		l.failed.Store(0)
	} else if l.failed.Add(1) >= tripAfter {
		l.trip()
	}
	return err
}

func (l *link) trip() {
	if !l.down.Swap(true) {
		l.metrics.redisUp.Set(0)
	}
}

func (l *link) restore() {
	l.failed.Store(0)
	if l.down.Swap(false) {
		l.metrics.redisUp.Set(1)
	}
}
