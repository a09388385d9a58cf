package consumercache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumercache"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// noOrders keeps no orders.
type noOrders struct{ consumer.Searches }

func (noOrders) SaveOrder(context.Context, consumer.Hash, []bff.ID) error { return nil }

// cachesOn must be called inside a bubble.
func cachesOn(t *testing.T, p *consumertest.Platform) *consumercache.Caches {
	t.Helper()
	p.Captured = time.Now
	store, err := cache.NewStore(cache.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := consumercache.New(consumercache.Config{
		Store: store, Keys: redis.NewKeys("test", "bff-consumer"), Campaign: func() bool { return false },
		Search: p, Prices: p, Brands: p, Properties: p, Tenants: p, Searches: noOrders{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

var (
	property = consumertest.PropertyID(70)
	tenant   = consumertest.TenantID(7)
	failed   = consumertest.Failure("error")
)

// TestOldReadsTellTheirAge has upstreams fail after their answers were kept.
func TestOldReadsTellTheirAge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		down consumertest.Failures
		wait time.Duration
		age  func(context.Context, *consumercache.Caches) (time.Duration, error)
	}{
		{"listing", consumertest.Failures{Search: failed}, 66 * time.Second, func(ctx context.Context, c *consumercache.Caches) (time.Duration, error) {
			p, err := c.FindProperty(ctx, property)
			return p.StaleAge, err
		}},
		{"window", consumertest.Failures{Search: failed}, 66 * time.Second, func(ctx context.Context, c *consumercache.Caches) (time.Duration, error) {
			l, err := c.Search(ctx, consumer.SearchQuery{Page: consumer.Page{Limit: 20}})
			return l.StaleAge, err
		}},
		{"description", consumertest.Failures{Property: failed}, 6 * time.Minute, func(ctx context.Context, c *consumercache.Caches) (time.Duration, error) {
			p, err := c.Describe(ctx, property, bff.LocaleEnglish)
			return p.StaleAge, err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &consumertest.Platform{Hotels: []int{70}}
				c := cachesOn(t, p)
				if age, err := tt.age(t.Context(), c); age != 0 || err != nil {
					t.Fatalf("fresh: %s, %v", age, err)
				}
				p.Fail(tt.down)
				<-time.After(tt.wait)
				if _, err := tt.age(t.Context(), c); err != nil { // a description is renewed behind this one
					t.Fatal(err)
				}
				synctest.Wait()
				if age, err := tt.age(t.Context(), c); age != tt.wait || err != nil {
					t.Errorf("old: %s, %v; want %s", age, err, tt.wait)
				}
				p.Fail(consumertest.Failures{})
				<-time.After(time.Second)
				if _, err := tt.age(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if age, err := tt.age(t.Context(), c); age != 0 || err != nil {
					t.Errorf("renewed: %s, %v", age, err)
				}
			})
		})
	}
}

// TestLastRates has pricing fail: its last prices come with its error for ten
// minutes.
func TestLastRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(consumertest.Platform)
		c := cachesOn(t, p)
		req := hotel.PriceRequest{
			Properties: []hotel.PropertyRef{{PropertyID: property, TenantID: tenant}}, Dates: bff.StayDates{CheckIn: 20000, CheckOut: 20002},
			Occupancy: bff.Occupancy{Adults: 2, Children: 2, Rooms: 1, ChildrenAges: []int{5, 8}}, Currency: bff.AFN,
		}
		if _, ok := c.FindRate(t.Context(), req); ok {
			t.Error("a price that was never said")
		}
		if _, err := c.Preview(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		said := time.Now()
		p.Fail(consumertest.Failures{Pricing: failed})
		<-time.After(9 * time.Minute)

		req.Occupancy.ChildrenAges = []int{8, 5} // the same party
		rates, err := c.Preview(t.Context(), req)
		if rate := rates[property]; err == nil || rate == nil || !rate.CapturedAt.Equal(said) {
			t.Errorf("preview: %+v, %v", rate, err)
		}
		if q, err := c.Quote(t.Context(), req, 7); err == nil || q.Rate == nil || len(q.Calendar) > 0 {
			t.Errorf("quote: %+v, %v", q, err)
		}
		if rate, ok := c.FindRate(t.Context(), req); !ok || !rate.CapturedAt.Equal(said) {
			t.Errorf("kept: %+v, %v", rate, ok)
		}
		for what, other := range map[string]func(*hotel.PriceRequest){
			"dates":    func(r *hotel.PriceRequest) { r.Dates.CheckOut++ },
			"ages":     func(r *hotel.PriceRequest) { r.Occupancy.ChildrenAges = []int{5, 9} },
			"currency": func(r *hotel.PriceRequest) { r.Currency = bff.USD },
			"hotel": func(r *hotel.PriceRequest) {
				r.Properties = []hotel.PropertyRef{{PropertyID: consumertest.PropertyID(71)}}
			},
		} {
			r := req
			if other(&r); len(r.Properties) == 0 {
				t.Fatal("no hotel")
			}
			if _, ok := c.FindRate(t.Context(), r); ok {
				t.Errorf("other %s have the same price", what)
			}
		}
		<-time.After(time.Minute)
		if rates, err := c.Preview(t.Context(), req); err == nil || len(rates) > 0 {
			t.Errorf("after ten minutes: %+v, %v", rates, err)
		}
	})
}

// TestRegionsAreKept asks the tenant service once for each tenant.
func TestRegionsAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &consumertest.Platform{Regions: map[int]string{1: "europe-west3"}, Unknown: map[int]bool{2: true}}
		c := cachesOn(t, p)
		tenants := []bff.ID{consumertest.TenantID(1), consumertest.TenantID(2), tenant}
		for _, down := range []error{nil, failed} {
			p.Fail(consumertest.Failures{Tenant: down})
			got := c.ListRegions(t.Context(), tenants)
			if len(got) != 2 || got[consumertest.TenantID(1)] != "europe-west3" || got[tenant] != consumertest.Region {
				t.Errorf("down %v: %v", down, got)
			}
		}
	})
}
