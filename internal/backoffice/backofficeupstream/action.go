package backofficeupstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Actions executes what operators do at the services that have the resources: reservation, housekeeping,
// maintenance and billing.
type Actions struct {
	clients map[backoffice.Upstream]*upstream.Client
}

var _ action.Upstream = (*Actions)(nil)

// resources are where each service shows one of its resources.
var resources = map[backoffice.Upstream]string{
	backoffice.UpstreamReservation:  "/api/v1/reservations/{reservationId}",
	backoffice.UpstreamHousekeeping: "/api/v1/tasks/{taskId}",
	backoffice.UpstreamMaintenance:  "/api/v1/work-orders/{workOrderId}",
	backoffice.UpstreamBilling:      "/api/v1/folios/{folioId}",
}

// FindProperty implements action.Upstream.
func (h *Actions) FindProperty(ctx context.Context, tenant bff.ID, a *backoffice.Action, id bff.ID) (bff.ID, error) {
	d, route := dialectOf(a.Upstream), resources[a.Upstream]
	var out struct {
		PropertyID string `json:"propertyId" upstream:"required"`
	}
	err := h.clients[a.Upstream].Get(ctx, route, upstream.Path(route, d.write(id)), nil, &out, d.of(tenant))
	if upstream.NotFound(err) {
		return bff.ID{}, &bff.Error{Code: bff.CodeResourceNotFound, Detail: "there is no such " + a.Words(), Err: err}
	}
	if err != nil {
		return bff.ID{}, failed(err)
	}
	property, err := bff.ParseID(bff.PrefixProperty, d.read(bff.PrefixProperty, out.PropertyID))
	if err != nil {
		return bff.ID{}, &bff.Error{Code: bff.CodeUpstreamUnavailable, RetryAfter: retryUpstream, Err: errors.New("a resource of no property")}
	}
	return property, nil
}

// Execute implements action.Upstream. The services honour the key: a call may be
// repeated within its timeout, and with the same key later.
func (h *Actions) Execute(ctx context.Context, tenant, property bff.ID, c *action.Command) (action.Done, error) {
	a := c.Action
	d := dialectOf(a.Upstream)
	route := resources[a.Upstream]
	if a.New { // posted to the list of its kind
		route = route[:strings.LastIndexByte(route, '/')]
	} else {
		route += "/" + a.Verb()
	}
	var out carried
	err := h.clients[a.Upstream].Post(ctx, route, upstream.Path(route, d.write(c.ID)), d.body(property, c), &out, d.of(tenant), d.once(c.Once.Key),
		upstream.Idempotent(), upstream.Within(a.Upstream.MutationTimeout()))
	if err != nil {
		return nil, refusedAction(a, err)
	}
	done, err := out.done(d, a, c.ID)
	if err != nil { // it has been done, as far as can be told
		return nil, &bff.Error{Code: bff.CodeUpstreamUnavailable, RetryAfter: retryUpstream, Err: errors.Join(backoffice.ErrOutcomeUnknown, err)}
	}
	return done, nil
}

// posting is a charge or a refund as billing reads it.
type posting struct {
	Amount      minorUnits `json:"amount"`
	Description string     `json:"description,omitempty"`
}

// newWorkOrder is a work order as maintenance reads it.
type newWorkOrder struct {
	PropertyID string `json:"propertyId"`
	Title      string `json:"title"`
	Severity   string `json:"severity"`
	RoomNumber string `json:"roomNumber,omitempty"`
	BlocksRoom bool   `json:"blocksRoom"`
}

// body is a command as its service reads it; nil = there is nothing to say.
func (d dialect) body(property bff.ID, c *action.Command) any {
	switch {
	case c.Posting != nil:
		m := c.Posting.Amount
		return posting{minorUnits{m.Minor, m.Currency}, c.Posting.Description}
	case c.WorkOrder != nil:
		w := c.WorkOrder
		return newWorkOrder{d.write(property), w.Title, w.Severity, w.RoomNumber, w.BlocksRoom}
	}
	return nil
}

// carried is what the services say of what they have done. Of guests it reads nothing.
type carried struct {
	ReservationID string         `json:"reservationId"`
	TaskID        string         `json:"taskId"`
	WorkOrderID   string         `json:"workOrderId"`
	FolioID       string         `json:"folioId"`
	EntryID       string         `json:"entryId"`
	Status        string         `json:"status"`
	Version       int            `json:"version"`
	UpdatedAt     *bff.Timestamp `json:"updatedAt"`
	OpenedAt      *bff.Timestamp `json:"openedAt"`
	PostedAt      *bff.Timestamp `json:"postedAt"`
}

// done is that in our words. One that is about another resource, or does not say
// where the resource stands now, is none.
func (r *carried) done(d dialect, a *backoffice.Action, id bff.ID) (action.Done, error) {
	said := map[string]string{"reservationId": r.ReservationID, "taskId": r.TaskID, "workOrderId": r.WorkOrderID, "folioId": r.FolioID}[a.Member]
	about, err := bff.ParseID(a.ID, d.read(a.ID, said))
	switch {
	case err != nil || !a.New && about != id:
		return nil, fmt.Errorf("%s answers about another %s", a.Upstream, a.Kind)
	case a.Upstream == backoffice.UpstreamBilling && (r.EntryID == "" || r.PostedAt == nil),
		a.Upstream != backoffice.UpstreamBilling && (r.Status == "" || r.Version <= 0):
		return nil, fmt.Errorf("%s does not say what it has done", a.Upstream)
	}
	done := action.Done{a.Member: about.String()}
	add := func(name string, at *bff.Timestamp) {
		if at != nil {
			done[name] = *at
		}
	}
	if a.Upstream == backoffice.UpstreamBilling {
		done["entryId"] = d.read(backoffice.PrefixPosting, r.EntryID)
	} else {
		done["status"], done["version"] = r.Status, r.Version
	}
	add("updatedAt", r.UpdatedAt)
	add("openedAt", r.OpenedAt)
	add("postedAt", r.PostedAt)
	return done, nil
}

// conflicts are what services say of a state that does not allow an action, in plain
// words.
var conflicts = map[string]string{
	"ROOM_OCCUPIED": "other guests are still in the room: check them out first, or give these another room",
}

// refusedAction gives the failure of a call its code. Only an answer says that nothing
// was done: after anything else the outcome is unknown, unless the call was not made.
func refusedAction(a *backoffice.Action, err error) error {
	e, ok := errors.AsType[*upstream.Error](err)
	switch {
	case !ok:
		return err
	case e.Status == http.StatusNotFound:
		return &bff.Error{Code: bff.CodeResourceNotFound, Detail: "there is no such " + a.Words(), Err: err}
	case e.Status == http.StatusConflict:
		detail := conflicts[e.Code]
		if detail == "" {
			detail = "its present state does not allow this: read it again"
		}
		return &bff.Error{Code: bff.CodeStateConflict, Detail: detail, Err: err}
	case e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity:
		return &bff.Error{
			Code: bff.CodeValidationFailed, Detail: string(a.Upstream) + "-service refuses this: check amount, currency and room",
			Fields: bff.FieldErrors{{Field: "body", Code: bff.FieldUnsupported}}, Err: err,
		}
	case e.Status == http.StatusForbidden:
		return &bff.Error{Code: bff.CodeRoleDenied, Detail: string(a.Upstream) + "-service does not allow this", Err: err}
	case e.Reason == upstream.Breaker, e.Reason == upstream.Shed, e.Refused():
		return &bff.Error{Code: bff.CodeUpstreamUnavailable, RetryAfter: retryUpstream, Err: err}
	}
	coded, _ := errors.AsType[*bff.Error](failed(err)) // it always is one
	coded.Err = errors.Join(backoffice.ErrOutcomeUnknown, err)
	return coded
}
