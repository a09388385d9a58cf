package discovery_test

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
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

var (
	midday  = time.Date(2027, 3, 10, 12, 0, 0, 0, time.UTC)
	errDown = failure("error")
)

type (
	platform = consumertest.Platform
	failures = consumertest.Failures
	failure  = consumertest.Failure
)

func propertyID(n int) bff.ID { return consumertest.PropertyID(n) }
func tenantID(n int) bff.ID   { return consumertest.TenantID(n) }

// platformOr is a platform on which all is well unless one is given.
func platformOr(p *platform) *platform {
	if p == nil {
		return new(platform)
	}
	return p
}

func finderOn(p *platform, rung discovery.Rung, suspended ...int) *discovery.Finder {
	return discovery.NewFinder(configOn(p, rung, suspended...))
}

func configOn(p *platform, rung discovery.Rung, suspended ...int) discovery.FinderConfig {
	p = platformOr(p)
	if p.Captured == nil {
		p.Captured = func() time.Time { return midday }
	}
	s := new(consumer.SuspendedTenants)
	for _, n := range suspended {
		s.Suspend(tenantID(n))
	}
	return discovery.FinderConfig{
		Search: p, Prices: p, Brands: p, Properties: p, Suspended: s, Region: consumertest.Region, Regions: p,
		Brownout: func() discovery.Rung { return rung }, Budgets: discovery.Budgets{Rates: time.Minute, Brand: time.Minute},
	}
}

// partsOf tells what an answer calls degraded, and why.
func partsOf(degraded []discovery.Degradation) map[discovery.Part]discovery.Reason {
	out := map[discovery.Part]discovery.Reason{}
	for _, d := range degraded {
		out[d.Part] = d.Reason
	}
	return out
}

type parts = map[discovery.Part]discovery.Reason

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		platform  *platform
		rung      discovery.Rung
		suspended []int
		want      parts
		wantCards []int
		noRates   bool
		noBrands  bool
		wantErr   bff.Code
	}{
		{name: "whole", platform: &platform{Hotels: []int{70, 10, 20}}, wantCards: []int{70, 10, 20}},
		{name: "nothing found", platform: &platform{Down: failures{Pricing: errDown, Theme: errDown}}},
		{
			name: "no prices", platform: &platform{Hotels: []int{10, 20}, Down: failures{Pricing: failure("timeout")}},
			want: parts{discovery.PartRates: discovery.ReasonTimeout}, wantCards: []int{10, 20}, noRates: true,
		},
		{
			name: "no brands", platform: &platform{Hotels: []int{10, 20}, Down: failures{Theme: failure("breaker")}},
			want: parts{discovery.PartBrand: discovery.ReasonBreaker}, wantCards: []int{10, 20}, noBrands: true,
		},
		{
			name: "neither", platform: &platform{Hotels: []int{10}, Down: failures{Theme: errDown, Pricing: errDown}},
			want: parts{discovery.PartBrand: discovery.ReasonError, discovery.PartRates: discovery.ReasonError}, wantCards: []int{10}, noBrands: true,
			noRates: true,
		},
		{
			name: "a reason of no list", platform: &platform{Hotels: []int{10}, Down: failures{Pricing: failure("garbage")}},
			want: parts{discovery.PartRates: discovery.ReasonError}, wantCards: []int{10}, noRates: true,
		},
		{
			name: "an error without a reason", platform: &platform{Hotels: []int{10}, Down: failures{Pricing: errors.New("x")}},
			want: parts{discovery.PartRates: discovery.ReasonError}, wantCards: []int{10}, noRates: true,
		},
		{
			name: "out of time", platform: &platform{Hotels: []int{10}, Down: failures{Pricing: context.DeadlineExceeded}},
			want: parts{discovery.PartRates: discovery.ReasonTimeout}, wantCards: []int{10}, noRates: true,
		},
		{name: "sold out is not degraded", platform: &platform{Hotels: []int{10}, SoldOut: map[int]bool{10: true}}, wantCards: []int{10}, noRates: true},
		{name: "an unknown brand is not degraded", platform: &platform{Hotels: []int{10}, NoBrand: map[int]bool{1: true}}, wantCards: []int{10}, noBrands: true},
		{name: "suspended", platform: &platform{Hotels: []int{70, 10, 71, 20}}, suspended: []int{7}, wantCards: []int{10, 20}},
		{name: "all suspended", platform: &platform{Hotels: []int{70, 71}, Down: failures{Pricing: errDown}}, suspended: []int{7}},
		{name: "no projection", platform: &platform{Down: failures{Search: errDown}}, wantErr: bff.CodeUpstreamUnavailable},
		{name: "no time for it", platform: &platform{Down: failures{Search: failure("budget")}}, wantErr: bff.CodeUpstreamBudgetExceeded},
		{name: "campaign", platform: &platform{Hotels: []int{10}}, rung: discovery.RungCampaign, wantCards: []int{10}},
		{
			name: "brands shed", platform: &platform{Hotels: []int{10}}, rung: discovery.RungBrand, want: parts{discovery.PartBrand: discovery.ReasonShed},
			wantCards: []int{10}, noBrands: true,
		},
		{
			name: "all shed", platform: &platform{Hotels: []int{10}}, rung: discovery.RungListPrice,
			want: parts{discovery.PartBrand: discovery.ReasonShed, discovery.PartRates: discovery.ReasonShed}, wantCards: []int{10}, noBrands: true,
			noRates: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res, err := finderOn(tt.platform, tt.rung, tt.suspended...).Find(t.Context(), consumer.SearchQuery{Locale: bff.LocaleEnglish, Currency: bff.AFN}, midday)
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
				cards = append(cards, consumertest.Number(c.PropertyID))
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
	_, err := finderOn(&platform{Hotels: []int{10}}, discovery.RungNone).Find(ctx, consumer.SearchQuery{}, midday)
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
		p := &platform{SoldOut: map[int]bool{}}
		for _, n := range rapid.SliceOf(rapid.IntRange(10, 300)).Draw(t, "sold out") {
			p.SoldOut[n] = true
		}
		f := finderOn(p, discovery.RungNone, suspended...)
		const elsewhere = 1000 // on other pages
		res, err := f.Compose(context.Background(), consumer.SearchQuery{}, hotel.Listings{
			Items: consumertest.Listings(houses), Total: len(houses) + elsewhere,
		}, midday)
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for _, n := range houses {
			if f.Suspended().Has(tenantID(n / 10)) {
				continue
			}
			if i == len(res.Results) || res.Results[i].PropertyID != propertyID(n) {
				t.Fatalf("house %d is not at %d of %v", n, i, res.Results)
			}
			if (res.Results[i].RateSnapshot == nil) != p.SoldOut[n] {
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
	p := &platform{Hotels: []int{10, 20}, Captured: func() time.Time { return midday.Add(-45 * time.Second) }}
	res, err := finderOn(p, discovery.RungNone).Find(t.Context(), consumer.SearchQuery{}, midday)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := res.PricesExpire(), midday.Add(15*time.Second); !got.Equal(want) || res.Results[0].RateSnapshot.IsStale {
		t.Errorf("prices expire at %s, want %s; %+v", got, want, res.Results[0].RateSnapshot)
	}
	res.MarkStale(2*time.Minute, midday.Add(time.Minute))
	if !res.Stale || !res.Results[1].RateSnapshot.IsStale || partsOf(res.Degraded)[discovery.PartSearch] != discovery.ReasonStale {
		t.Errorf("not said to be stale: %+v", res)
	}

	p.Captured = func() time.Time { return midday.Add(-time.Minute) }
	if res, err = finderOn(p, discovery.RungNone).Find(t.Context(), consumer.SearchQuery{}, midday); err != nil {
		t.Fatal(err)
	}
	if !res.Results[0].RateSnapshot.IsStale || !res.PricesExpire().IsZero() {
		t.Errorf("a price of a minute is shown as current: %+v, expires %s", res.Results[0].RateSnapshot, res.PricesExpire())
	}
}

// TestBadgeByRegion compares the platform's regions, never countries.
func TestBadgeByRegion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		here   string
		lives  map[int]string
		failed error
		want   []hotel.Badge
	}{
		{name: "same region", here: "asia-south1", want: []hotel.Badge{}},
		{
			name: "another region, same country", here: "asia-south1", lives: map[int]string{1: "europe-west3", 7: "europe-west3"},
			want: []hotel.Badge{hotel.BadgeCrossRegion},
		},
		{name: "region not told", here: "asia-south1", lives: map[int]string{1: "", 7: ""}, want: []hotel.Badge{}},
		{name: "tenant service is down", here: "asia-south1", lives: map[int]string{1: "europe-west3", 7: "europe-west3"}, failed: errDown, want: []hotel.Badge{}},
		{name: "deployment without a region", lives: map[int]string{1: "europe-west3", 7: "europe-west3"}, want: []hotel.Badge{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := configOn(&platform{Hotels: []int{10}, Alike: []int{10}, Regions: tt.lives, Down: failures{Tenant: tt.failed}}, discovery.RungNone)
			cfg.Region = tt.here
			f := discovery.NewFinder(cfg)
			res, err := f.Find(t.Context(), consumer.SearchQuery{}, midday)
			if err != nil || len(res.Degraded) > 0 {
				t.Fatal(res.Degraded, err)
			}
			page, err := f.Detail(t.Context(), discovery.DetailRequest{PropertyID: propertyID(70), Stay: discovery.DefaultStay(midday)}, midday)
			if err != nil {
				t.Fatal(err)
			}
			for what, got := range map[string][]hotel.Badge{
				"list": res.Results[0].Badges, "page": page.Property.Badges, "similar hotel": page.SimilarProperties[0].Badges,
			} {
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
			}
		})
	}
}

// lastPrices is pricing that fails, behind what it said before.
type lastPrices struct {
	discovery.Pricer
	rates hotel.Previews
}

func (l lastPrices) Preview(context.Context, hotel.PriceRequest) (hotel.Previews, error) {
	return l.rates, errDown
}

func (l lastPrices) Quote(_ context.Context, req hotel.PriceRequest, _ int) (q hotel.Quote, err error) {
	q.Rate = l.rates[req.Properties[0].PropertyID]
	return q, errDown
}

// TestLastPrices shows the last prices while pricing fails, and calls them stale
// once they are.
func TestLastPrices(t *testing.T) {
	t.Parallel()
	cfg := configOn(&platform{Hotels: []int{10, 20, 70}}, discovery.RungNone)
	at := func(age time.Duration) *hotel.RateSnapshot {
		rate := hotel.NewRateSnapshot(consumertest.Price, consumertest.Price, "tenant", midday.Add(-age))
		return &rate
	}
	cfg.Prices = lastPrices{rates: hotel.Previews{propertyID(10): at(30 * time.Second), propertyID(70): at(90 * time.Second)}}
	f := discovery.NewFinder(cfg)
	res, err := f.Find(t.Context(), consumer.SearchQuery{}, midday)
	if err != nil {
		t.Fatal(err)
	}
	if r := res.Results[0].RateSnapshot; r == nil || r.IsStale {
		t.Errorf("a price of 30 s: %+v", r)
	}
	if r := res.Results[1].RateSnapshot; r != nil {
		t.Errorf("a price that was never said: %+v", r)
	}
	if r := res.Results[2].RateSnapshot; r == nil || !r.IsStale {
		t.Errorf("a price of 90 s: %+v", r)
	}
	want := discovery.Degradations{
		{Part: discovery.PartRates, Reason: discovery.ReasonError, Affected: 1},
		{Part: discovery.PartRates, Reason: discovery.ReasonStale, AgeMs: 90000, Affected: 1},
	}
	if diff := cmp.Diff(want, res.Degraded); diff != "" {
		t.Errorf("degraded (-want +got):\n%s", diff)
	}
	page, err := f.Detail(t.Context(), discovery.DetailRequest{PropertyID: propertyID(70), Stay: discovery.DefaultStay(midday)}, midday)
	if err != nil || !page.CheapestRateSnapshot.IsStale || partsOf(page.Degraded)[discovery.PartRates] != discovery.ReasonStale {
		t.Errorf("page %+v, %v", page, err)
	}
}

// TestTotalsAgree suspends a tenant whose hotels are on another page of the
// window: every page counts the same hotels.
func TestTotalsAgree(t *testing.T) {
	t.Parallel()
	window := consumertest.Listings([]int{10, 20, 70, 71, 30, 40})
	f := finderOn(nil, discovery.RungNone, 7)
	for from := 0; from < len(window); from += 2 {
		res, err := f.Compose(t.Context(), consumer.SearchQuery{}, hotel.Listings{Items: window[from : from+2], Around: window, Total: 300}, midday)
		if err != nil || res.Page.Total != 298 || len(res.Omitted) != 2 {
			t.Errorf("page at %d: total %d, omitted %v, %v; want 298", from, res.Page.Total, res.Omitted, err)
		}
	}
}
