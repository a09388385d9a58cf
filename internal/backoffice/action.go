package backoffice

import (
	"context"
	"errors"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// ActionName names an action in the ledger and in events.
type ActionName string

// The actions there are. Those on a task or a work order are named by the kind and the
// transition.
const (
	CheckIn          ActionName = "check_in"
	CheckOut         ActionName = "check_out"
	TaskStart        ActionName = "task_start"
	TaskComplete     ActionName = "task_complete"
	TaskInspect      ActionName = "task_inspect"
	TaskReopen       ActionName = "task_reopen"
	WorkOrderOpen    ActionName = "work_order_open"
	WorkOrderStart   ActionName = "work_order_start"
	WorkOrderResolve ActionName = "work_order_resolve"
	WorkOrderClose   ActionName = "work_order_close"
	WorkOrderReopen  ActionName = "work_order_reopen"
	Charge           ActionName = "charge"
	Refund           ActionName = "refund"
)

// Categories of actions, in the ledger and in events.
const (
	categoryReservation  = "reservation"
	categoryHousekeeping = "housekeeping"
	categoryMaintenance  = "maintenance"
	categoryFolio        = "folio"
)

// Kinds of resources that actions are about.
const (
	kindReservation = "reservation"
	kindTask        = "task"
	kindWorkOrder   = "work_order"
	kindFolio       = "folio"
)

// Prefixes of other services' things that actions are about.
const (
	PrefixTask      bff.Prefix = "hkt"
	PrefixWorkOrder bff.Prefix = "wko"
	PrefixPosting   bff.Prefix = "ent"
)

// WorkOrderSeverities are how urgent a repair can be.
func WorkOrderSeverities() []string { return []string{"low", "medium", "high", "critical"} }

// Body is what the body of an action's request is about; the zero Body is that of an
// action without one.
type Body string

// The bodies there are.
const (
	BodyPosting   Body = "posting"
	BodyWorkOrder Body = "work order"
)

// Action is a change at a property that an operator may make and another service
// carries out. Its row says everything that is particular to it: route, call and
// answer follow from the row.
type Action struct {
	Name ActionName
	// Path of its requests. The last segment is its verb, here and at the service,
	// unless the action makes the resource.
	Path string
	// Transition: the actions on one kind of resource share a route, which has the
	// verb as a wildcard.
	Transition bool
	Body       Body
	Category   string
	Upstream   Upstream
	Kind       string     // of the resource
	ID         bff.Prefix // of the resource
	Member     string     // names the resource's id in paths and answers
	New        bool       // the action makes the resource
	// From are the states of the resource in which the action can be offered; an action
	// that is about no resource of a view has none.
	From  []string
	Roles []Role // of which the operator has one
	// Scope of the second factor that the action needs; empty = none.
	Scope AttestationScope
	// Large: the second factor is needed above a threshold only, by the sum of a day.
	Large bool
	// Topic of the event by which the service itself tells of the change: what that
	// event makes void is void at once.
	Topic string
}

// Actions lists every action.
func Actions() []Action {
	var (
		desk     = []Role{FrontDesk, GeneralManager, Owner}
		cleaners = []Role{Housekeeper, HousekeepingLead, GeneralManager, Owner}
		leads    = []Role{HousekeepingLead, GeneralManager, Owner}
		repair   = []Role{Maintenance, GeneralManager, Owner}
		floor    = []Role{FrontDesk, Housekeeper, HousekeepingLead, Maintenance, FnBManager, GeneralManager, Owner}
		cashiers = []Role{FrontDesk, FnBManager, Finance, GeneralManager, Owner}
		refunds  = []Role{FrontDesk, Finance, GeneralManager, Owner}
	)
	stay := func(n ActionName, verb, event string, from ...string) Action {
		return Action{
			Name: n, Path: "/reservations/{reservationId}/" + verb, From: from, Roles: desk, Topic: "melmastoon.reservation." + event + ".v1",
			Category: categoryReservation, Upstream: UpstreamReservation, Kind: kindReservation, ID: bff.PrefixReservation, Member: "reservationId",
		}
	}
	task := func(n ActionName, verb, event string, roles []Role, from ...string) Action {
		return Action{
			Name: n, Path: "/housekeeping/tasks/{taskId}/" + verb, Transition: true, From: from, Roles: roles, Topic: "melmastoon.housekeeping.task." + event + ".v1",
			Category: categoryHousekeeping, Upstream: UpstreamHousekeeping, Kind: kindTask, ID: PrefixTask, Member: "taskId",
		}
	}
	order := func(n ActionName, verb, event string, roles []Role, from ...string) Action {
		a := Action{
			Name: n, Path: "/maintenance/work-orders", New: verb == "", From: from, Roles: roles, Topic: "melmastoon.maintenance.work_order." + event + ".v1",
			Category: categoryMaintenance, Upstream: UpstreamMaintenance, Kind: kindWorkOrder, ID: PrefixWorkOrder, Member: "workOrderId",
		}
		if a.New {
			a.Body = BodyWorkOrder
		} else {
			a.Path, a.Transition = a.Path+"/{workOrderId}/"+verb, true
		}
		return a
	}
	posting := func(n ActionName, verb string, scope AttestationScope, roles []Role) Action {
		return Action{
			Name: n, Path: "/folios/{folioId}/" + verb, Body: BodyPosting, Roles: roles, Scope: scope, Large: n == Charge, Topic: "melmastoon.billing.folio",
			Category: categoryFolio, Upstream: UpstreamBilling, Kind: kindFolio, ID: bff.PrefixFolio, Member: "folioId",
		}
	}
	return []Action{
		stay(CheckIn, "check-in", "checked_in", "confirmed"),
		stay(CheckOut, "check-out", "checked_out", "checked_in"),
		task(TaskStart, "start", "started", cleaners, "pending"),
		task(TaskComplete, "complete", "completed", cleaners, "pending", "in_progress"),
		task(TaskInspect, "inspect", "inspected", leads, "done"),
		task(TaskReopen, "reopen", "reopened", leads, "in_progress", "done", "inspected"),
		order(WorkOrderOpen, "", "opened", floor),
		order(WorkOrderStart, "start", "started", repair, "open"),
		order(WorkOrderResolve, "resolve", "resolved", repair, "open", "in_progress"),
		order(WorkOrderClose, "close", "closed", repair, "resolved"),
		order(WorkOrderReopen, "reopen", "reopened", repair, "in_progress", "resolved", "closed"),
		posting(Charge, "charges", ScopeLargeCharge, cashiers),
		posting(Refund, "refunds", ScopeRefund, refunds),
	}
}

// Verb is the last segment of the path, by which the service knows the action, too; one
// that makes its resource has none.
func (a *Action) Verb() string {
	if a.New {
		return ""
	}
	return a.Path[strings.LastIndexByte(a.Path, '/')+1:]
}

// Pattern is that of the action's route.
func (a *Action) Pattern() string {
	if a.Transition {
		return "POST " + strings.TrimSuffix(a.Path, a.Verb()) + "{transition}"
	}
	return "POST " + a.Path
}

var actions = func() map[ActionName]*Action {
	byName := map[ActionName]*Action{}
	for _, a := range Actions() {
		byName[a.Name] = &a
	}
	return byName
}()

// FindAction returns an action; false if there is none of the name.
func FindAction(name ActionName) (*Action, bool) {
	a, ok := actions[name]
	return a, ok
}

// Command is an action that an operator wants to be taken.
type Command struct {
	Action *Action
	ID     bff.ID // of the resource; zero for what the action makes
	// Posting is what a charge or a refund posts to the folio.
	Posting *Posting
	// WorkOrder is what is to be repaired.
	WorkOrder *NewWorkOrder
	// Attestation that came along; empty = none.
	Attestation string
	Once        Once
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

// Done is what a service says of an action that it has carried out: ids, state,
// version and moments.
type Done map[string]any

// Resources are the services that have what actions are about.
type Resources interface {
	// FindProperty returns the property that a resource belongs to, or
	// CodeResourceNotFound if the tenant has no such resource.
	FindProperty(ctx context.Context, tenant bff.ID, a *Action, id bff.ID) (bff.ID, error)
}

// Hands are the services that carry actions out.
type Hands interface {
	Resources
	// Carry has the action's service carry a command out at a property, once per key.
	// An error that wraps ErrOutcomeUnknown says that it may have done so.
	Carry(ctx context.Context, tenant, property bff.ID, c *Command) (Done, error)
}

// MutationProxied is the payload of mutation.proxied.v1: what another service was
// asked to do, and how that ended.
type MutationProxied struct {
	Action       ActionName    `json:"action"`
	Category     string        `json:"category"`
	ResourceKind string        `json:"resourceKind"`
	ResourceID   string        `json:"resourceId,omitempty"`
	Outcome      Outcome       `json:"outcome"`
	ErrorCode    bff.Code      `json:"errorCode,omitempty"`
	ActivityID   bff.ID        `json:"activityId"`
	ProxiedAt    bff.Timestamp `json:"proxiedAt"`
	LatencyMs    int64         `json:"latencyMs"`
}

// Subject implements Fact.
func (MutationProxied) Subject() Subject { return SubjectMutationProxied }

// Proxy takes actions of operators to the services that carry them out.
type Proxy struct{ cfg ProxyConfig }

// ProxyConfig is what a Proxy works with.
type ProxyConfig struct {
	Access       *Access // records refused roles
	Hands        Hands
	Mutations    Mutations
	Attestations Attestations
	Thresholds   Thresholds
	Charges      Charges
	Calendar     *Calendar
	Teller       *Teller
	News         *Newsroom
	Now          func() time.Time
}

// NewProxy returns a Proxy.
func NewProxy(cfg ProxyConfig) *Proxy { return &Proxy{cfg} }

// Do has a command carried out, once: the claim and an entry with an unknown outcome
// are committed before the service is called, its answer after. A process that is
// killed in between leaves a claim that the same request takes over.
func (p *Proxy) Do(ctx context.Context, v *Visit, c Command, now time.Time) (Answer, error) {
	a := c.Action
	did := v.Activity(a.Category, string(a.Name), Resource{a.Kind, c.ID.String()}, now)
	if !v.Member.HasAny(a.Roles) {
		return Answer{}, p.cfg.Access.Refuse(ctx, did, bff.Errorf(bff.CodeRoleDenied, "your role does not allow this"), now)
	}
	var end Finished
	answer, err := Commit(ctx, p.cfg.Mutations, Attempt{Activity: did, Once: c.Once}, func() (Finished, error) {
		if err := p.permit(ctx, v, &c, now); err != nil { // nothing was asked of the service
			return Finished{At: p.cfg.Now(), Failure: err}, nil
		}
		done, err := p.cfg.Hands.Carry(ctx, v.Session.Tenant, v.Property, &c)
		end = Finished{At: p.cfg.Now(), Failure: err}
		if err == nil {
			end.Answer = Answer{Status: a.Status(), Receipt: NewReceipt(done)}
		}
		did = did.Ended(err, end.At)
		if a.New {
			did.Resource.ID, _ = done[a.Member].(string)
		}
		e, err := p.cfg.News.event(did.proxied(a), v.at(v.Property), v.Request, end.At)
		if err != nil {
			return Finished{}, err
		}
		end.Events = []bff.Event{e}
		if did.Outcome == Failed && a.Large {
			// It was not made and does not count, which is said while the key is ours. If this fails, it counts for the day: the next
			// one may need a second factor that it would not have needed.
			_ = p.cfg.Charges.UncountCharge(context.WithoutCancel(ctx), c.charged(v))
		}
		return end, nil
	})
	if !end.At.IsZero() && (did.Outcome == Succeeded || did.Outcome == Unknown) {
		p.cfg.Teller.changed(ctx, v, a.Topic, end.At)
	}
	return answer, err
}

// permit checks what only the service that has the resource knows, and then uses up
// the second factor: an attestation is not lost to a resource that is not there.
func (p *Proxy) permit(ctx context.Context, v *Visit, c *Command, now time.Time) error {
	a := c.Action
	if !a.New {
		if err := a.isHere(ctx, p.cfg.Hands, v, c.ID); err != nil {
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

// isHere refuses a resource that is not at the visit's property.
func (a *Action) isHere(ctx context.Context, from Resources, v *Visit, id bff.ID) error {
	property, err := from.FindProperty(ctx, v.Session.Tenant, a, id)
	if err == nil && property != v.Property {
		err = bff.Errorf(bff.CodeResourceNotFound, "there is no such %s at this property", a.Words())
	}
	return err
}

// useFactor uses up the second factor of a command.
func (p *Proxy) useFactor(ctx context.Context, v *Visit, c *Command, now time.Time) error {
	return ConsumeAttestation(ctx, p.cfg.Attestations, v, c.Attestation, Use{Scope: c.Action.Scope, Resource: c.ID.String(), Once: c.Once}, now)
}

// Status is that of a success.
func (a *Action) Status() int {
	if a.New || a.Category == categoryFolio {
		return 201
	}
	return 200
}

// Words name the resource in a sentence.
func (a *Action) Words() string {
	if a.Kind == kindWorkOrder {
		return "work order"
	}
	return a.Kind
}

// proxied is what the event says of an activity that has ended.
func (a Activity) proxied(did *Action) MutationProxied {
	return MutationProxied{
		Action: did.Name, Category: did.Category, ResourceKind: did.Kind, ResourceID: a.Resource.ID, Outcome: a.Outcome, ErrorCode: a.Code,
		ActivityID: a.ID, ProxiedAt: bff.At(a.At), LatencyMs: a.Latency.Milliseconds(),
	}
}

// at is whom an event of the visit is about, at a property.
func (v *Visit) at(property bff.ID) about {
	who := v.Session.about()
	who.property = property
	return who
}

// ErrOutcomeUnknown is wrapped by the failure of a call that may have had its effect.
var ErrOutcomeUnknown = errors.New("what was asked for may have been done")
