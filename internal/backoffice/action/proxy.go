// Package action takes the actions of operators to the services that carry them out.
package action

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Command is an action that an operator wants to be taken.
type Command struct {
	Action *backoffice.Action
	ID     bff.ID // of the resource; zero for what the action makes
	// Posting is what a charge or a refund posts to the folio.
	Posting *Posting
	// WorkOrder is what is to be repaired.
	WorkOrder *NewWorkOrder
	// Attestation that came along; empty = none.
	Attestation string
	Once        backoffice.Once
	// Pressed is when an operator did it at a desk without a line; zero = now, or it cannot
	// be told.
	Pressed time.Time
}

// Posting is an amount that goes to a folio. The description is typed by a person: it
// is handed on and kept nowhere.
type Posting struct {
	Amount      bff.Money
	Description string
}

// NewWorkOrder is a work order to open. The title is typed by a person: it is handed
// on and kept nowhere.
type NewWorkOrder struct {
	Title, Severity, RoomNumber string
	BlocksRoom                  bool
}

// Traces finds what the ledger has of a resource.
type Traces interface {
	// FindDone returns the operator of the last action that succeeded with the resource of an activity and may not have been taken back
	// since, and when it was begun; nil = there is none.
	FindDone(ctx context.Context, a *backoffice.Action, did backoffice.Activity) (*bff.Known, error)
	// FindKey returns what became of a key of the operator; nil = there is no trace of it.
	FindKey(ctx context.Context, tenant bff.ID, operator, key string) (*bff.Known, error)
}

// Done is what a service says of an action that it has carried out: ids, state,
// version and moments.
type Done map[string]any

// Upstream executes actions at the services that have the resources.
type Upstream interface {
	backoffice.Resources
	// Execute has the action's service carry a command out at a property, once per key.
	// An error that wraps ErrOutcomeUnknown says that it may have done so.
	Execute(ctx context.Context, tenant, property bff.ID, c *Command) (Done, error)
}

// MutationProxied is the payload of mutation.proxied.v1: what another service was
// asked to do, and how that ended.
type MutationProxied struct {
	Action       backoffice.ActionName `json:"action"`
	Category     string                `json:"category"`
	ResourceKind string                `json:"resourceKind"`
	ResourceID   string                `json:"resourceId,omitempty"`
	Outcome      backoffice.Outcome    `json:"outcome"`
	ErrorCode    bff.Code              `json:"errorCode,omitempty"`
	ActivityID   bff.ID                `json:"activityId"`
	ProxiedAt    bff.Timestamp         `json:"proxiedAt"`
	LatencyMs    int64                 `json:"latencyMs"`
}

// Subject implements backoffice.Fact.
func (MutationProxied) Subject() backoffice.Subject { return backoffice.SubjectMutationProxied }

// Proxy takes actions of operators to the services that carry them out.
type Proxy struct{ cfg ProxyConfig }

// ProxyConfig is what a Proxy works with.
type ProxyConfig struct {
	Journal      backoffice.Journal // records refused roles
	Upstream     Upstream
	Mutations    backoffice.Mutations
	Attestations backoffice.Attestations
	Thresholds   Thresholds
	Charges      Charges
	Traces       Traces
	// Today is the date that the clocks of a property show.
	Today func(ctx context.Context, tenant, property bff.ID, now time.Time) (bff.Date, error)
	// ChangeNotifier voids copies and notifies streams as the event of a topic would.
	Notifier interface {
		Changed(ctx context.Context, v *backoffice.Visit, topic string, at time.Time)
	}
	News *backoffice.Envelopes
	Now  func() time.Time
}

// NewProxy returns a Proxy.
func NewProxy(cfg ProxyConfig) *Proxy { return &Proxy{cfg} }

// Do has a command carried out, once: the claim and an entry with an unknown outcome
// are committed before the service is called, its answer after. A process that is
// killed in between leaves a claim that the same request takes over.
func (p *Proxy) Do(ctx context.Context, v *backoffice.Visit, c Command, now time.Time) (backoffice.Answer, error) {
	a := c.Action
	did := v.Activity(a.Category, string(a.Name), backoffice.Resource{Kind: a.Kind, ID: c.ID.String()}, now)
	did.Pressed = c.Pressed
	if !v.Member.HasAny(a.Roles) {
		return backoffice.Answer{}, backoffice.Refuse(ctx, p.cfg.Journal, did, bff.Errorf(bff.CodeRoleDenied, "your role does not allow this"), now)
	}
	var end backoffice.Finished
	answer, err := backoffice.Commit(ctx, p.cfg.Mutations, backoffice.Attempt{Activity: did, Once: c.Once}, func() (backoffice.Finished, error) {
		if err := p.permit(ctx, v, &c, now); err != nil { // nothing was asked of the service
			return backoffice.Finished{At: p.cfg.Now(), Failure: err, Outcome: undone(err), Code: bff.CodeOf(err)}, nil //nolint:nilerr // it is how the attempt ends
		}
		done, err := p.cfg.Upstream.Execute(ctx, v.Session.Tenant, v.Property, &c)
		p.name(ctx, did, &c, err)
		end = backoffice.Finished{At: p.cfg.Now(), Failure: err}
		if err == nil {
			end.Answer = backoffice.Answer{Status: a.Status(), Receipt: backoffice.NewReceipt(done)}
		}
		did = did.Ended(err, end.At)
		if a.New {
			did.Resource.ID, _ = done[a.Member].(string)
		}
		e, err := p.cfg.News.Event(proxied(did, a), v.About(v.Property), v.Request, end.At)
		if err != nil {
			return backoffice.Finished{}, err
		}
		end.Events = []bff.Event{e}
		if did.Outcome == backoffice.Failed && a.Large {
			// It was not made and does not count, which is said while the key is ours. If this fails, it counts for the day: the next
			// one may need a second factor that it would not have needed.
			_ = p.cfg.Charges.UncountCharge(context.WithoutCancel(ctx), c.charged(v))
		}
		return end, nil
	})
	if !end.At.IsZero() && (did.Outcome == backoffice.Succeeded || did.Outcome == backoffice.Unknown) {
		p.cfg.Notifier.Changed(ctx, v, a.Topic, end.At)
	}
	return answer, err
}

// undone is the outcome of an attempt that ended before its service was asked for anything.
func undone(err error) backoffice.Outcome {
	if outcome := backoffice.OutcomeOf(err); outcome != backoffice.Unknown {
		return outcome
	}
	return backoffice.Failed
}

// name adds to a conflict who has done the same already: what a colleague did meanwhile is
// no failure. It is kept with the refusal, so that a repetition is told the same.
func (p *Proxy) name(ctx context.Context, did backoffice.Activity, c *Command, err error) {
	e, ok := errors.AsType[*bff.Error](err)
	if !ok || e.Code != bff.CodeStateConflict || len(c.Action.From) == 0 {
		return
	}
	if known, err := p.cfg.Traces.FindDone(ctx, c.Action, did); err == nil {
		e.Known = known
	}
}

// permit checks what only the service that has the resource knows, and then uses up
// the second factor: an attestation is not lost to a resource that is not there.
func (p *Proxy) permit(ctx context.Context, v *backoffice.Visit, c *Command, now time.Time) error {
	a := c.Action
	if !a.New {
		if err := a.IsHere(ctx, p.cfg.Upstream, v, c.ID); err != nil {
			return err
		}
	}
	switch {
	case a.Scope == "":
		return nil
	case a.Large:
		return p.permitCharge(ctx, v, c, now)
	}
	return p.useFactor(ctx, v, c, now)
}

// useFactor uses up the second factor of a command.
func (p *Proxy) useFactor(ctx context.Context, v *backoffice.Visit, c *Command, now time.Time) error {
	use := backoffice.Use{Scope: c.Action.Scope, Resource: c.ID.String(), Once: c.Once}
	return backoffice.ConsumeAttestation(ctx, p.cfg.Attestations, v, c.Attestation, use, now)
}

// proxied is what the event says of an activity that has ended.
func proxied(a backoffice.Activity, did *backoffice.Action) MutationProxied {
	return MutationProxied{
		Action: did.Name, Category: did.Category, ResourceKind: did.Kind, ResourceID: a.Resource.ID, Outcome: a.Outcome, ErrorCode: a.Code,
		ActivityID: a.ID, ProxiedAt: bff.At(a.At), LatencyMs: a.Latency.Milliseconds(),
	}
}
