package backofficeupstream

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
)

// dial returns clients of a server that all upstreams share.
func dial(t *testing.T, answer http.HandlerFunc) *Upstreams {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	urls := map[backoffice.Upstream]string{}
	for _, name := range backoffice.Upstreams() {
		urls[name] = server.URL
	}
	u, err := New(Config{URLs: urls, Metrics: prometheus.NewRegistry(), Namespace: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// near returns clients of a server without a network between: a busy machine keeps no
// time limit of a connection.
func near(t *testing.T, answer http.HandlerFunc) *Upstreams {
	t.Helper()
	urls := map[backoffice.Upstream]string{}
	for _, name := range backoffice.Upstreams() {
		urls[name] = "http://" + string(name)
	}
	u, err := New(Config{URLs: urls, Transport: inProcess(answer), Metrics: prometheus.NewRegistry(), Namespace: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

var sameID = cmp.Comparer(func(a, b bff.ID) bool { return a == b })

func TestFetchInbox(t *testing.T) {
	t.Parallel()
	tenant, property := bff.NewID(bff.PrefixTenant, time.Now()), bff.NewID(bff.PrefixProperty, time.Now())
	const provenance = `{ "model":"m", "score": 0.820,"note":"<\u0041>" }`
	own := `"tenantId":"` + tenant.String() + `","propertyId":"` + property.String() + `"`
	pages := map[string]string{
		"": `{"asOf":"x","items":[{"suggestionId":"sug_1",` + own + `,"category":"upsell","severity":"info","status":"open","inboxEntryId":"theirs","decision":{},` +
			`"createdAt":"2026-11-17T06:00:00Z","aiProvenance":` + provenance + `,"x\"y":null},` +
			`{"suggestionId":"sug_2","tenantId":"tnt_01HCCAJ930Q3Y811AXYN4D8YR9","createdAt":"2026-11-17T06:00:00Z"},{"suggestionId":"sug_3"},{"createdAt":"2026-11-17T06:00:00Z"}],"nextCursor":"two"}`,
		"two": `{"items":[{"suggestionId":"sug_4","createdAt":"2026-11-17T07:00:00Z"}]}`,
	}
	u := near(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/api/v1/tenants/"+tenant.String()+"/suggestions" || q.Has("propertyId") && q.Get("propertyId") != property.String() ||
			q.Get("status") != "all" || r.Header.Get("X-Tenant-Id") != tenant.String() {
			reply(w, http.StatusNotFound, `{}`)
			return
		}
		w.Header().Set("Etag", `"1"`)
		reply(w, http.StatusOK, pages[q.Get("cursor")])
	})
	got, err := u.Inboxes.FetchInbox(t.Context(), inbox.Suggestions, tenant, property, "")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)
	want := inbox.Fetched{Entries: []inbox.Entry{
		{ID: "sug_4", Property: property, At: at.Add(time.Hour), Body: []byte(
			`{"suggestionId":"sug_4","createdAt":"2026-11-17T07:00:00Z","propertyId":"` + property.String() + `"`)},
		{ID: "sug_1", Property: property, Category: "upsell", Severity: "info", Status: "open", At: at, Body: []byte(
			`{"suggestionId":"sug_1",` + own + `,"category":"upsell","severity":"info","createdAt":"2026-11-17T06:00:00Z","aiProvenance":` + provenance + `,"x\"y":null`)},
	}}
	if diff := cmp.Diff(want, got, sameID); diff != "" { // of two pages no tag is kept
		t.Error(diff)
	}
	if !json.Valid(append(got.Entries[1].Body, '}')) {
		t.Errorf("%s", got.Entries[1].Body)
	}
	// Of all properties: only what says whose it is.
	if got, err := u.Inboxes.FetchInbox(t.Context(), inbox.Suggestions, tenant, bff.ID{}, ""); err != nil || !cmp.Equal(got.Entries, want.Entries[1:], sameID) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := u.Inboxes.FetchInbox(t.Context(), inbox.Suggestions, tenant, tenant, ""); bff.CodeOf(err) != bff.CodeResourceNotFound {
		t.Errorf("another property: %v", err)
	}
}

func TestFetchInboxConditionally(t *testing.T) {
	t.Parallel()
	id := bff.NewID(bff.PrefixTenant, time.Now())
	body := `{"items":[]}`
	u := near(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if r.URL.Query().Get("propertyId") == "" {
			reply(w, http.StatusOK, `{"items":"none"}`)
			return
		}
		reply(w, http.StatusOK, body)
	})
	if got, err := u.Inboxes.FetchInbox(t.Context(), inbox.Alerts, id, id, `"0"`); err != nil || got.Unchanged || got.ETag != `"1"` {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := u.Inboxes.FetchInbox(t.Context(), inbox.Alerts, id, id, `"1"`); err != nil || !got.Unchanged || got.ETag != `"1"` {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := u.Inboxes.FetchInbox(t.Context(), inbox.Alerts, id, bff.ID{}, ""); bff.CodeOf(err) != bff.CodeUpstreamUnavailable {
		t.Errorf("nonsense: %v", err)
	}
}

func TestPreferencesOfTenantService(t *testing.T) {
	t.Parallel()
	owner := device.PreferencesOwner{Tenant: bff.NewID(bff.PrefixTenant, time.Now()), Operator: "opt_1"}
	change := device.PreferencesChange{Owner: owner, Seen: 2, Payload: json.RawMessage(`{"a":1.50}`)}
	fetch := func(u *Upstreams) (device.Preferences, error) {
		return u.Tenant.FetchPreferences(t.Context(), owner)
	}
	put := func(u *Upstreams) (device.Preferences, error) {
		return u.Tenant.ReplacePreferences(t.Context(), change, "key")
	}
	good := `{"payload":{"a":1.50},"version":3,"updatedAt":"2026-11-17T06:00:00Z","more":[]}`
	for name, test := range map[string]struct {
		call   func(*Upstreams) (device.Preferences, error)
		status int
		body   string
		want   bff.Code
	}{
		"found":             {fetch, 200, good, ""},
		"replaced":          {put, 200, good, ""},
		"unknown":           {fetch, 404, `{}`, bff.CodeResourceNotFound},
		"without a version": {fetch, 200, `{"payload":{}}`, bff.CodeUpstreamUnavailable},
		"nonsense":          {fetch, 200, `x`, bff.CodeUpstreamUnavailable},
		"away":              {fetch, 500, `{}`, bff.CodeUpstreamUnavailable},
		"changed meanwhile": {put, 412, refusal("VERSION_CONFLICT"), bff.CodePreferencesVersionConflict},
		"refused":           {put, 400, refusal("VALIDATION_FAILED"), bff.CodeValidationFailed},
		"unknown to change": {put, 404, refusal("NOT_FOUND"), bff.CodeResourceNotFound},
		"away at a change":  {put, 503, `{}`, bff.CodeUpstreamUnavailable},
	} {
		sent := make(chan string, 8)
		u := near(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			sent <- r.Header.Get("Idempotency-Key") + string(b)
			reply(w, test.status, test.body)
		})
		got, err := test.call(u)
		if test.want != "" {
			if bff.CodeOf(err) != test.want {
				t.Errorf("%s: %v, want %s", name, err, test.want)
			}
			continue
		}
		want := device.Preferences{Payload: json.RawMessage(`{"a":1.50}`), Version: 3, UpdatedAt: bff.At(time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC))}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if text := <-sent; name == "replaced" && text != `key{"payload":{"a":1.50},"version":2}` {
			t.Errorf("sent %s", text)
		}
	}
}

func TestFindThemeVersion(t *testing.T) {
	t.Parallel()
	tenant := bff.NewID(bff.PrefixTenant, time.Now())
	version := "thv_" + tenant.ULID()
	u := near(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, tenant.String()) {
			reply(w, http.StatusOK, `{"publishedVersion":"`+version+`"}`)
			return
		}
		reply(w, http.StatusOK, `{"publishedVersion":"seven"}`)
	})
	if got, err := u.Theme.FindThemeVersion(t.Context(), tenant); err != nil || got.String() != version {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := u.Theme.FindThemeVersion(t.Context(), bff.NewID(bff.PrefixTenant, time.Now())); bff.CodeOf(err) != bff.CodeUpstreamUnavailable {
		t.Errorf("nonsense: %v", err)
	}
}
