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
	// patience is how long a call waits before a ping asks whether Redis answers at
	// all, and how long it must have waited before its timeout says something about
	// Redis: some calls are made with the last moments of a request.
	patience     = 50 * time.Millisecond
	probeTimeout = 100 * time.Millisecond
	probePause   = 100 * time.Millisecond
)

// BreakerMetrics are those of one tier.
type BreakerMetrics struct {
	Away          prometheus.Gauge    // 1 while calls are not made
	Made, Refused prometheus.Counter  // calls
	Took          prometheus.Observer // by calls that were made, in seconds
}

// NewBreakerMetrics registers the metrics of a tier's breaker.
func NewBreakerMetrics(reg prometheus.Registerer, namespace, tier string) BreakerMetrics {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "redis_calls_total", Help: "Calls to Redis that were made, or refused because it does not answer.",
		ConstLabels: prometheus.Labels{"tier": tier},
	}, []string{"outcome"})
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Name: "redis_call_duration_seconds", Help: "Time of calls and pipelines to Redis, to their answer or timeout.",
		ConstLabels: prometheus.Labels{"tier": tier}, Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, .5, 2},
	})
	m := BreakerMetrics{
		Away: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "redis_away", Help: "1 while Redis does not answer: calls fail at once, and one ping at a time asks for it.",
			ConstLabels: prometheus.Labels{"tier": tier},
		}),
		Took: took,
		Made: calls.WithLabelValues("made"), Refused: calls.WithLabelValues("refused"),
	}
	reg.MustRegister(m.Away, calls, took)
	return m
}

// Breakers are those of the clients of one server. A request makes several calls,
// through the clients of several tiers, and all of them together wait once for a
// server that hangs: when a call of one client is not answered, the others ping
// for themselves.
type Breakers struct {
	mu  sync.Mutex
	all []*breaker
}

// Wrap returns the client with a breaker in front of its calls. Subscriptions and
// dedicated connections pass it.
func (s *Breakers) Wrap(c rueidis.Client, m BreakerMetrics) rueidis.Client {
	stopped := make(chan struct{})
	b := &breaker{Client: c, server: s, metrics: m, stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) })}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, b)
	return b
}

// each does something to all breakers of the server.
func (s *Breakers) each(do func(*breaker)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.all {
		do(b)
	}
}

// breaker is a client that stops asking a Redis that hangs. A call that waits has
// a goroutine ping meanwhile; when it was not answered, every call fails at once
// until the ping is. Calls that come before the first ping is decided wait for it,
// so that one slow answer is not taken for an outage.
type breaker struct {
	rueidis.Client
	server  *Breakers
	metrics BreakerMetrics
	away    atomic.Bool
	stopped chan struct{}
	stop    func()

	mu    sync.Mutex
	first chan struct{} // of the goroutine that pings, closed when its first ping is decided; nil without one
}

// Do implements rueidis.Client.
func (b *breaker) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if err := b.admit(ctx); err != nil {
		return rueidis.NewErrorResult(err)
	}
	began := time.Now()
	waits := time.AfterFunc(patience, b.suspect)
	res := b.Client.Do(ctx, cmd)
	waits.Stop()
	b.metrics.Took.Observe(time.Since(began).Seconds())
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
	waits := time.AfterFunc(patience, b.suspect)
	all := b.Client.DoMulti(ctx, multi...)
	waits.Stop()
	b.metrics.Took.Observe(time.Since(began).Seconds())
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
	if b.away.Load() {
		b.mu.Lock()
		first := b.first
		b.mu.Unlock()
		if first != nil {
			select {
			case <-first:
			case <-ctx.Done():
			}
		}
		if b.away.Load() {
			b.metrics.Refused.Inc()
			return ErrAway
		}
	}
	b.metrics.Made.Inc()
	return nil
}

// suspect has all clients of the server ping: a call waits for its answer. By the
// time that it gives up, it is known whether others would wait as well.
func (b *breaker) suspect() { b.server.each((*breaker).ping) }

// observe opens all breakers of the server after a call that Redis did not answer,
// and reports whether it was one. Each closes again when its own ping is answered.
func (b *breaker) observe(began time.Time, res rueidis.RedisResult) bool {
	err := res.NonRedisError()
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, rueidis.ErrClosing):
		return false
	case errors.Is(err, context.DeadlineExceeded) && time.Since(began) < patience:
		return false
	}
	b.server.each((*breaker).open)
	return true
}

func (b *breaker) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probe()
	b.away.Store(true)
	b.metrics.Away.Set(1)
}

func (b *breaker) ping() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probe()
}

// probe starts the goroutine that pings, unless it runs. It needs the lock.
func (b *breaker) probe() {
	if b.first == nil {
		b.first = make(chan struct{})
		go b.pings(b.first)
	}
}

// pings pings until Redis answers.
func (b *breaker) pings(first chan struct{}) {
	decided := sync.OnceFunc(func() { close(first) })
	defer decided()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		err := b.Client.Do(ctx, b.B().Ping().Build()).NonRedisError()
		cancel()
		if err == nil || errors.Is(err, rueidis.ErrClosing) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.first = nil
			b.away.Store(false)
			b.metrics.Away.Set(0)
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
