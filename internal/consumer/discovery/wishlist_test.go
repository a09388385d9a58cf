package discovery_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// owners is a platform on which each hotel has an owner of its own; one that is away cannot be found.
type owners struct {
	*platform
	away map[bff.ID]error
	old  time.Duration
}

func (o owners) FindProperty(ctx context.Context, id bff.ID) (hotel.Projected, error) {
	p, err := o.platform.FindProperty(ctx, id)
	for n := range 4 {
		if id == propertyID(10*n) {
			p.Listing.TenantID = tenantID(n)
		}
	}
	p.StaleAge = o.old
	if o.away[id] != nil {
		return hotel.Projected{}, o.away[id]
	}
	return p, err
}

// A wishlist shows every entry of its guest, and the card of each hotel that may be shown:
// none of a suspended tenant, and none that is no more.
func TestWishlist(t *testing.T) {
	t.Parallel()
	entries := []consumer.WishlistEntry{{PropertyID: propertyID(10)}, {PropertyID: propertyID(20)}, {PropertyID: propertyID(30)}}
	for name, tc := range map[string]struct {
		rung      discovery.Rung
		suspended []int
		away      map[bff.ID]error
		old       time.Duration
		want      [3]bool // has a card
		wantParts parts
		wantShed  discovery.Rung
	}{
		"all":                {want: [3]bool{true, true, true}},
		"one is suspended":   {suspended: []int{2}, want: [3]bool{true, false, true}},
		"one is no more":     {away: map[bff.ID]error{propertyID(10): &bff.Error{Code: bff.CodeResourceNotFound}}, want: [3]bool{false, true, true}},
		"one is late":        {away: map[bff.ID]error{propertyID(30): errDown}, want: [3]bool{true, true, false}, wantParts: parts{discovery.PartProperty: "error"}},
		"old":                {old: time.Minute, want: [3]bool{true, true, true}, wantParts: parts{discovery.PartProperty: "stale"}},
		"all are suspended":  {suspended: []int{1, 2, 3}, rung: discovery.RungBrand},
		"without prices yet": {rung: discovery.RungBrand - 1, want: [3]bool{true, true, true}},
		"without brands": {
			rung: discovery.RungBrand, want: [3]bool{true, true, true}, wantShed: discovery.RungBrand, wantParts: parts{discovery.PartBrand: "shed"},
		},
	} {
		cfg := configOn(&platform{Hotels: []int{10, 20, 30}}, tc.rung, tc.suspended...)
		cfg.Search = owners{platformOr(nil), tc.away, tc.old}
		f := discovery.NewFinder(cfg)
		got := f.Wishlist(t.Context(), entries, bff.LocaleEnglish, midday)
		if got.Size != 3 || len(got.Items) != 3 || got.Shed != tc.wantShed {
			t.Fatalf("%s: %+v", name, got)
		}
		if diff := cmp.Diff(tc.wantParts, partsOf(got.Degraded), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: degraded (-want +got):\n%s", name, diff)
		}
		for i, item := range got.Items {
			if item.PropertyID != entries[i].PropertyID || (item.Card != nil) != tc.want[i] || item.Card != nil && item.Card.PropertyID != item.PropertyID {
				t.Errorf("%s: item %d is %+v", name, i, item)
			}
		}
		for i, n := range []int{1, 2, 3} {
			tenant, err := f.TenantOf(t.Context(), propertyID(10*n))
			want := bff.CodeResourceNotFound
			if away := tc.away[propertyID(10*n)]; away != nil && bff.CodeOf(away) != want {
				want = bff.CodeUpstreamUnavailable
			}
			if shown := err == nil && tenant == tenantID(n); shown != tc.want[i] || err != nil && bff.CodeOf(err) != want {
				t.Errorf("%s: hotel %d is of %s, %v", name, 10*n, tenant, err)
			}
		}
	}
}
