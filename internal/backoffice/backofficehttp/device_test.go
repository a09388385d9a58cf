package backofficehttp_test

import (
	"context"
	"fmt"
	"net/http"
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

// A device stands at a property of its operator's scope which is the tenant's, or at none.
func TestHeartbeatsNamePropertiesOfTheTenant(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	f.employAt("*", "opt_owner", backoffice.Owner)
	f.house.change(func(h *houseFake) { h.foreign[foreign] = true })
	for _, tc := range []struct{ operator, property, want string }{
		{"opt_parwana", house, house}, {"opt_parwana", other, ""}, {"opt_owner", other, other}, {"opt_owner", foreign, ""}, {"opt_owner", "*", ""},
	} {
		s, property, want := f.sender(tc.operator), tc.property, tc.want
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
