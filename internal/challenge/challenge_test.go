package challenge

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// ashes is a burner in memory.
type ashes struct {
	mu   sync.Mutex
	seen map[string]time.Duration
	err  error
}

func (a *ashes) Burn(_ context.Context, id string, ttl time.Duration) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return false, a.err
	}
	if _, spent := a.seen[id]; spent {
		return false, nil
	}
	if a.seen == nil {
		a.seen = map[string]time.Duration{}
	}
	a.seen[id] = ttl
	return true, nil
}

const session = "gms_01H8YN7Q2P7GZ4F8Y5CK4MV3DT"

var (
	now    = time.Date(2026, 4, 23, 9, 14, 22, 0, time.UTC)
	keyOne = []byte(strings.Repeat("1", 32))
	keyTwo = []byte(strings.Repeat("2", 32))
)

func newChallenger(t testing.TB, cfg Config) *Challenger {
	t.Helper()
	if cfg.Keys == nil {
		cfg.Keys = [][]byte{keyOne}
	}
	if cfg.Burner == nil {
		cfg.Burner = &ashes{}
	}
	if cfg.Easy == 0 {
		cfg.Easy, cfg.Hard = 200, 2000
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func solve(t testing.TB, ch Challenge) string {
	t.Helper()
	number, err := ch.Solve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	payload, err := ch.Encode(number)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func TestSolved(t *testing.T) {
	t.Parallel()
	burnt := &ashes{}
	c := newChallenger(t, Config{Burner: burnt})
	for _, score := range []float64{0, 0.5, 0.8, 1} {
		ch := c.Issue(session, score, now)
		if err := c.Verify(t.Context(), session, solve(t, ch), score, now.Add(time.Minute)); err != nil {
			t.Errorf("score %v: %v", score, err)
		}
	}
	for id, ttl := range burnt.seen {
		if want := 9*time.Minute + time.Second; ttl != want {
			t.Errorf("%s is remembered for %v, want %v: until it expires", id, ttl, want)
		}
	}
}

// What the widget posts: other order, and the time it took.
func TestWidgetPayload(t *testing.T) {
	t.Parallel()
	c := newChallenger(t, Config{})
	ch := c.Issue(session, 0.5, now)
	number, err := ch.Solve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{
		"algorithm": ch.Algorithm, "challenge": ch.Challenge, "number": number,
		"salt": ch.Salt, "signature": ch.Signature, "took": 123.25,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(t.Context(), session, base64.StdEncoding.EncodeToString(raw), 0.5, now); err != nil {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	c := newChallenger(t, Config{})
	other := newChallenger(t, Config{Keys: [][]byte{keyTwo}})
	encode := func(change func(m map[string]any)) string {
		ch := c.Issue(session, 0.5, now)
		number, err := ch.Solve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := map[string]any{
			"algorithm": ch.Algorithm, "challenge": ch.Challenge, "number": number,
			"salt": ch.Salt, "signature": ch.Signature,
		}
		change(m)
		raw, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(raw)
	}
	same := func(map[string]any) {}
	set := func(field string, value any) func(map[string]any) {
		return func(m map[string]any) { m[field] = value }
	}
	text := func(m map[string]any, field string) string { s, _ := m[field].(string); return s }
	for _, tt := range []struct {
		name, subject, payload string
		after                  time.Duration
		want                   error
	}{
		{name: "another session", subject: "gms_01H8YN7Q2P7GZ4F8Y5CK4MV3DX", payload: encode(same), want: ErrForged},
		{name: "no session", subject: "", payload: encode(same), want: ErrForged},
		{name: "expired", payload: encode(same), after: 10 * time.Minute, want: ErrExpired},
		{name: "another key", payload: solve(t, other.Issue(session, 0.5, now)), want: ErrForged},
		{name: "wrong number", payload: encode(func(m map[string]any) { n, _ := m["number"].(int); m["number"] = n + 1 }), want: ErrUnsolved},
		{name: "number zero", payload: encode(set("number", 49_999_999)), want: ErrUnsolved},
		{name: "negative number", payload: encode(set("number", -1)), want: ErrMalformed},
		{name: "huge number", payload: encode(set("number", maxNumber+1)), want: ErrMalformed},
		{name: "fractional number", payload: encode(set("number", 1.5)), want: ErrMalformed},
		{name: "number as text", payload: encode(set("number", "1")), want: ErrMalformed},
		{name: "later expiry", payload: encode(func(m map[string]any) {
			id, _, _ := strings.Cut(text(m, "salt"), "?")
			m["salt"] = id + "?expires=99999999999&level=0&"
		}), want: ErrForged},
		{name: "no expiry", payload: encode(func(m map[string]any) { m["salt"], _, _ = strings.Cut(text(m, "salt"), "?") }), want: ErrMalformed},
		{
			name: "digits moved from salt to number", payload: encode(func(m map[string]any) { m["salt"] = strings.TrimSuffix(text(m, "salt"), "&") }),
			want: ErrMalformed,
		},
		{name: "more parameters", payload: encode(func(m map[string]any) { m["salt"] = text(m, "salt") + "x=1&" }), want: ErrMalformed},
		{name: "odd expiry", payload: encode(func(m map[string]any) { m["salt"] = strings.Replace(text(m, "salt"), "=", "=+", 1) }), want: ErrMalformed},
		{name: "harder level", payload: encode(func(m map[string]any) { m["salt"] = strings.Replace(text(m, "salt"), "level=0", "level=5", 1) }), want: ErrForged},
		{
			name: "no such level", payload: encode(func(m map[string]any) { m["salt"] = strings.Replace(text(m, "salt"), "level=0", "level=6", 1) }),
			want: ErrMalformed,
		},
		{name: "no level", payload: encode(func(m map[string]any) { m["salt"] = strings.Replace(text(m, "salt"), "level=0&", "", 1) }), want: ErrMalformed},
		{name: "own challenge", payload: encode(func(m map[string]any) { m["challenge"], m["number"] = solution(text(m, "salt"), 0), 0 }), want: ErrForged},
		{name: "signature not hex", payload: encode(set("signature", strings.Repeat("z", 64))), want: ErrForged},
		{name: "short signature", payload: encode(set("signature", "ab")), want: ErrMalformed},
		{name: "another algorithm", payload: encode(set("algorithm", "SHA-1")), want: ErrMalformed},
		{name: "unknown field", payload: encode(set("test", true)), want: ErrMalformed},
		{name: "empty", payload: "", want: ErrMalformed},
		{name: "no base64", payload: "{}", want: ErrMalformed},
		{name: "no object", payload: base64.StdEncoding.EncodeToString([]byte(`[]`)), want: ErrMalformed},
		{name: "two objects", payload: base64.StdEncoding.EncodeToString([]byte(`{}{}`)), want: ErrMalformed},
		{name: "unpadded", payload: strings.TrimRight(encode(same), "=") + "A", want: ErrMalformed},
		{name: "too long", payload: encode(set("salt", strings.Repeat("x", 2000))), want: ErrMalformed},
	} {
		if tt.subject == "" && tt.name != "no session" {
			tt.subject = session
		}
		if err := c.Verify(t.Context(), tt.subject, tt.payload, 0.5, now.Add(tt.after)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestReplayed(t *testing.T) {
	t.Parallel()
	c := newChallenger(t, Config{})
	payload := solve(t, c.Issue(session, 0.5, now))
	var accepted, spent atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			switch err := c.Verify(t.Context(), session, payload, 0.5, now); {
			case err == nil:
				accepted.Add(1)
			case errors.Is(err, ErrSpent):
				spent.Add(1)
			}
		})
	}
	wg.Wait()
	if accepted.Load() != 1 || spent.Load() != 49 {
		t.Errorf("%d accepted, %d spent; want 1 and 49", accepted.Load(), spent.Load())
	}
}

func TestStoreAway(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused")
	c := newChallenger(t, Config{Burner: &ashes{err: away}})
	err := c.Verify(t.Context(), session, solve(t, c.Issue(session, 0.5, now)), 0.5, now)
	if !errors.Is(err, away) {
		t.Errorf("Verify = %v, want the store's error", err)
	}
	for _, reason := range []error{ErrMalformed, ErrForged, ErrExpired, ErrUnsolved, ErrSpent} {
		if errors.Is(err, reason) {
			t.Errorf("the store's failure is taken for %v", reason)
		}
	}
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	before := newChallenger(t, Config{})
	payload := solve(t, before.Issue(session, 0.5, now))
	after := newChallenger(t, Config{Keys: [][]byte{keyTwo, keyOne}})
	if err := after.Verify(t.Context(), session, payload, 0.5, now); err != nil {
		t.Errorf("a challenge of the old key: %v", err)
	}
	if err := before.Verify(t.Context(), session, solve(t, after.Issue(session, 0.5, now)), 0.5, now); !errors.Is(err, ErrForged) {
		t.Errorf("the new key does not sign: %v", err)
	}
}

func TestDifficulty(t *testing.T) {
	t.Parallel()
	c := newChallenger(t, Config{Easy: 20_000, Hard: 500_000})
	for score, want := range map[float64]int{-1: 20_000, 0: 20_000, 0.5: 20_000, 0.69: 38_073, 0.7: 72_478, 0.75: 72_478, 1: 500_000, 7: 500_000} {
		if got := c.Issue(session, score, now).MaxNumber; got != want {
			t.Errorf("score %v: %d, want %d", score, got, want)
		}
	}
	if got := c.Issue(session, math.NaN(), now).MaxNumber; got != 500_000 {
		t.Errorf("no score: %d, want the hardest", got)
	}
}

// TestLevels: an easy solution does not pay for a high score, and a score that
// moved a little costs an honest client nothing.
func TestLevels(t *testing.T) {
	t.Parallel()
	c := newChallenger(t, Config{})
	for name, tc := range map[string]struct {
		issued, used float64
		want         error
	}{
		"the same":        {0.6, 0.6, nil},
		"a little higher": {0.5, 0.65, nil},
		"lower":           {1, 0.5, nil},
		"asked as human":  {0, 0.7, ErrEasy},
		"much higher":     {0.65, 0.85, ErrEasy},
		"the hardest":     {0.85, 1, ErrEasy},
		"nearly hardest":  {0.9, 1, nil},
	} {
		payload := solve(t, c.Issue(session, tc.issued, now))
		if err := c.Verify(t.Context(), session, payload, tc.used, now); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if tc.want == nil {
			continue
		}
		if err := c.Verify(t.Context(), session, payload, tc.issued, now); err != nil {
			t.Errorf("%s: a refused solution was spent: %v", name, err)
		}
	}
}

func TestNewReportsEverythingWrong(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Keys: [][]byte{[]byte("short")}, TTL: time.Millisecond, Easy: 10, Hard: 5})
	if err == nil {
		t.Fatal("New accepted nonsense")
	}
	for _, want := range []string{"keys", "burner", "ttl", "easy"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not mention %q: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "short"+"\"") {
		t.Errorf("the error shows a key: %v", err)
	}
}

// Nothing but what was issued, solved, is ever accepted.
func FuzzVerify(f *testing.F) {
	// The same in every process that fuzzes.
	salt := saltID + "?expires=1776936262&level=0&"
	hash := solution(salt, 135)
	good := solve(f, Challenge{
		Algorithm: Algorithm, Challenge: hash, MaxNumber: 200, Salt: salt,
		Signature: hex.EncodeToString(sign(keyOne, session, salt, hash)),
	})
	raw, err := base64.StdEncoding.DecodeString(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(raw))
	f.Add(`{"algorithm":"SHA-256"}`)
	f.Add(`{"salt":"?expires=1&level=0&"}`)
	want, err := decode(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		payload := base64.StdEncoding.EncodeToString([]byte(text))
		fresh := newChallenger(t, Config{})
		if fresh.Verify(t.Context(), session, payload, 0.5, now) == nil {
			got, err := decode(payload)
			got.Took = 0
			if err != nil || got != want {
				t.Errorf("accepted %s", text)
			}
		}
		// Not base64, too, must not upset the decoder.
		if _, err := decode(text); err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("decode: %v", err)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	c := newChallenger(b, Config{Burner: always{}})
	payload := solve(b, c.Issue(session, 0.5, now))
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Verify(b.Context(), session, payload, 0.5, now); err != nil {
			b.Fatal(err)
		}
	}
}

type always struct{}

func (always) Burn(context.Context, string, time.Duration) (bool, error) { return true, nil }
