package pubsub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/pubsub/v2"
)

// Subscription says what to receive and how patiently. Zero values take the
// defaults.
type Subscription struct {
	Name  string
	Topic string
	// DLQ is the topic for messages that failed MaxAttempts times; empty means
	// that they come back for ever. A message that cannot be read fails as any
	// other: in a rollout the next attempt may meet a version that can.
	DLQ         string
	AckDeadline time.Duration // 30 s; also what one run of the handler may take
	MaxAttempts int           // 5
	Ordered     bool
	Filter      string
	// MaxOutstanding bounds how many handlers run at once. Messages that wait for
	// another attempt do not count.
	MaxOutstanding int           // 100
	MinBackoff     time.Duration // 100 ms between attempts, doubled each time
	MaxBackoff     time.Duration // 10 s
	// ServerDeadLetter also sets Pub/Sub's own policy. Not for the in-process
	// server, which repeats dead letters without end.
	ServerDeadLetter bool

	Attempts Attempts // NewMemoryAttempts when nil
	Logger   *slog.Logger
}

// Delivery is a message that arrived.
type Delivery struct {
	ID          string // Pub/Sub's own, the same for each attempt
	Topic       string
	Key         string
	Data        []byte
	Attributes  map[string]string
	PublishTime time.Time
}

// Handler deals with a delivery; nil acknowledges it. It must be idempotent: the
// same message can arrive again at any time. Its context outlives the
// subscription's, so that a drain lets it finish.
type Handler func(ctx context.Context, d Delivery) error

// Attempts counts failed deliveries, durably if it can: the inbox does.
type Attempts interface {
	// Failed records one more failure and returns how many there were.
	Failed(ctx context.Context, d Delivery, cause error) (int, error)
}

func (s Subscription) validate() error {
	var errs []error
	if len(s.Name) < 3 || len(s.Topic) < 3 {
		errs = append(errs, errors.New("subscription: name and topic need three characters"))
	}
	if s.AckDeadline != 0 && (s.AckDeadline < 10*time.Second || s.AckDeadline > 10*time.Minute) {
		errs = append(errs, errors.New("subscription: ack deadline out of 10 s to 10 min"))
	}
	if s.MaxAttempts < 0 || s.MaxOutstanding < 0 || s.MinBackoff < 0 || s.MaxBackoff < 0 {
		errs = append(errs, errors.New("subscription: negative setting"))
	}
	if s.ServerDeadLetter && s.DLQ == "" {
		errs = append(errs, errors.New("subscription: dead-letter policy without a topic"))
	}
	return errors.Join(errs...)
}

func (s Subscription) withDefaults() Subscription {
	if s.AckDeadline == 0 {
		s.AckDeadline = 30 * time.Second
	}
	if s.MaxAttempts == 0 {
		s.MaxAttempts = 5
	}
	if s.MaxOutstanding == 0 {
		s.MaxOutstanding = 100
	}
	if s.MinBackoff == 0 {
		s.MinBackoff = 100 * time.Millisecond
	}
	if s.MaxBackoff == 0 {
		s.MaxBackoff = 10 * time.Second
	}
	if s.Attempts == nil {
		s.Attempts = NewMemoryAttempts()
	}
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	return s
}

// Subscribe receives until ctx ends, then lets the running handlers finish and
// returns nil. It returns an error when the subscription can not be received
// from at all, for instance because it does not exist.
func (c *Client) Subscribe(ctx context.Context, sub Subscription, handle Handler) error {
	if err := sub.validate(); err != nil {
		return err
	}
	sub = sub.withDefaults()
	r := receiver{client: c, sub: sub, handle: handle, stop: ctx.Done(), slots: make(chan struct{}, sub.MaxOutstanding)}
	s := c.ps.Subscriber(sub.Name)
	s.ReceiveSettings.MaxOutstandingMessages = sub.MaxOutstanding + maxWaiting
	s.ReceiveSettings.MaxOutstandingBytes = 64 << 20
	s.ReceiveSettings.NumGoroutines = 1
	s.ReceiveSettings.MaxExtension = 2*sub.AckDeadline + sub.MaxBackoff
	if err := s.Receive(ctx, r.receive); err != nil && ctx.Err() == nil {
		return fmt.Errorf("receive from %s: %w", sub.Name, err)
	}
	return nil
}

// maxWaiting is how many messages of a subscription may wait for another attempt
// before they hold up others.
const maxWaiting = 1000

type receiver struct {
	client *Client
	sub    Subscription
	handle Handler
	stop   <-chan struct{}
	slots  chan struct{} // of handlers
}

func (r *receiver) receive(ctx context.Context, m *pubsub.Message) {
	attempts, done := r.attempt(ctx, m)
	if done {
		m.Ack()
		return
	}
	r.pause(attempts)
	m.Nack()
}

// attempt runs the handler, and reports how often the message has failed, or that
// it need not come back.
func (r *receiver) attempt(ctx context.Context, m *pubsub.Message) (attempts int, done bool) {
	r.slots <- struct{}{}
	defer func() { <-r.slots }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.sub.AckDeadline)
	defer cancel()
	d := Delivery{
		ID: m.ID, Topic: r.sub.Topic, Key: m.OrderingKey, Data: m.Data,
		Attributes: m.Attributes, PublishTime: m.PublishTime,
	}
	handling, span := r.beginReceive(ctx, d)
	err := r.run(handling, d)
	endReceive(span, err)
	if err == nil {
		return 0, true
	}
	// The handler may have used up its time; counting has its own.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), r.client.cfg.PublishTimeout)
	defer cancel()
	attempts, countErr := r.sub.Attempts.Failed(ctx, d, err)
	if countErr != nil {
		r.sub.Logger.ErrorContext(ctx, "delivery attempt not counted", "subscription", r.sub.Name, "message", m.ID, "error", countErr)
	}
	r.sub.Logger.WarnContext(ctx, "delivery failed", "subscription", r.sub.Name, "message", m.ID, "attempts", attempts, "error", err)
	if r.sub.DLQ != "" && attempts >= r.sub.MaxAttempts {
		err := r.setAside(ctx, d, attempts)
		if err == nil {
			return attempts, true
		}
		r.sub.Logger.ErrorContext(ctx, "dead letter not published", "subscription", r.sub.Name, "message", m.ID, "error", err)
	}
	return attempts, false
}

// run turns a panic into a failed delivery: one poison message must not end the
// process, which would meet it again at once.
func (r *receiver) run(ctx context.Context, d Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.sub.Logger.ErrorContext(ctx, "handler panicked", "subscription", r.sub.Name, "message", d.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("handler panicked: %v", p)
		}
	}()
	return r.handle(ctx, d)
}

func (r *receiver) setAside(ctx context.Context, d Delivery, attempts int) error {
	attributes := make(map[string]string, len(d.Attributes)+4)
	maps.Copy(attributes, d.Attributes)
	attributes["dlqSubscription"] = r.sub.Name
	attributes["dlqTopic"] = d.Topic
	attributes["dlqMessageId"] = d.ID
	attributes["dlqAttempts"] = strconv.Itoa(attempts)
	return r.client.Publish(ctx, []Message{{Topic: r.sub.DLQ, Data: d.Data, Attributes: attributes}})[0]
}

// pause waits before giving the message back: without a retry policy on the
// server it would return at once and use up its attempts within milliseconds.
// The client keeps extending the deadline meanwhile.
func (r *receiver) pause(attempts int) {
	d := r.sub.MaxBackoff
	if shift := max(0, attempts-1); shift < 16 {
		d = min(d, r.sub.MinBackoff<<shift)
	}
	t := time.NewTimer(d/2 + rand.N(d/2+1)) //nolint:gosec // spread, not secrecy
	defer t.Stop()
	select {
	case <-r.stop:
	case <-t.C:
	}
}

// memoryAttempts counts per process. It forgets the oldest half when it is full
// and everything on restart; then poison takes more attempts, no fewer.
type memoryAttempts struct {
	mu       sync.Mutex
	now, old map[string]int
}

const maxRemembered = 5000

// NewMemoryAttempts counts failed deliveries in this process.
func NewMemoryAttempts() Attempts { return &memoryAttempts{now: map[string]int{}} }

func (a *memoryAttempts) Failed(_ context.Context, d Delivery, _ error) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := max(a.now[d.ID], a.old[d.ID]) + 1
	if len(a.now) >= maxRemembered {
		a.old, a.now = a.now, map[string]int{}
	}
	a.now[d.ID] = n
	return n, nil
}
