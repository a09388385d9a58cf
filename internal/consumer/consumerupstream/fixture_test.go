package consumerupstream_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerupstream"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
)

// upstreamsOn are the clients of a platform that is reached without a network.
func upstreamsOn(tb testing.TB, platform http.RoundTripper) *consumerupstream.Upstreams {
	tb.Helper()
	const base = "http://platform.test"
	up, err := consumerupstream.New(consumerupstream.Config{
		SearchURL: base + "/search-aggregation", PricingURL: base + "/pricing", PropertyURL: base + "/property",
		ThemeURL: base + "/theme-config", TenantURL: base + "/tenant", Log: slog.New(slog.DiscardHandler), Transport: platform,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return up
}

func finderOn(tb testing.TB, platform http.RoundTripper) *discovery.Finder {
	tb.Helper()
	up := upstreamsOn(tb, platform)
	return finderOf(up.Search, up.Pricing, up.Theme, up.Property)
}

func finderOf(s discovery.Searcher, p discovery.Pricer, b discovery.Brander, h discovery.Properties) *discovery.Finder {
	return discovery.NewFinder(discovery.FinderConfig{
		Search: s, Prices: p, Brands: b, Properties: h, Suspended: new(consumer.SuspendedTenants), Budgets: discovery.Budgets{Rates: time.Minute, Brand: time.Minute},
	})
}

// inMemory calls a handler without a network.
type inMemory struct{ http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.Body == nil { // as a server would have it
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return w.Result(), nil
}
