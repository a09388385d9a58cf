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

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/inbox"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// The topics that the service listens to.
const (
	topicSessionRevoked    = "melmastoon.iam.session.revoked.v1"
	topicUserLocked        = "melmastoon.iam.user.locked.v1"
	topicDeviceRevoked     = "melmastoon.iam.device.revoked.v1"
	topicTenantSuspended   = "melmastoon.tenant.suspended.v1"
	topicTenantReinstated  = "melmastoon.tenant.reinstated.v1"
	topicTenantReactivated = "melmastoon.tenant.reactivated.v1"
	topicMemberAdded       = "melmastoon.tenant.membership.added.v1"
	topicMemberChanged     = "melmastoon.tenant.membership.changed.v1"
	topicMemberRemoved     = "melmastoon.tenant.membership.removed.v1"
	topicFlagToggled       = "melmastoon.tenant.feature_flag.toggled.v1"
)

const (
	ackDeadline = 30 * time.Second
	// maxAttempts is high: a revocation that goes missing leaves an operator in.
	maxAttempts    = 10
	minBackoff     = time.Second
	maxOutstanding = 32
	maxReason      = 200
	maxOperator    = 64
)

// Subscriptions lists what the service receives. All instances share them: each
// message reaches one, and what it changes is in the session tier, which every request
// reads.
func Subscriptions() []pubsub.Subscription {
	var subs []pubsub.Subscription
	for _, topic := range []string{
		topicSessionRevoked, topicUserLocked, topicDeviceRevoked,
		topicTenantSuspended, topicTenantReinstated, topicTenantReactivated,
		topicMemberAdded, topicMemberChanged, topicMemberRemoved, topicFlagToggled,
	} {
		subs = append(subs, pubsub.Subscription{
			Name: "bff-backoffice." + strings.TrimPrefix(topic, "melmastoon."), Topic: topic, DLQ: "bff-backoffice." + topic + ".dlq",
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

// Config is what received events act on.
type Config struct {
	Inbox    Inbox
	Access   *backoffice.Access
	Sessions backoffice.Sessions
	Log      *slog.Logger
	Now      func() time.Time
}

// Receiver deals with received events. It is safe for redelivery, reordering and
// concurrency.
type Receiver struct{ cfg Config }

// NewReceiver returns a Receiver.
func NewReceiver(cfg Config) *Receiver { return &Receiver{cfg: cfg} }

// Receive handles one delivery of any of the subscriptions. The effect comes before
// the mark in the inbox and can be repeated: a process that is killed in between
// leaves the event to come again.
func (r *Receiver) Receive(ctx context.Context, d pubsub.Delivery) error {
	e, err := r.parse(d)
	if err != nil {
		return err
	}
	seen, err := r.cfg.Inbox.Receive(ctx, e.Event)
	if err == nil && seen == inbox.Again {
		return nil
	}
	// Postgres may be away: a logout does not wait for it. The
	// event comes again until it could be recorded, too.
	if err := errors.Join(r.apply(ctx, d.Topic, e), err); err != nil {
		return err
	}
	return r.cfg.Inbox.Processed(ctx, e.Event)
}

// event is a received event, read as far as anything here needs it.
type event struct {
	inbox.Message
	tenant   bff.ID
	operator string
	device   bff.ID
	reason   string
}

func (r *Receiver) apply(ctx context.Context, topic string, e event) error {
	s := r.cfg.Sessions
	switch topic {
	case topicSessionRevoked, topicUserLocked, topicDeviceRevoked:
		return r.revoke(ctx, e)
	case topicMemberRemoved:
		return errors.Join(s.OutdateMembers(ctx, e.tenant, e.operator), r.revoke(ctx, e))
	case topicMemberAdded, topicMemberChanged:
		return s.OutdateMembers(ctx, e.tenant, e.operator)
	case topicFlagToggled:
		return s.OutdateMembers(ctx, e.tenant, "")
	case topicTenantSuspended, topicTenantReinstated, topicTenantReactivated:
		return s.SuspendTenant(ctx, e.tenant, topic == topicTenantSuspended, e.OccurredAt)
	}
	return fmt.Errorf("no handler for topic %s", topic)
}

func (r *Receiver) revoke(ctx context.Context, e event) error {
	return r.cfg.Access.Revoke(ctx, backoffice.Revocation{
		Tenant: e.tenant, Operator: e.operator, Device: e.device, Reason: e.reason, At: e.OccurredAt,
	}, backoffice.Occasion{Causation: e.ID}, r.cfg.Now())
}

// parse reads an event. What it is about must be readable: an unreadable device must
// not widen a revocation to the whole tenant.
func (r *Receiver) parse(d pubsub.Delivery) (event, error) {
	m, err := inbox.Read(d, r.cfg.Now(), "revokedAt", "lockedAt", "removedAt", "suspendedAt", "reinstatedAt", "reactivatedAt")
	if err != nil {
		return event{}, err
	}
	e := event{Message: m, reason: clip(m.Text("reason"), maxReason)}
	if e.reason == "" {
		e.reason = d.Topic
	}
	var errs []error
	e.tenant, err = bff.ParseID(bff.PrefixTenant, m.Text("tenantId"))
	errs = append(errs, err)
	if e.operator = m.Text("operatorId"); m.Has("operatorId") && (e.operator == "" || len(e.operator) > maxOperator) {
		errs = append(errs, errors.New("operatorId: malformed"))
	}
	if m.Has("deviceId") {
		e.device, err = bff.ParseID(bff.PrefixDevice, m.Text("deviceId"))
		errs = append(errs, err)
	}
	errs = append(errs, e.complete(d.Topic))
	if err := errors.Join(errs...); err != nil {
		return event{}, fmt.Errorf("%w: %w", bff.ErrEvent, err)
	}
	return e, nil
}

// complete refuses an event that does not name whom it is about.
func (e *event) complete(topic string) error {
	switch topic {
	case topicUserLocked, topicMemberAdded, topicMemberChanged, topicMemberRemoved:
		if e.operator == "" {
			return errors.New("operatorId: missing")
		}
	case topicDeviceRevoked:
		if e.device.IsZero() {
			return errors.New("deviceId: missing")
		}
	}
	return nil
}

func clip(s string, n int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
	for len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}
