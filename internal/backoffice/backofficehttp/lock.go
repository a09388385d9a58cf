package backofficehttp

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/web"
)

// lockAction has lock-integration act on the key of a reservation.
func (a *API) lockAction(action lock.Action) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v := visitOf(r)
		once, err := readOnce(r)
		if err != nil {
			return err
		}
		request := lock.Request{Once: once, Attestation: r.Header.Get("X-Mfa-Attestation")}
		if request.Order, err = readLockOrder(w, r, action); err != nil {
			return err
		}
		o := &request.Order
		o.Tenant, o.Property, o.Request = v.Session.Tenant, v.Property, requestKey(once.Key)
		request.Once.Digest, err = idempotency.Digest(o.ValidUntil.String(), "lock", string(action), o.Reservation.String(), o.Property.String())
		if err != nil {
			return err
		}
		answer, result, err := a.cfg.Locks.Act(r.Context(), v, request, now(r))
		a.locks.count(action, answer, result, err)
		if err != nil {
			return err
		}
		return web.WriteJSON(w, answer.Status, answer.Receipt)
	}
}

// requestKey is the client's key as lock-integration writes it: a UUID of the same
// bits.
func requestKey(key string) string {
	return bff.MustParseID(bff.PrefixRequest, string(bff.PrefixRequest)+"_"+key).UUID()
}

// readLockOrder reads what is asked for, and names everything that is wrong with it.
func readLockOrder(w http.ResponseWriter, r *http.Request, action lock.Action) (lock.Order, error) {
	o := lock.Order{Action: action}
	var (
		bad bff.FieldErrors
		err error
	)
	if o.Reservation, err = bff.ParseID(bff.PrefixReservation, web.PathValue(r, "reservationId")); err != nil {
		bad.Add("reservationId", bff.FieldFormat)
	}
	text, err := web.ReadText(w, r)
	if err != nil {
		return o, err
	}
	if text == "" {
		return o, bad.Err()
	}
	in, err := web.ParseText(r.Context(), text)
	if err != nil {
		return o, err
	}
	in.RefuseAll(bad)
	if action != lock.ExtendKey {
		in.Only()
		return o, in.Err()
	}
	in.Only("validUntil")
	if at := in.String("validUntil", maxToken); at != "" {
		if err := o.ValidUntil.UnmarshalText([]byte(at)); err != nil {
			in.Refuse("validUntil", bff.FieldFormat)
		} else if !o.ValidUntil.After(now(r)) {
			in.Refuse("validUntil", bff.FieldRange)
		}
	}
	return o, in.Err()
}

// maxVendors bounds the label: a vendor's name comes from another service.
const maxVendors = 16

// lockCount counts lock actions by what became of them.
type lockCount struct {
	total *prometheus.CounterVec

	mu      sync.Mutex
	vendors map[string]bool
}

func newLockCount(namespace string) *lockCount {
	c := &lockCount{vendors: map[string]bool{"unknown": true, "none": true, "other": true}, total: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "lock_action_total",
		Help: "Lock actions by what became of them: success, pending, failure, unknown, denied. Repeated requests are not counted again.",
	}, []string{"action", "vendor", "outcome"})}
	for _, action := range lock.LockActions() {
		c.total.WithLabelValues(string(action), "unknown", string(backoffice.Unknown))
	}
	return c
}

// count counts an action. One that was never begun, or was answered as before, is none.
func (c *lockCount) count(action lock.Action, answer backoffice.Answer, result lock.Result, err error) {
	if result.State == "" || answer.Replayed {
		return
	}
	outcome := string(result.Outcome())
	switch {
	case err != nil:
		outcome = string(backoffice.OutcomeOf(err))
	case result.State == lock.LockPending:
		outcome = string(lock.LockPending)
	}
	c.total.WithLabelValues(string(action), c.vendor(result.Vendor), outcome).Inc()
}

func (c *lockCount) vendor(name string) string {
	if name == "" {
		return "unknown"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.vendors[name] && len(c.vendors) >= maxVendors {
		return "other"
	}
	c.vendors[name] = true
	return name
}
