package backofficehttp_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/http1"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// flags are what GET /session says of them.
func (s *sender) flags() map[string]bool {
	s.f.tb.Helper()
	w := s.get("/session")
	var doc struct{ Flags map[string]bool }
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
		s.f.tb.Fatalf("GET /session: %d %s", w.Code, w.Body)
	}
	return doc.Flags
}

// A feature is switched off for all by the platform, or for one tenant by tenant-service.
func TestFeaturesAreSwitchedOff(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.furnish()
	url := f.listen(0, http1.Options{})
	s := f.sender("opt_parwana")
	if diff := cmp.Diff(map[string]bool{"beta": true, "live_stream": true, "ai_inbox": true, "blackout_desk": true}, s.flags()); diff != "" {
		t.Error(diff)
	}
	open := s.stream(url, "")
	open.until("ready")
	check := func(how string) {
		t.Helper()
		l, status, header := s.tryStream(new(http.Transport), url, "")
		if l != nil || status != http.StatusServiceUnavailable || header.Get("Retry-After") != "60" {
			t.Errorf("%s: a stream: %d %v", how, status, header)
		}
		want := []backofficehttp.Missing{{Part: backofficehttp.MissingSuggestions, Reason: backofficehttp.SwitchedOff}}
		if doc := readInboxDoc(t, s.get("/ai/suggestions?propertyId="+house)); len(doc.Items) > 0 || !cmp.Equal(want, doc.Degraded) {
			t.Errorf("%s: suggestions: %+v", how, doc)
		}
		if doc := readInboxDoc(t, s.get("/alerts?propertyId="+house)); len(doc.Items) != 2 {
			t.Errorf("%s: alerts: %+v", how, doc)
		}
		w := f.send(0, s.action("decide"))
		if codeOf(w) != "SERVICE_UNAVAILABLE" || w.Header().Get("Retry-After") != "60" {
			t.Errorf("%s: a decision: %d %s", how, w.Code, w.Body)
		}
		if w := f.send(0, s.action("acknowledge")); w.Code != http.StatusOK {
			t.Errorf("%s: an acknowledgement: %d %s", how, w.Code, w.Body)
		}
	}
	f.toggle(map[string]bool{"live_stream": false, "ai_inbox": false, "beta": false})
	if diff := cmp.Diff(map[string]bool{"beta": false, "live_stream": false, "ai_inbox": false, "blackout_desk": true}, s.flags()); diff != "" {
		t.Error(diff)
	}
	check("by the platform")
	f.streams[0].Shed(1)
	if e := open.until("drain"); e.data != "{}" {
		t.Errorf("%+v", e)
	}

	f.toggle(nil)
	if w := f.send(0, s.action("decide")); w.Code != http.StatusOK {
		t.Errorf("switched on again: %d %s", w.Code, w.Body)
	}
	again := s.stream(url, "")
	again.until("ready")
	f.employed("opt_parwana", func(m *backoffice.Member) {
		m.Flags, m.Scope = map[string]bool{"live_stream": false, "ai_inbox": false}, backoffice.ReadPropertyScope([]string{house})
	})
	check("by the tenant")
	for _, flag := range []string{"beta", "live_stream"} {
		if err := f.streams[0].notices.Notify(testkit.Context(t), backoffice.Notice{
			Channel: backoffice.ChannelSession, Type: backoffice.FlagsChanged, Tenant: f.tenant, At: f.clock(), Data: json.RawMessage(`{"flag": "` + flag + `"}`),
		}); err != nil {
			t.Fatal(err)
		}
		if e := again.until("session"); !json.Valid([]byte(e.data)) {
			t.Errorf("%+v", e)
		}
	}
	if e := again.next(); e.name != "" {
		t.Errorf("after its flag the stream goes on: %+v", e)
	}
	f.behindUs.mu.Lock()
	defer f.behindUs.mu.Unlock()
	if n := len(f.behindUs.decisions); n != 1 {
		t.Errorf("%d decisions, want the one while suggestions were switched on", n)
	}
}

// Of what operators look at a quarter is told, after the response, which never fails
// with it.
func TestViewingsAreReported(t *testing.T) {
	t.Parallel()
	const unsampled = "01M7MK9ZTR7ZZZZZZZZZZZZZZZ"
	f := newFront(t, frontConfig{})
	s := f.sender("opt_parwana")
	s.session()
	look := func(path, id, media string) {
		t.Helper()
		r := s.request(http.MethodGet, base+path, "")
		r.header.Set("X-Request-Id", id)
		r.header.Set("Accept", media)
		if w := f.send(0, r); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, id := range []string{sampledRequest, unsampled} {
		for range 2 { // composed, then kept
			look("/dashboard?propertyId="+house, id, "application/x-ndjson")
		}
		look("/dashboard?propertyId="+house, id, "application/json")
		look("/arrivals?date=2026-11-18&propertyId="+house, id, "application/json")
		look("/today?kind=task&propertyId="+house, id, "application/json")
	}
	f.finish() // and takes no more reports: that is no failure either
	f.outbox.fail(errors.New("postgres is away"))
	look("/dashboard?propertyId="+house, sampledRequest, "application/json")

	f.outbox.mu.Lock()
	defer f.outbox.mu.Unlock()
	var got []string
	for _, e := range f.outbox.events {
		if e.Envelope.SamplingRate != 0.25 {
			continue
		}
		var p struct {
			Format, View, Date string
			Filtered           bool
			Roles              []string
		}
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			t.Fatal(err)
		}
		if e.Envelope.PropertyID != house || !slices.Equal(p.Roles, []string{"front_desk"}) {
			t.Errorf("%+v", e)
		}
		if p.Filtered {
			p.View += " filtered"
		}
		got = append(got, p.Format+p.View+p.Date)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"arrivals2026-11-18", "json", "ndjson", "ndjson", "today filtered"}, got); diff != "" {
		t.Error(diff)
	}
}
