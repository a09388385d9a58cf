package discovery_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
)

// pinsOf makes pins: as many of each tenant as the list says.
func pinsOf(perTenant ...int) []discovery.MapPin {
	var out []discovery.MapPin
	for tenant, n := range perTenant {
		for range n {
			out = append(out, discovery.MapPin{PropertyID: propertyID(len(out)), TenantID: tenantID(tenant)})
		}
	}
	return out
}

func inBox(degrees float64) consumer.SearchQuery {
	return consumer.SearchQuery{Geo: consumer.GeoQuery{Mode: consumer.GeoBoundingBox, BoundingBox: &consumer.BoundingBox{
		SwLat: 34, SwLng: 69, NeLat: 34.1, NeLng: 69 + degrees,
	}}}
}

func TestMap(t *testing.T) {
	t.Parallel()
	priced := propertyID(3)
	for _, tt := range []struct {
		name      string
		platform  *platform
		degrees   float64
		cursor    bff.ID
		rung      discovery.Rung
		suspended []int

		wantPins, wantTotal, wantPages int
		wantPrices                     int
		wantNeutral                    bool
		want                           parts
		wantErr                        bff.Code
	}{
		{name: "empty", wantPages: 1, want: parts{}, wantNeutral: true},
		{name: "few", platform: &platform{MapPins: pinsOf(3, 4)}, wantPins: 7, wantTotal: 7, wantPages: 1, want: parts{}},
		{name: "two pages", platform: &platform{MapPins: pinsOf(120, 120)}, wantPins: 240, wantTotal: 240, wantPages: 2, want: parts{}},
		{name: "more than fit", platform: &platform{MapPins: pinsOf(500)}, wantPins: 250, wantTotal: 500, wantPages: 2, want: parts{}},
		{
			name: "a price under the cursor", platform: &platform{MapPins: pinsOf(7)}, cursor: priced, wantPins: 7, wantTotal: 7, wantPages: 1, wantPrices: 1,
			want: parts{},
		},
		{name: "a cursor elsewhere", platform: &platform{MapPins: pinsOf(7)}, cursor: propertyID(99), wantPins: 7, wantTotal: 7, wantPages: 1, want: parts{}},
		{
			name: "no price", platform: &platform{MapPins: pinsOf(7), Down: failures{Pricing: errDown}}, cursor: priced, wantPins: 7, wantTotal: 7,
			wantPages: 1, want: parts{discovery.PartMapPrice: discovery.ReasonError},
		},
		{
			name: "sold out", platform: &platform{MapPins: pinsOf(7), SoldOut: map[int]bool{3: true}}, cursor: priced, wantPins: 7, wantTotal: 7,
			wantPages: 1, want: parts{},
		},
		{
			name: "no brands", platform: &platform{MapPins: pinsOf(7), Down: failures{Theme: errDown}}, wantPins: 7, wantTotal: 7, wantPages: 1,
			wantNeutral: true, want: parts{discovery.PartBrand: discovery.ReasonError},
		},
		{
			name: "brands shed", platform: &platform{MapPins: pinsOf(7)}, rung: discovery.RungBrand, cursor: priced, wantPins: 7, wantTotal: 7, wantPages: 1,
			wantPrices: 1, wantNeutral: true, want: parts{discovery.PartBrand: discovery.ReasonShed},
		},
		{
			name: "price shed", platform: &platform{MapPins: pinsOf(7)}, rung: discovery.RungMapPrice, cursor: priced, wantPins: 7, wantTotal: 7,
			wantPages: 1, wantNeutral: true, want: parts{discovery.PartBrand: discovery.ReasonShed, discovery.PartMapPrice: discovery.ReasonShed},
		},
		{name: "suspended", platform: &platform{MapPins: pinsOf(3, 4)}, suspended: []int{0}, wantPins: 4, wantTotal: 4, wantPages: 1, want: parts{}},
		{name: "no projection", platform: &platform{Down: failures{Search: errDown}}, wantErr: bff.CodeUpstreamUnavailable},

		// One tenant must not fill a zoomed-out map.
		{name: "wide, two tenants", platform: &platform{MapPins: pinsOf(190, 10)}, degrees: 5, wantPins: 200, wantTotal: 200, wantPages: 1, want: parts{}},
		{name: "wide, no room", platform: &platform{MapPins: pinsOf(160, 240)}, degrees: 5, wantPins: 250, wantTotal: 400, wantPages: 2, want: parts{}},
		{name: "near, one tenant", platform: &platform{MapPins: pinsOf(240)}, degrees: 0.5, wantPins: 240, wantTotal: 240, wantPages: 2, want: parts{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := platformOr(tt.platform)
			res, err := finderOn(p, tt.rung, tt.suspended...).Map(t.Context(), inBox(tt.degrees), tt.cursor, midday)
			if tt.wantErr != "" {
				if bff.CodeOf(err) != tt.wantErr {
					t.Errorf("got %v, want %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			prices := 0
			for _, p := range res.Pins {
				if p.CheapestNightlyMinor != nil {
					prices++
					if p.PropertyID != tt.cursor || p.Currency == "" {
						t.Errorf("priced pin %+v", p)
					}
				}
				if (p.BrandColor != "#123456") != tt.wantNeutral {
					t.Errorf("colour %s", p.BrandColor)
				}
			}
			if len(res.Pins) != tt.wantPins || res.Total != tt.wantTotal || res.Truncated != (tt.wantTotal > tt.wantPins) ||
				prices != tt.wantPrices || len(p.Pages()) != tt.wantPages {
				t.Errorf("%d pins of %d, truncated %v, %d prices, pages %v", len(res.Pins), res.Total, res.Truncated, prices, p.Pages())
			}
			if diff := cmp.Diff(tt.want, partsOf(res.Degraded)); diff != "" {
				t.Errorf("degraded (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMapIsShared draws maps of any tenants: no pin twice, none of a suspended
// tenant, no more than fit, and on a wide map a tenant has more than its share
// only of the room that no other tenant wants.
func TestMapIsShared(t *testing.T) {
	t.Parallel()
	const share = 25
	rapid.Check(t, func(t *rapid.T) {
		perTenant := rapid.SliceOfN(rapid.IntRange(0, 300), 1, 12).Draw(t, "pins of tenants")
		suspended := rapid.SliceOfDistinct(rapid.IntRange(0, len(perTenant)-1), rapid.ID).Draw(t, "suspended")
		wide := rapid.Bool().Draw(t, "wide")
		pins := rapid.Permutation(pinsOf(perTenant...)).Draw(t, "order")
		degrees := 1.0
		if wide {
			degrees = 4
		}
		f := finderOn(&platform{MapPins: pins}, discovery.RungNone, suspended...)
		res, err := f.Map(context.Background(), inBox(degrees), bff.ID{}, midday)
		if err != nil {
			t.Fatal(err)
		}
		seen, of := map[bff.ID]bool{}, map[bff.ID]int{}
		for _, p := range res.Pins {
			if seen[p.PropertyID] || f.Suspended().Has(p.TenantID) {
				t.Fatalf("pin %+v, seen before: %v", p, seen[p.PropertyID])
			}
			seen[p.PropertyID] = true
			of[p.TenantID]++
		}
		if len(res.Pins) > discovery.MaxPins || res.Total < len(res.Pins) || res.Truncated != (res.Total > len(res.Pins)) {
			t.Fatalf("%d pins of %d, truncated %v", len(res.Pins), res.Total, res.Truncated)
		}
		if !wide {
			return
		}
		// A tenant that was left out below the share was left out by none above it.
		left := map[bff.ID]int{}
		for _, p := range pins[:min(len(pins), 400)] { // what the projection was asked for
			if !seen[p.PropertyID] && !f.Suspended().Has(p.TenantID) {
				left[p.TenantID]++
			}
		}
		for rich, n := range of {
			for poor := range left {
				if n > share && of[poor] < share && rich != poor {
					t.Fatalf("%s has %d pins while %s has %d and wants more", rich, n, poor, of[poor])
				}
			}
		}
	})
}

func TestMapAges(t *testing.T) {
	t.Parallel()
	res, err := finderOn(&platform{MapPins: pinsOf(7)}, discovery.RungNone).Map(t.Context(), inBox(1), propertyID(3), midday)
	if err != nil {
		t.Fatal(err)
	}
	res.MarkStale(time.Minute, midday)
	for _, p := range res.Pins {
		if p.CheapestNightlyMinor != nil || p.Currency != "" || p.Nightly != nil {
			t.Errorf("an old price without a word of its age: %+v", p)
		}
	}
	want := parts{discovery.PartSearch: discovery.ReasonStale, discovery.PartMapPrice: discovery.ReasonStale}
	if diff := cmp.Diff(want, partsOf(res.Degraded)); diff != "" || !res.Stale {
		t.Errorf("degraded (-want +got):\n%s", diff)
	}
}

// TestOldAvailabilitySaysSo marks a calendar that could not be renewed.
func TestOldAvailabilitySaysSo(t *testing.T) {
	t.Parallel()
	minor := "100"
	for _, tt := range []struct {
		age       time.Duration
		wantStale bool // the prices
	}{{30 * time.Second, false}, {2 * time.Minute, true}} {
		a := discovery.Availability{Days: []discovery.AvailabilityDay{{CheapestNightlyMinor: &minor}, {}}}
		a.MarkStale(tt.age, midday)
		want := discovery.Degradations{{Part: discovery.PartAvailability, Reason: discovery.ReasonStale, AgeMs: tt.age.Milliseconds(), Affected: 2}}
		if diff := cmp.Diff(want, a.Degraded); diff != "" || !a.Stale {
			t.Errorf("%s: stale %v, degraded (-want +got):\n%s", tt.age, a.Stale, diff)
		}
		if a.Days[0].IsStale != tt.wantStale || a.Days[1].IsStale {
			t.Errorf("%s: days %+v", tt.age, a.Days)
		}
	}
}
