package upstream

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/pause"
)

type wireGeo struct {
	Lat *float64 `json:"lat" upstream:"required"`
}

type wireListing struct {
	PropertyID string         `json:"propertyId" upstream:"required"`
	Geo        *wireGeo       `json:"geo,omitempty"`
	Similar    []*wireListing `json:"similar"`
	Note       string         `json:"note"`
}

type wireBase struct {
	Total *int `json:"total" upstream:"required"`
}

type wirePage struct {
	wireBase
	Items []wireListing `json:"items" upstream:"required"`
}

func TestDrift(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		want       string // fields reported, sorted
	}{
		{"whole", `{"total":0,"items":[]}`, ""},
		{"zero is a value", `{"total":0,"items":[{"propertyId":"p","geo":{"lat":0}}]}`, ""},
		{"optional parts may be missing", `{"total":1,"items":[{"propertyId":"p"}]}`, ""},
		{"everything missing", `{}`, "items total"},
		{"renamed", `{"totl":1,"items":[{"id":"p"},{"id":"q"}]}`, "items.propertyId total"},
		{"null", `{"total":1,"items":null}`, "items"},
		{"inside", `{"total":1,"items":[{"propertyId":"p","geo":{}}]}`, "items.geo.lat"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var page wirePage
			if err := json.Unmarshal([]byte(tt.body), &page); err != nil {
				t.Fatal(err)
			}
			reg := prometheus.NewRegistry()
			c := newClient(t, Config{Metrics: reg})
			c.drift.check("/r", &page)
			var got []string
			for line := range strings.Lines(scrape(t, reg)) {
				if _, rest, ok := strings.Cut(line, `upstream_schema_drift_total{field="`); ok {
					field, count, _ := strings.Cut(rest, `"`)
					if !strings.HasSuffix(count, " 1\n") {
						t.Errorf("counted more than once: %s", line)
					}
					got = append(got, field)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("reported %v, want %q", got, tt.want)
			}
		})
	}
}

func TestDriftIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		c := newClient(t, Config{Name: "search", Log: slog.New(slog.NewTextHandler(&logged, nil))})
		for range 130 {
			c.Drift("/r", "items")
			pause.For(t.Context(), time.Second)
		}
		c.Drift("/r", "total")
		if n := strings.Count(logged.String(), "field=items"); n != 3 {
			t.Errorf("logged %d times in 130 seconds, want 3", n)
		}
		if !strings.Contains(logged.String(), "upstream=search route=/r field=total") {
			t.Errorf("another field is not logged:\n%s", &logged)
		}
	})
}

// jsonFar is an upstream in memory that answers with its own text.
type jsonFar string

func (f jsonFar) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(string(f))), ContentLength: -1,
		Header: http.Header{"Content-Type": {"application/problem+json"}},
	}, nil
}

// Whatever an upstream sends, the call ends in an answer or in garbage.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{}`, `{"items":[{"propertyId":"p","similar":[{}]}]}`, `[`, "", `{"items":[null]}`, `null`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		c := newClient(t, Config{Transport: jsonFar(body)})
		var page wirePage
		if err := c.Get(t.Context(), "/r", "/r", nil, &page); err != nil && ReasonOf(err) != Garbage {
			t.Errorf("%q: %v", body, err)
		}
		var raw []byte
		if err := c.Get(t.Context(), "/r", "/r", nil, &raw); (err == nil) != json.Valid([]byte(body)) {
			t.Errorf("%q: %v", body, err)
		}
	})
}
