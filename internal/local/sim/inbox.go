package sim

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Suggestion is advice of the AI orchestrator.
type Suggestion struct {
	SuggestionID string         `json:"suggestionId"`
	TenantID     string         `json:"tenantId"`
	PropertyID   string         `json:"propertyId"`
	Category     string         `json:"category"`
	Severity     string         `json:"severity"`
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

const (
	inboxDays   = 2 // today's and yesterday's
	inboxPerDay = 3
)

func alertSeverities() []string { return []string{"info", "warning", "critical"} }

var suggestionKinds = [...]struct{ category, title, field string }{
	{"pricing", "Raise the weekend rate", "ratePercent"},
	{"housekeeping", "Clean the early arrivals first", "priority"},
	{"staffing", "Add an evening shift", "shifts"},
	{"upsell", "Offer the suite to a returning guest", "discountPercent"},
}

func (s *Sim) inboxRoutes() {
	s.handle("ai-orchestrator", "GET /api/v1/tenants/{tenantId}/suggestions", func(c *call) (any, error) {
		return listInbox(s, c, inboxOf[Suggestion]{
			of: s.suggestions, at: func(x Suggestion) time.Time { return x.CreatedAt.Time },
			status: func(x Suggestion) string { return x.Status }, usual: []string{"open"}, group: func(x Suggestion) string { return x.Category },
		})
	})
	s.handle("ai-orchestrator", "GET /api/v1/suggestions/{suggestionId}", func(c *call) (any, error) {
		_, x, err := s.findSuggestion(c)
		if err != nil {
			return nil, err
		}
		return x, nil
	})
	s.handle("ai-orchestrator", "GET /api/v1/properties/{propertyId}/acceptance", s.acceptance)
	s.hear("ai-orchestrator", TopicDecided, s.hearDecided)
	s.handle("notification", "GET /api/v1/tenants/{tenantId}/alerts", func(c *call) (any, error) {
		return listInbox(s, c, inboxOf[Alert]{
			of: s.alerts, at: func(x Alert) time.Time { return x.RaisedAt.Time },
			status: func(x Alert) string { return x.Status }, usual: []string{"open", "acknowledged"}, group: func(x Alert) string { return x.Severity },
		})
	})
	s.handle("notification", "GET /api/v1/alerts/{alertId}", func(c *call) (any, error) {
		_, x, err := s.findAlert(c)
		if err != nil {
			return nil, err
		}
		return x, nil
	})
	s.hear("notification", TopicAcknowledged, s.hearAcknowledged)
}

// inboxOf says how one kind of thing is listed.
type inboxOf[T any] struct {
	of            func(p *property, at time.Time) []T
	at            func(T) time.Time
	status, group func(T) string
	usual         []string
}

// listInbox lists what a tenant's houses have, the newest first, by house and status
// where asked. Its ETag is that of the items: a client that polls is told
// whether anything changed.
func listInbox[T any](s *Sim, c *call, in inboxOf[T]) (any, error) {
	t, err := s.tenant(c)
	if err != nil {
		return nil, err
	}
	if err := c.ofTenant(t); err != nil {
		return nil, err
	}
	var houses []string
	if q := c.URL.Query().Get("propertyId"); q != "" {
		houses = strings.Split(q, ",")
	}
	for _, id := range houses {
		if p := s.data.propertyByID[id]; p == nil || p.tenant != t {
			return nil, notFound("property")
		}
	}
	s.asked(c.now, t.properties...)
	items, counts := []T{}, map[string]int{}
	for _, p := range t.properties {
		if houses != nil && !slices.Contains(houses, p.id) {
			continue
		}
		for _, x := range in.of(p, s.houseTime(p, c.now)) {
			if slices.Contains(in.usual, in.status(x)) {
				counts[in.group(x)]++
			}
			if c.wanted(in.status(x), in.usual...) {
				items = append(items, x)
			}
		}
	}
	slices.SortStableFunc(items, func(a, b T) int { return in.at(b).Compare(in.at(a)) })
	out, err := pageOf(s, c, nil, 0, items)
	if err != nil {
		return nil, err
	}
	out.TenantID, out.Counts, out.Date = t.id, counts, nil
	b, err := json.Marshal([]any{out.Items, out.Total, out.NextCursor, out.Counts})
	if err != nil {
		return nil, err
	}
	tag := `"` + strconv.FormatUint(hashString(string(b)), 36) + `"`
	c.reply.Set("ETag", tag)
	for have := range strings.SplitSeq(c.Header.Get("If-None-Match"), ",") {
		if have = strings.TrimPrefix(strings.TrimSpace(have), "W/"); have == tag || have == "*" {
			return notModified{}, nil
		}
	}
	return out, nil
}

// suggestions lists a house's advice. One comes every day at midnight, others
// as the day goes.
func (s *Sim) suggestions(p *property, at time.Time) []Suggestion {
	var out []Suggestion
	for d := dateOf(at) - inboxDays + 1; d <= dateOf(at); d++ {
		for n := range inboxPerDay {
			if x, ok := s.suggestion(ref{p, d, n}); ok && !x.CreatedAt.After(at) {
				out = append(out, x)
			}
		}
	}
	s.staff.mu.Lock()
	out = append(out, s.staff.advice[p.id]...)
	s.staff.mu.Unlock()
	for i := range out {
		x := &out[i]
		if x.Status = s.staff.stands(x.SuggestionID, "open").status; x.Status == "open" && !at.Before(x.ExpiresAt.Time) {
			x.Status = "expired"
		}
	}
	return out
}

func (s *Sim) suggestion(r ref) (Suggestion, bool) {
	rnd := stream{mix(r.house.seed, kindSuggestion, uint64(r.day), uint64(r.n))} //nolint:gosec // not negative
	k := suggestionKinds[rnd.below(len(suggestionKinds))]
	if !rnd.chance(45) && r.n > 0 {
		return Suggestion{}, false
	}
	at := r.house.begin(r.day).Add(time.Duration(r.n) * time.Duration(rnd.below(11*3600)) * time.Second)
	return Suggestion{
		SuggestionID: s.refID(prefixSuggestion, r), TenantID: r.house.tenant.id, PropertyID: r.house.id, Category: k.category, Title: k.title,
		Severity: "info", Proposal: map[string]any{k.field: 1 + rnd.below(12)}, Confidence: float64(60+rnd.below(39)) / 100, Status: "open",
		CreatedAt: bff.At(at), ExpiresAt: bff.At(at.Add(36 * time.Hour)),
		Provenance: map[string]any{"model": "ops-advisor", "modelVersion": "2026-03", "promptVersion": "p" + itoa(1+rnd.below(4))},
	}, true
}

// alerts lists what a house should look at. They end by themselves after hours,
// the one of midnight after a day.
func (s *Sim) alerts(p *property, at time.Time) []Alert {
	var out []Alert
	for d := dateOf(at) - inboxDays + 1; d <= dateOf(at); d++ {
		for n := range inboxPerDay {
			if x, ok := s.alert(ref{p, d, n}, at); ok && !x.RaisedAt.After(at) {
				out = append(out, x)
			}
		}
	}
	s.staff.mu.Lock()
	out = append(out, s.staff.alerts[p.id]...)
	s.staff.mu.Unlock()
	for i := range out {
		if now := s.staff.stands(out[i].AlertID, out[i].Status); out[i].Status != "resolved" {
			out[i].Status = now.status
		}
	}
	return out
}

func (s *Sim) alert(r ref, at time.Time) (Alert, bool) {
	rnd := stream{mix(r.house.seed, kindAlert, uint64(r.day), uint64(r.n))} //nolint:gosec // not negative
	kinds := [...][2]string{
		{"lock", "A door lock is low on power"},
		{"payment", "A card was declined"},
		{"overbooking", "More arrivals than clean rooms"},
		{"power", "The generator is running"},
		{"review", "A guest left a poor review"},
	}
	k := kinds[rnd.below(len(kinds))]
	if !rnd.chance(50) && r.n > 0 {
		return Alert{}, false
	}
	raised := r.house.begin(r.day).Add(time.Duration(r.n) * time.Duration(rnd.below(11*3600)) * time.Second)
	x := Alert{
		AlertID: s.refID(prefixAlert, r), TenantID: r.house.tenant.id, PropertyID: r.house.id, Category: k[0], Title: k[1],
		Severity: []string{"info", "warning", "warning", "critical"}[rnd.below(4)], RaisedAt: bff.At(raised), Status: "open",
	}
	lasts := time.Duration(1+rnd.below(12)) * time.Hour
	if r.n == 0 {
		lasts = 24 * time.Hour
	}
	if !at.Before(raised.Add(lasts)) {
		x.Status = "resolved"
	}
	return x, true
}

// findSuggestion finds the suggestion of the path.
func (s *Sim) findSuggestion(c *call) (*property, Suggestion, error) {
	return findIn(s, c, prefixSuggestion, "suggestionId", s.suggestions, func(x Suggestion) string { return x.SuggestionID },
		func(p *property) bool { return len(s.staff.advice[p.id]) > 0 })
}

func (s *Sim) findAlert(c *call) (*property, Alert, error) {
	return findIn(s, c, prefixAlert, "alertId", s.alerts, func(x Alert) string { return x.AlertID },
		func(p *property) bool { return len(s.staff.alerts[p.id]) > 0 })
}

// findIn finds a thing of an inbox by the id in the path.
func findIn[T any](s *Sim, c *call, prefix bff.Prefix, name string, of func(*property, time.Time) []T, id func(T) string,
	added func(*property) bool,
) (*property, T, error) {
	var none T
	want, err := c.pathID(prefix, name)
	if err != nil {
		return nil, none, err
	}
	houses := s.data.properties
	if r, ok := s.readRef(want); ok {
		houses = []*property{r.house}
	} else {
		houses = s.housesWith(houses, added)
	}
	for _, p := range houses {
		if c.ofTenant(p.tenant) != nil {
			continue
		}
		for _, x := range of(p, s.houseTime(p, c.now)) {
			if id(x) == want.String() {
				return p, x, nil
			}
		}
	}
	return nil, none, notFound(name)
}

// acceptance is how often advice was taken in the last thirty days.
func (s *Sim) acceptance(c *call) (any, error) {
	p, err := s.house(c)
	if err != nil {
		return nil, err
	}
	at := s.houseTime(p, c.now)
	rnd := stream{mix(p.seed, kindSuggestion, uint64(dateOf(at)))} //nolint:gosec // not negative
	n := map[string]int{"accepted": 5 + rnd.below(20), "rejected": 2 + rnd.below(10), "modified": rnd.below(6), "expired": rnd.below(8)}
	for _, x := range s.suggestions(p, at) {
		if x.Status != "open" {
			n[x.Status]++
		}
	}
	decided := n["accepted"] + n["rejected"] + n["modified"]
	return map[string]any{
		"propertyId": p.id, "days": 30, "asOf": bff.At(s.houseTime(p, c.now)), "accepted": n["accepted"], "rejected": n["rejected"], "modified": n["modified"],
		"expired": n["expired"], "acceptanceRate": float64(1000*(n["accepted"]+n["modified"])/decided) / 1000,
	}, nil
}

// raiseAlert adds an alert to a house.
func (s *Sim) raiseAlert(c *call) (any, error) {
	var req struct {
		PropertyID string `json:"propertyId"`
		Category   string `json:"category"`
		Severity   string `json:"severity"`
		Title      string `json:"title"`
	}
	if err := decodeStrict(c.body, &req); err != nil {
		return nil, err
	}
	p := s.data.propertyByID[req.PropertyID]
	if p == nil {
		return nil, notFound("property")
	}
	var bad bff.FieldErrors
	req.Category, req.Severity = cmp.Or(req.Category, "power"), cmp.Or(req.Severity, "warning")
	bad.Check(slices.Contains(alertSeverities(), req.Severity), "severity", bff.FieldUnsupported)
	bad.Check(len(req.Category) <= 64, "category", bff.FieldLength)
	bad.Check(len(req.Title) <= maxNotes, "title", bff.FieldLength)
	if err := refused(bad); err != nil {
		return nil, err
	}
	x := Alert{
		AlertID: bff.NewID(prefixAlert, c.now).String(), TenantID: p.tenant.id, PropertyID: p.id, Category: req.Category, Severity: req.Severity,
		Title: cmp.Or(req.Title, "The generator is running"), Status: "open", RaisedAt: bff.At(c.now),
	}
	s.addAlert(x)
	s.tellAlert(c, p, x, "raised")
	return created{x}, nil
}

func (s *Sim) addAlert(x Alert) {
	s.staff.mu.Lock()
	defer s.staff.mu.Unlock()
	s.staff.alerts[x.PropertyID] = keepLast(append(s.staff.alerts[x.PropertyID], x))
}

// resolveAlert ends the alert of the path.
func (s *Sim) resolveAlert(c *call) (any, error) {
	p, x, err := s.findAlert(c)
	if err != nil {
		return nil, err
	}
	now, err := s.staff.move(x.AlertID, s.staff.stands(x.AlertID, x.Status), "resolved", c.now, "open", "acknowledged")
	if err != nil {
		return nil, err
	}
	x.Status = now.status
	s.tellAlert(c, p, x, "resolved")
	return x, nil
}

func (s *Sim) tellAlert(c *call, p *property, x Alert, event string) {
	s.tell(c, "melmastoon.notification.alert."+event+".v1", p, map[string]any{
		"alertId": x.AlertID, "category": x.Category, "severity": x.Severity, "raisedAt": x.RaisedAt,
	})
}

// addSuggestion gives a house advice.
func (s *Sim) addSuggestion(c *call) (any, error) {
	var req struct {
		PropertyID string `json:"propertyId"`
		Category   string `json:"category"`
	}
	if err := decodeStrict(c.body, &req); err != nil {
		return nil, err
	}
	p := s.data.propertyByID[req.PropertyID]
	if p == nil {
		return nil, notFound("property")
	}
	i := 0
	if req.Category != "" {
		for i < len(suggestionKinds) && suggestionKinds[i].category != req.Category {
			i++
		}
	}
	if i == len(suggestionKinds) {
		return nil, refused(bff.FieldErrors{{Field: "category", Code: bff.FieldUnsupported}})
	}
	k := suggestionKinds[i]
	x := Suggestion{
		SuggestionID: bff.NewID(prefixSuggestion, c.now).String(), TenantID: p.tenant.id, PropertyID: p.id, Category: k.category, Title: k.title,
		Severity: "info", Proposal: map[string]any{k.field: 5}, Confidence: 0.9, Status: "open", CreatedAt: bff.At(c.now), ExpiresAt: bff.At(c.now.Add(36 * time.Hour)),
		Provenance: map[string]any{"model": "ops-advisor", "modelVersion": "2026-03", "promptVersion": "p1"},
	}
	s.staff.mu.Lock()
	s.staff.advice[p.id] = keepLast(append(s.staff.advice[p.id], x))
	s.staff.mu.Unlock()
	s.tellSuggestion(c, p, x, "created")
	return created{x}, nil
}

// expireSuggestion withdraws the suggestion of the path.
func (s *Sim) expireSuggestion(c *call) (any, error) {
	p, x, err := s.findSuggestion(c)
	if err != nil {
		return nil, err
	}
	now, err := s.staff.move(x.SuggestionID, s.staff.stands(x.SuggestionID, x.Status), "expired", c.now, "open")
	if err != nil {
		return nil, err
	}
	x.Status = now.status
	s.tellSuggestion(c, p, x, "expired")
	return x, nil
}

func (s *Sim) tellSuggestion(c *call, p *property, x Suggestion, event string) {
	s.tell(c, "melmastoon.ai_orchestrator.suggestion."+event+".v1", p, map[string]any{
		"suggestionId": x.SuggestionID, "category": x.Category, "createdAt": x.CreatedAt, "expiresAt": x.ExpiresAt,
	})
}

// notModified is an answer with status 304.
type notModified struct{}
