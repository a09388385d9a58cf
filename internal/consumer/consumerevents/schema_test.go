package consumerevents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/contracts"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/consumer/telemetry"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

var now = time.Date(2026, 5, 12, 12, 0, 0, 123e6, time.UTC)

func id(p bff.Prefix) bff.ID { return bff.NewID(p, now) }

func session() consumer.GuestSession {
	return consumer.GuestSession{
		ID: id(bff.PrefixGuestSession), CreatedAt: now.Add(-time.Hour), LastSeenAt: now, Locale: "ps-AF", Currency: "AFN",
		Consent:  consumer.Consent{Telemetry: true},
		Campaign: &consumer.Campaign{Source: "google", Medium: "cpc", Campaign: "spring-2026", CapturedAt: bff.At(now)},
	}
}

// facts has every event in its fullest form.
func facts() []consumer.Fact {
	s, tenant, property, search := session(), id(bff.PrefixTenant), id(bff.PrefixProperty), id(bff.PrefixSearchSession)
	stay := bff.StayDates{CheckIn: 20000, CheckOut: 20002}
	q := consumer.SearchQuery{
		Geo: consumer.GeoQuery{Mode: consumer.GeoCity, City: "Kabul", Country: "AF"}, Dates: stay,
		Occupancy: bff.Occupancy{Adults: 2, Rooms: 1}, Filters: consumer.Filters{Amenities: []string{"wifi"}}, Currency: "AFN", Locale: "ps-AF",
	}
	box := q
	box.Geo = consumer.GeoQuery{Mode: consumer.GeoBoundingBox, BoundingBox: &consumer.BoundingBox{SwLat: 34, SwLng: 69, NeLat: 35, NeLng: 70}}
	point := q
	point.Geo = consumer.GeoQuery{Mode: consumer.GeoPoint, Point: &consumer.Point{Lat: 34, Lng: 69, RadiusKm: 5}}
	return []consumer.Fact{
		guest.NewSessionStarted(s, &consumer.Visit{UserAgentClass: "browser-desktop"}),
		guest.NewSessionEnded(s, guest.EndedByTime, now),
		telemetry.NewSearchExecuted(q.Ask(), s, telemetry.SearchOutcome{
			Session: search, Kind: telemetry.SearchList, ResultCount: 47, FromCache: true, Took: 47 * time.Millisecond,
		}),
		telemetry.NewSearchExecuted(box.Ask(), s, telemetry.SearchOutcome{Kind: telemetry.SearchMap}),
		telemetry.NewSearchExecuted(point.Ask(), s, telemetry.SearchOutcome{Kind: telemetry.SearchMap, ResultCount: 1}),
		telemetry.ClickRecorded{
			GuestSessionID: s.ID, Kind: "listing-card", TenantID: tenant, PropertyID: property, SearchSessionID: search,
			Position: 3, Page: 1, SortKey: consumer.SortRecommended, OccurredAt: bff.At(now),
		},
		telemetry.ClickRecorded{GuestSessionID: s.ID, Kind: "brand-peek", OccurredAt: bff.At(now)},
		booking.HandoffInitiated{
			HandoffID: id(bff.PrefixHandoff), GuestSessionID: s.ID, TenantID: tenant, TenantSlug: "kabul-grand", PropertyID: property,
			Dates: stay, Occupancy: bff.Occupancy{Adults: 2, Children: 1, Rooms: 1, ChildrenAges: []int{7}}, Currency: "AFN", Locale: "ps-AF",
			SourceCampaign: s.Campaign, MintedAt: bff.At(now), ExpiresAt: bff.At(now), HMACKeyID: "hmac-2026-04", OriginReferer: "https://x.example/a",
		},
		guest.NewLocaleChanged(s, "fa-AF", guest.TriggerUser, now),
		guest.NewCurrencyChanged(s, "USD", guest.TriggerTenant, now),
		guest.WishlistAdded{
			WishlistID: id(bff.PrefixWishlist), GuestSessionID: s.ID, TenantID: tenant, PropertyID: property, Source: "detail", AddedAt: bff.At(now), WishlistSize: 1,
		},
		guest.WishlistRemoved{
			WishlistID: id(bff.PrefixWishlist), GuestSessionID: s.ID, TenantID: tenant, PropertyID: property, RemovedAt: bff.At(now),
		},
		bot.BotSuspected{
			GuestSessionID: s.ID, Score: 0.93, Verdict: "bot", EvaluatedAt: bff.At(now), ActionTaken: "challenge",
			Signals: []bot.Signal{{Kind: "cadence", Weight: 0.3, Detail: "12 reqs/2s"}},
		},
		telemetry.DetailViewed{
			GuestSessionID: s.ID, TenantID: tenant, PropertyID: property, SearchSessionID: search, Currency: "AFN", Locale: "en-US", ViewedAt: bff.At(now),
		},
		telemetry.PageViewed{
			ID: id(bff.PrefixPageView), GuestSessionID: s.ID, Path: "/hotels/x", ViewedAt: bff.At(now), Referer: "https://www.google.com",
			TenantID: tenant, PropertyID: property, SearchSessionID: search,
		},
		telemetry.FunnelStepRecorded{
			ID: id(bff.PrefixFunnelEvent), GuestSessionID: s.ID, Step: "list.scrolled-50pct", OccurredAt: bff.At(now), TenantID: tenant,
			PropertyID: property, SearchSessionID: search, Metadata: map[string]any{"a": 1.5, "b": true, "c.d": "x"},
		},
	}
}

// encode writes an event as the relay publishes it.
func encode(t *testing.T, f consumer.Fact) []byte {
	t.Helper()
	tm := consumer.NewTelemetry("bff-consumer-test", func(consumer.Subject) float64 { return 1 })
	e, ok, err := tm.Event(session(), f, consumer.Occasion{
		RequestID: id(bff.PrefixRequest), TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}, now)
	if err != nil || !ok {
		t.Fatalf("%s: %v %v", f.Subject(), ok, err)
	}
	e.Envelope.PublishedAt = bff.At(now)
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func schemas(t *testing.T) *consumerevents.Schemas {
	t.Helper()
	s, err := consumerevents.NewSchemas()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEventsFollowTheirSchemas(t *testing.T) {
	t.Parallel()
	s := schemas(t)
	tested := map[consumer.Subject]bool{}
	for _, f := range facts() {
		tested[f.Subject()] = true
		b := encode(t, f)
		if err := s.Check(b); err != nil {
			t.Errorf("%s: %v\n%s", f.Subject(), err, b)
		}
		// What is not declared must not leave: it could be anything.
		var e map[string]map[string]any
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"envelope", "payload"} {
			e[part]["clientIp"] = "203.0.113.9"
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Check(b); !errors.Is(err, consumerevents.ErrSchema) {
				t.Errorf("%s with an undeclared member of its %s passes", f.Subject(), part)
			}
			delete(e[part], "clientIp")
		}
		for member := range e["payload"] {
			held := e["payload"][member]
			e["payload"][member] = []any{"no such thing"}
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if s.Check(b) == nil {
				t.Errorf("%s: %s may be anything", f.Subject(), member)
			}
			e["payload"][member] = held
		}
	}
	for _, subject := range consumer.Subjects() {
		if !tested[subject] {
			t.Errorf("%s was not tested", subject)
		}
	}
}

// TestOneListOfEvents holds the code, the schemas and the AsyncAPI document to
// the same list.
func TestOneListOfEvents(t *testing.T) {
	t.Parallel()
	want := map[string]string{} // subject by the id of its schema
	for _, f := range facts() {
		var e struct {
			Envelope struct{ Subject, SchemaURI string }
		}
		if err := json.Unmarshal(encode(t, f), &e); err != nil {
			t.Fatal(err)
		}
		want[e.Envelope.SchemaURI] = e.Envelope.Subject
	}
	if len(want) != len(consumer.Subjects()) {
		t.Fatalf("%d events, %d subjects", len(want), len(consumer.Subjects()))
	}

	files := map[string]string{}
	names, err := fs.Glob(contracts.Events(), "bff-consumer/*/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := fs.ReadFile(contracts.Events(), name)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			ID         string `json:"$id"`
			Properties struct {
				Envelope struct {
					Properties struct {
						Subject, SchemaURI struct{ Const string }
					}
				}
			}
		}
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatal(err)
		}
		files[doc.ID] = doc.Properties.Envelope.Properties.Subject.Const
		if uri := doc.Properties.Envelope.Properties.SchemaURI.Const; uri != doc.ID {
			t.Errorf("%s names schema %s", name, uri)
		}
	}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("schemas (-code +files):\n%s", diff)
	}

	// What is sent is written from the schemas, in contracts.
	var api struct {
		Channels   map[string]struct{ Address string }
		Operations map[string]struct {
			Action  string
			Channel struct {
				Ref string `yaml:"$ref"`
			}
			Subscription struct {
				Name            string
				Ack             int    `yaml:"ackDeadlineSeconds"`
				Attempts        int    `yaml:"maxDeliveryAttempts"`
				DeadLetterTopic string `yaml:"deadLetterTopic"`
			} `yaml:"x-subscription"`
		}
	}
	if err := yaml.Unmarshal(contracts.AsyncAPI("consumer"), &api); err != nil {
		t.Fatal(err)
	}
	var received, subscribed []string
	for _, op := range api.Operations {
		if s := op.Subscription; op.Action == "receive" {
			address := api.Channels[strings.TrimPrefix(op.Channel.Ref, "#/channels/")].Address
			received = append(received, fmt.Sprint(address, s.Name, s.Ack, s.Attempts, s.DeadLetterTopic))
		}
	}
	for _, s := range consumerevents.Subscriptions() {
		subscribed = append(subscribed, fmt.Sprint(s.Topic, s.Name, int(s.AckDeadline/time.Second), s.MaxAttempts, s.DLQ))
	}
	slices.Sort(received)
	slices.Sort(subscribed)
	if diff := cmp.Diff(subscribed, received); diff != "" || len(api.Channels) != len(want)+len(received) {
		t.Errorf("%d channels; received (-code +document):\n%s", len(api.Channels), diff)
	}
}

// TestSubscriptions holds names, deadlines and attempts to EVENT_SCHEMAS §5.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	type row struct {
		Name, Topic, DLQ string
		Ack              time.Duration
		Attempts         int
	}
	var got []row
	for _, s := range consumerevents.Subscriptions() {
		got = append(got, row{s.Name, s.Topic, s.DLQ, s.AckDeadline, s.MaxAttempts})
	}
	var want []row
	for _, s := range []struct {
		topic    string
		attempts int
	}{
		{"theme.published.v1", 5},
		{"search_aggregation.listing.indexed.v1", 5},
		{"search.projection.updated.v1", 5},
		{"tenant.suspended.v1", 10},
		{"tenant.reinstated.v1", 10},
		{"tenant.reactivated.v1", 10},
	} {
		want = append(want, row{"bff-consumer." + s.topic, "melmastoon." + s.topic, "bff-consumer.melmastoon." + s.topic + ".dlq", 30 * time.Second, s.attempts})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type recorder struct{ messages []pubsub.Message }

func (r *recorder) Publish(_ context.Context, messages []pubsub.Message) []error {
	r.messages = append(r.messages, messages...)
	return make([]error, len(messages))
}

func TestCheckedPublisherKeepsOrder(t *testing.T) {
	t.Parallel()
	good := encode(t, facts()[0])
	bad := []byte(`{"envelope":{"schemaUri":"` + contracts.SchemaBase + `bff-consumer/session-started/v1.json"},"payload":{}}`)
	next := &recorder{}
	errs := schemas(t).Checked(next).Publish(t.Context(), []pubsub.Message{
		{Topic: "t", Key: "a", Data: good},
		{Topic: "t", Key: "a", Data: bad},
		{Topic: "t", Key: "a", Data: good},
		{Topic: "t", Key: "b", Data: good},
		{Topic: "u", Key: "a", Data: good},
		{Topic: "t", Data: bad},
		{Topic: "t", Data: good},
	})
	want := []error{nil, consumerevents.ErrSchema, pubsub.ErrHeld, nil, nil, consumerevents.ErrSchema, nil}
	for i := range want {
		if !errors.Is(errs[i], want[i]) {
			t.Errorf("message %d: %v, want %v", i, errs[i], want[i])
		}
	}
	if len(next.messages) != 4 {
		t.Errorf("%d messages passed, want 4", len(next.messages))
	}
	if pubsub.Transient(errs[1]) {
		t.Error("a refused event looks like an outage")
	}
}
