package backofficehttp

import (
	"net/http"
	"slices"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
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

// actionRoute is a route of actions: one, or all transitions of a resource.
type actionRoute []*backoffice.Action

// actionRoutes are the routes of actions that another service carries out.
func actionRoutes() []actionRoute {
	var all []actionRoute
	for _, a := range backoffice.Actions() {
		i := slices.IndexFunc(all, func(rt actionRoute) bool { return rt[0].Pattern() == a.Pattern() })
		if i < 0 {
			i, all = len(all), append(all, nil)
		}
		all[i] = append(all[i], &a)
	}
	return all
}

// roles are those that may use the route for something.
func (rt actionRoute) roles() []backoffice.Role {
	var all []backoffice.Role
	for _, a := range rt {
		all = append(all, a.Roles...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// actionRoute is the row of the route table. A body without a reader has no size, which the
// table does not take.
func (a *API) actionRoute(of actionRoute) web.Route {
	rt := web.Route{
		Pattern: of[0].Pattern(), Handle: a.act(of), Kind: web.Change, Budget: actionBudget,
		Limit: LimitChange, Gate: gateChange, Needs: identity.Needs{Property: true, Roles: of.roles()}, KeepsAnswers: true,
	}
	if of[0].Body == "" {
		rt.Body = web.NoBody
	} else if of.read() != nil {
		rt.Body = 4 * kib
	}
	return rt
}

// read is what reads the body into the command; nil = there is none.
func (rt actionRoute) read() func(in *web.Input, c *action.Command) {
	switch rt[0].Body {
	case backoffice.BodyPosting:
		return readPosting
	case backoffice.BodyWorkOrder:
		return readWorkOrder
	}
	return nil
}

// readOnce reads the key of a mutation, and what the clock shows now by which it was made.
func readOnce(r *http.Request) (backoffice.Once, error) {
	key, err := idempotency.ULIDFrom(r.Header, bff.CodeStaffIdempotencyRequired)
	return backoffice.Once{Key: key, Sent: visitOf(r).Sent}, err
}

// act answers a route of actions.
func (a *API) act(rt actionRoute) web.Handler {
	read := rt.read()
	return func(w http.ResponseWriter, r *http.Request) error {
		once, err := readOnce(r)
		if err != nil {
			return err
		}
		c := action.Command{Once: once, Attestation: r.Header.Get("X-Mfa-Attestation")}
		if bad := rt.readPath(func(name string) string { return web.PathValue(r, name) }, &c); bad != nil {
			return bad.Err()
		}
		if read != nil {
			in, err := web.ReadBody(w, r)
			if err != nil {
				return err
			}
			read(in, &c)
			if err := in.Err(); err != nil {
				return err
			}
		}
		v := visitOf(r)
		if err := digest(&c, v.Property); err != nil {
			return err
		}
		done, err := a.cfg.Proxy.Do(r.Context(), v, c, now(r))
		if err != nil {
			return err
		}
		return web.WriteJSON(w, done.Status, done.Receipt)
	}
}

// digest tells a command from others with its key, whichever way it came.
func digest(c *action.Command, property bff.ID) (err error) {
	c.Once.Digest, err = idempotency.Digest(struct {
		Posting   *action.Posting
		WorkOrder *action.NewWorkOrder
	}{c.Posting, c.WorkOrder}, string(c.Action.Name), c.ID.String(), property.String())
	return err
}

// readPath reads which action is meant, on which resource.
func (rt actionRoute) readPath(value func(name string) string, c *action.Command) bff.FieldErrors {
	var bad bff.FieldErrors
	c.Action = rt[0]
	if c.Action.Transition {
		verb := value("transition")
		if i := slices.IndexFunc(rt, func(a *backoffice.Action) bool { return a.Verb() == verb }); i >= 0 {
			c.Action = rt[i]
		} else {
			bad.Add("transition", bff.FieldUnsupported)
		}
	}
	if a := c.Action; !a.New {
		var err error
		c.ID, err = bff.ParseID(a.ID, value(a.Member))
		bad.Check(err == nil, a.Member, bff.FieldFormat)
	}
	return bad
}

func readPosting(in *web.Input, c *action.Command) {
	in.Require("amount")
	in.Only("amount", "description")
	c.Posting = &action.Posting{Description: in.String("description", maxDescription)}
	amount := in.Object("amount")
	if amount == nil {
		return
	}
	amount.Require("minor", "currency")
	amount.Only("minor", "currency")
	currency, minor := bff.Currency(amount.Enum("currency", currencies()...)), amount.String("minor", maxToken)
	m, err := bff.ParseMinor(minor, currency)
	switch {
	case minor == "" || currency == "": // named already
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

func readWorkOrder(in *web.Input, c *action.Command) {
	in.Require("title", "severity")
	in.Only("title", "severity", "roomNumber", "blocksRoom")
	w := &action.NewWorkOrder{
		Title: in.String("title", maxTitle), Severity: in.Enum("severity", backoffice.WorkOrderSeverities()...),
		RoomNumber: formed(in, "roomNumber", maxRoom, idForm),
	}
	if blocks := in.Bool("blocksRoom"); blocks != nil {
		w.BlocksRoom = *blocks
	}
	filled(in, "title", w.Title)
	c.WorkOrder = w
}
