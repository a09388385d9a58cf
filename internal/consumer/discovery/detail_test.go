package discovery_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

func TestDetail(t *testing.T) {
	t.Parallel()
	const (
		rates, brand, similar, popularity, property, calendar = discovery.PartRates, discovery.PartBrand, discovery.PartSimilar, discovery.PartPopularity,
			discovery.PartProperty, discovery.PartCalendar

		failed, shed = discovery.ReasonError, discovery.ReasonShed
	)
	for _, tt := range []struct {
		name      string
		platform  *platform
		rung      discovery.Rung
		suspended []int
		want      parts
		wantErr   bff.Code

		noRate, noBrand, noRooms, noSimilar, noPopularity bool
	}{
		{name: "whole", want: parts{}},
		{name: "no price", platform: &platform{Down: failures{Pricing: errDown}}, want: parts{rates: failed, calendar: failed}, noRate: true},
		{name: "no brand", platform: &platform{Down: failures{Theme: errDown}}, want: parts{brand: failed}, noBrand: true},
		{name: "no description", platform: &platform{Down: failures{Property: errDown}}, want: parts{property: failed}, noRooms: true},
		{name: "no similar hotels", platform: &platform{Down: failures{Similar: errDown}}, want: parts{similar: failed}, noSimilar: true},
		{
			name: "no projection", platform: &platform{Down: failures{Search: errDown, Similar: errDown}},
			want: parts{
				popularity: failed, rates: failed, calendar: failed, brand: failed, similar: failed,
			}, noRate: true, noBrand: true, noSimilar: true, noPopularity: true,
		},
		{
			name: "only the projection", platform: &platform{Down: failures{Pricing: errDown, Theme: errDown, Property: errDown, Similar: errDown}},
			want: parts{rates: failed, calendar: failed, brand: failed, property: failed, similar: failed}, noRate: true, noBrand: true, noRooms: true, noSimilar: true,
		},
		{name: "nothing", platform: &platform{Down: failures{Search: errDown, Property: errDown}}, wantErr: bff.CodeUpstreamUnavailable},
		{name: "nothing in time", platform: &platform{Down: failures{Search: failure("budget"), Property: errDown}}, wantErr: bff.CodeUpstreamBudgetExceeded},
		{name: "not on sale", platform: &platform{Gone: true}, wantErr: bff.CodeResourceNotFound},
		{name: "suspended", suspended: []int{7}, wantErr: bff.CodeResourceNotFound},
		{name: "suspended, no projection", platform: &platform{Down: failures{Search: errDown}}, suspended: []int{7}, wantErr: bff.CodeResourceNotFound},
		{name: "a similar hotel is suspended", suspended: []int{1, 2}, want: parts{}, noSimilar: true},
		{name: "first rung", rung: discovery.RungSimilar, want: parts{similar: shed}, noSimilar: true},
		{name: "second rung", rung: discovery.RungPopularity, want: parts{similar: shed, popularity: shed}, noSimilar: true, noPopularity: true},
		{
			name: "third rung", rung: discovery.RungBrand, want: parts{similar: shed, popularity: shed, brand: shed}, noSimilar: true, noPopularity: true,
			noBrand: true,
		},
		{
			name: "last rung", rung: discovery.RungListPrice, want: parts{similar: shed, popularity: shed, brand: shed, rates: shed, calendar: shed},
			noSimilar: true, noPopularity: true, noBrand: true, noRate: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := platformOr(tt.platform)
			p.Alike = []int{10, 20, 70} // 70 is the hotel itself
			d, err := finderOn(p, tt.rung, tt.suspended...).Detail(t.Context(), discovery.DetailRequest{
				PropertyID: propertyID(70), Stay: discovery.DefaultStay(midday), Locale: bff.LocaleEnglish, Currency: bff.AFN,
			}, midday)
			if tt.wantErr != "" {
				if bff.CodeOf(err) != tt.wantErr {
					t.Errorf("got %v, want %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, partsOf(d.Degraded)); diff != "" {
				t.Errorf("degraded (-want +got):\n%s", diff)
			}
			if d.Property.PropertyID != propertyID(70) || d.Property.TenantID != tenantID(7) || d.Property.Name.Default == "" {
				t.Errorf("property %+v", d.Property)
			}
			if (d.CheapestRateSnapshot == nil) != tt.noRate || (len(d.PriceCalendarPreview) == 0) != tt.noRate ||
				(d.BrandPeek.LogoURL == "") != tt.noBrand || (len(d.Rooms) == 0) != tt.noRooms ||
				(len(d.SimilarProperties) == 0) != tt.noSimilar || (d.PopularitySignals == nil) != tt.noPopularity {
				t.Errorf("page %+v", d)
			}
			for _, s := range d.SimilarProperties {
				if s.PropertyID == propertyID(70) {
					t.Error("a hotel is similar to itself")
				}
				if (s.RateSnapshot == nil) != tt.noRate || (s.BrandPeek.LogoURL == "") != tt.noBrand {
					t.Errorf("similar hotel %+v", s)
				}
			}
			if d.Shed != tt.rung {
				t.Errorf("shed at %s, want %s", d.Shed, tt.rung)
			}
			if d.HandoffHint.URL != discovery.HandoffPath || d.HandoffHint.TTLSeconds != 1800 {
				t.Errorf("hint %+v", d.HandoffHint)
			}
			if d.Rooms == nil || d.Amenities == nil || d.Photos == nil || d.Degraded == nil {
				t.Error("empty lists must be lists")
			}
		})
	}
}

func TestDetailAges(t *testing.T) {
	t.Parallel()
	p := &platform{Captured: func() time.Time { return midday.Add(-50 * time.Second) }}
	d, err := finderOn(p, discovery.RungNone).Detail(t.Context(), discovery.DetailRequest{PropertyID: propertyID(70), Stay: discovery.DefaultStay(midday)}, midday)
	if err != nil {
		t.Fatal(err)
	}
	if got := d.PricesExpire(); !got.Equal(midday.Add(10*time.Second)) || d.CheapestRateSnapshot.IsStale {
		t.Errorf("the price expires at %s: %+v", got, d.CheapestRateSnapshot)
	}
	d.MarkStale(time.Minute, midday.Add(10*time.Second))
	if !d.Stale || !d.CheapestRateSnapshot.IsStale || partsOf(d.Degraded)[discovery.PartProperty] != discovery.ReasonStale {
		t.Errorf("not said to be stale: %+v", d)
	}
}

// affected tells in how many places each part is missing or old.
func affected(degraded []discovery.Degradation) map[discovery.Part]int {
	out := map[discovery.Part]int{}
	for _, d := range degraded {
		out[d.Part] += d.Affected
	}
	return out
}

// TestSimilarHotelsMissParts counts the cards of similar hotels in what it says
// is missing.
func TestSimilarHotelsMissParts(t *testing.T) {
	t.Parallel()
	p := &platform{Alike: []int{10, 20}, Down: failures{Pricing: failure("timeout"), Theme: failure("breaker")}}
	d, err := finderOn(p, discovery.RungNone).Detail(t.Context(), discovery.DetailRequest{PropertyID: propertyID(70), Stay: discovery.DefaultStay(midday)}, midday)
	if err != nil {
		t.Fatal(err)
	}
	want := map[discovery.Part]int{discovery.PartRates: 3, discovery.PartBrand: 3, discovery.PartCalendar: 1} // its own and two
	if diff := cmp.Diff(want, affected(d.Degraded)); diff != "" {
		t.Errorf("affected (-want +got):\n%s", diff)
	}
}

// oldReads are answers of caches that could not be renewed.
type oldReads struct {
	*platform
	projected, described time.Duration
}

func (o oldReads) FindProperty(ctx context.Context, id bff.ID) (hotel.Projected, error) {
	p, err := o.platform.FindProperty(ctx, id)
	p.StaleAge = o.projected
	return p, err
}

func (o oldReads) Describe(ctx context.Context, id bff.ID, locale bff.Locale) (hotel.Property, error) {
	p, err := o.platform.Describe(ctx, id, locale)
	p.StaleAge = o.described
	return p, err
}

// TestOldPageSaysSo makes a page of what could not be asked for again.
func TestOldPageSaysSo(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		old  oldReads
		want []discovery.Degradation
	}{
		{name: "fresh", want: []discovery.Degradation{}},
		{
			name: "projection", old: oldReads{projected: 66 * time.Second},
			want: []discovery.Degradation{{Part: discovery.PartSearch, Reason: discovery.ReasonStale, AgeMs: 66000, Affected: 1}},
		},
		{
			name: "description", old: oldReads{described: 400 * time.Second},
			want: []discovery.Degradation{{Part: discovery.PartProperty, Reason: discovery.ReasonStale, AgeMs: 400000, Affected: 1}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := configOn(nil, discovery.RungNone)
			tt.old.platform = cfg.Prices.(*platform)
			cfg.Search, cfg.Properties = tt.old, tt.old
			d, err := discovery.NewFinder(cfg).Detail(t.Context(), discovery.DetailRequest{PropertyID: propertyID(70), Stay: discovery.DefaultStay(midday)}, midday)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, []discovery.Degradation(d.Degraded)); diff != "" || d.Stale != (len(tt.want) > 0) {
				t.Errorf("stale %v, degraded (-want +got):\n%s", d.Stale, diff)
			}
			// Kept for another minute, it is that much older.
			d.MarkStale(time.Minute, midday)
			for _, g := range d.Degraded {
				if len(tt.want) > 0 && g.Part == tt.want[0].Part && g.AgeMs != tt.want[0].AgeMs+60000 {
					t.Errorf("a minute later: %+v", g)
				}
			}
			if partsOf(d.Degraded)[discovery.PartCalendar] != discovery.ReasonStale {
				t.Errorf("an old calendar is not said to be old: %+v", d.Degraded)
			}
		})
	}
}

func TestDefaultStay(t *testing.T) {
	t.Parallel()
	s := discovery.DefaultStay(time.Date(2027, 12, 31, 23, 59, 0, 0, time.UTC))
	if got := s.Dates.CheckIn.String() + " " + s.Dates.CheckOut.String(); got != "2028-01-01 2028-01-02" || s.Occupancy.Adults != 2 {
		t.Errorf("%s %+v", got, s.Occupancy)
	}
}
