package consumerd_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestSpike lets a campaign send ten times the guests to as many different
// pages: the services behind see no more of them than on any other day. It is
// not parallel: it wants the machine for itself.
func TestSpike(t *testing.T) {
	f := newFleet(t, 3, nil)
	for month := 1; month < 6; month += 2 {
		usual, busy := f.day(month, 120)
		spike, busier := f.day(month+1, 1200)
		t.Logf("upstream calls of 120 guests: %d; of 1200 guests: %d", usual, spike)
		if busy+busier > 0 {
			// Instances that cannot reach Redis in time ask for themselves, and what was late
			// is asked for again.
			t.Logf("the machine was too busy %d times; once more", busy+busier)
			if most := int64(len(f.nodes))*usual + busier; spike > most {
				t.Errorf("ten times the guests made %d upstream calls, want no more than %d", spike, most)
			}
			continue
		}
		if spike > usual*11/10 {
			t.Errorf("ten times the guests made %d upstream calls, want no more than %d", spike, usual*11/10)
		}
		// The same pages again, while they are fresh.
		if again, _ := f.day(month+1, 1200); again > 0 {
			t.Errorf("guests of fresh pages made %d upstream calls", again)
		}
		return
	}
}

// pages is how many different pages a day's guests look at.
const pages = 60

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
	for range 12 {
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
