package backofficehttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/pause"
)

// drillEntry is what was done at a desk, as the desk keeps it.
type drillEntry struct {
	target
	pressed  time.Time // by the desk's clock
	key      string    // of the next attempt, kept before it is sent
	keys     []string  // all it ever had
	tried    time.Time
	verdict  action.Line // kept last
	heard    map[string]action.Line
	operator string
	twice    bool // it was sent by two windows at once: one may be refused a right that the other still had
}

func (e *drillEntry) settled() bool {
	return e.verdict.Verdict != "" && e.verdict.Verdict != action.Undecided
}

// drillDesk is a desk, or the colleague's who stays online.
type drillDesk struct {
	d       *blackout
	visit   backoffice.Visit
	rand    *rand.Rand
	off     time.Duration // how wrong the clock is
	queues  bool          // what has no verdict holds up what is about the same resource
	entries []*drillEntry
}

func (d *blackout) desk(operator string) *drillDesk {
	d.members[operator] = &backoffice.Member{Roles: backoffice.Roles()}
	desk := &drillDesk{d: d, rand: rand.New(rand.NewPCG(d.seed, uint64(len(d.desks)+20)))} //nolint:gosec // repeatable
	desk.visit = backoffice.Visit{Property: d.at.Property, Session: backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, time.Now()), Tenant: d.at.Tenant, Operator: operator, Device: bff.NewID(bff.PrefixDevice, time.Now()),
	}}
	d.desks = append(d.desks, desk)
	return desk
}

func (k *drillDesk) clock() time.Time { return time.Now().Add(k.off) }

// press takes something down.
func (k *drillDesk) press() *drillEntry {
	e := &drillEntry{target: k.d.targets[k.rand.IntN(len(k.d.targets))], pressed: k.clock(), heard: map[string]action.Line{}, operator: k.visit.Session.Operator}
	if strings.Contains(e.body, "%d") {
		e.body = fmt.Sprintf(e.body, []int{1100, 4200, 45_000, 900_000}[k.rand.IntN(4)])
	}
	k.entries = append(k.entries, e)
	return e
}

// name gives an entry its key, which is kept before it is sent.
func (k *drillDesk) name(e *drillEntry) {
	if e.key == "" {
		e.key = bff.NewID(bff.PrefixRequest, k.clock()).ULID()
		e.keys = append(e.keys, e.key)
	}
	e.tried = time.Now()
}

// sends is a request of the desk with its clock; what is written comes in lines until the
// connection is cut after so many.
func (k *drillDesk) send(path, key, body string, lines int) *cutRecorder {
	v := k.visit
	v.Sent, v.Request.RequestID = k.clock().Truncate(time.Second), bff.NewID(bff.PrefixRequest, time.Now())
	ctx, cancel := context.WithCancel(context.WithValue(k.d.t.Context(), visitKey{}, &v))
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, base+path+"?propertyId="+k.d.at.Property.String(), strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("X-Idempotency-Key", key)
	}
	w := &cutRecorder{ResponseRecorder: httptest.NewRecorder(), lines: lines, cut: cancel}
	k.d.service.ServeHTTP(w, r)
	return w
}

// cutRecorder is a connection that is cut after so many lines; negative: never.
type cutRecorder struct {
	*httptest.ResponseRecorder
	lines int
	cut   func()
}

func (w *cutRecorder) Write(b []byte) (int, error) {
	if w.lines == 0 {
		w.cut()
		return 0, io.ErrClosedPipe
	}
	w.lines--
	return w.ResponseRecorder.Write(b)
}

// replay sends what has no verdict, in its order. Lost is the chance that the desk crashes after
// it has heard a verdict and before it has kept it.
func (k *drillDesk) replay(cut bool, lost int) {
	var batch []*drillEntry
	type entry struct {
		Key       string          `json:"key"`
		Path      string          `json:"path"`
		Body      json.RawMessage `json:"body,omitempty"`
		PressedAt bff.Timestamp   `json:"pressedAt"`
	}
	var sent []entry
	for _, e := range k.entries {
		if e.settled() || e.key == "" && !e.tried.IsZero() && time.Since(e.tried) < 2*time.Minute {
			continue
		}
		k.name(e)
		batch, sent = append(batch, e), append(sent, entry{e.key, e.path, json.RawMessage(e.body), bff.At(e.pressed)})
	}
	if len(batch) == 0 {
		return
	}
	body, err := json.Marshal(map[string]any{"entries": sent})
	if err != nil {
		k.d.t.Fatal(err)
	}
	lines := -1
	if cut {
		lines = k.rand.IntN(len(batch) + 1)
	}
	w := k.send("/devices/"+k.visit.Session.Device.String()+"/replay", "", string(body), lines)
	if w.Code != http.StatusOK {
		if w.Code != http.StatusForbidden && w.Code != http.StatusUnauthorized {
			k.d.t.Errorf("replay: %d %s", w.Code, w.Body)
		}
		return
	}
	ended := false
	for text := range bytes.Lines(w.Body.Bytes()) {
		var line struct {
			action.Line
			End bool
		}
		if err := json.Unmarshal(text, &line); err != nil {
			k.d.t.Fatal(err)
		}
		if ended = line.End; ended {
			break
		}
		i := slices.IndexFunc(batch, func(e *drillEntry) bool { return e.key == line.Key })
		if i < 0 {
			k.d.t.Errorf("a verdict of no entry: %s", text)
			continue
		}
		k.hear(batch[i], line.Line, lost)
	}
	if lines < 0 && !ended {
		k.d.t.Errorf("a replay that was not cut has no end: %s", w.Body)
	}
}

// hear compares a verdict with what was heard before, and keeps it unless the desk crashes.
func (k *drillDesk) hear(e *drillEntry, line action.Line, lost int) {
	k.d.mu.Lock()
	k.d.said[string(line.Verdict)]++
	k.d.mu.Unlock()
	before, again := e.heard[line.Key]
	switch {
	case again && line.Verdict == action.Undecided && before.Verdict != action.Undecided: // held up by what stands before it: it stays as it was heard
		return
	case !again || line.Verdict == action.Expired, before.Verdict == action.Undecided, before.Verdict == action.NeedsSecondFactor:
	case before.Verdict == action.Expired: // and the clock was set since
	case before.Verdict != action.Carried && line.Reason == string(action.WhyRole): // the right was lost since
	case before.Verdict == action.Carried && line.Verdict == action.AlreadyDone && line.By == e.operator: // who may not do it any more
	case before.Verdict == action.AlreadyDone && before.By == e.operator && line.Verdict == action.Carried: // and may again
	case before.Verdict == action.NotPossible && (before.Reason == string(action.WhyRole) || before.Reason == string(action.WhyScope)): // rights of now
	case before.Verdict != line.Verdict || before.Reason != line.Reason:
		k.d.t.Errorf("%s was %s, and is %s now", e.path, says(before), says(line))
	}
	e.heard[line.Key] = line
	if k.rand.IntN(100) < lost {
		return
	}
	if line.Verdict == action.Expired && line.Known.Outcome == backoffice.NoTrace && !e.trace() {
		e.key = "" // it was never sent, as far as the ledger knows: it is new
		return
	}
	e.verdict = line
}

// trace reports whether anything of the entry may have been done by what the desk has heard.
func (e *drillEntry) trace() bool {
	for _, l := range e.heard {
		if l.Verdict == action.Carried || l.Reason == string(action.PendingOutcome) {
			return true
		}
	}
	return false
}

// live sends an entry while there is a line. Without an answer it stays in the queue.
func (k *drillDesk) live(e *drillEntry, cut bool) {
	k.name(e)
	lines := -1
	if cut {
		lines = 0
	}
	w := k.send(e.path, e.key, e.body, lines)
	if cut {
		return
	}
	var doc struct {
		Error struct {
			Code  bff.Code
			Known *bff.Known
		}
	}
	_ = json.Unmarshal(w.Body.Bytes(), &doc) // a success has none
	line := action.Line{Key: e.key, Verdict: action.Undecided, Reason: string(action.PendingUnavailable), Known: doc.Error.Known}
	switch code := doc.Error.Code; {
	case w.Code < 300:
		line.Verdict, line.Reason = action.Carried, ""
	case code == bff.CodeMFARequired, strings.Contains(e.path, "alerts"): // there are none
		line.Verdict, line.Reason = action.NeedsSecondFactor, ""
	case code == bff.CodeStateConflict && doc.Error.Known != nil:
		line.Verdict, line.Reason, line.By, line.At = action.DoneByOther, "", doc.Error.Known.OperatorID, doc.Error.Known.At
		if line.By == e.operator {
			line.Verdict = action.AlreadyDone
		}
	case code == bff.CodeStateConflict:
		line.Verdict, line.Reason = action.NotPossible, string(action.WhyState)
	case code == bff.CodeResourceNotFound, code == bff.CodeRoleDenied, code == bff.CodeValidationFailed:
		line.Verdict, line.Reason = action.NotPossible, string(code)
		e.verdict = line
		return
	}
	e.heard[e.key] = line
	if line.Verdict != action.Undecided {
		e.verdict = line
	}
}

// offline is a desk whose line is cut: it may lose the answer of what it was just sending.
func (k *drillDesk) offline(cut time.Duration) {
	if k.rand.IntN(2) == 0 {
		k.off = time.Duration(k.rand.Int64N(int64(20*365*24*time.Hour))) - 10*365*24*time.Hour
	}
	if k.rand.IntN(2) == 0 {
		k.live(k.press(), true)
	}
	for range 2 + k.rand.IntN(6) {
		pause.For(context.Background(), cut/8)
		k.press()
	}
	pause.For(context.Background(), cut/4+time.Duration(k.rand.IntN(2000))*time.Millisecond)
	switch k.rand.IntN(6) {
	case 0:
		k.off = 0 // somebody sets the clock
	case 1:
		k.off -= cut // as if no time had passed
	}
	for range 1 + k.rand.IntN(4) {
		if k.rand.IntN(5) == 0 { // it crashes, begins anew and sends while the first is under way
			var twice sync.WaitGroup
			sent := *k
			sent.entries = nil
			for _, e := range k.entries { // what was kept before it was sent
				if !e.settled() {
					k.name(e)
					e.twice = true
				}
				same := *e
				same.heard = map[string]action.Line{}
				sent.entries = append(sent.entries, &same)
			}
			sent.rand = rand.New(rand.NewPCG(k.d.seed, 99)) //nolint:gosec // repeatable
			twice.Go(func() { sent.replay(true, 100) })
			k.replay(k.rand.IntN(2) == 0, 20)
			twice.Wait()
		} else {
			k.replay(k.rand.IntN(2) == 0, 20)
		}
		if k.rand.IntN(6) == 0 { // the line is cut again
			pause.For(context.Background(), time.Duration(k.rand.IntN(30))*time.Hour)
		}
		pause.For(context.Background(), time.Duration(k.rand.IntN(5000))*time.Millisecond)
	}
}
