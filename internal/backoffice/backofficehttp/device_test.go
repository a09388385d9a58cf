package backofficehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
)

const (
	goodHeartbeat = `{"appVersion":"2.4.0","appPlatform":"win32","networkProfile":"good","installerChannel":"stable","pendingHintCount":0,"lastPullCursor":"0"}`
	goodHints     = `{"entries":[{"id":"q-17","kind":"check_in","resourceId":"rsv_1","count":1,"queuedAt":"2026-11-17T11:02:00Z"},{"kind":"charge","count":2}]}`

	// sampledRequest is an id by which every sampled event is published.
	sampledRequest = "01M7MK9ZTR0000000000000000"
)

// keyed is a good mutation with a fresh key.
func (s *sender) keyed(path, body string) *request {
	r := s.request(http.MethodPost, path, body)
	r.header.Set("X-Idempotency-Key", strings.TrimPrefix(bff.NewID(bff.PrefixRequest, s.f.clock()).String(), "req_"))
	return r
}

// deviceFake keeps what devices report in memory.
type deviceFake struct {
	outbox *outboxFake

	mu      sync.Mutex
	offline map[bff.ID]bool
	seen    []device.Seen
	reports []device.HintReport
	err     error
}

func (d *deviceFake) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// lose marks a device as offline.
func (d *deviceFake) lose(device bff.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.offline[device] = true
}

func (d *deviceFake) RecordHeartbeat(ctx context.Context, s device.Seen, cameOnline bff.Event, reported ...bff.Event) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return false, d.err
	}
	d.seen = append(d.seen, s)
	was := d.offline[s.Device]
	if was {
		reported = append(reported, cameOnline)
	}
	delete(d.offline, s.Device)
	return was, d.outbox.Record(ctx, nil, reported...)
}

func (d *deviceFake) AddHints(_ context.Context, r device.HintReport, _ backoffice.Once) (backoffice.Answer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return backoffice.Answer{}, d.err
	}
	d.reports = append(d.reports, r)
	return backoffice.Answer{Status: 202, Receipt: backoffice.NewReceipt(map[string]any{"hintId": r.ID, "reportedAt": bff.At(r.At)})}, nil
}

// A heartbeat says where the device is and tells when it is there again.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s := f.sender("opt_parwana")
	beat := func(property, want string) {
		t.Helper()
		r := s.request(http.MethodPost, base+"/devices/"+s.device.ID()+"/heartbeat", goodHeartbeat)
		r.header.Set("X-Property-Id", property)
		w := f.send(0, r)
		if w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
	}
	now := bff.At(f.clock()).String()
	beat(house, `{"status":"online","serverTime":"`+now+`","nextHeartbeatSeconds":60}`)
	f.devices.lose(s.caller().Device)
	beat(other, `{"status":"online","serverTime":"`+now+`","nextHeartbeatSeconds":60}`) // outside the scope: not recorded
	beat(house, `{"status":"online","serverTime":"`+now+`","nextHeartbeatSeconds":60}`)
	f.devices.fail(&bff.Error{Code: bff.CodeServiceUnavailable, Err: errors.New("away")})
	beat(house, `{"status":"unknown","serverTime":"`+now+`","nextHeartbeatSeconds":60}`)
	f.devices.fail(nil)
	told := slices.DeleteFunc(f.outbox.subjects(), func(s string) bool { return s == "device.heartbeat_reported" }) // of one in a hundred
	if diff := cmp.Diff([]string{"device.came_online", "session.opened"}, told); diff != "" {
		t.Error(diff)
	}
	var places []string
	for _, seen := range f.devices.seen {
		places = append(places, seen.Property.String())
	}
	if diff := cmp.Diff([]string{house, "", house}, places); diff != "" {
		t.Error(diff)
	}
	first := f.devices.seen[0]
	if first.Operator != "opt_parwana" || first.PullCursor != "0" || first.App.Version != "2.4.0" || first.InstallerChannel != "stable" {
		t.Errorf("%+v", first)
	}
}

// An operator of all properties stands at one of the tenant's, or at none.
func TestHeartbeatsNamePropertiesOfTheTenant(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.employAt("*", "opt_owner", backoffice.Owner)
	s := f.sender("opt_owner")
	for property, want := range map[string]string{"*": "", other: other, foreign: "", bff.NewID(bff.PrefixProperty, f.clock()).String(): ""} {
		f.house.change(func(h *houseFake) { h.foreign[property] = want == "" })
		r := s.request(http.MethodPost, base+"/devices/"+s.device.ID()+"/heartbeat", goodHeartbeat)
		r.header.Set("X-Property-Id", property)
		if w := f.send(0, r); w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if got := f.devices.seen[len(f.devices.seen)-1].Property.String(); got != want {
			t.Errorf("%s: recorded %q", property, got)
		}
	}
}

// What a device may not report is refused by its name.
func TestDeviceReportsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s := f.sender("opt_parwana")
	own := s.device.ID()
	many := `{"entries":[` + strings.TrimSuffix(strings.Repeat(`{"kind":"a","count":1},`, device.MaxHints+1), ",") + `]}`
	for _, test := range []struct {
		device, route, body string
		want                []string // code, then the refused fields
	}{
		{f.sender("opt_parwana").device.ID(), "heartbeat", goodHeartbeat, []string{"DEVICE_MISMATCH"}},
		{f.sender("opt_parwana").device.ID(), "offline-hints", goodHints, []string{"DEVICE_MISMATCH"}},
		{"mine", "heartbeat", goodHeartbeat, []string{"VALIDATION_FAILED", "deviceId format"}},
		{own, "heartbeat", `{}`, []string{
			"VALIDATION_FAILED", "appVersion required", "appPlatform required", "networkProfile required", "installerChannel required", "pendingHintCount required",
		}},
		{own, "heartbeat", `{"appVersion":"two","appPlatform":"amiga","networkProfile":"bad","installerChannel":"A B","pendingHintCount":-1,"lastPullCursor":"a b"}`, []string{
			"VALIDATION_FAILED", "appVersion format", "appPlatform unsupported", "networkProfile unsupported", "installerChannel format", "pendingHintCount range", "lastPullCursor format",
		}},
		{own, "heartbeat", `{"appVersion":"","appPlatform":"","networkProfile":"","installerChannel":"","pendingHintCount":0}`, []string{
			"VALIDATION_FAILED", "appVersion required", "appPlatform required", "networkProfile required", "installerChannel required",
		}},
		{own, "offline-hints", `{}`, []string{"VALIDATION_FAILED", "entries required"}},
		{own, "offline-hints", `{"entries":[],"note":"x"}`, []string{"VALIDATION_FAILED", "note unsupported"}},
		{own, "offline-hints", many, []string{"VALIDATION_FAILED", "entries count"}},
		{own, "offline-hints", `{"entries":[1,{"kind":"check_in","count":1,"guestName":"Ahmad"},{"kind":"Check In","count":0,"id":"a b","resourceId":"/","queuedAt":"today"},{}]}`, []string{
			"VALIDATION_FAILED", "entries[0] type", "entries[1].guestName unsupported", "entries[2].id format", "entries[2].kind format", "entries[2].resourceId format",
			"entries[2].count range", "entries[2].queuedAt format", "entries[3].kind required", "entries[3].count required",
		}},
	} {
		w := f.send(0, s.keyed(base+"/devices/"+test.device+"/"+test.route, test.body))
		var doc struct {
			Error struct{ Errors []bff.FieldError }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		got := []string{codeOf(w)}
		for _, e := range doc.Error.Errors {
			got = append(got, e.Field+" "+e.Code)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s %s:\n%s", test.route, test.body, diff)
		}
	}
	if len(f.devices.seen)+len(f.devices.reports) > 0 {
		t.Errorf("recorded: %+v %+v", f.devices.seen, f.devices.reports)
	}
}

// Hints are kept as ids and counts, under a key.
func TestOfflineHints(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s := f.sender("opt_parwana")
	path := base + "/devices/" + s.device.ID() + "/offline-hints"
	if got := codeOf(f.send(0, s.request(http.MethodPost, path, goodHints))); got != "IDEMPOTENCY_KEY_REQUIRED" {
		t.Errorf("without a key: %s", got)
	}
	w := f.send(0, s.keyed(path, goodHints))
	if w.Code != http.StatusAccepted || len(f.devices.reports) != 1 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	r := f.devices.reports[0]
	if want := fmt.Sprintf(`{"hintId":%q,"reportedAt":%q}`, r.ID, bff.At(f.clock())); w.Body.String() != want {
		t.Errorf("%s, want %s", w.Body, want)
	}
	queued := bff.At(time.Date(2026, 11, 17, 11, 2, 0, 0, time.UTC))
	if diff := cmp.Diff([]device.Hint{
		{ID: "q-17", Kind: "check_in", ResourceID: "rsv_1", Count: 1, QueuedAt: &queued}, {Kind: "charge", Count: 2},
	}, r.Hints); diff != "" {
		t.Error(diff)
	}
}

// repeat is the same request with a proof of its own.
func (s *sender) repeat(r *request) *request {
	again := s.request(r.method, r.path, r.body)
	again.header.Set("X-Idempotency-Key", r.header.Get("X-Idempotency-Key"))
	return again
}
