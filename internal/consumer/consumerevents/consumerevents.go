// Package consumerevents is where the anonymous service meets Pub/Sub: the
// subscriptions it holds, what each received event does, and the check of its
// own events against their schemas.
package consumerevents

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/inbox"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// The topics that the service listens to: the four of EVENT_SCHEMAS §4, and two
// names under which producers send the same.
const (
	topicThemePublished    = "melmastoon.theme.published.v1"
	topicListingIndexed    = "melmastoon.search_aggregation.listing.indexed.v1"
	topicProjectionUpdated = "melmastoon.search.projection.updated.v1"
	topicTenantSuspended   = "melmastoon.tenant.suspended.v1"
	topicTenantReinstated  = "melmastoon.tenant.reinstated.v1"
	topicTenantReactivated = "melmastoon.tenant.reactivated.v1"
)

const (
	ackDeadline   = 30 * time.Second
	cacheAttempts = 5
	// tenantAttempts is higher: a suspension that goes missing keeps selling a
	// hotel that must not be sold.
	tenantAttempts = 10
	// minBackoff also paces redelivery while Postgres or Redis is away, when
	// attempts are not counted.
	minBackoff     = time.Second
	maxOutstanding = 32
)

// Subscriptions lists what the service receives (EVENT_SCHEMAS §5). All
// instances share them: each message reaches one.
func Subscriptions() []pubsub.Subscription {
	var subs []pubsub.Subscription
	for _, s := range []struct {
		topic    string
		attempts int
	}{
		{topicThemePublished, cacheAttempts},
		{topicListingIndexed, cacheAttempts},
		{topicProjectionUpdated, cacheAttempts},
		{topicTenantSuspended, tenantAttempts},
		{topicTenantReinstated, tenantAttempts},
		{topicTenantReactivated, tenantAttempts},
	} {
		subs = append(subs, pubsub.Subscription{
			Name:  "bff-consumer." + strings.TrimPrefix(s.topic, "melmastoon."),
			Topic: s.topic, DLQ: "bff-consumer." + s.topic + ".dlq",
			AckDeadline: ackDeadline, MaxAttempts: s.attempts, MinBackoff: minBackoff, MaxOutstanding: maxOutstanding,
		})
	}
	return subs
}

// Invalidator forgets cached answers by what they are about, in every instance.
type Invalidator interface {
	Invalidate(ctx context.Context, tags ...string) error
}

// Config is what received events act on.
type Config struct {
	Inbox   consumer.Inbox
	Tenants consumer.TenantStatus
	Cache   Invalidator
	Log     *slog.Logger
	Now     func() time.Time
}

// Receiver deals with received events. It is safe for redelivery, reordering
// and concurrency.
type Receiver struct{ cfg Config }

// NewReceiver returns a Receiver.
func NewReceiver(cfg Config) *Receiver { return &Receiver{cfg: cfg} }

// Receive handles one delivery of any of the subscriptions.
func (r *Receiver) Receive(ctx context.Context, d pubsub.Delivery) error {
	m, err := r.parse(d)
	if err != nil {
		return err
	}
	switch d.Topic {
	case topicThemePublished:
		return r.outdate(ctx, m, discovery.BrandTag(m.tenant))
	case topicListingIndexed, topicProjectionUpdated:
		tags := []string{discovery.PropertyTag(m.property)}
		switch {
		case m.cell != "":
			tags = append(tags, discovery.CellTag(m.cell))
		case !m.tenant.IsZero(): // the lists that show the hotel are among its tenant's
			tags = append(tags, discovery.TenantTag(m.tenant))
		}
		return r.outdate(ctx, m, tags...)
	case topicTenantSuspended, topicTenantReinstated, topicTenantReactivated:
		return r.changeTenant(ctx, m, d.Topic == topicTenantSuspended)
	}
	return fmt.Errorf("no handler for topic %s", d.Topic)
}

// outdate forgets what is cached under the tags. Forgetting twice does no harm,
// so it does not wait for the inbox: while Postgres is away caches are still
// cleared at once, and the message comes back until it could be recorded.
func (r *Receiver) outdate(ctx context.Context, m message, tags ...string) error {
	seen, err := r.cfg.Inbox.Receive(ctx, m.Inbound)
	if err == nil && seen != consumer.ReceivedFirst {
		r.repeated(ctx, m, seen)
		return nil
	}
	if err := r.cfg.Cache.Invalidate(ctx, tags...); err != nil {
		return away("invalidate cache", err)
	}
	if err != nil {
		return err
	}
	return r.cfg.Inbox.Processed(ctx, m.Inbound)
}

// changeTenant suspends or reinstates. The durable change and the inbox are one
// transaction; what follows from it happens again with each redelivery, because
// the process may have died in between.
func (r *Receiver) changeTenant(ctx context.Context, m message, suspended bool) error {
	seen, err := r.cfg.Tenants.ChangeTenant(ctx, m.Inbound, consumer.TenantChange{
		Tenant: m.tenant, Suspended: suspended, Reason: m.reason,
	})
	if err != nil {
		return err
	}
	if seen == consumer.ReceivedOther {
		r.repeated(ctx, m, seen)
		return nil
	}
	if err := r.cfg.Tenants.Announce(ctx, m.tenant); err != nil {
		return away("announce tenant status", err)
	}
	return nil
}

func (r *Receiver) repeated(ctx context.Context, m message, seen consumer.Reception) {
	if seen == consumer.ReceivedOther {
		r.cfg.Log.WarnContext(ctx, "event id received again with different content, event ignored", "subject", m.Subject, "eventId", m.ID)
	}
}

// away marks a failure that is not the message's.
func away(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, consumer.ErrAway, err)
}

// message is a received event, read as far as anything here needs it.
type message struct {
	consumer.Inbound
	tenant   bff.ID
	property bff.ID
	cell     string
	reason   string
}

// parse reads an event tolerantly: producers write several dialects, and
// members that are not needed may be anything.
func (r *Receiver) parse(d pubsub.Delivery) (message, error) {
	e, err := inbox.Read(d, r.cfg.Now(), "suspendedAt", "reinstatedAt", "reactivatedAt")
	if err != nil {
		return message{}, err
	}
	m := message{
		Inbound: consumer.Inbound{ID: e.ID, Subject: e.Subject, Digest: e.Digest, OccurredAt: e.OccurredAt},
		cell:    cell(e.Text("geoCell")), reason: clip(e.Text("reason"), maxReason),
	}
	if d.Topic == topicListingIndexed || d.Topic == topicProjectionUpdated {
		m.property, err = bff.ParseID(bff.PrefixProperty, e.Text("propertyId"))
		m.tenant, _ = bff.ParseID(bff.PrefixTenant, e.Text("tenantId")) // zero when it is not told
	} else {
		m.tenant, err = bff.ParseID(bff.PrefixTenant, e.Text("tenantId"))
	}
	if err != nil {
		return message{}, fmt.Errorf("%w: %w", bff.ErrEvent, err)
	}
	return m, nil
}

const maxReason = 200

func clip(s string, n int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "")
	for len(s) > n {
		s = strings.ToValidUTF8(s[:n], "")
	}
	return s
}

// cell is the H3 index of "h3:8a283082aa67fff"; "" if it is none.
func cell(s string) string {
	s = strings.ToLower(strings.TrimPrefix(s, "h3:"))
	if len(s) != 15 || strings.Trim(s, "0123456789abcdef") != "" {
		return ""
	}
	return s
}
