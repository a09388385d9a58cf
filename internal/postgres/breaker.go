package postgres

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// ErrAway is the error of a call that was not made because Postgres does not answer.
var ErrAway = errors.New("postgres does not answer, the call was not made")

const (
	// patience is how long a connection is waited for and used before a probe asks
	// whether Postgres answers at all.
	patience     = 100 * time.Millisecond
	probeTimeout = 2 * time.Second // a busy server is not one that hangs
	probePause   = 200 * time.Millisecond
)

// Breaker keeps requests from a server that hangs, as it does in a failover that
// leaves connections open: each would wait for its whole budget and hold one of the
// pool's few connections. One probe at a time, over a connection of its own, decides;
// while it is not answered the pool lends none. A server that refuses is not away:
// it says so at once.
type Breaker struct {
	gauge   prometheus.Gauge
	away    atomic.Bool
	probe   func(context.Context) error
	stopped context.Context //nolint:containedctx // of the probes, which belong to no call
	Close   context.CancelFunc

	mu      sync.Mutex
	probing bool
}

// NewBreaker returns a breaker for one pool, and registers its metric. Close ends its
// probes.
func NewBreaker(reg prometheus.Registerer, namespace string) *Breaker {
	b := &Breaker{gauge: prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "postgres_away", Help: "1 while Postgres does not answer: calls fail at once, and one probe at a time asks for it.",
	})}
	b.stopped, b.Close = context.WithCancel(context.Background())
	reg.MustRegister(b.gauge)
	return b
}

// guard puts the breaker before a pool that is about to be opened.
func (b *Breaker) guard(pc *pgxpool.Config) {
	cc := pc.ConnConfig.Copy()
	cc.Tracer = nil
	b.probe = func(ctx context.Context) error {
		c, err := pgx.ConnectConfig(ctx, cc)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close(ctx) }()
		return c.Ping(ctx) // a pooler between us greets for a server that hangs
	}
	pc.ConnConfig.Tracer = gate{b: b}
}

// suspect has a probe ask, unless one does.
func (b *Breaker) suspect() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.probing && b.stopped.Err() == nil {
		b.probing = true
		go b.probes()
	}
}

// probes asks until Postgres answers; a refusal is an answer.
func (b *Breaker) probes() {
	for {
		ctx, cancel := context.WithTimeout(b.stopped, probeTimeout)
		_ = b.probe(ctx)
		hangs := errors.Is(ctx.Err(), context.DeadlineExceeded)
		cancel()
		b.mu.Lock()
		b.set(hangs)
		b.probing = hangs
		b.mu.Unlock()
		if !hangs || !pause.For(b.stopped, probePause) {
			return
		}
	}
}

func (b *Breaker) set(away bool) {
	b.away.Store(away)
	b.gauge.Set(0)
	if away {
		b.gauge.Set(1)
	}
}

// gate watches every use of a pool's connections through the hooks of pgx, so that
// nothing goes around it. They are those of a tracer, which records nothing where
// nothing is recorded.
type gate struct {
	tracer
	b *Breaker
}

var (
	_ pgxpool.AcquireTracer = gate{}
	_ pgxpool.ReleaseTracer = gate{}
)

// waiting is the context of a call that waits for a connection.
type waiting struct {
	context.Context
	timer *time.Timer
}

// unmade is the context of a call that is not made.
type unmade struct{ context.Context }

var never = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (unmade) Done() <-chan struct{} { return never }
func (unmade) Err() error            { return ErrAway }

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (g gate) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	if g.b.away.Load() {
		return unmade{ctx}
	}
	return waiting{ctx, time.AfterFunc(patience, g.b.suspect)}
}

const timerKey = "patience"

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (g gate) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	w, ok := ctx.(waiting)
	switch {
	case !ok:
	case data.Conn == nil:
		w.timer.Stop()
	default:
		data.Conn.PgConn().CustomData()[timerKey] = w.timer
	}
}

// TraceRelease implements pgxpool.ReleaseTracer.
func (g gate) TraceRelease(_ *pgxpool.Pool, data pgxpool.TraceReleaseData) {
	if timer, ok := data.Conn.PgConn().CustomData()[timerKey].(*time.Timer); ok {
		timer.Stop()
	}
}
