package backofficehttp

import (
	"net/http"
	"slices"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	maxDescription = 200
	maxTitle       = 200
	maxRoom        = 16
	// maxPosting bounds an amount, in minor units: more is a slip of the keyboard.
	maxPosting = 1_000_000_000_000
)

// deed is one route of actions: what its path and body say. Everything else is the
// same for all.
type deed struct {
	pattern string
	// names are the actions that the route takes; with a transition in the path
	// several.
	names []backoffice.ActionName
	// resource is the wildcard of the resource's id; empty for what is new.
	resource string
	// read reads the body into the command; nil = there is none.
	read func(in *web.Input, c *backoffice.Command)
}

// deeds are the routes of actions that another service carries out.
func deeds() []deed {
	var tasks, orders []backoffice.ActionName
	for _, t := range backoffice.TaskTransitions() {
		tasks = append(tasks, backoffice.ActionName("task_"+t))
	}
	for _, t := range backoffice.WorkOrderTransitions() {
		orders = append(orders, backoffice.ActionName("work_order_"+t))
	}
	one := func(n backoffice.ActionName) []backoffice.ActionName { return []backoffice.ActionName{n} }
	return []deed{
		{"POST /reservations/{reservationId}/check-in", one(backoffice.CheckIn), "reservationId", nil},
		{"POST /reservations/{reservationId}/check-out", one(backoffice.CheckOut), "reservationId", nil},
		{"POST /housekeeping/tasks/{taskId}/{transition}", tasks, "taskId", nil},
		{"POST /maintenance/work-orders", one(backoffice.WorkOrderOpen), "", readWorkOrder},
		{"POST /maintenance/work-orders/{workOrderId}/{transition}", orders, "workOrderId", nil},
		{"POST /folios/{folioId}/charges", one(backoffice.Charge), "folioId", readPosting},
		{"POST /folios/{folioId}/refunds", one(backoffice.Refund), "folioId", readPosting},
	}
}

// roles are those that may use the route for something.
func (d *deed) roles() []backoffice.Role {
	var all []backoffice.Role
	for _, n := range d.names {
		if a, ok := backoffice.FindAction(n); ok {
			all = append(all, a.Roles...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readOnce reads the key of a mutation, and what the clock shows now by which it was made.
func readOnce(r *http.Request) (backoffice.Once, error) {
	key, err := idempotency.ULIDFrom(r.Header, bff.CodeStaffIdempotencyRequired)
	return backoffice.Once{Key: key, Sent: visitOf(r).Sent}, err
}

// act answers a route of actions.
func (a *API) act(d *deed) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		once, err := readOnce(r)
		if err != nil {
			return err
		}
		c := backoffice.Command{Once: once, Attestation: r.Header.Get("X-Mfa-Attestation")}
		if err := d.readPath(r, &c); err != nil {
			return err
		}
		if d.read != nil {
			in, err := web.ReadBody(w, r)
			if err != nil {
				return err
			}
			d.read(in, &c)
			if err := in.Err(); err != nil {
				return err
			}
		}
		v := visitOf(r)
		c.Once.Digest, err = idempotency.Digest(struct {
			Posting   *backoffice.Posting
			WorkOrder *backoffice.NewWorkOrder
		}{c.Posting, c.WorkOrder}, string(c.Action.Name), c.ID.String(), v.Property.String())
		if err != nil {
			return err
		}
		done, err := a.cfg.Proxy.Do(r.Context(), v, c, now(r))
		if err != nil {
			return err
		}
		return answer(w, done.Status, done.Receipt)
	}
}

// readPath reads which action is meant, on which resource.
func (d *deed) readPath(r *http.Request, c *backoffice.Command) error {
	var bad bff.FieldErrors
	name := d.names[0]
	if len(d.names) > 1 {
		kind := name[:strings.LastIndexByte(string(name), '_')+1]
		if name = kind + backoffice.ActionName(web.PathValue(r, "transition")); !slices.Contains(d.names, name) {
			bad.Add("transition", bff.FieldUnsupported)
			name = d.names[0] // for the form of the id
		}
	}
	c.Action, _ = backoffice.FindAction(name) // a test walks the table
	if d.resource != "" {
		var err error
		c.ID, err = bff.ParseID(c.Action.ID, web.PathValue(r, d.resource))
		bad.Check(err == nil, d.resource, bff.FieldFormat)
	}
	return bad.Err()
}

func readPosting(in *web.Input, c *backoffice.Command) {
	in.Require("amount")
	in.Only("amount", "description")
	c.Posting = &backoffice.Posting{Description: in.String("description", maxDescription)}
	amount := in.Object("amount")
	if amount == nil {
		return
	}
	amount.Require("minor", "currency")
	amount.Only("minor", "currency")
	currency := bff.Currency(amount.Enum("currency", currencies()...))
	m, err := bff.ParseMinor(amount.String("minor", maxToken), currency)
	switch {
	case !amount.Has("minor") || in.Err() != nil: // named already
	case err != nil:
		amount.Refuse("minor", bff.FieldFormat)
	case m.Minor <= 0 || m.Minor > maxPosting:
		amount.Refuse("minor", bff.FieldRange)
	}
	c.Posting.Amount = m
}

func currencies() []string {
	var out []string
	for _, c := range bff.Currencies() {
		out = append(out, string(c))
	}
	return out
}

func readWorkOrder(in *web.Input, c *backoffice.Command) {
	in.Require("title", "severity")
	in.Only("title", "severity", "roomNumber", "blocksRoom")
	w := &backoffice.NewWorkOrder{
		Title: in.String("title", maxTitle), Severity: in.Enum("severity", backoffice.WorkOrderSeverities()...),
		RoomNumber: formed(in, "roomNumber", maxRoom, idForm),
	}
	if blocks := in.Bool("blocksRoom"); blocks != nil {
		w.BlocksRoom = *blocks
	}
	filled(in, "title", w.Title)
	c.WorkOrder = w
}
