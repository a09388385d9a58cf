package views

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// sameJSON compares what Encode writes with what encoding/json writes.
func sameJSON(t *testing.T, view any) {
	t.Helper()
	want, wantErr := json.Marshal(view)
	got, err := Encode(view)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%v, encoding/json: %v", err, wantErr)
	}
	if err == nil && string(got) != string(want) {
		t.Errorf("got\n%s\nencoding/json:\n%s", got, want)
	}
}

// FuzzEncode puts one of each thing into answers.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{
		"", "plain", `"\/`, "<a href='x'>&amp;</a>", "\x00\b\f\n\r\t\x1f\x7f", "سلام €", "\u2028 \u2029 \u2027 \u202a", "\xff\xe2\x80", "\xe2\x80\xa8",
	} {
		f.Add(s, 34.47, 7, int64(1_800_000_000_123))
	}
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1.5, 1e-6, 9.9e-7, 1e-9, 1e-10, 1e20, 1e21, 1.7e308, 5e-324, math.NaN(), math.Inf(1)} {
		f.Add("x", x, -1, int64(0))
	}
	f.Fuzz(func(t *testing.T, s string, x float64, n int, ms int64) {
		id := bff.IDFromBytes(bff.PrefixProperty, [16]byte{1, byte(n)})
		tenant := bff.IDFromBytes(bff.PrefixTenant, [16]byte{2, byte(n)})
		name := bff.LocalizedString{Default: s, Localized: map[string]string{s: s, "fa": "ف", "ps": s + "<"}}
		stamp := bff.At(time.UnixMilli(ms))
		rate := hotel.RateSnapshot{
			CheapestNightlyMinor: s, TotalForStayMinor: "1", Currency: bff.USD, CurrencyDisplayPolicy: s, FxSnapshotID: s,
			CapturedAt: stamp, TTLExpiresAt: stamp, IsStale: n%2 == 0, Taxes: []hotel.Tax{{Code: s, Minor: s, Currency: bff.EUR}},
		}
		brand := hotel.BrandPeek{PrimaryColor: s, LogoURL: s, BrandName: name}
		missing := []discovery.Degradation{{Part: discovery.PartRates, Reason: discovery.ReasonError, AgeMs: ms, Affected: n}, {}}
		card := discovery.ListingCard{
			PropertyID: id, TenantID: tenant, TenantSlug: s, Name: name, City: s, CityLabel: s, Country: s, Geo: hotel.LatLng{Lat: x, Lng: -x},
			Thumbnail: hotel.Image{URL: s, Alt: s}, StarRating: &x, GuestRating: &hotel.GuestRating{Value: x, Count: n},
			AmenityHighlights: []string{s, "b"}, BrandPeek: brand, RateSnapshot: &rate, Badges: []hotel.Badge{hotel.BadgeSharia}, DistanceKm: &x,
		}
		provenance := json.RawMessage(`{ "by" : "<machine>" }`)
		sameJSON(t, &discovery.HotelDetail{
			Property: discovery.PropertySummary{
				PropertyID: id, TenantID: tenant, TenantSlug: s, Name: name, Description: &name, PropertyType: s, StarRating: &x,
				GuestRating: &hotel.GuestRating{Value: x, Count: n}, Address: hotel.Address{Line: s, City: s, CityLabel: s, Region: s, RegionLabel: s, Country: s},
				Geo: hotel.LatLng{Lat: x, Lng: x}, Badges: []hotel.Badge{}, TranslationProvenance: provenance,
			},
			Rooms: []hotel.RoomTypeSummary{{
				RoomTypeID: s, Name: name, MaxOccupancy: hotel.RoomCapacity{Adults: n, Children: -n}, Beds: []hotel.Bed{{Type: s, Count: n}},
				SizeSqm: &x, Amenities: []string{s}, PhotoURLs: []string{s, s},
			}, {}},
			Amenities: []hotel.Amenity{{Code: s, Label: s, Category: s}}, Photos: []hotel.Photo{{URL: s, Alt: s, IsHero: true}, {}},
			Policies: hotel.Policies{Cancellation: s, CheckIn: s, CheckOut: s}, BrandPeek: brand, CheapestRateSnapshot: &rate,
			PriceCalendarPreview: []hotel.CalendarDay{{Date: bff.Date(ms % 60_000), CheapestMinor: s, Currency: bff.AFN}},
			SimilarProperties:    []discovery.ListingCard{card, {}}, PopularitySignals: &hotel.Popularity{BookedLast24h: n, ViewedLast1h: n},
			HandoffHint: discovery.HandoffHint{URL: s, TTLSeconds: n}, Degraded: missing, Stale: true,
		})
		sameJSON(t, &discovery.SearchResult{
			Results: []discovery.ListingCard{card, {}}, Page: discovery.ResultPage{Limit: n, Offset: n, Total: n}, Degraded: missing,
			AIProvenance: provenance, QueryRewriteHint: json.RawMessage(`"x"`),
		})
	})
}

func TestEncodeOfNothing(t *testing.T) {
	t.Parallel()
	sameJSON(t, &discovery.MapResult{})
	sameJSON(t, &discovery.HotelDetail{})
	sameJSON(t, &discovery.SearchResult{})
	sameJSON(t, &discovery.HotelDetail{Property: discovery.PropertySummary{TranslationProvenance: json.RawMessage(`{`)}})
}
