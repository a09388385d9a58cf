package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

// storyBuilder builds one story.
type storyBuilder struct {
	*Store
	*Story
	trace    string
	began    int64
	children map[string][]*span
}

// story is called with the lock held.
func (s *Store) story(r root) *Story {
	rec, sp := s.traces[r.trace], r.span
	t := &storyBuilder{Store: s, trace: r.trace, began: sp.start, children: map[string][]*span{}, Story: &Story{
		Limits: []Limit{}, Notes: []string{}, Reads: []Read{}, Calls: []Call{}, Trips: []Trips{}, Events: []Left{},
	}}
	for _, c := range rec.spans {
		if c != sp {
			t.children[c.parent] = append(t.children[c.parent], c)
		}
	}
	for _, list := range t.children {
		slices.SortStableFunc(list, func(a, b *span) int { return cmp.Compare(a.start, b.start) })
	}
	t.request(r)
	t.walk(sp, 0, nil)
	for _, left := range rec.left {
		if left.root == sp.id {
			t.Events = append(t.Events, Left{Subject: left.subject, At: time.Unix(0, left.at).UTC(), AfterMs: t.after(left.at)})
		}
	}
	for _, c := range t.Story.Calls {
		for _, a := range c.Attempts {
			if a.AfterMs <= t.Ms {
				t.Request.Calls += a.Came
			}
			if text := c.Upstream + ": " + a.Fault; a.Fault != "" && !slices.Contains(t.Faults, text) {
				t.Faults = append(t.Faults, text)
			}
		}
	}
	return t.Story
}

func (t *storyBuilder) after(at int64) float64 { return ms(at - t.began) }

func ms(nanoseconds int64) float64 { return float64(nanoseconds/1000) / 1000 }

func (t *storyBuilder) request(r root) {
	sp, f := r.span, r.span.facts
	method, _, _ := strings.Cut(sp.name, " ")
	t.Request = Request{
		Seq: r.seq, ID: f["request.id"], TraceID: r.trace, At: time.Unix(0, sp.start).UTC(), Ms: ms(sp.end - sp.start), Service: sp.service,
		Method: cmp.Or(f["http.request.method"], method), Route: f["http.route"], Target: f["url.target"], Body: f["http.request.body"],
		Status: number(f["http.response.status_code"]), Code: f["error.type"], Cache: f["answer.result"], Shed: f["answer.brownout"],
		Degraded: []string{}, Faults: []string{},
		Caller: Caller{
			Kind: cmp.Or(f["caller.kind"], "service"), Name: f["caller.name"], TenantID: f["caller.tenant"], Device: f["caller.device"],
			Verdict: f["caller.verdict"],
		},
	}
	t.Caller.Score, _ = strconv.ParseFloat(f["caller.score"], 64) // 0 if it was not judged
	for _, m := range sp.lists["answer.missing"] {
		if !slices.Contains(t.Degraded, m) {
			t.Degraded = append(t.Degraded, m)
		}
	}
	for key, v := range f {
		if note, ok := strings.CutPrefix(key, "note."); ok {
			t.Notes = append(t.Notes, note+": "+v)
		}
	}
	slices.Sort(t.Notes)
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // 0 for what is absent
	return n
}

// walk tells a span and what is below it. In call is the upstream call above it.
func (t *storyBuilder) walk(sp *span, depth int, in *Call) {
	t.Spans = append(t.Spans, Span{
		ID: sp.id, Parent: sp.parent, Depth: depth, Service: sp.service, Name: sp.name, AfterMs: t.after(sp.start), Ms: ms(sp.end - sp.start), Failed: sp.failed,
		Facts: sp.facts,
	})
	f := sp.facts
	var call *Call
	switch {
	case f["upstream.name"] != "":
		call = &Call{
			Upstream: f["upstream.name"], Route: f["upstream.route"], Outcome: f["upstream.outcome"], Breaker: f["upstream.breaker"],
			AfterMs: t.after(sp.start), Ms: ms(sp.end - sp.start), Attempts: []Attempt{},
		}
		if method, _, _ := strings.Cut(strings.TrimPrefix(sp.name, "upstream "+call.Upstream+" "), " "); !strings.HasPrefix(call.Route, method) {
			call.Route = method + " " + call.Route
		}
	case f["upstream.attempt"] != "" && in != nil:
		a := Attempt{
			Hedge: f["upstream.hedge"] == "true", Status: number(f["http.response.status_code"]), Outcome: f["upstream.outcome"],
			AfterMs: t.after(sp.start), Ms: ms(sp.end - sp.start),
		}
		if a.Status > 0 || t.cfg.Met == nil {
			a.Came = 1
		}
		if t.cfg.Met != nil {
			times, faults := t.cfg.Met(sp.id)
			a.Came = max(a.Came, times)
			for i, fault := range faults {
				if i > 0 {
					a.Fault += "; "
				}
				a.Fault += fmt.Sprintf("fault %d, set at %s: %s", fault.Number, fault.Since.Local().Format(time.TimeOnly), fault.Text)
			}
		}
		in.Attempts = append(in.Attempts, a)
	case f["db.system.name"] != "" && sp.kind == tracepb.Span_SPAN_KIND_CLIENT:
		t.trip(f["db.system.name"], sp)
	case strings.HasPrefix(sp.name, "cache ") && !strings.HasPrefix(sp.name, "cache refresh "):
		t.read(strings.TrimPrefix(sp.name, "cache "), f, sp.lists, sp.end, ms(sp.end-sp.start), sp.failed != "")
	}
	for _, e := range sp.events {
		switch name, isRead := strings.CutPrefix(e.name, "cache "); {
		case isRead:
			t.read(name, e.facts, e.lists, e.at, 0, false)
		case e.name == "limit":
			// The words of ratelimit's scopes, as its spans carry them: testkit tells stories, and ratelimit's tests import testkit.
			class, scope := e.facts["limit.name"], "session"
			for _, shared := range []string{"ip", "fingerprint"} {
				if of, found := strings.CutSuffix(class, "-"+shared); found {
					class, scope = of, shared
				}
			}
			t.Limits = append(t.Limits, Limit{
				Class: class, Scope: scope, Limit: number(e.facts["limit.count"]), Remaining: number(e.facts["limit.left"]),
				Refused: e.facts["limit.refused"] == "true", Local: e.facts["limit.local"] == "true",
			})
		}
	}
	for _, c := range t.children[sp.id] {
		t.walk(c, depth+1, cmp.Or(call, in))
	}
	if call != nil {
		t.Story.Calls = append(t.Story.Calls, *call)
	}
}

func (t *storyBuilder) trip(store string, sp *span) {
	i := slices.IndexFunc(t.Trips, func(x Trips) bool { return x.Store == store })
	if i < 0 {
		i, t.Trips = len(t.Trips), append(t.Trips, Trips{Store: store})
	}
	t.Trips[i].Count++
	t.Trips[i].Ms += ms(sp.end - sp.start)
	if sp.failed != "" {
		t.Trips[i].Failed++
	}
}

// read tells one read through a cache.
func (t *storyBuilder) read(name string, f map[string]string, lists map[string][]string, at int64, took float64, failed bool) {
	r := Read{
		Cache: name, Result: f["cache.result"], Key: f["cache.key"], Tags: lists["cache.tags"], Number: int64(number(f["cache.number"])),
		AgeMs: int64(number(f["cache.age_ms"])), Ms: took,
	}
	shared, collapsed := f["cache.shared"] == "true", f["cache.collapsed"] == "true"
	switch {
	case failed:
		r.Result, r.By = "failed", "nothing"
	case shared && collapsed:
		r.By = "another instance"
	case shared:
		r.By = "redis"
	case collapsed:
		r.By = "another request"
	case r.Result == "MISS" || r.Result == "BYPASS":
		r.By = "this request"
	default:
		r.By = "memory"
	}
	by, known := t.fills[r.Key]
	if known && r.Tags == nil {
		r.Tags = by.tags
	}
	if known && by.trace != t.trace && by.at <= at+int64(time.Second) {
		if rec := t.traces[by.trace]; rec != nil && len(rec.roots) > 0 {
			r.Filler = t.roots[rec.roots[0]].span.facts["request.id"]
		}
	}
	t.Reads = append(t.Reads, r)
}
