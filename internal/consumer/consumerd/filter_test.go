package consumerd_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestFiltersNarrow compares what the service finds with each filter with what
// the projection finds with it, which the simulator's own tests compare with an
// oracle.
func TestFiltersNarrow(t *testing.T) {
	t.Parallel()
	w := testkit.NewWorld(t, nil)
	g := newCaller(t, w.Start("bff-consumer", nil))

	type ids []struct{ PropertyID string }
	query := func(filter, value string) map[string]any {
		filters := map[string]any{}
		if filter != "" {
			filters[filter] = json.RawMessage(value)
		}
		return map[string]any{
			"geo": map[string]any{"mode": "city", "city": "Kabul"}, "sortKey": "price-asc", "filters": filters,
			"dates":     map[string]string{"checkIn": "2077-05-12", "checkOut": "2077-05-13"},
			"occupancy": map[string]int{"adults": 1, "children": 0, "rooms": 1}, "page": map[string]int{"limit": 50, "offset": 0},
			"locale": "en", "currency": "USD",
		}
	}
	ours := func(body any) (found ids, total int) {
		t.Helper()
		status, _, raw := g.do("POST", "/search", nil, body)
		var out struct {
			Results ids
			Page    struct{ Total int }
		}
		if err := json.Unmarshal(raw, &out); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, raw)
		}
		return out.Results, out.Page.Total
	}
	projections := func(body any) (found ids, total int) {
		t.Helper()
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodPost, w.SimURL+"/search-aggregation/api/v1/search/listings", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := (&http.Client{Timeout: time.Minute}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		var out struct {
			Items ids
			Total int
		}
		if err := json.NewDecoder(res.Body).Decode(&out); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%d %v", res.StatusCode, err)
		}
		return out.Items, out.Total
	}

	// What is asked for, and the same in the projection's words where they differ.
	samples := map[string]struct{ value, projections string }{
		"priceRange":              {value: `{"min":20,"max":60,"currency":"USD"}`},
		"amenities":               {value: `["prayer-room"]`, projections: `["prayer_room"]`},
		"starRating":              {value: `[3]`},
		"guestRatingMin":          {value: `8`},
		"propertyType":            {value: `["guesthouse"]`},
		"cancellationFlexibility": {value: `"free"`},
		"neighbourhoods":          {value: `["Shahr-e Naw"]`},
	}
	_, everything := ours(query("", ""))
	for f := range reflect.TypeFor[consumer.Filters]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		sample, ok := samples[name]
		if !ok {
			t.Errorf("samples has no %s", name)
			continue
		}
		if sample.projections == "" {
			sample.projections = sample.value
		}
		got, total := ours(query(name, sample.value))
		want, wantTotal := projections(query(name, sample.projections))
		if diff := cmp.Diff(want, got); diff != "" || total != wantTotal {
			t.Errorf("%s: %d found, want %d (-projection +got):\n%s", name, total, wantTotal, diff)
		}
		if total == 0 || total >= everything {
			t.Errorf("%s: %d of %d found, want some but not all", name, total, everything)
		}
	}
}
