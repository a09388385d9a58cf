package backofficehttp_test

import (
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
	name    string    // of the desk, with its place in the desk's list
	pressed time.Time // by the desk's clock
	key     string    // of the next attempt, kept before it is sent
	keys    []string  // all it ever had
	tried   time.Time
	verdict action.Line // kept last
	done    int         // how often it was carried out when that was told
	open    bool        // that it is not known whether it was carried out was told, too
	sent    bool        // something may have been done, by what the desk has heard
	twice   bool        // it was sent by two windows at once: one may be refused a right that the other still had
}

func (e *drillEntry) settled() bool {
	return e.verdict.Verdict != "" && e.verdict.Verdict != action.Undecided
}

// resource is what an entry is about; empty = what it makes.
func (e *drillEntry) resource() string {
	of := strings.Split(e.path, "/")
	if e.path == "/maintenance/work-orders" {
		return ""
	}
	return of[len(of)-2]
}

// drillDesk is a desk, or the colleague's who stays online.
type drillDesk struct {
	d       *blackout
	visit   backoffice.Visit
	rand    *rand.Rand
	window  string        // which of the windows it is
	off     time.Duration // how wrong the clock is
	queues  bool          // what has no verdict holds up what is about the same resource
	entries []*drillEntry
	sends   int
}

func (d *blackout) desk(operator string) *drillDesk {
	desk := &drillDesk{d: d, rand: rand.New(rand.NewPCG(d.seed, uint64(len(d.desks)+20)))} //nolint:gosec // repeatable
	desk.visit = backoffice.Visit{Property: d.at.Property, Session: backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, time.Now()), Tenant: d.at.Tenant, Operator: operator, Device: bff.NewID(bff.PrefixDevice, time.Now()),
	}}
	d.desks = append(d.desks, desk)
	d.give(rights{roles: backoffice.Roles()}, operator)
	return desk
}

func (k *drillDesk) clock() time.Time { return time.Now().Add(k.off) }

// press takes something down.
func (k *drillDesk) press() *drillEntry {
	e := &drillEntry{target: k.d.targets[k.rand.IntN(len(k.d.targets))], name: fmt.Sprint(k.visit.Session.Operator, "/", len(k.entries)), pressed: k.clock()}
	if strings.HasSuffix(e.path, "/charges") {
		e.minor = []int64{1100, 4200, 45_000, 900_000}[k.rand.IntN(4)]
		e.body = fmt.Sprintf(`{"amount":{"minor":"%d","currency":"AFN"}}`, e.minor)
	}
	k.entries = append(k.entries, e)
	return e
}

// name gives an entry its key, which is kept before it is sent.
func (k *drillDesk) name(e *drillEntry) {
	if e.key == "" {
		e.key = bff.NewID(bff.PrefixRequest, k.clock()).ULID()
		e.keys = append(e.keys, e.key)
		k.d.mu.Lock()
		k.d.entries[e.key] = e
		k.d.mu.Unlock()
	}
	e.tried = time.Now()
}

// exchange is a request that was sent: when by the device's clock and by ours, and after what.
type exchange struct {
	*cutRecorder
	sent, began time.Time
	from        int
}

// sends is a request of the desk with its clock; what is written comes in lines until the
// connection is cut after so many.
func (k *drillDesk) send(path, key, body string, lines int, hear func(*exchange, []byte)) exchange {
	pause.For(context.Background(), time.Duration(k.rand.Int64N(1e6)))
	v := k.visit
	v.Sent, v.Request.RequestID = k.clock().Truncate(time.Second), bff.NewID(bff.PrefixRequest, time.Now())
	k.d.mu.Lock()
	k.sends++
	who := caller{&v, fmt.Sprint(v.Session.Operator, k.window, k.sends), k.d.life}
	down, from := time.Now().Before(k.d.down), k.d.seq
	k.d.mu.Unlock()
	ctx, cancel := context.WithCancel(context.WithValue(k.d.t.Context(), callerKey{}, who))
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, base+path+"?propertyId="+k.d.at.Property.String(), strings.NewReader(body))
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("X-Idempotency-Key", key)
	}
	line := &cutRecorder{ResponseRecorder: httptest.NewRecorder(), lines: lines, cut: cancel, dead: func() bool { return k.d.dead(ctx) }}
	x := exchange{cutRecorder: line, sent: v.Sent, began: time.Now(), from: from}
	if hear != nil {
		x.hear = func(line []byte) { hear(&x, line) }
	}
	if down {
		x.lost = true
		return x
	}
	k.d.service.ServeHTTP(x.cutRecorder, r)
	return x
}

// cutRecorder is a connection that is cut after so many lines, negative: never, or by the death of the service.
type cutRecorder struct {
	*httptest.ResponseRecorder
	lines int
	cut   func()
	dead  func() bool
	hear  func(line []byte) // at the moment at which it is told
	lost  bool
}

func (w *cutRecorder) Write(b []byte) (int, error) {
	if w.lost = w.lost || w.lines == 0 || w.dead(); w.lost {
		pause.For(context.Background(), 1) // what begins at this moment has begun
		w.cut()
		return 0, io.ErrClosedPipe
	}
	w.lines--
	if w.hear != nil {
		w.hear(b)
	}
	return w.ResponseRecorder.Write(b)
}

// replay sends what has no verdict, in its order. Lost is the chance that the desk crashes after
// it has heard a verdict and before it has kept it.
func (k *drillDesk) replay(cut bool, lost int) {
	var batch []*drillEntry
	var sent []pressedEntry
	waits := map[string]bool{}
	for _, e := range k.entries {
		if e.settled() || waits[e.resource()] {
			continue
		}
		if e.key == "" && !e.tried.IsZero() && time.Since(e.tried) < 2*time.Minute { // an earlier attempt may be on its way
			waits[e.resource()] = e.resource() != ""
			continue
		}
		k.name(e)
		batch, sent = append(batch, e), append(sent, pressedEntry{e.key, e.path, json.RawMessage(e.body), bff.At(e.pressed)})
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
	type told struct {
		e    *drillEntry
		line action.Line
		done int
	}
	var (
		heard []told
		ended bool
		open  = map[string]bool{} // resources of which an entry has no verdict
	)
	w := k.send("/devices/"+k.visit.Session.Device.String()+"/replay", "", string(body), lines, func(w *exchange, text []byte) {
		var line struct {
			action.Line
			End bool
		}
		if err := json.Unmarshal(text, &line); err != nil {
			k.d.t.Error(err)
		}
		i := slices.IndexFunc(batch, func(e *drillEntry) bool { return e.key == line.Key })
		if ended = line.End; i < 0 || slices.ContainsFunc(heard, func(before told) bool { return before.e == batch[i] }) {
			if !ended && w.Code == http.StatusOK {
				k.d.t.Errorf("no entry waits for %s", text)
			}
			return
		}
		of := batch[i].resource()
		done := k.d.judge(batch[i], line.Line, w, open[of])
		open[of] = of != "" && (open[of] || line.Verdict == action.Undecided)
		heard = append(heard, told{batch[i], line.Line, done})
	})
	if w.Code != http.StatusOK && w.Code != http.StatusForbidden && w.Code != http.StatusUnauthorized || w.Code == http.StatusOK && !w.lost && !ended {
		k.d.t.Errorf("replay: %d %s", w.Code, w.Body)
	}
	for _, t := range heard {
		k.hear(t.e, t.line, t.done, lost)
	}
}

// hear keeps a verdict unless the desk crashes.
func (k *drillDesk) hear(e *drillEntry, line action.Line, done, lost int) {
	e.sent = e.sent || line.Verdict == action.Carried || line.Reason == string(action.PendingOutcome)
	if k.rand.IntN(100) < lost {
		return
	}
	if line.Verdict == action.Expired && line.Known.Outcome == backoffice.NoTrace && !e.sent {
		e.key = "" // it was never sent, as far as the ledger knows: it is new
		return
	}
	e.verdict, e.done, e.open = line, done, line.Known != nil && line.Known.Outcome == string(backoffice.Unknown)
}

// live sends an entry while there is a line. Without an answer it stays in the queue.
func (k *drillDesk) live(e *drillEntry, cut bool) {
	k.name(e)
	lines := -1
	if cut {
		lines = 0
	}
	w := k.send(e.path, e.key, e.body, lines, nil)
	if a := actionOf(e.path); w.lost || a == nil || a.Offline != backoffice.Replayable {
		return
	}
	var doc struct {
		Error struct {
			Code  bff.Code
			Known *bff.Known
		}
	}
	_ = json.Unmarshal(w.Body.Bytes(), &doc) // a success has none
	line := action.Line{Key: e.key, Verdict: action.NotPossible}
	switch code := doc.Error.Code; {
	case w.Code < 300:
		line.Verdict = action.Carried
	case code == bff.CodeMFARequired:
		line.Verdict = action.NeedsSecondFactor
	case code == bff.CodeStateConflict && doc.Error.Known != nil:
		line.Verdict, line.By, line.At = action.DoneByOther, doc.Error.Known.OperatorID, doc.Error.Known.At
		if line.By == k.visit.Session.Operator {
			line.Verdict = action.AlreadyDone
		}
	case code == bff.CodeStateConflict:
		line.Reason = string(action.WhyState)
	case code == bff.CodeResourceNotFound:
		line.Reason = string(action.WhyMissing)
	default: // it stays in the queue
		return
	}
	k.hear(e, line, k.d.judge(e, line, &w, false), 0)
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
	pause.For(context.Background(), cut/4+time.Duration(k.rand.Int64N(2e9)))
	switch k.rand.IntN(6) {
	case 0:
		k.off = 0 // the clock is set
	case 1:
		k.off -= cut // as if no time had passed
	}
	if k.visit.Session.Operator == "opt_a" {
		close(k.d.sending)
	}
	for range 1 + k.rand.IntN(4) {
		if k.rand.IntN(5) == 0 { // it crashes, begins anew and sends while the first is under way
			var twice sync.WaitGroup
			sent := *k
			sent.entries, sent.window = nil, "'"
			for _, e := range k.entries { // what was kept before it was sent
				if !e.settled() {
					k.name(e)
					e.twice = true
				}
				same := *e
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
		pause.For(context.Background(), time.Duration(k.rand.Int64N(5e9)))
	}
}
