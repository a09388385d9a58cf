package backofficehttp_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
)

// pressedEntry is an entry of a replay.
type pressedEntry struct {
	Key       string          `json:"key"`
	Path      string          `json:"path"`
	Body      json.RawMessage `json:"body,omitempty"`
	PressedAt bff.Timestamp   `json:"pressedAt"`
}

// pressed is what was done some time ago and is sent for the first time.
func (s *sender) pressed(path, body string, ago time.Duration) pressedEntry {
	now := s.f.clock()
	return pressedEntry{bff.NewID(bff.PrefixRequest, now).ULID(), path, json.RawMessage(body), bff.At(now.Add(-ago))}
}

// replay is a request that sends entries.
func (s *sender) replay(entries ...pressedEntry) *request {
	s.f.tb.Helper()
	body, err := json.Marshal(map[string]any{"entries": entries})
	if err != nil {
		s.f.tb.Fatal(err)
	}
	return s.request(http.MethodPost, base+"/devices/"+s.device.ID()+"/replay?propertyId="+house, string(body))
}

// verdicts reads the lines of a replay, which must have its end, by their keys.
func verdicts(tb testing.TB, w *httptest.ResponseRecorder) map[string]action.Line {
	tb.Helper()
	if w.Code != http.StatusOK {
		tb.Fatalf("replay: %d %s", w.Code, w.Body)
	}
	out, ended := map[string]action.Line{}, false
	for text := range bytes.Lines(w.Body.Bytes()) {
		var line struct {
			action.Line
			End bool
		}
		if err := json.Unmarshal(text, &line); err != nil {
			tb.Fatal(err)
		}
		if ended = line.End; ended {
			continue
		}
		if _, again := out[line.Key]; again {
			tb.Errorf("entry %s has two verdicts", line.Key)
		}
		out[line.Key] = line.Line
	}
	if !ended {
		tb.Errorf("a replay without its end: %s", w.Body)
	}
	return out
}

func folio(f *front) string {
	return "/folios/" + bff.NewID(bff.PrefixFolio, f.clock()).String() + "/charges"
}

func stayPath(f *front, verb string) string {
	return "/reservations/" + bff.NewID(bff.PrefixReservation, f.clock()).String() + "/" + verb
}

// meetReplays meets every verdict.
func meetReplays(f *front, s *sender, send func(*request, int)) {
	f.employ("opt_mirwais", backoffice.FrontDesk)
	colleague := f.sender("opt_mirwais")
	guest := stayPath(f, "check-in")
	old := s.pressed(stayPath(f, "check-in"), "", 30*time.Hour)
	old.Key = bff.NewID(bff.PrefixRequest, f.clock().Add(-25*time.Hour)).ULID()
	send(s.replay(
		s.pressed(guest, "", time.Hour), old, s.pressed("/locks/"+bff.NewID(bff.PrefixReservation, f.clock()).String()+"/issue-key", "", 0),
		s.pressed(folio(f), `{"amount":{"minor":"9900","currency":"AFN"}}`, time.Minute),
		s.pressed(folio(f), `{"amount":{"minor":"990000","currency":"AFN"}}`, time.Minute),
	), http.StatusOK)
	fail := func(err error) {
		f.actions.mu.Lock()
		defer f.actions.mu.Unlock()
		f.actions.err = err
	}
	fail(bff.Errorf(bff.CodeStateConflict, "its present state does not allow this"))
	send(s.replay(s.pressed(guest, "", 0), s.pressed(stayPath(f, "check-out"), "", 0)), http.StatusOK)
	send(colleague.replay(colleague.pressed(guest, "", 0)), http.StatusOK)
	fail(&bff.Error{Code: bff.CodeUpstreamTimeout, Err: backoffice.ErrOutcomeUnknown})
	send(s.replay(s.pressed(guest, "", 0)), http.StatusOK)
	fail(nil)
}

// What a desk took down gets a verdict each; the same entries again get the same ones, and
// nothing is done twice. Conflicts name who was first.
func TestReplay(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{limits: "replay=100000,change=100000"})
	f.employ("opt_mirwais", backoffice.FrontDesk)
	s, colleague := f.sender("opt_parwana"), f.sender("opt_mirwais")
	taken, own := stayPath(f, "check-in"), stayPath(f, "check-in")
	verdicts(t, f.send(0, colleague.replay(colleague.pressed(taken, "", 0))))
	verdicts(t, f.send(0, s.replay(s.pressed(own, "", 0))))
	f.actions.mu.Lock()
	before := len(f.actions.done)
	f.actions.conflicts = map[string]bool{taken: true, own: true}
	f.actions.mu.Unlock()

	clean := "/housekeeping/tasks/" + bff.NewID(backoffice.PrefixTask, f.clock()).String() + "/inspect"
	entries := []struct {
		pressedEntry
		want string
	}{
		{s.pressed(stayPath(f, "check-in"), "", 40*time.Hour), "done"},
		{s.pressed(taken, "", time.Hour), "done_by_other opt_mirwais"},
		{s.pressed(own, "", time.Hour), "already_done opt_parwana"},
		{s.pressed(clean, "", time.Hour), "not_possible role_denied"},
		{s.pressed("/folios/"+bff.NewID(bff.PrefixFolio, f.clock()).String()+"/refunds", `{"amount":{"minor":"1","currency":"AFN"}}`, 0), "not_possible online_only"},
		{s.pressed("/alerts/alr_2/acknowledge", "", 0), "not_possible online_only"},
		{s.pressed(folio(f), `{"amount":{"minor":"9900","currency":"AFN"}}`, time.Minute), "done"},
		{s.pressed(folio(f), `{"amount":{"minor":"990000","currency":"AFN"}}`, time.Minute), "needs_second_factor"},
	}
	var sent []pressedEntry
	for _, e := range entries {
		sent = append(sent, e.pressedEntry)
	}
	for round := range 2 {
		got := verdicts(t, f.send(0, s.replay(sent...)))
		for _, e := range entries {
			line := got[e.Key]
			if words(line) != e.want {
				t.Errorf("round %d, %s: %s, want %s", round, e.Path, words(line), e.want)
			}
			if line.By != "" && (line.At == nil || line.ByName == "") {
				t.Errorf("by %s (%q), at %v", line.By, line.ByName, line.At)
			}
			if line.Verdict == action.NeedsSecondFactor && (line.Scope != backoffice.ScopeLargeCharge || !strings.Contains(e.Path, line.ResourceID)) {
				t.Errorf("second factor of %s for %s", line.Scope, line.ResourceID)
			}
		}
		if done, _ := f.actions.carried(); done != before+2 {
			t.Errorf("round %d: %d carried out, want 2", round, done-before)
		}
	}
}

// Every bad field of every entry is named, and nothing is done.
func TestReplayNamesEveryBadField(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{})
	s := f.sender("opt_parwana")
	charge := `{"key":"x","path":"/folios/fol_1/charges","body":{"amount":{"minor":"a","currency":"XXX"},"more":1},"pressedAt":"yesterday"}`
	for body, want := range map[string][]string{
		`{}`:               {"entries"},
		`{"entries":[{}]}`: {"entries[0].key", "entries[0].path", "entries[0].pressedAt"},
		`{"entries":[` + charge + `,` + charge + `]}`: {
			"entries[0].key", "entries[0].pressedAt", "entries[0].path", "entries[0].body.more", "entries[0].body.amount.currency",
			"entries[1].key", "entries[1].pressedAt", "entries[1].path", "entries[1].body.more", "entries[1].body.amount.currency",
		},
		`{"entries":[{"key":"01JXG9KMGRC638MD0V7C0ZPD0W","path":"/dashboard","pressedAt":"2026-11-17T07:58:12Z"},
			{"key":"01jxg9kmgrc638md0v7c0zpd0w","path":"/maintenance/work-orders","pressedAt":"2026-11-17T07:58:12Z"}]}`: {
			"entries[0].path", "entries[1].body", "entries[1].key",
		},
		`{"entries":[{"key":"01JXG9KMGRC638MD0V7C0ZPD0W","path":"` + stayPath(f, "check-in") + `","body":{},"pressedAt":"2026-11-17T07:58:12Z"}]}`: {
			"entries[0].body",
		},
		`{"entries":[` + strings.Repeat(`{},`, 100) + `{}]}`: {"entries"},
	} {
		w := f.send(0, s.request(http.MethodPost, base+"/devices/"+s.device.ID()+"/replay?propertyId="+house, body))
		var doc struct {
			Error struct{ Errors []struct{ Field string } }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range doc.Error.Errors {
			got = append(got, e.Field)
		}
		slices.Sort(got)
		slices.Sort(want)
		if w.Code != http.StatusBadRequest || !slices.Equal(got, want) {
			t.Errorf("%.80s: %d %v, want %v", body, w.Code, got, want)
		}
	}
	elsewhere := s.request(http.MethodPost, base+"/devices/"+bff.NewID(bff.PrefixDevice, f.clock()).String()+"/replay?propertyId="+house, `{"entries":[]}`)
	if w := f.send(0, elsewhere); codeOf(w) != "DEVICE_MISMATCH" {
		t.Errorf("of another device: %s", w.Body)
	}
	if done, calls := f.actions.carried(); done+calls > 0 {
		t.Errorf("%d done, %d calls", done, calls)
	}
	f.toggle(map[string]bool{"blackout_desk": false})
	if w := f.send(0, s.replay(s.pressed(stayPath(f, "check-in"), "", 0))); codeOf(w) != "SERVICE_UNAVAILABLE" {
		t.Errorf("switched off for all: %s", w.Body)
	}
}
