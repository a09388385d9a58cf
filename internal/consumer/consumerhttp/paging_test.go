package consumerhttp_test

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
)

// TestPagingIsStable moves the order under a guest who pages: no hotel is repeated or
// skipped. When the order is lost, or the search is another guest's, the answer says so.
func TestPagingIsStable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.searches.kept, s.searches.orders = map[bff.ID]consumer.SearchSession{}, map[consumer.Hash][]bff.ID{}
		b := newJar(t, s)
		search := func(b *jar, page, srs string) (hotels []int, session string, overlaps bool) {
			t.Helper()
			call := searchCall("Kabul", `"page":`+page)
			if srs != "" {
				call.header = map[string]string{"X-Search-Session": srs}
			}
			a := b.ask(call)
			var got struct {
				Results  []struct{ PropertyID bff.ID }
				Degraded []struct{ Part string }
			}
			if err := json.Unmarshal(a.body, &got); err != nil {
				t.Fatalf("%v: %s", err, a)
			}
			for _, r := range got.Results {
				hotels = append(hotels, consumertest.Number(r.PropertyID))
			}
			<-time.After(time.Second) // what is kept after the response
			return hotels, a.header.Get("X-Search-Session"), len(got.Degraded) == 1 && got.Degraded[0].Part == "paging"
		}
		const first, second = `{"limit":20,"offset":0}`, `{"limit":20,"offset":20}`
		got, srs, _ := search(b, first, "")

		slices.Reverse(s.Hotels)
		<-time.After(2 * time.Minute)
		stranger := newJar(t, s)
		search(stranger, second, "") // fills the caches anew
		if newest, _, _ := search(stranger, second, ""); newest[0] != allHotels()[9] {
			t.Fatalf("the order has not moved: %v", newest)
		}
		next, session, overlaps := search(b, second, srs)
		if diff := cmp.Diff(allHotels(), append(got, next...)); diff != "" || session != srs || overlaps {
			t.Errorf("session %s, was %s; overlaps: %t; pages do not follow the order that the guest saw (-want +got):\n%s", session, srs, overlaps, diff)
		}
		for _, theirs := range []string{srs, bff.NewID(bff.PrefixSearchSession, time.Now()).String()} {
			if _, session, overlaps := search(stranger, second, theirs); session == theirs || !overlaps {
				t.Errorf("another guest asked for a page of %s, and got one of %s; overlaps: %t", theirs, session, overlaps)
			}
		}
		clear(s.searches.orders)
		if _, session, overlaps := search(b, second, srs); session != srs || !overlaps {
			t.Errorf("the order is lost: session %s, overlaps: %t", session, overlaps)
		}
	})
}
