package consumerhttp_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp/views"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerupstream"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/local/sim"
)

// kept answers every call with the body that the simulated platform gave once, without a
// network: both sides of the benchmark get the same bytes at the same cost.
type kept struct {
	sim http.Handler

	mu     sync.Mutex
	bodies map[part][]byte
}

var jsonHeader = http.Header{"Content-Type": {"application/json"}}

func (k *kept) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, _ := io.ReadAll(cmp.Or[io.ReadCloser](r.Body, http.NoBody))
	key := part{r.URL.RequestURI(), string(sent)}
	k.mu.Lock()
	body, known := k.bodies[key]
	if !known {
		in := r.Clone(r.Context())
		in.Body = io.NopCloser(bytes.NewReader(sent))
		res := httptest.NewRecorder()
		k.sim.ServeHTTP(res, in)
		if body = res.Body.Bytes(); res.Code != http.StatusOK {
			k.mu.Unlock()
			return nil, fmt.Errorf("%s answered %d %s", key.path, res.Code, body)
		}
		k.bodies[key] = body
	}
	k.mu.Unlock()
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: jsonHeader, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

// part is one of the calls behind a hotel's page.
type part struct{ path, body string }

// gateway is a generic one: it decodes every body, merges them and encodes the
// sum.
func gateway(ctx context.Context, client *http.Client, parts []part) ([]byte, error) {
	var wg sync.WaitGroup
	decoded, errs := make([]map[string]any, len(parts)), make([]error, len(parts))
	for i, p := range parts {
		wg.Go(func() { decoded[i], errs[i] = p.fetch(ctx, client) })
	}
	wg.Wait()
	merged := map[string]any{}
	for _, d := range decoded {
		maps.Copy(merged, d)
	}
	body, err := json.Marshal(merged)
	return body, errors.Join(errors.Join(errs...), err)
}

func (p part) fetch(ctx context.Context, client *http.Client) (decoded map[string]any, err error) {
	method := http.MethodGet
	if p.body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://platform.test"+p.path, strings.NewReader(p.body))
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return decoded, json.Unmarshal(body, &decoded)
}

// cpu is the CPU time that this process has used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCompose divides the CPU time in which a generic gateway merges the
// answers behind a hotel's page by that in which we compose it, the clients'
// breakers, limits and metrics included. Slices of the two alternate, medians
// are divided.
func BenchmarkCompose(b *testing.B) {
	sim, err := sim.New(sim.Config{Latency: map[string]sim.Latency{}, PublicURL: "https://media.melmastoon.test"})
	if err != nil {
		b.Fatal(err)
	}
	platform := &kept{sim: sim.Handler(), bodies: map[part][]byte{}}
	const base = "http://platform.test"
	up, err := consumerupstream.New(consumerupstream.Config{
		SearchURL: base + "/search-aggregation", PricingURL: base + "/pricing", PropertyURL: base + "/property",
		ThemeURL: base + "/theme-config", TenantURL: base + "/tenant", Log: slog.New(slog.DiscardHandler), Transport: platform,
	})
	if err != nil {
		b.Fatal(err)
	}
	finder := discovery.NewFinder(discovery.FinderConfig{
		Search: up.Search, Prices: up.Pricing, Brands: up.Theme, Properties: up.Property, Suspended: new(consumer.SuspendedTenants),
		Budgets: discovery.Budgets{Rates: time.Minute, Brand: time.Minute},
	})
	req := discovery.DetailRequest{
		PropertyID: bff.MustParseID(bff.PrefixProperty, sim.Catalog().Properties[5].PropertyID),
		Stay:       discovery.Stay{Dates: bff.StayDates{CheckIn: 20950, CheckOut: 20953}, Occupancy: bff.DefaultOccupancy()},
		Locale:     bff.LocaleEnglish, Currency: bff.USD,
	}
	ours := func() ([]byte, error) {
		d, err := finder.Detail(b.Context(), req, time.Now())
		if err != nil {
			return nil, err
		}
		if len(d.Degraded) > 0 {
			return nil, fmt.Errorf("degraded: %+v", d.Degraded)
		}
		return views.Encode(&d)
	}
	if _, err := ours(); err != nil {
		b.Fatal(err)
	}
	parts := slices.SortedFunc(maps.Keys(platform.bodies), func(a, b part) int { return cmp.Compare(a.path+a.body, b.path+b.body) })
	client := &http.Client{Transport: platform}
	generic := func() ([]byte, error) { return gateway(b.Context(), client, parts) }

	sides := []struct {
		compose func() ([]byte, error)
		costs   []float64
		bytes   int
	}{{compose: ours}, {compose: generic}}
	for _, s := range sides { // warm up
		if _, err := s.compose(); err != nil {
			b.Fatal(err)
		}
	}
	platform.sim = nil // and its data, which would be all that the collector has to look at
	const slice = 200
	for b.Loop() {
		for i := range sides {
			s := &sides[i]
			runtime.GC() // each pays for its own garbage
			before := cpu(b)
			for range slice {
				body, err := s.compose()
				if err != nil {
					b.Fatal(err)
				}
				s.bytes = len(body)
			}
			s.costs = append(s.costs, float64(cpu(b)-before)/slice/1e3)
		}
	}
	for i := range sides {
		slices.Sort(sides[i].costs)
	}
	o, g := sides[0].costs[len(sides[0].costs)/2], sides[1].costs[len(sides[1].costs)/2]
	in := 0
	for _, body := range platform.bodies {
		in += len(body)
	}
	b.ReportMetric(g/o, "of-generic")
	b.ReportMetric(g, "µs-generic")
	b.ReportMetric(o, "µs-ours")
	b.ReportMetric(float64(in), "bytes-in")
	b.ReportMetric(float64(sides[0].bytes), "bytes-out")
	b.ReportMetric(0, "ns/op")
}
