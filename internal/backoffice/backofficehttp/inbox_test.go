package backofficehttp_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
)

const (
	firstSuggestion = "sug_01M7MK9ZTR35B5VXC99GJ5AM9A"
	firstAlert      = "alr_01M7MK9ZTR35B5VXC99GJ5AM9A"
	// provenance is not how encoding/json would write it.
	provenance = `{ "model":"ops-advisor",  "score": 0.820, "note":"<b>\u0041</b>","big":12345678901234567890 }`
)

// furnish fills the inboxes of a house.
func (f *front) furnish() {
	at := time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)
	n := f.behindUs
	n.add(inbox.Suggestions, f.tenant, firstSuggestion, at, `,"severity":"info","aiProvenance":`+provenance)
	n.add(inbox.Suggestions, f.tenant, "sug_2", at.Add(time.Hour), `,"proposal":{"ratePercent":5}`)
	n.add(inbox.Alerts, f.tenant, firstAlert, at, `,"title":"The generator is running"`)
	n.add(inbox.Alerts, f.tenant, "alr_2", at.Add(time.Hour), ``)
	n.with(func() {
		n.marks[inboxOf(inbox.Suggestions, f.tenant, firstSuggestion)] = []inbox.Mark{{Operator: "opt_parwana", At: at.Add(time.Minute), Outcome: inbox.Accepted}}
		n.marks[inboxOf(inbox.Alerts, f.tenant, firstAlert)] = []inbox.Mark{
			{Operator: "opt_parwana", At: at.Add(time.Minute)}, {Operator: "opt_karim", At: at.Add(2 * time.Minute)},
		}
	})
}

// inboxDoc is what tests look at of a page.
type inboxDoc struct {
	Items []struct {
		SuggestionID, AlertID, Status, InboxEntryID string
		AIProvenance                                json.RawMessage
		Decision                                    map[string]string
		Acknowledged                                *bool
		Acknowledgements                            []map[string]string
		Can                                         []string
	}
	Total      int
	NextCursor string
	Stale      bool
	AsOf       *bff.Timestamp
	Degraded   []backofficehttp.Missing
}

func (d *inboxDoc) ids() []string {
	var out []string
	for _, i := range d.Items {
		out = append(out, i.SuggestionID+i.AlertID+" "+i.Status)
	}
	return out
}

func readInboxDoc(t *testing.T, w *httptest.ResponseRecorder) *inboxDoc {
	t.Helper()
	var doc inboxDoc
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return &doc
}

// The orchestrator's words are shown to the byte, with our own beside them.
func TestInboxShowsWhatWasDone(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.furnish()
	s := f.sender("opt_parwana")
	w := s.get("/ai/suggestions?propertyId=" + house)
	doc := readInboxDoc(t, w)
	if diff := cmp.Diff([]string{"sug_2 open", firstSuggestion + " accepted"}, doc.ids()); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(w.Body.String(), `"aiProvenance":`+provenance) {
		t.Errorf("provenance was touched: %s", w.Body)
	}
	if want := (map[string]string{
		"outcome": "accepted", "decidedBy": "opt_parwana", "decidedByName": "Somebody", "decidedAt": "2026-11-17T06:01:00.000Z",
	}); !cmp.Equal(want, doc.Items[1].Decision) {
		t.Errorf("%v", doc.Items[1].Decision)
	}
	if doc.Items[1].InboxEntryID != "aim_01M7MK9ZTR35B5VXC99GJ5AM9A" || doc.Total != 2 || doc.Stale || doc.AsOf != nil || len(doc.Degraded) > 0 {
		t.Errorf("%+v", doc)
	}
	if diff := cmp.Diff([][]string{{"decide"}, {}}, [][]string{doc.Items[0].Can, doc.Items[1].Can}); diff != "" {
		t.Error(diff)
	}
	alerts := readInboxDoc(t, s.get("/alerts?propertyId="+house))
	if diff := cmp.Diff([][]string{{"acknowledge"}, {}}, [][]string{alerts.Items[0].Can, alerts.Items[1].Can}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"alr_2 open", firstAlert + " acknowledged"}, alerts.ids()); diff != "" {
		t.Error(diff)
	}
	if a := alerts.Items[1]; !*a.Acknowledged || len(a.Acknowledgements) != 2 || a.Acknowledgements[1]["acknowledgedBy"] != "opt_karim" ||
		*alerts.Items[0].Acknowledged {
		t.Errorf("%+v", alerts.Items)
	}
	for path, want := range map[string][]string{
		"/ai/suggestions?decided=true":                {firstSuggestion + " accepted"},
		"/ai/suggestions?decided=false":               {"sug_2 open"},
		"/ai/suggestions?status=open,rejected":        {"sug_2 open"},
		"/ai/suggestions?severity=critical":           nil,
		"/alerts?acknowledged=true&category=power":    {firstAlert + " acknowledged"},
		"/alerts?acknowledged=false":                  {"alr_2 open"},
		"/alerts?status=acknowledged&category=a,lock": nil,
	} {
		if diff := cmp.Diff(want, readInboxDoc(t, s.get(path+"&propertyId="+house)).ids()); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	// Page by page.
	one := readInboxDoc(t, s.get("/alerts?limit=1&propertyId="+house))
	two := readInboxDoc(t, s.get("/alerts?limit=1&propertyId="+house+"&cursor="+one.NextCursor))
	if got := append(one.ids(), two.ids()...); !cmp.Equal(got, alerts.ids()) || two.NextCursor != "" || two.Total != 2 {
		t.Errorf("%v, then %q", got, two.NextCursor)
	}
}

// Without a property, an operator has the inboxes of all properties in its scope, and an
// event of one of them voids what is kept of all.
func TestInboxOfTheWholeScope(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2, sharedCache: true})
	f.furnish()
	raise := func(id, at string) {
		f.behindUs.with(func() {
			key := inboxOf(inbox.Alerts, f.tenant, at)
			f.behindUs.inbox[key] = append(f.behindUs.inbox[key], inbox.Entry{
				ID: id, Status: "open", At: f.clock(), Property: bff.MustParseID(bff.PrefixProperty, at), Body: []byte(`{"alertId":"` + id + `","propertyId":"` + at + `"`),
			})
		})
	}
	raise("alr_other", other)
	f.employAt("*", "opt_owner", backoffice.Owner)
	f.employed("opt_both", func(m *backoffice.Member) { m.Scope = backoffice.ReadPropertyScope([]string{house, foreign}) })
	count := func(operator string) (ids int, others bool) {
		t.Helper()
		r := f.sender(operator).request(http.MethodGet, base+"/alerts", "")
		r.header.Set("X-Property-Id", house) // where the device stands is not asked
		w := f.send(0, r)
		return readInboxDoc(t, w).Total, strings.Contains(w.Body.String(), other)
	}
	for range 2 { // composed, then kept
		for operator, want := range map[string]int{"opt_owner": 3, "opt_both": 2, "opt_parwana": 2} {
			if got, others := count(operator); got != want || others != (operator == "opt_owner") {
				t.Errorf("%s has %d, of the other house: %v", operator, got, others)
			}
		}
	}
	raise("alr_new", other)
	if err := backofficecache.NewInvalidator(f.stores[1]).Invalidate(
		t.Context(), f.tenant, bff.MustParseID(bff.PrefixProperty, other), backoffice.PartAlertInbox,
	); err != nil {
		t.Fatal(err)
	}
	if got, _ := count("opt_owner"); got != 4 {
		t.Errorf("after an event of one house: %d", got)
	}
}

// A client that polls is told when nothing has changed; a tag is of no use to another
// operator.
func TestInboxIsPolled(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2, sharedCache: true})
	f.furnish()
	f.employ("opt_karim", backoffice.FrontDesk)
	path := "/alerts?propertyId=" + house
	s := f.sender("opt_parwana")
	first := s.get(path)
	tag := first.Header().Get("Etag")
	poll := func(by *sender, instance int) *httptest.ResponseRecorder {
		r := by.request(http.MethodGet, base+path, "")
		r.header.Set("If-None-Match", tag)
		return f.send(instance, r)
	}
	for instance := range 2 {
		if w := poll(s, instance); w.Code != http.StatusNotModified || w.Body.Len() > 0 || w.Header().Get("Etag") != tag {
			t.Errorf("instance %d: %d %s", instance, w.Code, w.Body)
		}
	}
	if w := poll(f.sender("opt_karim"), 0); w.Code != http.StatusOK || w.Header().Get("Etag") == tag {
		t.Errorf("another operator: %d, %s", w.Code, w.Header().Get("Etag"))
	}
	if f.behindUs.fetches != 1 {
		t.Errorf("%d lists were sent", f.behindUs.fetches)
	}
	// An event voids the mirror; the list is as it was, and is not sent again.
	f.void(backoffice.PartAlertInbox)
	if w := poll(s, 0); w.Code != http.StatusNotModified || f.behindUs.fetches != 1 {
		t.Errorf("unchanged: %d, %d lists were sent", w.Code, f.behindUs.fetches)
	}
	f.behindUs.add(inbox.Alerts, f.tenant, "alr_3", f.clock(), "")
	f.void(backoffice.PartAlertInbox)
	if w := poll(s, 0); w.Code != http.StatusOK || len(readInboxDoc(t, w).Items) != 3 {
		t.Errorf("changed: %d", w.Code)
	}
	// An acknowledgement is seen at once, whatever the mirror's age.
	tag = poll(s, 0).Header().Get("Etag")
	f.behindUs.with(func() {
		f.behindUs.marks[inboxOf(inbox.Alerts, f.tenant, "alr_3")] = []inbox.Mark{{Operator: "opt_karim", At: f.clock()}}
	})
	if w := poll(s, 0); w.Code != http.StatusOK || readInboxDoc(t, w).Items[0].Status != "acknowledged" {
		t.Errorf("acknowledged: %d %s", w.Code, w.Body)
	}
}

// What is away is said: an old list is stale, a list without our log degraded.
func TestInboxWithoutItsParts(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.furnish()
	s := f.sender("opt_parwana")
	n, path := f.behindUs, "/alerts?propertyId="+house
	readInboxDoc(t, s.get(path))
	n.with(func() { n.lost = errors.New("connection refused") })
	doc := readInboxDoc(t, s.get(path))
	if diff := cmp.Diff([]backofficehttp.Missing{
		{Part: "acknowledgements", Reason: "store"},
	}, doc.Degraded); diff != "" || doc.Items[1].Acknowledged != nil || doc.Items[1].Status != "open" {
		t.Errorf("%+v %s", doc, diff)
	}
	n.with(func() { n.lost, n.err = nil, errAway })
	f.void(backoffice.PartAlertInbox)
	if doc := readInboxDoc(t, s.get(path)); !doc.Stale || doc.AsOf == nil || len(doc.Items) != 2 || !*doc.Items[1].Acknowledged {
		t.Errorf("%+v", doc)
	}
	if got := codeOf(s.get("/ai/suggestions?propertyId=" + house)); got != "UPSTREAM_UNAVAILABLE" {
		t.Errorf("never read before: %s", got)
	}
}
