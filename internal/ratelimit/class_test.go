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
		a := charges.Begin("handoff", "session", fmt.Sprint(i), time.Unix(int64(i/1000), 0))
		a.Settle(Decision{Allowed: true})
	}
	if n := len(charges.cur) + len(charges.prev); n > 2*maxCharges {
		t.Errorf("%d charges are remembered, want at most %d", n, 2*maxCharges)
	}
}
