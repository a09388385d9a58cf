package testkit

import (
	"bytes"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// Until waits for an event of the system that nothing signals to a test: it is ready, it
// has published. It looks ever more rarely: a look may be a request, and clients have limits.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx := Context(t)
	for wait := 4 * time.Millisecond; !done(); wait = min(3*wait/2, time.Second) {
		if !pause.For(ctx, wait) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// maxForgiven is how many attempts that failed the tests of one binary may make again. A
// busy machine makes some fail; a service that refuses what it should serve makes many.
var maxForgiven = Proof(150, 3000)

var forgiven struct {
	sync.Mutex
	n  int
	by map[string]int
}

// Forgive counts an attempt that failed and is made again, and reports whether it may be.
func Forgive(t testing.TB, what string) bool {
	t.Helper()
	forgiven.Lock()
	defer forgiven.Unlock()
	if forgiven.by == nil {
		forgiven.by = map[string]int{}
	}
	forgiven.n++
	forgiven.by[t.Name()+": "+what]++
	if forgiven.n > maxForgiven {
		t.Errorf("%s: failed, and this run has forgiven %d failures already: %v", what, maxForgiven, forgiven.by)
		return false
	}
	t.Logf("forgiven, %d of %d: %s", forgiven.n, maxForgiven, what)
	return true
}

// Retry makes attempts until one succeeds, ever more rarely: clients have limits, however
// slow the machine is. All but the first are counted. It reports whether one has succeeded,
// and may be called in any goroutine of a test.
func Retry(t testing.TB, what string, attempt func() bool) bool {
	t.Helper()
	ctx := Context(t)
	for wait := 20 * time.Millisecond; !attempt(); wait = min(2*wait, time.Second) {
		if !Forgive(t, what) {
			return false
		}
		if !pause.For(ctx, wait) {
			t.Errorf("never succeeded: %s", what)
			return false
		}
	}
	return true
}

// TooSlow reports whether an answer says that an upstream did not answer within its
// budget. Budgets are those of production, which a busy machine may exceed: a client
// asks again, and so does a test that is about something else.
func TooSlow(status int, body []byte) bool {
	return status >= http.StatusInternalServerError &&
		slices.ContainsFunc([]string{`UPSTREAM_UNAVAILABLE"`, `UPSTREAM_TIMEOUT"`, `UPSTREAM_BUDGET_EXCEEDED"`}, func(code string) bool {
			return bytes.Contains(body, []byte(code))
		})
}
