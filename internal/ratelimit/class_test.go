package ratelimit

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestOverrideClasses(t *testing.T) {
	t.Parallel()
	defaults := Classes{PerMinute: map[string]int{"search": 60, "detail": 120, "handoff": 10}, IP: 5, Fingerprint: 5}
	c, err := defaults.Override("search=100, ip=7.5,handoff=3")
	if err != nil || c.PerMinute["search"] != 100 || c.PerMinute["handoff"] != 3 || c.PerMinute["detail"] != 120 || c.IP != 7.5 || c.Fingerprint != 5 || c.Off {
		t.Errorf("got %+v %v", c, err)
	}
	if defaults.PerMinute["search"] != 60 {
		t.Errorf("the defaults changed: %+v", defaults)
	}
	if c, err := defaults.Override("off"); err != nil || !c.Off {
		t.Errorf("off: %+v %v", c, err)
	}
	_, err = defaults.Override("search=0,walk=3,ip=half,handoff")
	for _, want := range []string{"search", "walk", "ip", "handoff"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
}

// TestChargesAreBounded: however many keys clients make up, they do not fill the
// memory.
func TestChargesAreBounded(t *testing.T) {
	t.Parallel()
	charges := NewCharges()
	for i := range 250_000 {
		a := charges.Begin(time.Unix(int64(i/1000), 0), "session", fmt.Sprint(i), "POST /handoff")
		a.Decide(func() Decision { return Decision{Allowed: true} }, nil)
		a.End(true)
	}
	if n := len(charges.cur) + len(charges.prev); n > 2*maxCharges {
		t.Errorf("%d charges are remembered, want at most %d", n, 2*maxCharges)
	}
}

// TestRetriesAreFew: a retry is free for the same request only, while the first
// attempt runs or its answer is kept, and a few times.
func TestRetriesAreFew(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		owner, key string
		request    []string
		kept       bool // the answer of the first
		want       bool
	}{
		"the same":        {"a", "k", []string{"POST", "/handoff", "{}"}, true, true},
		"another body":    {"a", "k", []string{"POST", "/handoff", "{ }"}, true, false},
		"another path":    {"a", "k", []string{"POST", "/wishlist", "{}"}, true, false},
		"shifted parts":   {"a", "k", []string{"POST", "/handof", "f{}"}, true, false},
		"another key":     {"a", "l", []string{"POST", "/handoff", "{}"}, true, false},
		"another session": {"b", "k", []string{"POST", "/handoff", "{}"}, true, false},
		"no session":      {"", "k", []string{"POST", "/handoff", "{}"}, true, false},
		"answer not kept": {"a", "k", []string{"POST", "/handoff", "{}"}, false, false},
	} {
		allow := func() Decision { return Decision{Allowed: true} }
		charges := NewCharges()
		first := charges.Begin(now, "a", "k", "POST", "/handoff", "{}")
		first.Decide(allow, nil)
		if running := charges.Begin(now, "a", "k", "POST", "/handoff", "{}"); !running.Retry() {
			t.Errorf("%s: a retry while the first attempt runs is charged", name)
		}
		if first.End(tc.kept) {
			t.Errorf("%s: the first attempt owes a charge", name)
		}
		if again := charges.Begin(now, tc.owner, tc.key, tc.request...); again.Retry() != tc.want {
			t.Errorf("%s: a retry %t, want %t", name, again.Retry(), tc.want)
		}
	}

	charges, free, full := NewCharges(), 0, 0
	for range 100 {
		a := charges.Begin(now, "a", "k", "POST", "/handoff", "{}")
		a.Decide(func() Decision { full++; return Decision{Allowed: true} }, func() Decision { free++; return Decision{Allowed: true} })
		a.End(true)
	}
	if free != maxRetries || full != 100-maxRetries {
		t.Errorf("%d retries were free and %d attempts charged, want %d and %d", free, full, maxRetries, 100-maxRetries)
	}
}
