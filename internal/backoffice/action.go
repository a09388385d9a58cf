package backoffice

import (
	"context"
	"strings"

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
	KindReservation = "reservation"
	KindTask        = "task"
	KindWorkOrder   = "work_order"
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

// Policy is whether an action may be taken down at a desk without a line.
type Policy string

// The policies there are.
const (
	// Replayable: it is sent when the line is back, and is judged by what is the case then.
	Replayable Policy = "replayable"
	// OnlineOnly: its operator has to see at once what became of it.
	OnlineOnly Policy = "online-only"
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
	Large   bool
	Offline Policy
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
			Name: n, Path: "/reservations/{reservationId}/" + verb, Offline: Replayable, From: from, Roles: desk, Topic: "melmastoon.reservation." + event + ".v1",
			Category: categoryReservation, Upstream: UpstreamReservation, Kind: KindReservation, ID: bff.PrefixReservation, Member: "reservationId",
		}
	}
	task := func(n ActionName, verb, event string, roles []Role, from ...string) Action {
		return Action{
			Name: n, Path: "/housekeeping/tasks/{taskId}/" + verb, Transition: true, Offline: Replayable, From: from, Roles: roles,
			Topic:    "melmastoon.housekeeping.task." + event + ".v1",
			Category: categoryHousekeeping, Upstream: UpstreamHousekeeping, Kind: KindTask, ID: PrefixTask, Member: "taskId",
		}
	}
	order := func(n ActionName, verb, event string, roles []Role, from ...string) Action {
		a := Action{
			Name: n, Path: "/maintenance/work-orders", New: verb == "", Offline: Replayable, From: from, Roles: roles,
			Topic:    "melmastoon.maintenance.work_order." + event + ".v1",
			Category: categoryMaintenance, Upstream: UpstreamMaintenance, Kind: KindWorkOrder, ID: PrefixWorkOrder, Member: "workOrderId",
		}
		if a.New {
			a.Body = BodyWorkOrder
		} else {
			a.Path, a.Transition = a.Path+"/{workOrderId}/"+verb, true
		}
		return a
	}
	posting := func(n ActionName, verb string, scope AttestationScope, offline Policy, roles []Role) Action {
		return Action{
			Name: n, Path: "/folios/{folioId}/" + verb, Body: BodyPosting, Offline: offline, Roles: roles, Scope: scope, Large: n == Charge,
			Topic:    "melmastoon.billing.folio",
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
		posting(Charge, "charges", ScopeLargeCharge, Replayable, cashiers),
		posting(Refund, "refunds", ScopeRefund, OnlineOnly, refunds),
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

// Resources are the services that have what actions are about.
type Resources interface {
	// FindProperty returns the property that a resource belongs to, or
	// CodeResourceNotFound if the tenant has no such resource.
	FindProperty(ctx context.Context, tenant bff.ID, a *Action, id bff.ID) (bff.ID, error)
}

// IsHere refuses a resource that is not at the visit's property.
func (a *Action) IsHere(ctx context.Context, from Resources, v *Visit, id bff.ID) error {
	property, err := from.FindProperty(ctx, v.Session.Tenant, a, id)
	if err == nil && property != v.Property {
		err = bff.Errorf(bff.CodeResourceNotFound, "there is no such %s at this property", a.Words())
	}
	return err
}

// TakenBack are the actions after which this one can be done to the resource again: a
// reopening, and after a reopening all others.
func (a *Action) TakenBack() []ActionName {
	back := []ActionName{}
	for _, other := range actions {
		if other.Kind == a.Kind && (other.Verb() == "reopen") != (a.Verb() == "reopen") {
			back = append(back, other.Name)
		}
	}
	return back
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
	if a.Kind == KindWorkOrder {
		return "work order"
	}
	return a.Kind
}
