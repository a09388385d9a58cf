package metrics_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/local/metrics"
)

const rules = `
groups:
  - name: rules
    rules:
      - record: app:good
        labels: {slo: fast}
        expr: sum(rate(took_bucket{le="0.1"}[1m]))
      - record: app:share
        expr: avg_over_time(app:good[1h]) / avg_over_time(app:good[1h])
`

// TestQueries: over a minute in which a counter grows by one each second, begins anew, and
// a quarter of the calls is slow.
func TestQueries(t *testing.T) {
	t.Parallel()
	h, err := metrics.New([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)
	for i := range 13 {
		n := 5 * i
		text := fmt.Sprintf("# HELP calls_total Calls.\ncalls_total{route=\"GET /a\",status=\"200\"} %d\ncalls_total{route=\"GET /b \\\"}\",status=\"503\"} %d\n"+
			"took_bucket{le=\"0.1\"} %d\ntook_bucket{le=\"0.5\"} %d\ntook_bucket{le=\"+Inf\"} %d\nup 1\ndepth{pool=\"x\"} 3\nsize{pool=\"x\"} 4\n", n, (n+30)%60, 3*n, 4*n, 4*n)
		if err := h.Read(strings.NewReader(text), "app", start.Add(time.Duration(n)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	now := start.Add(time.Minute)
	for query, want := range map[string]map[string]float64{
		`sum by (route) (rate(calls_total[$__rate_interval]))`:                     {"GET /a": 1, "GET /b \"}": 10.0 / 11},
		`sum(rate(calls_total{status=~"5.."}[1m])) or vector(0)`:                   {"": 10.0 / 11},
		`sum(rate(calls_total{status=~"4.."}[1m])) or vector(0)`:                   {"": 0},
		`histogram_quantile(0.5, sum by (le) (rate(took_bucket[1m])))`:             {"": 0.1 * 2 / 3},
		`histogram_quantile(0.95, sum by (le) (rate(took_bucket{job="app"}[1m])))`: {"": 0.1 + 0.4*0.8},
		`max by (pool) (depth / size)`:                                             {"x": 0.75},
		`sum by (pool) (1 - depth) > 0`:                                            {},
		`time() - max(up) * 2 + 1 < 4e12`:                                          {"": float64(now.Unix()) - 1},
		`max(depth) > bool 2`:                                                      {"": 1},
		`count by (pool) (size)`:                                                   {"x": 1},
		`app:share`:                                                                {"fast": 1},
	} {
		lines, err := h.Plot(query, now, now, time.Second)
		if err != nil {
			t.Error(err)
			continue
		}
		got := map[string]float64{}
		for _, l := range lines {
			key := ""
			for _, v := range l.Labels {
				key = v
			}
			for _, p := range l.Points {
				got[key] = math.Round(1e9*p[1]) / 1e9
			}
		}
		for key, v := range want {
			want[key] = math.Round(1e9*v) / 1e9
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	for _, bad := range []string{"", "sum(", "tea(up)", "rate(up)", "up{a=1}", "up ? 1", "histogram_quantile(0.5)", "sum by (a up)", `up{a=~"("}`} {
		if _, err := h.Plot(bad, now, now, time.Second); err == nil {
			t.Errorf("%q was understood", bad)
		}
	}
	if got := metrics.Legend("{{route}}: {{x}}", map[string]string{"route": "r", "x": "y"}); got != "r: y" {
		t.Error(got)
	}
}
