package sim

import (
	"math"
	"net/http"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Suggestion is advice of the AI orchestrator.
type Suggestion struct {
	SuggestionID string         `json:"suggestionId"`
	TenantID     string         `json:"tenantId"`
	PropertyID   string         `json:"propertyId"`
	Category     string         `json:"category"`
	Title        string         `json:"title"`
	Proposal     map[string]any `json:"proposal"`
	Confidence   float64        `json:"confidence"`
	Status       string         `json:"status"`
	CreatedAt    bff.Timestamp  `json:"createdAt"`
	ExpiresAt    bff.Timestamp  `json:"expiresAt"`
	Provenance   map[string]any `json:"aiProvenance"`
}

// Alert is something that staff should look at.
type Alert struct {
	AlertID    string        `json:"alertId"`
	TenantID   string        `json:"tenantId"`
	PropertyID string        `json:"propertyId"`
	Category   string        `json:"category"`
	Severity   string        `json:"severity"`
	Title      string        `json:"title"`
	Status     string        `json:"status"`
	RaisedAt   bff.Timestamp `json:"raisedAt"`
}

const inboxDays = 2 // today's and yesterday's

func (s *Sim) inboxRoutes() {
	s.handle("ai-orchestrator", "GET /api/v1/tenants/{tenantId}/suggestions", func(c *call) (any, error) {
		return inbox(s, c, s.suggestion, func(x Suggestion) string { return x.Status })
	})
	s.handle("ai-orchestrator", "GET /api/v1/suggestions/{suggestionId}", func(c *call) (any, error) {
		r, _, err := s.findRef(c, prefixSuggestion, "suggestionId")
		if err != nil {
			return nil, err
		}
		x, ok := s.suggestion(r)
		if !ok {
			return nil, notFound("suggestion")
		}
		return x, nil
	})
	s.mutation("ai-orchestrator", "POST /api/v1/suggestions/{suggestionId}/decisions", s.decide)
	s.handle("notification", "GET /api/v1/tenants/{tenantId}/alerts", func(c *call) (any, error) {
		return inbox(s, c, s.alert, func(x Alert) string { return x.Status })
	})
	s.handle("notification", "GET /api/v1/alerts/{alertId}", func(c *call) (any, error) {
		r, _, err := s.findRef(c, prefixAlert, "alertId")
		if err != nil {
			return nil, err
		}
		x, ok := s.alert(r)
		if !ok {
			return nil, notFound("alert")
		}
		return x, nil
	})
	s.mutation("notification", "POST /api/v1/alerts/{alertId}/acknowledge", func(c *call) (any, error) {
		r, id, err := s.findRef(c, prefixAlert, "alertId")
		if err != nil {
			return nil, err
		}
		if _, ok := s.alert(r); !ok {
			return nil, notFound("alert")
		}
		if _, err := s.staff.move(id, "open", "acknowledged", "open", "acknowledged"); err != nil {
			return nil, err
		}
		return map[string]any{"alertId": id, "status": "acknowledged", "acknowledgedAt": bff.At(c.now)}, nil
	})
	s.handle("analytics", "GET /api/v1/properties/{propertyId}/kpis", s.kpis)
	s.handle("staff", "GET /api/v1/properties/{propertyId}/shifts", s.shifts)
	s.handle("sync", "GET /api/v1/properties/{propertyId}/devices", s.devices)
	s.handle("sync", "GET /api/v1/devices/{deviceId}/cursor", func(c *call) (any, error) {
		s.staff.mu.Lock()
		defer s.staff.mu.Unlock()
		return s.staff.cursor(c.PathValue("deviceId")), nil
	})
	s.mutation("sync", "POST /api/v1/devices/{deviceId}/cursor", s.putCursor)
}

// inbox lists what a tenant's houses have, by house and status where asked.
func inbox[T any](s *Sim, c *call, at func(ref) (T, bool), status func(T) string) (any, error) {
	t, err := s.tenant(c)
	if err != nil {
		return nil, err
	}
	if err := s.sameTenant(c, t); err != nil {
		return nil, err
	}
	house, want := c.URL.Query().Get("propertyId"), c.URL.Query().Get("status")
	items := []T{}
	for _, p := range t.properties {
		if house != "" && house != p.id {
			continue
		}
		for d := range inboxDays {
			for n := range 3 {
				x, ok := at(ref{p, bff.DateOf(c.now) - bff.Date(d), n})
				if ok && (want == "" || want == status(x)) {
					items = append(items, x)
				}
			}
		}
	}
	return page[T]{TenantID: t.id, PropertyID: house, AsOf: bff.At(c.now), Items: items, Total: len(items)}, nil
}

func (s *Sim) suggestion(r ref) (Suggestion, bool) {
	rnd := stream{mix(r.house.seed, kindSuggestion, uint64(r.day), uint64(r.n))} //nolint:gosec // not negative
	kinds := [...]struct{ category, title, field string }{
		{"pricing", "Raise the weekend rate", "ratePercent"},
		{"housekeeping", "Clean the early arrivals first", "priority"},
		{"staffing", "Add an evening shift", "shifts"},
		{"upsell", "Offer the suite to a returning guest", "discountPercent"},
	}
	k := kinds[rnd.below(len(kinds))]
	if !rnd.chance(45) {
		return Suggestion{}, false
	}
	at := r.day.Time().Add(time.Duration(rnd.below(8*3600)) * time.Second)
	x := Suggestion{
		SuggestionID: s.refID(prefixSuggestion, r), TenantID: r.house.tenant.id, PropertyID: r.house.id, Category: k.category, Title: k.title,
		Proposal: map[string]any{k.field: 1 + rnd.below(12)}, Confidence: float64(60+rnd.below(39)) / 100,
		CreatedAt: bff.At(at), ExpiresAt: bff.At(at.Add(48 * time.Hour)),
		Provenance: map[string]any{"model": "ops-advisor", "modelVersion": "2026-03", "promptVersion": "p" + itoa(1+rnd.below(4))},
	}
	x.Status = s.staff.stands(x.SuggestionID, "open").status
	return x, true
}

// decide records an outcome. It comes through an outbox, maybe twice: the same
// outcome again is no conflict.
func (s *Sim) decide(c *call) (any, error) {
	r, id, err := s.findRef(c, prefixSuggestion, "suggestionId")
	if err != nil {
		return nil, err
	}
	if _, ok := s.suggestion(r); !ok {
		return nil, notFound("suggestion")
	}
	var req struct {
		Outcome string `json:"outcome"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"accepted", "rejected", "modified"}, req.Outcome) {
		return nil, refused(bff.FieldErrors{{Field: "outcome", Code: bff.FieldUnsupported}})
	}
	if _, err := s.staff.move(id, "open", req.Outcome, "open", req.Outcome); err != nil {
		return nil, err
	}
	return accepted{map[string]any{"suggestionId": id, "outcome": req.Outcome}}, nil
}

func (s *Sim) alert(r ref) (Alert, bool) {
	rnd := stream{mix(r.house.seed, kindAlert, uint64(r.day), uint64(r.n))} //nolint:gosec // not negative
	kinds := [...][2]string{{"lock", "A door lock is low on power"}, {"payment", "A card was declined"}, {"overbooking", "More arrivals than clean rooms"}, {"power", "The generator is running"}, {"review", "A guest left a poor review"}}
	k := kinds[rnd.below(len(kinds))]
	if !rnd.chance(50) {
		return Alert{}, false
	}
	x := Alert{
		AlertID: s.refID(prefixAlert, r), TenantID: r.house.tenant.id, PropertyID: r.house.id, Category: k[0], Title: k[1],
		Severity: []string{"info", "warning", "warning", "critical"}[rnd.below(4)],
		RaisedAt: bff.At(r.day.Time().Add(time.Duration(rnd.below(8*3600)) * time.Second)),
	}
	x.Status = s.staff.stands(x.AlertID, "open").status
	return x, true
}

func (s *Sim) kpis(c *call) (any, error) {
	p, day, err := s.houseDay(c)
	if err != nil {
		return nil, err
	}
	today := bff.DateOf(c.now)
	cur := bff.Currency(p.country.currency)
	taken := s.stays(p, day, today, func(r Reservation) bool { return held(r) && r.CheckOut > day })
	cancelled := s.stays(p, day, today, func(r Reservation) bool { return r.Status == "cancelled" && r.CheckIn == day })
	missed := s.stays(p, day, today, func(r Reservation) bool { return r.Status == "no_show" && r.CheckIn == day })
	var revenue, nights int64
	channels := map[string]int{}
	for _, r := range taken {
		revenue += convert(p.nightCents(day, bff.Occupancy{Adults: r.Adults, Children: r.Children, Rooms: 1}), cur).Minor
		nights += int64(r.CheckOut - r.CheckIn)
		channels[r.Channel]++
	}
	per := func(n int) string {
		return micros(bff.Money{Minor: revenue / int64(max(n, 1)), Currency: cur})
	}
	return map[string]any{
		"propertyId": p.id, "date": day, "asOf": bff.At(c.now), "adr": per(len(taken)), "revpar": per(p.rooms),
		"occupancyPercent":     math.Round(1000*float64(min(len(taken), p.rooms))/float64(p.rooms)) / 10,
		"averageLengthOfStay":  math.Round(10*float64(nights)/float64(max(len(taken), 1))) / 10,
		"cancellations":        len(cancelled),
		"noShows":              len(missed),
		"channelMix":           channels,
		"aiAcceptancePercent":  40 + int(mix(p.seed, kindSuggestion, uint64(day))%45), //nolint:gosec // small numbers
		"linenRunwayDays":      1 + int(mix(p.seed, kindTask, uint64(day))%9),         //nolint:gosec // small numbers
		"timeToReadyMinutes":   25 + int(mix(p.seed, kindTask, uint64(day), 1)%40),    //nolint:gosec // small numbers
		"pendingAtArrivalTime": int(mix(p.seed, kindTask, uint64(day), 2) % 6),        //nolint:gosec // small numbers
	}, nil
}

func (s *Sim) shifts(c *call) (any, error) {
	p, day, err := s.houseDay(c)
	if err != nil {
		return nil, err
	}
	type shift struct {
		OperatorID  string `json:"operatorId,omitempty"`
		DisplayName string `json:"displayName,omitempty"`
		Role        string `json:"role"`
		From        string `json:"from"`
		To          string `json:"to"`
	}
	items, gaps := []shift{}, []shift{}
	for i, role := range []string{"front_desk", "front_desk", "housekeeper", "housekeeping_lead", "maintenance", "fnb_manager"} {
		sh := shift{Role: role, From: []string{"06:00", "14:00"}[i%2], To: []string{"14:00", "22:00"}[i%2]}
		if mix(p.seed, kindStaff, uint64(day), uint64(i))%6 == 0 { //nolint:gosec // not negative
			gaps = append(gaps, sh)
			continue
		}
		o := p.tenant.operator[p.tenant.staffer(role)]
		sh.OperatorID, sh.DisplayName = o.id, o.displayName
		items = append(items, sh)
	}
	return struct {
		page[shift]
		Gaps []shift `json:"gaps"`
	}{pageOf(p, day, c.now, items), gaps}, nil
}

func (s *Sim) devices(c *call) (any, error) {
	p, err := s.house(c)
	if err != nil {
		return nil, err
	}
	type device struct {
		DeviceID   string        `json:"deviceId"`
		Status     string        `json:"status"`
		LastSeenAt bff.Timestamp `json:"lastSeenAt"`
		LagSeconds int           `json:"lagSeconds"`
	}
	items := []device{}
	rnd := stream{mix(p.seed, kindDevice)}
	for n := range 2 + rnd.below(3) {
		d := device{DeviceID: derivedID(bff.PrefixDevice, p.seed, kindDevice, uint64(n)), Status: "online", LagSeconds: rnd.below(20)}
		if rnd.chance(15) {
			d.Status, d.LagSeconds = "offline", 600+rnd.below(7200)
		}
		d.LastSeenAt = bff.At(c.now.Add(-time.Duration(d.LagSeconds) * time.Second))
		items = append(items, d)
	}
	return pageOf(p, bff.DateOf(c.now), c.now, items), nil
}

// cursor is how far a device has synchronised.
type cursor struct {
	DeviceID      string `json:"deviceId"`
	PullCursor    string `json:"pullCursor"`
	PushAck       string `json:"pushAck"`
	CursorVersion int    `json:"cursorVersion"`
}

// cursor needs the lock.
func (st *staffState) cursor(deviceID string) cursor {
	if c, ok := st.cursors[deviceID]; ok {
		return c
	}
	return cursor{DeviceID: deviceID, PullCursor: "0", PushAck: "0", CursorVersion: 1}
}

// putCursor moves a cursor if the caller saw the newest version.
func (s *Sim) putCursor(c *call) (any, error) {
	var req struct {
		ExpectedVersion int    `json:"expectedVersion"`
		PullCursor      string `json:"pullCursor"`
		PushAck         string `json:"pushAck"`
	}
	if err := c.decode(&req); err != nil {
		return nil, err
	}
	id := c.PathValue("deviceId")
	var bad bff.FieldErrors
	bad.Check(len(id) <= maxDeviceID, "deviceId", bff.FieldLength)
	bad.Check(req.ExpectedVersion > 0, "expectedVersion", bff.FieldRequired)
	bad.Check(len(req.PullCursor) <= 256, "pullCursor", bff.FieldLength)
	bad.Check(len(req.PushAck) <= 256, "pushAck", bff.FieldLength)
	if err := refused(bad); err != nil {
		return nil, err
	}
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	now := s.staff.cursor(id)
	if now.CursorVersion != req.ExpectedVersion {
		return nil, &failure{status: http.StatusConflict, code: "CURSOR_CONFLICT", message: "cursor is at version " + itoa(now.CursorVersion)}
	}
	if req.PullCursor != "" {
		now.PullCursor = req.PullCursor
	}
	if req.PushAck != "" {
		now.PushAck = req.PushAck
	}
	now.CursorVersion++
	bound(s.staff.cursors)
	s.staff.cursors[id] = now
	return now, nil
}
