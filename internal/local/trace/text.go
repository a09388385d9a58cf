package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// shownReads, shownTags and shownCalls keep a story on one screen; its JSON has all.
const (
	shownReads = 8
	shownTags  = 2
	shownCalls = 12
)

// text is the story for a terminal.
func (s *Story) text() string {
	var b strings.Builder
	say := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s%s\n", what, fmt.Sprintf(format, args...))
	}
	code := ""
	if s.Code != "" {
		code = s.Code + ", "
	}
	fmt.Fprintf(&b, "%s %s: %d, %s%.1f ms\n", s.Method, s.Target, s.Status, code, s.Ms)
	say("", "%s  %s  %s  trace %s", s.ID, s.Service, s.At.Local().Format("15:04:05.000"), s.TraceID)
	asked := strings.Join(slices.DeleteFunc([]string{s.Caller.Kind, s.Caller.Name, s.Caller.TenantID, s.Caller.Device},
		func(word string) bool { return word == "" }), " ")
	if s.Caller.Verdict != "" {
		asked += fmt.Sprintf(", judged %s (%.2g)", s.Caller.Verdict, s.Caller.Score)
	}
	say("asked by", "%s", asked)
	for _, l := range s.Limits {
		verdict := "allows it"
		if l.Refused {
			verdict = "REFUSES it"
		}
		if l.Local {
			verdict += ", without Redis"
		}
		say("limit", "%s of the %s %s, %d of %d left", l.Class, l.Scope, verdict, l.Remaining, l.Limit)
	}
	for i, note := range s.Notes {
		say(once("notes", i), "%s", note)
	}
	s.tellReads(say)
	s.tellCalls(say, &b)
	for i, t := range s.Trips {
		failed := ""
		if t.Failed > 0 {
			failed = fmt.Sprintf(", %d failed", t.Failed)
		}
		say(once("stores", i), "%s: %d round trip(s), %.1f ms%s", t.Store, t.Count, t.Ms, failed)
	}
	for i, e := range s.Events {
		say(once("events", i), "%s  left after %.0f ms", e.Subject, e.AfterMs)
	}
	for i, d := range s.Degraded {
		say(once("missing", i), "%s", d)
	}
	if s.Shed != "" {
		say("shed", "the brownout ladder stands at %s", s.Shed)
	}
	for i, f := range s.Faults {
		say(once("because", i), "%s", f)
	}
	if len(s.Degraded) > 0 && len(s.Faults) == 0 {
		s.blame(say)
	}
	return b.String()
}

// once names the first line of several.
func once(what string, i int) string {
	if i > 0 {
		return ""
	}
	return what
}

// tellReads tells reads, those of one cache that went alike as one.
func (s *Story) tellReads(say func(string, string, ...any)) {
	var order []string
	alike := map[string][]Read{}
	for _, r := range s.Reads {
		by := "filled by " + r.By
		switch {
		case r.Filler != "":
			by = "from " + r.By + ", filled by " + r.Filler
		case r.By == "memory" || r.By == "redis":
			by = "from " + r.By
		}
		as := fmt.Sprintf("%s %s, %s", r.Cache, r.Result, by)
		if alike[as] == nil {
			order = append(order, as)
		}
		alike[as] = append(alike[as], r)
	}
	for i, as := range order[:min(len(order), shownReads)] {
		reads := alike[as]
		took, number := 0.0, int64(0)
		for _, r := range reads {
			took, number = max(took, r.Ms), max(number, r.Number)
		}
		say(once("cache", i), "%s%s, %.1f ms, number %d%s", as, times(len(reads)), took, number, shortTags(reads[0].Tags))
	}
	if more := len(order) - shownReads; more > 0 {
		say("", "and %d more kinds of reads", more)
	}
}

// times says how many there are, if there are several.
func times(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" ×%d", n)
}

func shortTags(tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	shown := ", tags " + strings.Join(tags[:min(len(tags), shownTags)], " ")
	if more := len(tags) - shownTags; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown
}

// tellCalls tells upstream calls, those of one route that went well at once as one.
func (s *Story) tellCalls(say func(string, string, ...any), b *strings.Builder) {
	well, shown := map[string]int{}, 0
	name := func(c Call) string { return c.Upstream + " " + c.Route }
	simple := func(c Call) bool { return c.Outcome == "ok" && len(c.Attempts) == 1 && c.Attempts[0].Fault == "" }
	slowest := map[string]float64{}
	for _, c := range s.Calls {
		if simple(c) {
			well[name(c)]++
			slowest[name(c)] = max(slowest[name(c)], c.Ms)
		}
	}
	for _, c := range s.Calls {
		n := well[name(c)]
		if simple(c) && n == 0 {
			continue // told
		}
		if shown++; shown > shownCalls {
			say("", "and more calls: --json has all")
			return
		}
		if simple(c) {
			well[name(c)] = 0
			say(once("upstreams", shown-1), "%s  ok%s, %.0f ms, breaker %s", name(c), times(n), slowest[name(c)], c.Breaker)
			continue
		}
		say(once("upstreams", shown-1), "%s  %s, %.0f ms, breaker %s", name(c), c.Outcome, c.Ms, c.Breaker)
		out := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		for n, a := range c.Attempts {
			kind, status := "sent", "no answer"
			switch {
			case a.Hedge:
				kind = "hedge"
			case n > 0:
				kind = "again"
			}
			switch {
			case a.Status > 0:
				status = strconv.Itoa(a.Status)
			case a.Came == 0:
				status = "never came there"
			}
			_, _ = fmt.Fprintf(out, "            %s\tat %.0f ms\t%s\t%s\tin %.0f ms\t%s\n", kind, a.AfterMs, status, a.Outcome, a.Ms, a.Fault)
		}
		_ = out.Flush() // a builder takes everything
	}
}

// blame says where to look when no fault is known: what failed here, or the request that
// filled the entry.
func (s *Story) blame(say func(string, string, ...any)) {
	n := 0
	for _, c := range s.Calls {
		if c.Outcome != "ok" {
			say(once("because", n), "%s answered %s: %s", c.Upstream, c.Outcome, c.Route)
			n++
		}
	}
	for _, r := range s.Reads {
		if n == 0 && r.Filler != "" {
			say("because", "it was so when the entry was filled: melmastoon why %s", r.Filler)
			return
		}
	}
}
