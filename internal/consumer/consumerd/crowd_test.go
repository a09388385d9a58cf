package consumerd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestProofHostileCrowd has strangers ask for a great many different things while
// the projection does not answer. Neither the keys they make nor the calls they
// cause grow with what they send, and each is answered.
func TestProofHostileCrowd(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 1)
	names := []string{strings.Repeat("ک", 64), "k", "{}:*[" + strings.Repeat("x", 50)}
	for i, name := range names {
		for _, c := range []guestCall{
			searchCall(name),
			{method: http.MethodPost, path: "/search/map", body: query(`"geo":{"mode":"city","city":"` + name + `"}`)},
			{method: http.MethodGet, path: "/suggest?q=" + name},
			{method: http.MethodGet, path: "/facets?country=AF&region=" + name},
		} {
			c.guest = i
			if a := f.ask(c); a.status != http.StatusOK && a.status != http.StatusNotFound {
				t.Errorf("%s %q: %.300s", c.path, name, a)
			}
		}
	}
	client := redisClient(t, f.RedisURL)
	keys, err := client.Do(testkit.Context(t), client.B().Keys().Pattern(f.Name+":bff-consumer:*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(keys, func(a, b string) int { return len(b) - len(a) })
	if len(keys) < 8 || len(keys[0]) > 512 {
		t.Errorf("%d keys, the longest of %d bytes", len(keys), len(keys[0]))
	}

	strangers := testkit.Proof(800, 1500)
	if err := f.Sim.SetFault(sim.Fault{Upstream: "search-aggregation", Hang: true}); err != nil {
		t.Fatal(err)
	}
	defer f.Sim.ClearFaults()
	f.calls()
	ctx := testkit.Context(t)
	got := f.strangers(ctx, strangers)
	calls := int64(0)
	for _, n := range f.calls() {
		calls += n
	}
	t.Logf("%d different queries: %d upstream calls, answers %v", strangers, calls, got)
	if calls > int64(strangers/5) {
		t.Errorf("%d different queries made %d upstream calls", strangers, calls)
	}
	for code := range got {
		switch bff.Code(code) {
		case bff.CodeUpstreamUnavailable, bff.CodeServiceUnavailable, bff.CodeUpstreamBudgetExceeded, bff.CodeRateLimited:
		default:
			t.Errorf("%d × %s", got[code], code)
		}
	}
}

// strangers asks n different queries, hundreds at once, and counts the codes of
// the answers. They are no more than this machine can open connections for in
// the time that a client has to send its header.
func (f *fleet) strangers(ctx context.Context, n int) map[string]int {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		got   = map[string]int{}
		slots = make(chan struct{}, 500)
	)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			c := searchCall("Kabul", fmt.Sprintf(`"filters":{"priceRange":{"min":%d,"max":100000,"currency":"USD"}}`, i))
			c.guest = i
			a, err := f.try(ctx, c)
			var r struct{ Error struct{ Code string } }
			code := strconv.Itoa(a.status)
			if err != nil {
				code = err.Error()
			} else if json.Unmarshal(a.body, &r) == nil && r.Error.Code != "" {
				code = r.Error.Code
			}
			mu.Lock()
			defer mu.Unlock()
			got[code]++
		})
	}
	wg.Wait()
	return got
}
