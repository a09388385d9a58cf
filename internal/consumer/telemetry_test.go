package consumer_test

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/consumer/telemetry"
)

var noon = time.Date(2026, 5, 12, 12, 0, 0, 0, time.UTC)

func someGuest(telemetry bool) consumer.GuestSession {
	return consumer.GuestSession{
		ID: bff.NewID(bff.PrefixGuestSession, noon), CreatedAt: noon.Add(-time.Hour), LastSeenAt: noon, Locale: "en", Currency: "AFN",
		Consent: consumer.Consent{Telemetry: telemetry},
	}
}

func TestNothingLeavesWithoutConsent(t *testing.T) {
	t.Parallel()
	tm := consumer.NewTelemetry("test", nil)
	unread := someGuest(true)
	unread.Unread = true
	for name, s := range map[string]consumer.GuestSession{
		"refused":       someGuest(false),
		"unknown":       unread,
		"do not track":  consumer.NewGuestSession(bff.NewID(bff.PrefixGuestSession, noon), &consumer.Visit{At: noon, NoTracking: true}),
		"nobody at all": {},
	} {
		for _, f := range []consumer.Fact{guest.NewSessionEnded(s, guest.EndedByGuest, noon), booking.HandoffInitiated{}, bot.BotSuspected{}} {
			if _, ok, err := tm.Event(s, f, consumer.Occasion{}, noon); ok || err != nil {
				t.Errorf("%s: %s leaves (%v)", name, f.Subject(), err)
			}
		}
	}
	e, ok, err := tm.Event(someGuest(true), booking.HandoffInitiated{}, consumer.Occasion{}, noon)
	if !ok || err != nil || e.Envelope.ProducerInstance != "test" || e.Envelope.SamplingRate != 1 {
		t.Errorf("with consent: %v %v %+v", ok, err, e.Envelope)
	}
}

func TestSampling(t *testing.T) {
	t.Parallel()
	rate := math.NaN()
	tm := consumer.NewTelemetry("test", func(consumer.Subject) float64 { return rate })
	const guests = 2000
	sessions := make([]consumer.GuestSession, guests)
	for i := range sessions {
		sessions[i] = someGuest(true)
	}
	in := func(s consumer.GuestSession, f consumer.Fact) bool {
		e, ok, err := tm.Event(s, f, consumer.Occasion{}, noon)
		if err != nil || ok && e.Envelope.SamplingRate != rate && f.Subject().Retention() == bff.RetentionOperational {
			t.Fatalf("%v, rate %v in the envelope", err, e.Envelope.SamplingRate)
		}
		return ok
	}
	before := make([]bool, guests)
	for _, rate = range []float64{0, 0.1, 0.5, 1} {
		n := 0
		for i, s := range sessions {
			search := in(s, telemetry.SearchExecuted{})
			if search {
				n++
			}
			if again := in(s, telemetry.SearchExecuted{}); again != search {
				t.Fatal("a retry changed the sample")
			}
			if detail := in(s, telemetry.DetailViewed{}); detail != search {
				t.Fatal("one guest's events cannot be joined")
			}
			if before[i] && !search {
				t.Fatal("a higher rate took a guest out of the sample")
			}
			if !in(s, bot.BotSuspected{}) {
				t.Fatal("an audit event was sampled")
			}
			before[i] = search
		}
		if got := float64(n) / guests; math.Abs(got-rate) > 0.05 {
			t.Errorf("share %.3f, want %.3f", got, rate)
		}
	}
	if got := consumer.DefaultRate(consumer.SubjectSearchExecuted); got != 0.1 {
		t.Errorf("default rate of searches %v", got)
	}
}

// TestSearchExecutedKeepsWordsHere types personal things into every field of a
// search that takes text.
func TestSearchExecutedKeepsWordsHere(t *testing.T) {
	t.Parallel()
	q := consumer.SearchQuery{
		Geo:   consumer.GeoQuery{Mode: consumer.GeoCity, City: "marker-city", Region: "marker-region"},
		Dates: bff.StayDates{CheckIn: 20000, CheckOut: 20002},
		Occupancy: bff.Occupancy{
			Adults: 2, Children: 1, Rooms: 1, ChildrenAges: []int{7},
		},
		Filters: consumer.Filters{
			Amenities: []string{"wifi", "marker@example.com", "halal_kitchen"}, Neighbourhoods: []string{"marker-street 5"}, StarRating: []int{5},
		},
		Currency: "AFN", Locale: "ps-AF",
	}
	encode := func(results int) string {
		b, err := json.Marshal(telemetry.NewSearchExecuted(q.Ask(), someGuest(true), telemetry.SearchOutcome{Kind: telemetry.SearchList, ResultCount: results}))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := encode(0); strings.Contains(got, "marker") || strings.Contains(got, "wifi") || strings.Contains(got, "Ages") {
		t.Errorf("typed words leave with a search that found nothing: %s", got)
	}
	got := encode(3)
	for _, want := range []string{`"filterKeys":["halal-kitchen","wifi","star-rating","neighbourhoods"]`, `"queryHash":"sha256:`, `"sortKey":"recommended"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	if strings.Contains(got, "street") || strings.Contains(got, "example.com") {
		t.Errorf("typed words leave: %s", got)
	}
	q.Geo = consumer.GeoQuery{Mode: consumer.GeoPoint, Point: &consumer.Point{Lat: 34.52813, Lng: 69.17233, RadiusKm: 5}}
	if got := encode(3); !strings.Contains(got, `"lat":34.5,"lng":69.2`) {
		t.Errorf("a guest's place leaves: %s", got)
	}
}

func TestSessionEnded(t *testing.T) {
	t.Parallel()
	s := someGuest(true)
	s.LastSeenAt = noon.Add(-time.Minute)
	if got := guest.NewSessionEnded(s, guest.EndedByGuest, noon); *got.LifetimeSeconds != 3600 || got.Reason != "explicit-clear" || got.GuestSessionID != s.ID ||
		!got.EndedAt.Equal(noon) || !got.LastSeenAt.Equal(s.LastSeenAt) {
		t.Errorf("%+v", got)
	}
}

// The event of a search names its session, its party and no more of the place than tenths
// of a degree.
func TestSearchExecuted(t *testing.T) {
	t.Parallel()
	q := consumer.SearchQuery{
		Geo:   consumer.GeoQuery{Mode: consumer.GeoBoundingBox, BoundingBox: &consumer.BoundingBox{SwLat: 34.41, SwLng: 69.02, NeLat: 34.63, NeLng: 69.31}},
		Dates: bff.StayDates{CheckIn: 20000, CheckOut: 20002}, Occupancy: bff.Occupancy{Adults: 4, Children: 3, Rooms: 2, ChildrenAges: []int{1, 2, 3}},
		Currency: "AFN", Locale: "ps-AF",
	}
	s, search := someGuest(true), bff.NewID(bff.PrefixSearchSession, noon)
	got := telemetry.NewSearchExecuted(q.Ask(), s, telemetry.SearchOutcome{
		Session: search, Kind: telemetry.SearchMap, ResultCount: 9, FromCache: true, Took: 25 * time.Millisecond,
	})
	box := consumer.BoundingBox{SwLat: 34.4, SwLng: 69, NeLat: 34.7, NeLng: 69.4}
	if got.GuestSessionID != s.ID || got.SearchSessionID != search || got.Kind != telemetry.SearchMap || got.ResultCount != 9 || !got.FromCache ||
		got.CompositionMs != 25 {
		t.Errorf("told %+v", got)
	}
	if got.Occupancy != (telemetry.Party{Adults: 4, Children: 3, Rooms: 2}) || got.Geo.BoundingBox == nil || *got.Geo.BoundingBox != box {
		t.Errorf("told %+v, box %+v", got, got.Geo.BoundingBox)
	}
}

// Who is in a sample is the same in every process and version: what joins events depends
// on it.
func TestSpreadNeverChanges(t *testing.T) {
	t.Parallel()
	for h, want := range map[uint64]uint64{0: 0, 1: 0xb456bcfc34c2cb2c, 2: 0x3abf2a20650683e7, 0x0123456789abcdef: 0x87cbfbfe89022cea} {
		if got := consumer.Spread(h); got != want {
			t.Errorf("%x: %x, want %x", h, got, want)
		}
	}
	all := consumer.NewTelemetry("test", func(consumer.Subject) float64 { return math.NaN() })
	none := consumer.NewTelemetry("test", func(consumer.Subject) float64 { return 0 })
	if id := someGuest(true).ID; !all.Samples(id, consumer.SubjectPageViewed) || none.Samples(id, consumer.SubjectPageViewed) {
		t.Error("a rate that is no number keeps all, none keeps none")
	}
	for _, s := range consumer.Subjects() {
		if audit := s.Retention() == bff.RetentionAudit; none.Samples(someGuest(true).ID, s) != audit {
			t.Errorf("%s: an audit trail has holes, or a sample has none", s)
		}
	}
}

// The deletion of a session is announced to those who heard of it, without consent
// with nothing but its id.
func TestClearing(t *testing.T) {
	t.Parallel()
	withdrawn, never, unread := someGuest(false), someGuest(false), someGuest(true)
	never.Silent, unread.Unread = true, true
	tests := map[string]struct {
		session consumer.GuestSession
		want    []string // members of the payload; nil = no event
		reason  guest.EndReason
	}{
		"agrees":        {someGuest(true), []string{"endedAt", "guestSessionId", "lastSeenAt", "lifetimeSeconds", "reason"}, guest.EndedByGuest},
		"withdrawn":     {withdrawn, []string{"guestSessionId", "reason"}, guest.Cleared},
		"never allowed": {never, nil, ""},
		"unknown":       {unread, nil, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, leaves, err := guest.Clearing(consumer.NewTelemetry("test", nil), tc.session, consumer.Occasion{}, noon)
			if err != nil || leaves != (tc.want != nil) {
				t.Fatalf("leaves %v, %v", leaves, err)
			}
			if !leaves {
				return
			}
			var payload map[string]any
			if err := json.Unmarshal(e.Payload, &payload); err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(payload)); !slices.Equal(got, tc.want) || payload["reason"] != string(tc.reason) {
				t.Errorf("payload %v, want %v and %s", payload, tc.want, tc.reason)
			}
		})
	}
}
