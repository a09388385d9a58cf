package stream

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// changeTimeout caps how long an answer waits for copies to be void and streams to be
// told. What is not done by then the service's own event does.
const changeTimeout = time.Second

// ChangeNotifier voids copies and notifies streams right after an operator's change,
// without waiting for the event of the service that executed it. The sender knows its
// own request by its id.
type ChangeNotifier struct {
	kept    backoffice.Invalidator
	notices backoffice.Notifier
}

// NewChangeNotifier returns a ChangeNotifier.
func NewChangeNotifier(kept backoffice.Invalidator, notices backoffice.Notifier) *ChangeNotifier {
	return &ChangeNotifier{kept, notices}
}

// Changed has the effect of the event of a topic.
func (t *ChangeNotifier) Changed(ctx context.Context, v *backoffice.Visit, topic string, at time.Time) {
	does, ok := FindReaction(topic)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	_ = t.kept.Invalidate(ctx, v.Session.Tenant, v.Property, does.Parts...) // the event repeats it
	for _, n := range does.Notices(News{Tenant: v.Session.Tenant, Property: v.Property, CausedBy: v.Request.RequestID.ULID(), At: at}) {
		_ = t.notices.Notify(ctx, n) // and this
	}
}
