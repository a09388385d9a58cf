package redis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"
)

// ErrAway is the error of a call that was not made because Redis does not answer.
var ErrAway = errors.New("redis does not answer, the call was not made")

const (
	// patience is how long a call must have waited in vain before its timeout says
	// something about Redis; some calls are made with the last moments of a request.
	patience     = 50 * time.Millisecond
	probeTimeout = 100 * time.Millisecond
	probePause   = 100 * time.Millisecond
)

// breaker is a client that stops asking a Redis that hangs: a request makes several
// calls, and without it each of them would wait for its own timeout. After a call
// that was not answered one goroutine pings, and every call fails at once until the
// ping is answered. Calls that come before the first ping is decided wait for it, so
// that one slow answer is not taken for an outage.
type breaker struct {
	rueidis.Client
	state   prometheus.Gauge // 1 while open
	away    atomic.Bool
	stopped chan struct{}
	stop    func()

	mu    sync.Mutex
	first chan struct{} // closed when the first ping since it opened is decided
}

// WithBreaker returns the client with a breaker in front of its calls. Subscriptions
// and dedicated connections pass it. The gauge is 1 while calls are not made.
func WithBreaker(c rueidis.Client, state prometheus.Gauge) rueidis.Client {
	return newBreaker(c, state)
}

func newBreaker(c rueidis.Client, state prometheus.Gauge) *breaker {
	stopped := make(chan struct{})
	return &breaker{Client: c, state: state, stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) })}
}

// Do implements rueidis.Client.
func (b *breaker) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if err := b.admit(ctx); err != nil {
		return rueidis.NewErrorResult(err)
	}
	began := time.Now()
	res := b.Client.Do(ctx, cmd)
	b.observe(began, res)
	return res
}

// DoMulti implements rueidis.Client.
func (b *breaker) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	if err := b.admit(ctx); err != nil {
		all := make([]rueidis.RedisResult, len(multi))
		for i := range all {
			all[i] = rueidis.NewErrorResult(err)
		}
		return all
	}
	began := time.Now()
	all := b.Client.DoMulti(ctx, multi...)
	for _, res := range all {
		if b.observe(began, res) {
			break
		}
	}
	return all
}

// Close implements rueidis.Client.
func (b *breaker) Close() {
	b.stop()
	b.Client.Close()
}

// admit returns ErrAway while Redis does not answer.
func (b *breaker) admit(ctx context.Context) error {
	if !b.away.Load() {
		return nil
	}
	b.mu.Lock()
	first := b.first
	b.mu.Unlock()
	select {
	case <-first:
	case <-ctx.Done():
	}
	if b.away.Load() {
		return ErrAway
	}
	return nil
}

// observe opens the breaker after a call that Redis did not answer, and reports
// whether it was one.
func (b *breaker) observe(began time.Time, res rueidis.RedisResult) bool {
	err := res.NonRedisError()
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, rueidis.ErrClosing):
		return false
	case errors.Is(err, context.DeadlineExceeded) && time.Since(began) < patience:
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.away.Load() {
		b.first = make(chan struct{})
		b.away.Store(true)
		b.state.Set(1)
		go b.probe(b.first)
	}
	return true
}

// probe pings until Redis answers.
func (b *breaker) probe(first chan struct{}) {
	decided := sync.OnceFunc(func() { close(first) })
	defer decided()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		err := b.Client.Do(ctx, b.B().Ping().Build()).NonRedisError()
		cancel()
		if err == nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.away.Store(false)
			b.state.Set(0)
			return
		}
		decided()
		select {
		case <-time.After(probePause):
		case <-b.stopped:
			return
		}
	}
}
