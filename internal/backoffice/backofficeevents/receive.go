// Package backofficeevents is where the staff service meets Pub/Sub: the
// subscriptions it holds and what each received event does.
package backofficeevents

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/inbox"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

const (
	ackDeadline = 30 * time.Second
	// maxAttempts is high: a revocation that goes missing leaves an operator in.
	maxAttempts    = 10
	minBackoff     = time.Second
	maxOutstanding = 32
	maxReason      = 200
	maxOperator    = 64
	maxDetail      = 64
	maxRequestID   = 64
)

// Subscriptions lists what the service receives, each topic by itself: one that fails
// holds up no other. All instances share them: each message reaches one, and what it
// changes is in Redis, which every instance reads.
func Subscriptions() []pubsub.Subscription {
	var subs []pubsub.Subscription
	for _, r := range stream.Reactions() {
		subs = append(subs, pubsub.Subscription{
			Name: "bff-backoffice." + strings.TrimPrefix(r.Topic, "melmastoon."), Topic: r.Topic, DLQ: "bff-backoffice." + r.Topic + ".dlq",
			AckDeadline: ackDeadline, MaxAttempts: maxAttempts, MinBackoff: minBackoff, MaxOutstanding: maxOutstanding,
		})
	}
	return subs
}

// Inbox remembers received events, so that each has its effect once.
type Inbox interface {
	Receive(ctx context.Context, e inbox.Event) (inbox.Reception, error)
	Processed(ctx context.Context, e inbox.Event) error
}

// Locks settles lock actions by what lock-integration reports of them.
type Locks interface {
	// SettleLock settles the action of a request that this service has sent.
	SettleLock(ctx context.Context, tenant bff.ID, request string, r lock.Result) error
}

// Config is what received events act on.
type Config struct {
	Inbox    Inbox
	Access   *identity.Access
	Sessions identity.Sessions
	Kept     backoffice.Invalidator
	Streams  backoffice.Notifier
	Locks    Locks
	Log      *slog.Logger
	Now      func() time.Time
	// Metrics and Namespace measure forced logouts; nil = not reported.
	Metrics   prometheus.Registerer
	Namespace string
}

// Receiver deals with received events. It is safe for redelivery, reordering and
// concurrency.
type Receiver struct {
	cfg     Config
	logouts prometheus.Histogram
}

// NewReceiver returns a Receiver.
func NewReceiver(cfg Config) *Receiver {
	r := &Receiver{cfg: cfg, logouts: prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: cfg.Namespace, Name: "force_logout_seconds",
		Help:    "Time from a revocation at iam to when its callers are refused everywhere and their streams are told.",
		Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
	})}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(r.logouts)
	}
	return r
}

// Receive handles one delivery of any of the subscriptions. The effect comes before
// the mark in the inbox and can be repeated: a process that is killed in between
// leaves the event to come again.
func (r *Receiver) Receive(ctx context.Context, d pubsub.Delivery) error {
	does, ok := stream.FindReaction(d.Topic)
	if !ok {
		return fmt.Errorf("no reaction to topic %s", d.Topic)
	}
	e, err := r.parse(d, does)
	if err != nil {
		return err
	}
	seen, err := r.cfg.Inbox.Receive(ctx, e.Event)
	if err == nil && seen == inbox.Again {
		return nil
	}
	if err != nil && !does.Access {
		return err // it comes again; copies expire by themselves meanwhile
	}
	// Postgres may be away: a logout does not wait for it. The
	// event comes again until it could be recorded, too.
	if err := errors.Join(r.apply(ctx, d.Topic, e), r.react(ctx, does, e), err); err != nil {
		return err
	}
	return r.cfg.Inbox.Processed(ctx, e.Event)
}

// event is a received event, read as far as anything here needs it.
type event struct {
	inbox.Message
	stream.News
	reason string
}

// apply lets in or keeps out.
func (r *Receiver) apply(ctx context.Context, topic string, e event) error {
	s := r.cfg.Sessions
	switch topic {
	case stream.TopicSessionRevoked, stream.TopicUserLocked, stream.TopicDeviceRevoked:
		return r.revoke(ctx, e)
	case stream.TopicMemberRemoved:
		return errors.Join(s.OutdateMembers(ctx, e.Tenant, e.Operator), r.revoke(ctx, e))
	case stream.TopicMemberAdded, stream.TopicMemberChanged:
		return s.OutdateMembers(ctx, e.Tenant, e.Operator)
	case stream.TopicFlagToggled:
		return s.OutdateMembers(ctx, e.Tenant, "")
	case stream.TopicTenantSuspended, stream.TopicTenantReinstated, stream.TopicTenantReactivated:
		return s.SuspendTenant(ctx, e.Tenant, topic == stream.TopicTenantSuspended, e.At)
	case stream.TopicKeyIssued, stream.TopicKeyRevoked, stream.TopicKeyFailed:
		return r.settle(ctx, e)
	}
	return nil
}

// requester is how lock-integration names this service.
const requester = "bff-backoffice"

// settle settles the lock action of an event, if it was this service that asked for
// it. Of one that does not say so nothing is lost: the job asks lock-integration.
func (r *Receiver) settle(ctx context.Context, e event) error {
	request := e.Text("requestKey")
	if request == "" || len(request) > maxRequestID || e.Text("requestedBy") != requester {
		return nil
	}
	return r.cfg.Locks.SettleLock(ctx, e.Tenant, request, lock.Result{
		State: lock.State(e.Details["state"]), Vendor: e.Details["vendor"], Credential: credential(e.Details["credentialId"]), Reason: e.Details["reason"],
	})
}

// credential is the id of a key as answers have it.
func credential(s string) string {
	if id, err := readID("lck", s); err == nil {
		return id.String()
	}
	return s
}

// react makes kept parts void and then tells streams: a client that fetches again must
// not meet the old copy. Streams are told even if the caches cannot be: both are
// repeated then.
func (r *Receiver) react(ctx context.Context, does *stream.Reaction, e event) error {
	var errs []error
	if len(does.Parts) > 0 {
		if err := r.cfg.Kept.Invalidate(ctx, e.Tenant, e.Property, does.Parts...); err != nil {
			errs = append(errs, fmt.Errorf("%w: %w", backoffice.ErrCopiesAway, err))
		}
	}
	for _, n := range does.Notices(e.News) {
		errs = append(errs, r.cfg.Streams.Notify(ctx, n))
	}
	return errors.Join(errs...)
}

func (r *Receiver) revoke(ctx context.Context, e event) error {
	err := r.cfg.Access.Revoke(ctx, identity.Revocation{
		Tenant: e.Tenant, Operator: e.Operator, Device: e.Device, Reason: e.reason, At: e.At,
	}, backoffice.Occasion{Causation: e.ID}, r.cfg.Now())
	if err == nil {
		r.logouts.Observe(max(r.cfg.Now().Sub(e.At), 0).Seconds()) // clocks differ a little
	}
	return err
}

// parse reads an event. What it is about must be readable: an unreadable device must
// not widen a revocation to the whole tenant, nor an unreadable property a notice.
func (r *Receiver) parse(d pubsub.Delivery, does *stream.Reaction) (event, error) {
	m, err := inbox.Read(d, r.cfg.Now(), "revokedAt", "lockedAt", "removedAt", "suspendedAt", "reinstatedAt", "reactivatedAt")
	if err != nil {
		return event{}, err
	}
	e := event{Message: m, reason: clip(m.Text("reason"), maxReason)}
	e.At, e.Details = m.OccurredAt, details(&m, does)
	if e.reason == "" {
		e.reason = d.Topic
	}
	if id := m.Envelope("requestId"); len(id) <= maxRequestID {
		e.CausedBy = clip(id, maxRequestID)
	}
	var errs []error
	e.Tenant, err = readID(bff.PrefixTenant, said(&m, "tenantId"))
	errs = append(errs, err)
	if does.Access {
		errs = append(errs, e.readPeople(d.Topic))
	} else if m.Has("propertyId") || m.Envelope("propertyId") != "" {
		e.Property, err = readID(bff.PrefixProperty, said(&m, "propertyId"))
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return event{}, fmt.Errorf("%w: %w", bff.ErrEvent, err)
	}
	return e, nil
}

// said is a member of the payload or, if it is not there, of the envelope.
func said(m *inbox.Message, name string) string {
	if m.Has(name) {
		return m.Text(name)
	}
	return m.Envelope(name)
}

// readID reads an id that some producers write as a UUID.
func readID(p bff.Prefix, s string) (bff.ID, error) {
	id, err := bff.ParseID(p, s)
	if err != nil {
		if of, bad := bff.IDFromUUID(p, s); bad == nil {
			return of, nil
		}
	}
	return id, err
}

// details are what streams may repeat of the payload. What is unreadable is left out.
func details(m *inbox.Message, does *stream.Reaction) map[string]string {
	out := map[string]string{}
	for _, d := range does.Details {
		s := clip(m.Text(d.Name), maxDetail)
		if d.ID != "" {
			id, err := readID(d.ID, s)
			if err != nil {
				continue
			}
			s = id.String()
		}
		out[d.Name] = s
	}
	return out
}

// readPeople reads whom an event is about, and refuses one that does not say so.
func (e *event) readPeople(topic string) error {
	var errs []error
	if e.Operator = e.Text("operatorId"); e.Has("operatorId") && (e.Operator == "" || len(e.Operator) > maxOperator) {
		errs = append(errs, errors.New("operatorId: malformed"))
	}
	if e.Has("deviceId") {
		var err error
		e.Device, err = readID(bff.PrefixDevice, e.Text("deviceId"))
		errs = append(errs, err)
	}
	switch topic {
	case stream.TopicUserLocked, stream.TopicMemberAdded, stream.TopicMemberChanged, stream.TopicMemberRemoved:
		if e.Operator == "" {
			errs = append(errs, errors.New("operatorId: missing"))
		}
	case stream.TopicDeviceRevoked, stream.TopicDeviceTrusted:
		if e.Device.IsZero() {
			errs = append(errs, errors.New("deviceId: missing"))
		}
	}
	return errors.Join(errs...)
}

func clip(s string, n int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
	for len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
