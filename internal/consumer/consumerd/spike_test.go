package consumerd_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestProofSpike lets a campaign send ten times the guests to as many different
// pages: the services behind see no more of them than on any other day. It is
// not parallel: it wants the machine for itself.
func TestProofSpike(t *testing.T) {
	f := newFleet(t, 3)
	for month := 1; month < 6; month += 2 {
		usual, _ := f.day(month, pages)
		began := time.Now()
		spike, busy := f.day(month+1, 10*pages)
		again, busier := f.day(month+1, 10*pages) // while the pages are fresh
		t.Logf("upstream calls of %d guests: %d; of %d guests: %d, and again: %d", pages, usual, 10*pages, spike, again)
		if spike <= usual*11/10 && again == 0 {
			return
		}
		fresh := time.Since(began) < 9*hotel.RateLifetime/10
		if fresh && busy+busier == 0 {
			t.Fatalf("ten times the guests made %d upstream calls, want a tenth more than %d at most, and the same pages again %d", spike, usual, again)
		}
		// Instances that cannot reach Redis in time ask for themselves, and what was late
		// is asked for again.
		if most := int64(len(f.nodes))*usual + busy; fresh && spike > most {
			t.Errorf("ten times the guests made %d upstream calls, want no more than %d", spike, most)
		}
		t.Logf("the machine was too busy %d times; once more", busy+busier)
	}
}

// pages is how many different pages a day's guests look at.
var pages = testkit.Proof(36, 60)

// day has many guests, on all instances, look at the same few pages of a month,
// some pages far oftener than others. It returns what that cost upstream, and
// how often the machine was too slow for it.
func (f *fleet) day(month, guests int) (calls, busy int64) {
	f.t.Helper()
	hotels := f.hotels()
	cities := []string{"Kabul", "Herat", "Kandahar", "Jalalabad", "Bamyan", "Mazar-e Sharif"}
	nights := fmt.Sprintf(`"dates":{"checkIn":"2077-%02d-10","checkOut":"2077-%02d-12"}`, month, month)
	ask := func(n int) guestCall {
		switch n % 3 {
		case 0:
			return searchCall(cities[n/3%len(cities)], nights, fmt.Sprintf(`"occupancy":{"adults":%d,"children":0,"rooms":1}`, 1+n/18))
		case 1:
			return guestCall{method: http.MethodPost, path: "/search/map", body: query(`"geo":{"mode":"city","city":"`+cities[n/3%len(cities)]+`"}`,
				nights, fmt.Sprintf(`"occupancy":{"adults":%d,"children":0,"rooms":1}`, 1+n/18))}
		default:
			return hotelCall(fmt.Sprintf("%s?checkIn=2077-%02d-10&checkOut=2077-%02d-12", hotels[100*month+n].PropertyID, month, month))
		}
	}
	for i := range f.nodes {
		f.awaitRedis(i)
	}
	before := f.extraCalls()
	f.calls()
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		ctx    = testkit.Context(f.t)
		failed atomic.Pointer[string]
	)
	for range 4 { // at the same time
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < guests; i = int(next.Add(1)) - 1 {
				page := i // each page once, then at random, the first ones most
				if page >= pages {
					page = min(rand.IntN(pages), rand.IntN(pages))
				}
				c := ask(page)
				c.node, c.guest = i%len(f.nodes), i
				if a, err := f.try(ctx, c); err != nil || a.status != http.StatusOK {
					what := fmt.Sprintf("%s %s: %v %.300s", c.method, c.path, err, a)
					failed.Store(&what)
				}
			}
		})
	}
	wg.Wait()
	busy = f.extraCalls() - before
	calls = f.guestCalls()
	if what := failed.Load(); what != nil && busy == 0 {
		f.t.Error(*what)
	}
	return calls, busy
}
