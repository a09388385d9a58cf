package backofficehttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// dayBilling is a billing that knows a key for a day, and then charges again.
type dayBilling struct {
	actionsFake
	clock func() time.Time

	mu    sync.Mutex
	known map[string]time.Time
	done  map[string]int  // charges by key
	late  map[string]bool // the next answer is
}

// Carry implements action.Upstream.
func (f *dayBilling) Execute(_ context.Context, _, _ bff.ID, c *action.Command) (action.Done, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key, now := c.Once.Key, f.clock()
	if at, ok := f.known[key]; !ok || now.Sub(at) >= 24*time.Hour {
		f.known[key] = now
		f.done[key]++
	}
	if f.late[key] {
		delete(f.late, key)
		return nil, &bff.Error{Code: bff.CodeUpstreamTimeout, Err: backoffice.ErrOutcomeUnknown}
	}
	return action.Done{"entryId": "ent_1", "folioId": c.ID, "postedAt": bff.At(now)}, nil
}

// blackoutCharge is a charge that a desk sends until it learns what became of it.
type blackoutCharge struct {
	operator string
	device   *desk.Device
	path     string
	key      string
	off      time.Duration // how wrong the device's clock is
	reached  bool          // it was carried out, or may have been
	told     bool          // and that was answered
}

// send sends a charge by the device's clock, with the server's nonce if that is needed.
func (c *blackoutCharge) send(f *front) *httptest.ResponseRecorder {
	f.tb.Helper()
	s, nonce := f.senderAt(c.operator, c.device), ""
	for {
		r := s.request(http.MethodPost, c.path, `{"amount":{"minor":"9900","currency":"AFN"}}`)
		r.header.Set("X-Idempotency-Key", c.key)
		r.proof.At, r.proof.Nonce = f.clock().Add(c.off), nonce
		w := f.send(0, r)
		if nonce != "" || codeOf(w) != "DPOP_INVALID" {
			return w
		}
		nonce = w.Header().Get("DPoP-Nonce")
	}
}

// The line is cut while charges are under way: before they reach us, before billing
// answers, or before the answer reaches the desk. Desks repeat them when the line is back,
// after an hour and after months, with clocks that are wrong by up to ten years and are
// set in between, also by as much as the line was away. Billing forgets keys after a day. No
// charge is made twice, and each repetition is told what is known.
func TestProofKeysAfterABlackout(t *testing.T) {
	t.Parallel()
	charges := testkit.Proof(24, 500)
	seed := rand.Uint64() //nolint:gosec // a seed
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test

	open, super := openKeyLedgers(t)
	ledger := open()
	billing := &dayBilling{known: map[string]time.Time{}, done: map[string]int{}, late: map[string]bool{}}
	f := newFront(t, frontConfig{limits: "change=100000", actions: billing, mutations: ledger})
	billing.clock = f.clock
	const decade = 10 * 365 * 24 * time.Hour
	wrong := func() time.Duration { return time.Duration(chance.Int64N(int64(2*decade))) - decade }

	var all []*blackoutCharge
	for i := range charges {
		c := &blackoutCharge{
			operator: fmt.Sprintf("opt_%d", i), path: base + "/folios/" + bff.NewID(bff.PrefixFolio, f.clock()).String() + "/charges?propertyId=" + house,
		}
		f.employ(c.operator, backoffice.FrontDesk)
		if chance.IntN(4) > 0 {
			c.off = wrong()
		}
		var err error
		if c.device, err = desk.NewDevice(desk.EdDSA, f.clock()); err != nil {
			t.Fatal(err)
		}
		c.key = bff.NewID(bff.PrefixRequest, f.clock().Add(c.off)).ULID()
		all = append(all, c)
		switch i % 4 {
		case 0: // cut before it reached us
			continue
		case 1: // billing's answer is lost
			billing.late[c.key] = true
			if got := codeOf(c.send(f)); got != "UPSTREAM_TIMEOUT" {
				t.Fatalf("charge %d: %s", i, got)
			}
		default: // ours is
			if got := codeOf(c.send(f)); got != "Created" {
				t.Fatalf("charge %d: %s", i, got)
			}
			c.told = true
		}
		c.reached = true
	}

	pressed := f.clock()
	answered := map[string]int{}
	for _, after := range []time.Duration{time.Hour, 24*time.Hour - time.Minute, 24*time.Hour + time.Minute, 48 * time.Hour, 89 * 24 * time.Hour} {
		f.advance(pressed.Add(after).Sub(f.clock()))
		if _, err := super.Exec(testkit.Context(t), `DELETE FROM bff_backoffice.idempotency WHERE expires_at < $1`, f.clock()); err != nil { // as its job does
			t.Fatal(err)
		}
		for i, c := range all {
			if i%5 > 0 && chance.IntN(2) == 0 { // still without a line
				continue
			}
			switch chance.IntN(8) {
			case 0:
				c.off = 0
			case 1:
				c.off = wrong()
			case 2: // as if no time had passed
				c.off -= after - time.Minute
			}
			w := c.send(f)
			answered[fmt.Sprint(after, " ", codeOf(w))]++
			switch codeOf(w) {
			case "Created":
				age := f.clock().Add(c.off).Sub(bff.MustParseID(bff.PrefixRequest, "req_"+c.key).Time())
				if !c.reached && (age < -time.Minute || age >= 24*time.Hour) {
					t.Errorf("charge %d after %s was made with a key that is %s old", i, after, age)
				}
				c.reached, c.told = true, true
			case "IDEMPOTENCY_KEY_EXPIRED":
				c.expectKnown(t, w)
			default:
				t.Errorf("charge %d after %s, clock off by %s: %d %s", i, after, c.off, w.Code, w.Body)
			}
			if got := billing.done[c.key]; got > 1 || c.reached != (got == 1) {
				t.Errorf("charge %d after %s, clock off by %s: made %d times", i, after, c.off, got)
			}
		}
	}
	t.Log(answered)
	if answered["1h0m0s Created"] == 0 || answered["48h0m0s IDEMPOTENCY_KEY_EXPIRED"] == 0 {
		t.Errorf("answers: %v", answered)
	}
}

// expectKnown compares what a refusal says with what has become of the charge.
func (c *blackoutCharge) expectKnown(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	var doc struct {
		Error struct {
			Retriable bool
			Known     bff.Known
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	want := backoffice.NoTrace
	switch {
	case c.told:
		want = string(backoffice.Succeeded)
	case c.reached:
		want = string(backoffice.Unknown)
	}
	known := doc.Error.Known
	if w.Code != http.StatusConflict || doc.Error.Retriable || known.Outcome != want || c.reached && (known.OperatorID != c.operator || known.At == nil) {
		t.Errorf("%s, want %s", w.Body, want)
	}
}
