package sim

import (
	"context"
	"net/http"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
)

// lockVendors are the makes of door locks; the last is slow and answers later.
func lockVendors() []string { return []string{"salto", "assa-abloy", "ttlock"} }

// LockFailure is a door lock that did not do what it was told.
type LockFailure struct {
	FailureID     string        `json:"failureId"`
	RoomNumber    string        `json:"roomNumber"`
	ReservationID string        `json:"reservationId,omitempty"`
	Reason        string        `json:"reason"`
	Vendor        string        `json:"vendor"`
	At            bff.Timestamp `json:"at"`
}

// lockSettles is how long the slow vendor takes.
const lockSettles = 2 * time.Second

// LockRequest is an action on a key that lock-integration was asked for.
type LockRequest struct {
	RequestKey    string        `json:"requestKey"`
	Action        string        `json:"action"`
	TenantID      string        `json:"tenantId"`
	PropertyID    string        `json:"propertyId"`
	ReservationID string        `json:"reservationId"`
	CredentialID  string        `json:"credentialId,omitempty"`
	State         string        `json:"state"` // issued, revoked, pending, failed
	Vendor        string        `json:"vendor"`
	Reason        string        `json:"reason,omitempty"`
	RequestedBy   string        `json:"requestedBy,omitempty"`
	At            bff.Timestamp `json:"at"`
	// Executions is how often the vendor was told, and Calls how often the service was.
	Executions int `json:"executions"`
	Calls      int `json:"calls"`

	house       *property
	reservation string
	request     string    // X-Request-Id of the first call
	due         time.Time // of a pending one
}

// LockOutcome is how the next action on a reservation's key ends.
type LockOutcome struct {
	State  string `json:"state"` // failed or pending; a pending one ends when it is told to
	Reason string `json:"reason,omitempty"`
}

// lockReasons are why vendors fail.
func lockReasons() []string { return []string{"battery_low", "offline", "tamper", "no_response"} }

// lockMoves are the actions: where the key must stand, where it goes, and the event.
func lockMoves() map[string]transition {
	return map[string]transition{
		"issue":  {"issued", []string{"none", "revoked"}, "issued"},
		"revoke": {"revoked", []string{"issued"}, "revoked"},
		"rebind": {"issued", []string{"issued"}, "issued"},
		"extend": {"issued", []string{"issued"}, "issued"},
	}
}

// lockRoutes issue and end room keys.
func (s *Sim) lockRoutes() {
	s.handle("lock", "POST /api/v1/reservations/{reservationId}/keys/{action}", s.actOnKey)
	s.handle("lock", "GET /api/v1/requests/{requestKey}", func(c *call) (any, error) {
		s.settleLocks(c.Context(), c.now)
		s.staff.mu.Lock()
		defer s.staff.mu.Unlock()
		r := s.staff.requests[c.Header.Get(c.speaks.tenant)+" "+c.PathValue("requestKey")]
		if r == nil {
			return nil, notFound("request")
		}
		return *r, nil
	})
	s.handle("lock", "GET /api/v1/properties/{propertyId}/failures", func(c *call) (any, error) {
		p, day, err := s.houseDay(c)
		if err != nil {
			return nil, err
		}
		return pageOf(s, c, p, day, s.lockFailures(c, p, day))
	})
}

// actOnKey does an action on the key of the reservation of the path, once per key of
// the request: the same again is told where it stands.
func (s *Sim) actOnKey(c *call) (any, error) {
	move, known := lockMoves()[c.PathValue("action")]
	if !known {
		return nil, notFound("action")
	}
	res, err := s.findStay(c)
	if err != nil {
		return nil, err
	}
	var req struct {
		PropertyID  string         `json:"propertyId"`
		ValidUntil  *bff.Timestamp `json:"validUntil"`
		RequestedBy string         `json:"requestedBy"`
	}
	if len(c.body) > 0 {
		if err := c.decode(&req); err != nil {
			return nil, err
		}
	}
	if req.PropertyID != "" && req.PropertyID != c.speaks.id(res.PropertyID) {
		return nil, notFound("reservation") // at that property
	}
	key := c.Header.Get(c.speaks.key)
	if key != "" && !c.speaks.takes(key) {
		return nil, refused(bff.FieldErrors{{Field: c.speaks.key, Code: bff.FieldFormat}})
	}
	s.settleLocks(c.Context(), c.now)
	fresh := &LockRequest{
		RequestKey: key, Action: c.PathValue("action"), TenantID: c.speaks.id(res.stay.house.tenant.id), PropertyID: c.speaks.id(res.PropertyID),
		ReservationID: c.speaks.id(res.ReservationID), Vendor: lockVendors()[res.stay.house.seed%3], RequestedBy: req.RequestedBy,
		At: bff.At(c.now), house: res.stay.house, reservation: res.ReservationID, request: c.Header.Get("X-Request-Id"),
	}
	r, told, err := s.executeLock(fresh, s.refID(prefixCredential, res.stay.ref), move, c)
	if err != nil {
		return nil, err
	}
	if told {
		s.tellLock(c.Context(), r)
	}
	out := map[string]any{
		"credentialId": r.CredentialID, "reservationId": r.ReservationID, "propertyId": r.PropertyID, "roomNumber": res.RoomNumber,
		"state": r.State, "vendor": r.Vendor, "expiresAt": bff.At(res.stay.house.begin(res.CheckOut).Add(12 * time.Hour)),
	}
	if req.ValidUntil != nil {
		out["expiresAt"] = *req.ValidUntil
	}
	if r.Reason != "" {
		out["reason"] = r.Reason
	}
	if r.State == "pending" {
		return accepted{out}, nil
	}
	return out, nil
}

// executeLock has the vendor act, unless the request is known. It reports whether
// there is something to tell.
func (s *Sim) executeLock(r *LockRequest, credential string, move transition, c *call) (LockRequest, bool, error) {
	st := &s.staff
	st.mu.Lock()
	defer st.mu.Unlock()
	name := r.TenantID + " " + r.RequestKey
	if known := st.requests[name]; known != nil && r.RequestKey != "" {
		if known.ReservationID != r.ReservationID || known.Action != r.Action {
			return LockRequest{}, false, &failure{status: http.StatusUnprocessableEntity, code: "KEY_REUSED", message: "the key is of another action"}
		}
		known.Calls++
		return *known, false, nil
	}
	stands, moved := st.status[credential]
	if !moved {
		stands = progress{status: "none", version: 1}
	}
	if !slices.Contains(move.from, stands.status) {
		return LockRequest{}, false, &failure{status: http.StatusConflict, code: "INVALID_STATE", message: "the key is " + stands.status}
	}
	r.CredentialID, r.Executions, r.Calls, r.State = c.speaks.id(credential), 1, 1, move.to
	if r.Vendor == "ttlock" {
		r.State, r.due = "pending", c.now.Add(lockSettles)
	}
	if o, ordered := st.outcomes[r.reservation]; ordered {
		delete(st.outcomes, r.reservation)
		r.State, r.Reason, r.due = o.State, o.Reason, time.Time{}
	}
	if r.State == move.to {
		bound(st.status)
		st.status[credential] = progress{status: move.to, version: stands.version + 1, at: c.now}
	}
	if r.RequestKey == "" {
		r.RequestKey = bff.NewID(bff.PrefixRequest, c.now).UUID()
		name = r.TenantID + " " + r.RequestKey
	}
	bound(st.requests)
	st.requests[name] = r
	return *r, r.State != "pending", nil
}

// settleLocks lets the slow vendor say how it ended.
func (s *Sim) settleLocks(ctx context.Context, now time.Time) {
	s.staff.mu.Lock()
	var due []LockRequest
	for _, r := range s.staff.requests {
		if r.State == "pending" && !r.due.IsZero() && !now.Before(r.due) {
			due = append(due, s.staff.settleLock(r, LockOutcome{}, now))
		}
	}
	s.staff.mu.Unlock()
	for _, r := range due {
		s.tellLock(ctx, r)
	}
}

// settleLock needs the lock.
func (st *staffState) settleLock(r *LockRequest, o LockOutcome, now time.Time) LockRequest {
	move := lockMoves()[r.Action]
	r.State, r.Reason = move.to, ""
	if o.State == "failed" {
		r.State, r.Reason = o.State, o.Reason
		return *r
	}
	credential, err := bff.IDFromUUID(prefixCredential, r.CredentialID)
	if err == nil {
		st.status[credential.String()] = progress{status: move.to, version: st.status[credential.String()].version + 1, at: now}
	}
	return *r
}

func (s *Sim) tellLock(ctx context.Context, r LockRequest) {
	event := lockMoves()[r.Action].event
	payload := map[string]any{
		"credentialId": r.CredentialID, "reservationId": r.ReservationID, "state": r.State, "vendor": r.Vendor,
		"requestKey": r.RequestKey, "requestedBy": r.RequestedBy, "action": r.Action,
	}
	if r.State == "failed" {
		event, payload["reason"] = "failed", r.Reason
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, "/", nil)
	if err != nil {
		return // the arguments are constant
	}
	req.Header.Set("X-Request-Id", r.request)
	s.tell(&call{Request: req, speaks: dialectOf("lock")}, "melmastoon.lock.credential."+event+".v1", r.house, payload)
}

// OrderLock says how the next action on a reservation's key ends.
func (s *Sim) OrderLock(reservationID string, o LockOutcome) {
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	bound(s.staff.outcomes)
	s.staff.outcomes[reservationID] = o
}

// SettleLock ends a pending action, and tells of it. It reports whether there was one.
func (s *Sim) SettleLock(ctx context.Context, requestKey string, o LockOutcome) bool {
	s.staff.mu.Lock()
	var done *LockRequest
	for _, r := range s.staff.requests {
		if r.RequestKey == requestKey && r.State == "pending" {
			settled := s.staff.settleLock(r, o, s.cfg.Now())
			done = &settled
		}
	}
	s.staff.mu.Unlock()
	if done != nil {
		s.tellLock(ctx, *done)
	}
	return done != nil
}

// LockRequests lists the actions that were asked for, of a reservation or, if that is
// empty, of all, the oldest first.
func (s *Sim) LockRequests(reservationID string) []LockRequest {
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	out := []LockRequest{}
	for _, r := range s.staff.requests {
		if reservationID == "" || r.ReservationID == dialectOf("lock").id(reservationID) {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b LockRequest) int { return a.At.Compare(b.At.Time) })
	return out
}

// lockControls are what a test may do with locks.
func (s *Sim) lockControls(drill func(string, func(*call) (any, error))) {
	drill("GET /_sim/locks", func(c *call) (any, error) {
		s.settleLocks(c.Context(), c.now)
		return map[string]any{"requests": s.LockRequests(c.URL.Query().Get("reservationId"))}, nil
	})
	drill("POST /_sim/locks/{requestKey}/settle", func(c *call) (any, error) {
		var o LockOutcome
		if len(c.body) > 0 {
			if err := readOutcome(c, &o, "", "failed"); err != nil {
				return nil, err
			}
		}
		if !s.SettleLock(c.Context(), c.PathValue("requestKey"), o) {
			return nil, notFound("pending request")
		}
		return nil, nil
	})
	drill("POST /_sim/reservations/{reservationId}/lock-outcome", func(c *call) (any, error) {
		if _, err := s.findStay(c); err != nil {
			return nil, err
		}
		var o LockOutcome
		if err := readOutcome(c, &o, "failed", "pending"); err != nil {
			return nil, err
		}
		s.OrderLock(c.PathValue("reservationId"), o)
		return created{o}, nil
	})
}

func readOutcome(c *call, o *LockOutcome, states ...string) error {
	if err := decodeStrict(c.body, o); err != nil {
		return err
	}
	var bad bff.FieldErrors
	bad.Check(slices.Contains(states, o.State), "state", bff.FieldUnsupported)
	bad.Check(o.State != "failed" || slices.Contains(lockReasons(), o.Reason), "reason", bff.FieldUnsupported)
	return refused(bad)
}

// lockFailures lists a day's failures up to now, the newest first.
func (s *Sim) lockFailures(c *call, p *property, day bff.Date) []LockFailure {
	at := s.houseTime(p, c.now)
	items := []LockFailure{}
	rnd := stream{mix(p.seed, kindDevice, uint64(day))} //nolint:gosec // a date is not negative
	for n := range rnd.below(4) {
		f := LockFailure{
			FailureID:  c.speaks.id(s.refID(prefixLockFailure, ref{p, day, n})),
			RoomNumber: roomNumber(rnd.below(p.rooms)), Reason: []string{"battery_low", "offline", "tamper"}[rnd.below(3)], Vendor: lockVendors()[p.seed%3],
			At: bff.At(p.begin(day).Add(time.Duration(rnd.below(86400)) * time.Second)),
		}
		if !f.At.After(at) {
			items = append(items, f)
		}
	}
	s.staff.mu.Lock()
	for _, f := range s.staff.locks[p.id] {
		if dateOf(f.At.In(p.country.zone)) == day {
			items = append(items, f)
		}
	}
	s.staff.mu.Unlock()
	slices.SortStableFunc(items, func(a, b LockFailure) int { return b.At.Compare(a.At.Time) })
	return items
}

// failLock has the door of a reservation of the path refuse its key.
func (s *Sim) failLock(c *call) (any, error) {
	res, err := s.findStay(c)
	if err != nil {
		return nil, err
	}
	p, lock := res.stay.house, *c
	lock.speaks = dialectOf("lock")
	f := LockFailure{
		FailureID: bff.NewID(prefixLockFailure, c.now).UUID(), RoomNumber: res.RoomNumber, ReservationID: lock.speaks.id(res.ReservationID),
		Reason: "offline", Vendor: lockVendors()[p.seed%3], At: bff.At(s.houseTime(p, c.now)),
	}
	s.staff.mu.Lock()
	s.staff.locks[p.id] = keepLast(append(s.staff.locks[p.id], f))
	s.staff.mu.Unlock()
	s.tell(&lock, "melmastoon.lock.credential.failed.v1", p, map[string]any{
		"credentialId": lock.speaks.id(s.refID(prefixCredential, res.stay.ref)), "reservationId": f.ReservationID, "state": "failed", "reason": f.Reason, "vendor": f.Vendor,
	})
	return created{f}, nil
}
