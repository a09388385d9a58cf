package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// Publisher sends messages and answers for each; pubsub.Client is one. Messages
// of one topic and key must arrive in their order, and none may pass an earlier
// one that failed: it is answered with pubsub.ErrHeld.
type Publisher interface {
	Publish(ctx context.Context, messages []pubsub.Message) []error
}

// RelayConfig says what a relay drains and how. Zero values take the defaults.
type RelayConfig struct {
	// DB lends one connection, for the relay's own use while it runs, and carries
	// its notifications.
	DB        *pgxpool.Pool
	Table     *Table
	Publisher Publisher
	// Batch is how many rows may be published and not yet marked: what a crash can
	// publish twice. Retries may add 16.
	Batch       int           // 500
	Poll        time.Duration // 2 s; the backstop behind Wake
	Standby     time.Duration // 1 s; how often a follower tries to become the leader
	Gather      time.Duration // 2 ms; the least time between two reads that are not full, four times that when busy
	MaxAttempts int           // 10
	MinBackoff  time.Duration // 2 s; doubled with each attempt of a row
	MaxBackoff  time.Duration // 5 min
	// MaxPause caps the pauses while all of Pub/Sub or Postgres is away.
	MaxPause       time.Duration // 5 s
	PublishTimeout time.Duration // 30 s for one batch
	Logger         *slog.Logger
}

func (c RelayConfig) withDefaults() (RelayConfig, error) {
	var errs []error
	if c.DB == nil || c.Table == nil || c.Publisher == nil {
		errs = append(errs, errors.New("outbox relay: database, table and publisher are required"))
	}
	if c.Batch < 0 || c.Batch == 1 || c.MaxAttempts < 0 {
		errs = append(errs, errors.New("outbox relay: batch or attempts out of range"))
	}
	if c.Batch == 0 {
		c.Batch = 500
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 10
	}
	for _, d := range []struct {
		v    *time.Duration
		dflt time.Duration
	}{
		{&c.Poll, 2 * time.Second},
		{&c.Standby, time.Second},
		{&c.Gather, 2 * time.Millisecond},
		{&c.MinBackoff, 2 * time.Second},
		{&c.MaxBackoff, 5 * time.Minute},
		{&c.MaxPause, 5 * time.Second},
		{&c.PublishTimeout, 30 * time.Second},
	} {
		if *d.v < 0 {
			errs = append(errs, errors.New("outbox relay: negative duration"))
		}
		if *d.v == 0 {
			*d.v = d.dflt
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// Relay publishes the rows of one table while it is the leader among all relays
// of that table.
type Relay struct {
	cfg      RelayConfig
	notifier *Notifier

	leading  atomic.Bool
	woken    atomic.Bool
	poke     atomic.Pointer[context.CancelFunc] // ends the leader's wait
	counters counters
	scanned  atomic.Uint64 // rows that the main scan has read

	topicsDown atomic.Pointer[[]string]

	// unmarked survives a lost connection: what was published but could not be
	// marked is marked by the next session instead of being published again.
	unmarked []mark

	away    bool // the database does not answer; Run's own
	careful int  // how many reads are still to be careful; the session's own
}

type counters struct{ published, failed, dead atomic.Uint64 }

// Counters are totals since the relay was made.
type Counters struct {
	Published, Failed, DeadLettered uint64
	Leader                          bool
}

// NewRelay returns a relay that Run starts.
func NewRelay(cfg RelayConfig) (*Relay, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Relay{cfg: cfg, notifier: NewNotifier(cfg.DB, cfg.Table, cfg.Logger)}, nil
}

// Counters returns the totals so far.
func (r *Relay) Counters() Counters {
	return Counters{
		Published: r.counters.published.Load(), Failed: r.counters.failed.Load(), DeadLettered: r.counters.dead.Load(),
		Leader: r.leading.Load(),
	}
}

// TopicsDown are the topics that are missing or forbidden, as far as this relay
// leads and knows: their events wait.
func (r *Relay) TopicsDown() []string {
	names := r.topicsDown.Load()
	if names == nil || !r.leading.Load() {
		return nil
	}
	return *names
}

// Wake tells the leader, wherever it runs, that rows were committed. It never
// blocks and costs the caller nothing worth naming.
func (r *Relay) Wake() {
	if !r.leading.Load() {
		r.notifier.Wake()
		return
	}
	r.nudge()
}

// nudge ends the leader's wait, or the next one if it does not wait now.
func (r *Relay) nudge() {
	if r.woken.Swap(true) {
		return
	}
	if cancel := r.poke.Load(); cancel != nil {
		(*cancel)()
	}
}

// Run publishes until ctx ends; then it finishes the batch under way and returns
// nil. Neither Postgres nor Pub/Sub being away ends it.
func (r *Relay) Run(ctx context.Context) error {
	defer r.notifier.Close()
	backoff := r.pauses()
	for ctx.Err() == nil {
		err := r.session(ctx, func(s *session) error {
			backoff.reset()
			return r.lead(ctx, s, backoff)
		})
		if err != nil && ctx.Err() == nil {
			r.lost(ctx, err)
			backoff.wait(ctx)
		}
	}
	return nil
}

// lost logs the beginning of an outage, not each attempt to reconnect.
func (r *Relay) lost(ctx context.Context, err error) {
	if !r.away {
		r.cfg.Logger.WarnContext(ctx, "outbox relay lost its database connection, reconnecting", "table", r.cfg.Table.name, "error", err)
	}
	r.away = true
}

// found logs the end of an outage, once the server has answered.
func (r *Relay) found(ctx context.Context) {
	if r.away {
		r.cfg.Logger.InfoContext(ctx, "outbox relay has its database connection again", "table", r.cfg.Table.name)
	}
	r.away = false
}

// RunOnce publishes what is there now and returns how many rows that were. When
// another relay is the leader it does nothing: led is false.
func (r *Relay) RunOnce(ctx context.Context) (published int, led bool, err error) {
	before := r.counters.published.Load()
	err = r.session(ctx, func(s *session) error {
		led, err = s.tryLead(ctx)
		if err != nil || !led {
			return err
		}
		defer r.leading.Store(false)
		for ctx.Err() == nil {
			state, err := s.step()
			if err != nil {
				return err
			}
			if err := s.retry(); err != nil {
				return err
			}
			if state != idle {
				continue
			}
			if owed, err := s.payOff(); err != nil {
				return err
			} else if owed {
				continue
			}
			if !s.retrying(time.Now()) {
				return nil
			}
			if err := s.idle(ctx); err != nil {
				return err
			}
		}
		return ctx.Err()
	})
	return int(r.counters.published.Load() - before), led, err //nolint:gosec // a count of rows
}

// session gives work a connection of its own and closes it afterwards, which
// also gives up the lead.
func (r *Relay) session(ctx context.Context, work func(*session) error) (err error) {
	pooled, err := r.cfg.DB.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	conn := pooled.Hijack()
	s := newSession(r, conn)
	defer func() {
		r.leading.Store(false)
		r.topicsDown.Store(nil)
		err = errors.Join(err, s.close())
	}()
	return work(s)
}

// lead waits for the lead, then publishes until ctx or the connection ends.
func (r *Relay) lead(ctx context.Context, s *session, backoff *pauser) error {
	for {
		led, err := s.tryLead(ctx)
		if err != nil {
			return err
		}
		r.found(ctx)
		if led {
			break
		}
		if !pause.For(ctx, pause.Jitter(r.cfg.Standby)) {
			return nil
		}
	}
	r.cfg.Logger.InfoContext(ctx, "outbox relay became the leader", "table", r.cfg.Table.name)
	for ctx.Err() == nil {
		state, err := s.step()
		switch {
		case errors.Is(err, errOutage):
			r.cfg.Logger.WarnContext(ctx, "outbox events cannot be published, retrying after a pause", "table", r.cfg.Table.name, "error", err)
			backoff.wait(ctx)
			continue
		case err != nil:
			return err
		}
		backoff.reset()
		if err := s.retry(); err != nil {
			return err
		}
		if state == full {
			continue
		}
		// Marks are owed from a backlog: pay a little, then look for new rows first.
		if owed, err := s.payOff(); err != nil {
			return err
		} else if owed {
			continue
		}
		if state == partial {
			pause.For(ctx, r.gather(s.found))
		} else if err := s.idle(ctx); err != nil {
			return err
		}
	}
	return nil
}

// gather is how long to let rows gather before the next read. Many rows at once
// mean busy writers, who need the server more than a few milliseconds matter.
func (r *Relay) gather(found int) time.Duration {
	if found < busy {
		return r.cfg.Gather
	}
	return 4 * r.cfg.Gather
}

const busy = 10

// pauser grows from pause to pause until reset.
type pauser struct {
	next, most time.Duration
}

const firstPause = 100 * time.Millisecond

func (r *Relay) pauses() *pauser { return &pauser{firstPause, r.cfg.MaxPause} }

func (p *pauser) reset() { p.next = firstPause }

func (p *pauser) wait(ctx context.Context) {
	pause.For(ctx, pause.Jitter(min(p.next, p.most)))
	p.grow()
}

func (p *pauser) grow() { p.next = min(2*p.next, p.most) }

var _ Execer = (*pgx.Conn)(nil)
