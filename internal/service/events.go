package service

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

const (
	// maxWaiting bounds the events in memory while Postgres is slow.
	maxWaiting = 20_000
	// emulatorTimeout is how long a start waits for an emulator to create one thing.
	emulatorTimeout = 2 * time.Second
	// subscribeAgain is the longest pause before a failed subscription is retried.
	subscribeAgain = 5 * time.Second
)

// Events is a process's way to publish and receive events.
type Events struct {
	Outbox   Outbox
	p        *Process
	client   *pubsub.Client
	emulator bool
	topics   atomic.Bool // stand on the emulator
}

// Events connects to Pub/Sub and opens the outbox for the given pool of requests.
// This process also publishes, whenever it is the leader, unless the settings
// leave that to relays. Pub/Sub may be away: requests are served without it, and
// the outbox keeps what is to be published.
func (p *Process) Events(ctx context.Context, s *Settings, requests *pgxpool.Pool) (*Events, error) {
	e, err := p.pubSub(ctx, &s.PubSubSettings)
	if err != nil {
		return nil, err
	}
	var waker outbox.Waker
	if s.NoRelay {
		notifier := outbox.NewNotifier(requests, p.Identity.Outbox, p.Log)
		p.Add("outbox notifier", nil, func(context.Context) error { notifier.Close(); return nil })
		waker = notifier
	} else {
		db, err := p.JobsPostgres(ctx, &s.DatabaseSettings, requests)
		if err != nil {
			return nil, err
		}
		if waker, err = e.relay(db); err != nil {
			return nil, err
		}
	}
	e.Outbox = Outbox{
		Table: p.Identity.Outbox, Waker: waker, Appender: outbox.NewAppender(requests, p.Identity.Outbox, waker, maxWaiting),
	}
	p.Add("outbox appender", nil, e.Outbox.Appender.Close)
	return e, nil
}

func (p *Process) pubSub(ctx context.Context, s *PubSubSettings) (*Events, error) {
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: s.PubSubProject, EmulatorHost: s.PubSubEmulator, Tracer: p.tracer})
	if err != nil {
		return nil, err
	}
	p.Add("pubsub", nil, func(context.Context) error { return client.Close() })
	return &Events{p: p, client: client, emulator: s.PubSubEmulator != ""}, nil
}

// Outbox is the way out for events.
type Outbox struct {
	Table    *outbox.Table
	Appender *outbox.Appender
	Waker    outbox.Waker // tells a relay that there is something to publish
}

// relay publishes the outbox from this process, whenever it is the leader.
func (e *Events) relay(db *pgxpool.Pool) (*outbox.Relay, error) {
	publisher := outbox.Publisher(e.client)
	if e.emulator && e.p.Checked != nil {
		var err error
		if publisher, err = e.p.Checked(publisher); err != nil {
			return nil, err
		}
	}
	r, err := outbox.NewRelay(outbox.RelayConfig{DB: db, Table: e.p.Identity.Outbox, Publisher: publisher, Logger: e.p.Log})
	if err != nil {
		return nil, err
	}
	metrics := outbox.NewCollector(e.p.Namespace, db, r, e.p.Log)
	if err := e.p.Metrics.Register(metrics); err != nil {
		return nil, err
	}
	e.p.AddLoop("outbox metrics", metrics.Run)
	e.ensureAtStart("topics", e.ensureTopics)
	e.p.AddLoop("outbox relay", func(ctx context.Context) error {
		for e.ensureTopics(ctx) != nil { // the emulator is away: nothing could be published yet
			if !pause.For(ctx, emulatorTimeout) {
				return nil
			}
		}
		return r.Run(ctx)
	})
	return r, nil
}

// Receive handles what the service's subscriptions deliver. attempts counts
// failed deliveries.
func (e *Events) Receive(attempts pubsub.Attempts, handle pubsub.Handler) {
	// An emulator loses what is published before a subscription stands: a process
	// that says it is ready must have made them.
	e.ensureAtStart("subscriptions", func(ctx context.Context) error {
		for _, sub := range e.p.Receives {
			one, cancel := context.WithTimeout(ctx, emulatorTimeout)
			err := e.ensureSubscription(one, sub)
			cancel()
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, sub := range e.p.Receives {
		sub.Attempts, sub.Logger = attempts, e.p.Log
		e.p.AddLoop("subscription "+sub.Name, func(ctx context.Context) error {
			e.subscribe(ctx, sub, handle)
			return nil
		})
	}
}

// subscribe receives until ctx ends. Neither an absent Pub/Sub nor an absent
// subscription ends the process: requests are served without them. What failed is made
// anew: an emulator that was restarted has lost it.
func (e *Events) subscribe(ctx context.Context, sub pubsub.Subscription, handle pubsub.Handler) {
	var ensured error
	for next := 100 * time.Millisecond; ctx.Err() == nil; next = min(2*next, subscribeAgain) {
		err := ensured
		if err == nil {
			err = e.client.Subscribe(ctx, sub, handle)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the stream ended")
		}
		e.p.Log.WarnContext(ctx, "subscription failed and is retried", "subscription", sub.Name, "error", err.Error())
		pause.For(ctx, pause.Jitter(next))
		ensured = e.ensureSubscription(ctx, sub)
	}
}

// ensureAtStart creates what an emulator lacks. In production topics and
// subscriptions stand before the service does.
func (e *Events) ensureAtStart(what string, ensure func(context.Context) error) {
	if !e.emulator {
		return
	}
	e.p.Add(what+" on the emulator", func(ctx context.Context) error {
		if err := ensure(ctx); err != nil {
			e.p.Log.WarnContext(ctx, "could not create topics or subscriptions on the Pub/Sub emulator, retrying in the background",
				"missing", what, "error", err.Error())
		}
		return nil
	}, nil)
}

func (e *Events) ensureTopics(ctx context.Context) error {
	if !e.emulator || e.topics.Load() {
		return nil
	}
	for _, topic := range e.p.Publishes {
		one, cancel := context.WithTimeout(ctx, emulatorTimeout)
		err := e.client.EnsureTopics(one, topic)
		cancel()
		if err != nil {
			return err
		}
	}
	e.topics.Store(true)
	return nil
}

// ensureSubscription creates a subscription and one that keeps its dead letters.
func (e *Events) ensureSubscription(ctx context.Context, sub pubsub.Subscription) error {
	if !e.emulator {
		return nil
	}
	err := e.client.EnsureSubscription(ctx, sub)
	if sub.DLQ != "" {
		err = errors.Join(err, e.client.EnsureSubscription(ctx, pubsub.Subscription{Name: sub.DLQ, Topic: sub.DLQ}))
	}
	return err
}
