package consumerd_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// scraper is a program that asks for everything once.
type scraper struct {
	addr   string
	header []string
}

func scrapers() []scraper {
	return []scraper{
		{"198.51.100.1", []string{"User-Agent", headless}},
		{"198.51.100.2", []string{"User-Agent", headless, "Accept-Language", "en-US"}},
		{"198.51.100.3", []string{"User-Agent", "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)"}},
		{"198.51.100.4", []string{"User-Agent", "HotelPriceWatch/1.0 (+https://prices.example/bot)"}},
		// This one has a person's chance: until it goes faster than people do.
		{"198.51.100.5", []string{"User-Agent", "python-requests/2.32.3"}},
	}
}

// TestProofFlood: programs that search for everything, ten times as often as people,
// cost the upstreams nothing if they are known for what they are, and hardly anything
// if not; and people do not notice.
func TestProofFlood(t *testing.T) {
	f := newWatch(t, 1, map[string]string{"BFF_CONSUMER_NO_CRAWLER_DNS": "true"})
	guests := testkit.Proof(120, 2000)
	f.calls()
	f.visitors(1, guests)
	usual := f.guestCalls()
	// Calls that were hedged or tried again are a slow machine's, not the flood's.
	before := f.lateCalls()
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		served = make([]atomic.Int64, len(scrapers())) // or tried to be
		ctx    = testkit.Context(t)
	)
	wg.Go(func() { f.visitors(2, guests) })
	for range 4 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(10*guests); i = next.Add(1) {
				program := int(i) % len(scrapers())
				r := scrapers()[program]
				c := guestCall{method: http.MethodPost, path: "/search", body: query(fmt.Sprintf(
					`"geo":{"mode":"point","point":{"lat":%.2f,"lng":%.2f,"radiusKm":%d}}`, 30+float64(i%800)/100, 62+float64(i/7%800)/100, 1+i%40,
				))}.with(append(r.header, "X-Forwarded-For", r.addr)...)
				a, err := f.try(ctx, c)
				switch {
				case err != nil:
					t.Error(err)
				case a.status == http.StatusOK || testkit.TooSlow(a.status, a.body):
					served[program].Add(1)
				case a.status != http.StatusTooManyRequests:
					t.Errorf("%.300s", a)
				}
			}
		})
	}
	wg.Wait()
	late := f.lateCalls() - before
	searches := f.peekCalls()[callListings] // which pages of hotels do not call
	flooded := f.guestCalls()
	last := len(scrapers()) - 1 // has a person's chance
	chance := served[last].Load()
	t.Logf("upstream calls of %d guests: %d; with %d requests of programs: %d, %d of them late; %d searches of programs were answered",
		guests, usual, 10*guests, flooded, late, chance)
	for i := range last {
		if n := served[i].Load(); n > 0 {
			t.Errorf("%d searches of %v were answered", n, scrapers()[i].header)
		}
	}
	if searches > chance+late {
		t.Errorf("%d searches upstream, want no more than the %d that were answered", searches, chance)
	}
	const perSearch = 3 // hotels, prices and brands
	if people := flooded - perSearch*chance - late; people > usual*11/10 {
		t.Errorf("%d upstream calls besides the searches that were answered, want at most a tenth more than %d", people, usual)
	}
	// On a slow machine that program is as slow as people are.
	if late == 0 && flooded > usual*11/10 {
		t.Errorf("the flood made %d upstream calls of %d, want at most a tenth more", flooded, usual)
	}
}

// visitors has guests look at a page each, none of which was seen before.
func (f *fleet) visitors(month, guests int) {
	f.t.Helper()
	hotels := f.hotels()
	ctx := testkit.Context(f.t)
	var (
		wg   sync.WaitGroup
		next atomic.Int64
	)
	for range 4 {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= guests; i = int(next.Add(1)) {
				c := hotelCall(fmt.Sprintf(
					"%s?checkIn=2077-%02d-%02d&checkOut=2077-%02d-%02d", hotels[(month*guests+i)%len(hotels)].PropertyID, month, 1+i%20, month, 3+i%20,
				)).at(0, 1000*month+i).with(
					"User-Agent", fmt.Sprintf("Mozilla/5.0 (Android 14; Mobile; model %c) Gecko/145.0 Firefox/145.0", 'A'+rune(i%26)))
				var a guestAnswer
				var err error
				testkit.Retry(f.t, "a page within the budgets of upstreams", func() bool {
					a, err = f.try(ctx, c)
					return err != nil || !testkit.TooSlow(a.status, a.body)
				})
				if err != nil || a.status != http.StatusOK {
					f.t.Errorf("a guest: %v %.300s", err, a)
				}
			}
		})
	}
	wg.Wait()
}
