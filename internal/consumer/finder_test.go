package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

func propertyID(n int) bff.ID {
	return bff.IDFromBytes(bff.PrefixProperty, [16]byte{1, 14: byte(n >> 8), 15: byte(n)})
}

func tenantID(n int) bff.ID {
	return bff.IDFromBytes(bff.PrefixTenant, [16]byte{1, 14: byte(n >> 8), 15: byte(n)})
}

// refusing is an upstream's failure that knows its reason.
type refusing string

func (e refusing) Error() string          { return string(e) }
func (e refusing) DegradedReason() string { return string(e) }

var (
	midday  = time.Date(2027, 3, 10, 12, 0, 0, 0, time.UTC)
	errDown = refusing("error")
)

// platform plays the four services. A house is a property; tenant 7 owns
// properties 70 to 79.
type platform struct {
	consumer.Searcher // what nobody asks for here

	houses  []int
	similar []int
	pins    []consumer.MapPin
	gone    bool // the projection knows no such hotel

	searchErr, similarErr, priceErr, brandErr, propertyErr error

	captured time.Time    // when prices were captured; zero = at midday
	soldOut  map[int]bool // houses without a price
	unknown  map[int]bool // tenants without a brand
	asked    []consumer.Page
}

func listing(n int) consumer.Listing {
	return consumer.Listing{
		PropertyID: propertyID(n), TenantID: tenantID(n / 10), TenantSlug: "slug", Country: "AF", City: "Kabul", GeoCell: "h3:cell",
		Name:      bff.LocalizedString{Default: "House"},
		Amenities: []string{"a", "b", "c", "d", "e", "f"},
	}
}

func listings(houses []int) []consumer.Listing {
	out := make([]consumer.Listing, 0, len(houses))
	for _, n := range houses {
		out = append(out, listing(n))
	}
	return out
}

func (p *platform) Search(context.Context, consumer.SearchQuery) (consumer.Listings, error) {
	return consumer.Listings{Items: listings(p.houses), Total: len(p.houses)}, p.searchErr
}

func (p *platform) FindProperty(_ context.Context, id bff.ID) (consumer.Projected, error) {
	if p.gone {
		return consumer.Projected{}, &bff.Error{Code: bff.CodeResourceNotFound}
	}
	if p.searchErr != nil {
		return consumer.Projected{}, p.searchErr
	}
	l := listing(70)
	l.PropertyID = id
	return consumer.Projected{Listing: l, Popularity: &consumer.Popularity{BookedLast24h: 3}}, nil
}

func (p *platform) Similar(context.Context, bff.ID, int, bff.Locale) ([]consumer.Listing, error) {
	if p.similarErr != nil {
		return nil, p.similarErr
	}
	return listings(p.similar), nil
}

func (p *platform) Pins(_ context.Context, q consumer.SearchQuery) (consumer.Pins, error) {
	p.asked = append(p.asked, q.Page)
	from := min(q.Page.Offset, len(p.pins))
	items := make([]consumer.MapPin, min(q.Page.Limit, len(p.pins)-from))
	copy(items, p.pins[from:])
	return consumer.Pins{Items: items, Total: len(p.pins)}, p.searchErr
}

func (p *platform) rate() consumer.RateSnapshot {
	m := bff.Money{Minor: 12500, Currency: bff.AFN}
	captured := p.captured
	if captured.IsZero() {
		captured = midday
	}
	return consumer.NewRateSnapshot(m, m, "tenant", captured)
}

func (p *platform) Preview(_ context.Context, req consumer.PriceRequest) (map[bff.ID]consumer.RateSnapshot, error) {
	out := map[bff.ID]consumer.RateSnapshot{}
	for _, r := range req.Properties {
		b := r.PropertyID.Bytes()
		if !p.soldOut[int(b[14])<<8|int(b[15])] {
			out[r.PropertyID] = p.rate()
		}
	}
	if p.priceErr != nil {
		return nil, p.priceErr
	}
	return out, nil
}

func (p *platform) Quote(context.Context, consumer.PriceRequest, int) (consumer.Quote, error) {
	if p.priceErr != nil {
		return consumer.Quote{}, p.priceErr
	}
	r := p.rate()
	return consumer.Quote{Rate: &r, Calendar: []consumer.CalendarDay{{Date: 20000, CheapestMinor: "1"}}}, nil
}

func (p *platform) Peeks(_ context.Context, tenants []bff.ID) (map[bff.ID]consumer.BrandPeek, error) {
	out := map[bff.ID]consumer.BrandPeek{}
	for _, id := range tenants {
		if b := id.Bytes(); !p.unknown[int(b[14])<<8|int(b[15])] {
			out[id] = consumer.BrandPeek{PrimaryColor: "#123456", LogoURL: "https://example.com/logo.svg"}
		}
	}
	if p.brandErr != nil {
		return nil, p.brandErr
	}
	return out, nil
}

func (p *platform) Describe(_ context.Context, id bff.ID, _ bff.Locale) (consumer.Property, error) {
	if p.propertyErr != nil {
		return consumer.Property{}, p.propertyErr
	}
	return consumer.Property{
		PropertyID: id, TenantID: tenantID(7), Name: bff.LocalizedString{Default: "Described"}, Address: consumer.Address{Country: "AF"},
		Rooms: []consumer.RoomTypeSummary{{RoomTypeID: "r"}}, Amenities: []consumer.Amenity{{Code: "a"}}, Photos: []consumer.Photo{{URL: "u"}},
	}, nil
}

func finderOn(p *platform, rung consumer.Rung, suspended ...int) *consumer.Finder {
	s := new(consumer.SuspendedTenants)
	for _, n := range suspended {
		s.Suspend(tenantID(n))
	}
	return &consumer.Finder{
		Search: p, Prices: p, Brands: p, Properties: p, Suspended: s, HomeCountry: "AF",
		Brownout: func() consumer.Rung { return rung }, Budgets: consumer.Budgets{Rates: time.Minute, Brand: time.Minute},
	}
}

// partsOf tells what an answer calls degraded, and why.
func partsOf(degraded []consumer.Degradation) map[consumer.Part]consumer.Reason {
	out := map[consumer.Part]consumer.Reason{}
	for _, d := range degraded {
		out[d.Part] = d.Reason
	}
	return out
}

type parts = map[consumer.Part]consumer.Reason

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		platform  platform
		rung      consumer.Rung
		suspended []int
		want      parts
		wantCards []int
		noRates   bool
		noBrands  bool
		wantErr   bff.Code
	}{
		{name: "whole", platform: platform{houses: []int{70, 10, 20}}, wantCards: []int{70, 10, 20}},
		{name: "nothing found", platform: platform{priceErr: errDown, brandErr: errDown}},
		{name: "no prices", platform: platform{houses: []int{10, 20}, priceErr: refusing("timeout")}, want: parts{consumer.PartRates: consumer.ReasonTimeout}, wantCards: []int{10, 20}, noRates: true},
		{name: "no brands", platform: platform{houses: []int{10, 20}, brandErr: refusing("breaker")}, want: parts{consumer.PartBrand: consumer.ReasonBreaker}, wantCards: []int{10, 20}, noBrands: true},
		{name: "neither", platform: platform{houses: []int{10}, brandErr: errDown, priceErr: errDown}, want: parts{consumer.PartBrand: consumer.ReasonError, consumer.PartRates: consumer.ReasonError}, wantCards: []int{10}, noBrands: true, noRates: true},
		{name: "a reason of no list", platform: platform{houses: []int{10}, priceErr: refusing("garbage")}, want: parts{consumer.PartRates: consumer.ReasonError}, wantCards: []int{10}, noRates: true},
		{name: "an error without a reason", platform: platform{houses: []int{10}, priceErr: errors.New("x")}, want: parts{consumer.PartRates: consumer.ReasonError}, wantCards: []int{10}, noRates: true},
		{name: "out of time", platform: platform{houses: []int{10}, priceErr: context.DeadlineExceeded}, want: parts{consumer.PartRates: consumer.ReasonTimeout}, wantCards: []int{10}, noRates: true},
		{name: "sold out is not degraded", platform: platform{houses: []int{10}, soldOut: map[int]bool{10: true}}, wantCards: []int{10}, noRates: true},
		{name: "an unknown brand is not degraded", platform: platform{houses: []int{10}, unknown: map[int]bool{1: true}}, wantCards: []int{10}, noBrands: true},
		{name: "suspended", platform: platform{houses: []int{70, 10, 71, 20}}, suspended: []int{7}, wantCards: []int{10, 20}},
		{name: "all suspended", platform: platform{houses: []int{70, 71}, priceErr: errDown}, suspended: []int{7}},
		{name: "no projection", platform: platform{searchErr: errDown}, wantErr: bff.CodeUpstreamUnavailable},
		{name: "no time for it", platform: platform{searchErr: refusing("budget")}, wantErr: bff.CodeUpstreamBudgetExceeded},
		{name: "campaign", platform: platform{houses: []int{10}}, rung: consumer.RungCampaign, wantCards: []int{10}},
		{name: "brands shed", platform: platform{houses: []int{10}}, rung: consumer.RungBrand, want: parts{consumer.PartBrand: consumer.ReasonShed}, wantCards: []int{10}, noBrands: true},
		{name: "all shed", platform: platform{houses: []int{10}}, rung: consumer.RungListPrice, want: parts{consumer.PartBrand: consumer.ReasonShed, consumer.PartRates: consumer.ReasonShed}, wantCards: []int{10}, noBrands: true, noRates: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res, err := finderOn(&tt.platform, tt.rung, tt.suspended...).Find(t.Context(), consumer.SearchQuery{Locale: bff.LocaleEnglish, Currency: bff.AFN}, midday)
			if tt.wantErr != "" {
				if e, ok := errors.AsType[*bff.Error](err); !ok || e.Code != tt.wantErr || e.RetryAfter <= 0 {
					t.Fatalf("got %v, want %s and when to come again", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var cards []int
			for _, c := range res.Results {
				b := c.PropertyID.Bytes()
				cards = append(cards, int(b[14])<<8|int(b[15]))
				if (c.RateSnapshot == nil) != tt.noRates || (c.BrandPeek.LogoURL == "") != tt.noBrands {
					t.Errorf("card %+v", c)
				}
				if len(c.AmenityHighlights) != 5 {
					t.Errorf("%d highlights, want 5", len(c.AmenityHighlights))
				}
			}
			if diff := cmp.Diff(tt.wantCards, cards); diff != "" {
				t.Errorf("cards (-want +got):\n%s", diff)
			}
			if res.Page.Total != len(tt.wantCards) {
				t.Errorf("total %d, want %d", res.Page.Total, len(tt.wantCards))
			}
			if tt.want == nil {
				tt.want = parts{}
			}
			if diff := cmp.Diff(tt.want, partsOf(res.Degraded)); diff != "" {
				t.Errorf("degraded (-want +got):\n%s", diff)
			}
			raw, err := json.Marshal(res)
			if err != nil {
				t.Fatal(err)
			}
			var lists struct{ Results, Degraded []any }
			if err := json.Unmarshal(raw, &lists); err != nil || lists.Results == nil || lists.Degraded == nil {
				t.Errorf("empty lists must be lists: %s", raw)
			}
		})
	}
}

// TestFindCancelled gives up with its guest: half an answer must not be kept.
func TestFindCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := finderOn(&platform{houses: []int{10}}, consumer.RungNone).Find(ctx, consumer.SearchQuery{}, midday)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// TestComposeKeepsTheOrder composes any page with any tenants suspended.
func TestComposeKeepsTheOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		houses := rapid.SliceOfNDistinct(rapid.IntRange(10, 300), 0, 50, rapid.ID).Draw(t, "houses")
		suspended := rapid.SliceOfDistinct(rapid.IntRange(1, 30), rapid.ID).Draw(t, "suspended")
		p := &platform{soldOut: map[int]bool{}}
		for _, n := range rapid.SliceOf(rapid.IntRange(10, 300)).Draw(t, "sold out") {
			p.soldOut[n] = true
		}
		f := finderOn(p, consumer.RungNone, suspended...)
		const elsewhere = 1000 // on other pages
		res, err := f.Compose(context.Background(), consumer.SearchQuery{}, consumer.Listings{Items: listings(houses), Total: len(houses) + elsewhere}, midday)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for _, n := range houses {
			if f.Suspended.Has(tenantID(n / 10)) {
				continue
			}
			if i == len(res.Results) || res.Results[i].PropertyID != propertyID(n) {
				t.Fatalf("house %d is not at %d of %v", n, i, res.Results)
			}
			if (res.Results[i].RateSnapshot == nil) != p.soldOut[n] {
				t.Fatalf("house %d: %+v", n, res.Results[i].RateSnapshot)
			}
			i++
		}
		if len(res.Results) != i || len(res.Cells) != i || res.Page.Total != i+elsewhere || len(res.Degraded) > 0 {
			t.Fatalf("%d cards, %d cells, total %d, degraded %v", len(res.Results), len(res.Cells), res.Page.Total, res.Degraded)
		}
	})
}

func TestPricesAge(t *testing.T) {
	t.Parallel()
	p := &platform{houses: []int{10, 20}, captured: midday.Add(-45 * time.Second)}
	res, err := finderOn(p, consumer.RungNone).Find(t.Context(), consumer.SearchQuery{}, midday)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := res.PricesExpire(), midday.Add(15*time.Second); !got.Equal(want) || res.Results[0].RateSnapshot.IsStale {
		t.Errorf("prices expire at %s, want %s; %+v", got, want, res.Results[0].RateSnapshot)
	}
	res.MarkStale(2*time.Minute, midday.Add(time.Minute))
	if !res.Stale || !res.Results[1].RateSnapshot.IsStale || partsOf(res.Degraded)[consumer.PartSearch] != consumer.ReasonStale {
		t.Errorf("not said to be stale: %+v", res)
	}

	p.captured = midday.Add(-time.Minute)
	if res, err = finderOn(p, consumer.RungNone).Find(t.Context(), consumer.SearchQuery{}, midday); err != nil {
		t.Fatal(err)
	}
	if !res.Results[0].RateSnapshot.IsStale || !res.PricesExpire().IsZero() {
		t.Errorf("a price of a minute is shown as current: %+v, expires %s", res.Results[0].RateSnapshot, res.PricesExpire())
	}
}
