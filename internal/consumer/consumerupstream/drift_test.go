package consumerupstream_test

import (
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerupstream"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// says answers every call with one body.
type says string

func (s says) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(s)), Body: io.NopCloser(strings.NewReader(string(s))),
	}, nil
}

// missing are the fields that were reported.
func missing(t *testing.T, reg *prometheus.Registry) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		if !strings.HasSuffix(f.GetName(), "upstream_schema_drift_total") {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "field" {
					out = append(out, l.GetValue())
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

const (
	hotelID = "ppt_01H4REZJ00ED74F09R4H10EDQH"
	ownerID = "tnt_01HCCAJ930Q3Y811AXYN4D8YR9"
	aQuote  = `{"propertyId":"` + hotelID + `","cheapestNightly":"125000000:USD","totalForStay":"125000000:USD","capturedAt":"2027-03-10T12:00:00Z"`
)

// What an answer lacks is reported, what it has is used, and what is something
// else than agreed on is refused as a whole.
func TestTolerance(t *testing.T) {
	t.Parallel()
	id := bff.MustParseID(bff.PrefixProperty, hotelID)
	describe := func(t *testing.T, up *consumerupstream.Upstreams) (any, error) {
		t.Helper()
		p, err := up.Property.Describe(t.Context(), id, bff.LocaleEnglish)
		return p.Name.Default, err
	}
	similar := func(t *testing.T, up *consumerupstream.Upstreams) (any, error) {
		t.Helper()
		l, err := up.Search.Similar(t.Context(), id, 4, bff.LocaleEnglish)
		return len(l), err
	}
	search := func(t *testing.T, up *consumerupstream.Upstreams) (any, error) {
		t.Helper()
		l, err := up.Search.Search(t.Context(), consumer.SearchQuery{})
		return len(l.Items), err
	}
	policy := func(t *testing.T, up *consumerupstream.Upstreams) (any, error) {
		t.Helper()
		q, err := up.Pricing.Quote(t.Context(), hotel.PriceRequest{}, 7)
		if err != nil || q.Rate == nil {
			return nil, err
		}
		return q.Rate.CurrencyDisplayPolicy, err
	}
	brands := func(t *testing.T, up *consumerupstream.Upstreams) (any, error) {
		t.Helper()
		b, err := up.Theme.Peeks(t.Context(), nil)
		return len(b), err
	}
	facets := func(t *testing.T, up *consumerupstream.Upstreams) (any, error) {
		t.Helper()
		c, err := up.Search.Facets(t.Context(), "AF", "", bff.LocaleEnglish)
		out := []string{}
		for _, f := range c.Facets {
			for _, v := range f.Values {
				out = append(out, v.Value)
			}
		}
		return strings.Join(out, " "), err
	}
	for _, tt := range []struct {
		name    string
		ask     func(*testing.T, *consumerupstream.Upstreams) (any, error)
		body    string
		want    any
		drift   []string
		garbage bool
	}{
		{
			name: "whole hotel", ask: describe,
			body: `{"propertyId":"` + hotelID + `","tenantId":"` + ownerID + `","rooms":[],"name":{"values":{"en":"House"},"default":"en"}}`, want: "House",
		},
		{name: "no hotel at all", ask: describe, body: `{}`, want: "", drift: []string{"propertyId", "rooms", "tenantId"}},
		{
			name: "nulls", ask: describe, body: `{"propertyId":null,"tenantId":null,"rooms":null,"name":null,"photos":null,"policies":null}`, want: "",
			drift: []string{"propertyId", "rooms", "tenantId"},
		},
		{name: "rooms of another kind", ask: describe, body: `{"rooms":{}}`, garbage: true},
		{name: "an id that is none", ask: describe, body: `{"propertyId":"x"}`, garbage: true},
		{name: "cut short", ask: describe, body: `{"rooms":[`, garbage: true},
		{name: "more than one value", ask: describe, body: `{} {}`, garbage: true},
		{
			name: "a default that names no value", ask: describe,
			body: `{"propertyId":"` + hotelID + `","tenantId":"` + ownerID + `","rooms":[],"name":{"default":"de","values":{"fa":"خانه"}}}`, want: "خانه",
		},
		{
			name: "listings without slugs, reported once", ask: similar,
			body: `{"items":[` + strings.Repeat(
				`{"propertyId":"`+hotelID+`","tenantId":"`+ownerID+`"},`, 2,
			) + `{"propertyId":"` + hotelID + `","tenantId":"` + ownerID + `"}]}`,
			want: 3, drift: []string{"items.tenantSlug"},
		},
		{
			name: "a listing that cannot be named", ask: similar,
			body: `{"items":[{"propertyId":"` + ownerID + `","tenantId":"` + ownerID + `","tenantSlug":"s"}]}`, want: 0,
		},
		{name: "no items", ask: search, body: `{"total":3}`, want: 0, drift: []string{"items"}},
		{name: "policy", ask: policy, body: `{"quotes":[` + aQuote + `,"currencyDisplayPolicy":"user-preferred"}]}`, want: "user-preferred"},
		{
			name: "policy beyond the set", ask: policy, body: `{"quotes":[` + aQuote + `,"currencyDisplayPolicy":"<script>"}]}`, want: "fallback",
			drift: []string{"currencyDisplayPolicy"},
		},
		{
			name: "a price of fractions", ask: policy, body: `{"quotes":[` + strings.Replace(aQuote, "125000000:USD", "125000001:USD", 1) + `}]}`, want: nil,
			drift: []string{"cheapestNightly"},
		},
		{
			name: "quotes lack everything", ask: policy, body: `{"quotes":[{}]}`, want: nil,
			drift: []string{"cheapestNightly", "quotes.capturedAt", "quotes.cheapestNightly", "quotes.propertyId", "quotes.totalForStay"},
		},
		{name: "no quotes", ask: policy, body: `{}`, want: nil, drift: []string{"quotes"}},
		{name: "brand", ask: brands, body: `{"brandPeeks":[{"tenantId":"` + ownerID + `","primaryColor":"#aB09ff"}]}`, want: 1},
		{
			name: "a colour that is style", ask: brands, body: `{"brandPeeks":[{"tenantId":"` + ownerID + `","primaryColor":"#fff;}b"}]}`, want: 0,
			drift: []string{"primaryColor"},
		},
		{
			name: "facets that a search refuses", ask: facets,
			body: `{"facets":[{"key":"cancellationFlexibility","values":[{"value":"free"},{"value":"partial"},{"value":"none"}]},{"key":"amenities","values":[{"value":"halal_kitchen"}]}]}`,
			want: "free partial halal-kitchen",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			reg := prometheus.NewRegistry()
			const base = "http://platform.test"
			up, err := consumerupstream.New(consumerupstream.Config{
				SearchURL: base, PricingURL: base, PropertyURL: base, ThemeURL: base, TenantURL: base,
				Metrics: reg, Log: slog.New(slog.DiscardHandler), Transport: says(tt.body),
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := tt.ask(t, up)
			if tt.garbage {
				if upstream.ReasonOf(err) != upstream.Garbage {
					t.Errorf("got %v, %v, want it refused", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if diff := cmp.Diff(tt.drift, missing(t, reg)); diff != "" {
				t.Errorf("reported as missing (-want +got):\n%s", diff)
			}
		})
	}
}
