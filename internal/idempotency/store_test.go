package idempotency_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	u, err := url.Parse(testkit.PostgresTemplate(t, "consumer", func(dsn string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return postgres.Migrate(ctx, dsn, migrations.Consumer(), postgres.MigrateOptions{})
	}))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("role", migrations.ConsumerApp)
	u.RawQuery = q.Encode()
	db, err := postgres.Open(testkit.Context(t), testkit.Patient(u.String()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// memory is a quick copy that can be lost.
type memory struct{ m sync.Map }

func (m *memory) Find(_ context.Context, composite string) []byte {
	b, ok := m.m.Load(composite)
	if !ok {
		return nil
	}
	return b.([]byte)
}

func (m *memory) Keep(_ context.Context, composite string, copied []byte, _ time.Duration) {
	m.m.Store(composite, copied)
}

func request() idempotency.Request {
	return idempotency.Request{Owner: []string{"gms_1"}, Route: "POST /x", Key: "k", Digest: [32]byte{1}}
}

// newStore returns a store whose mutations are transactions of their own.
func newStore(db *pgxpool.Pool, copies idempotency.Copies, wait time.Duration) *idempotency.Store {
	return idempotency.New(idempotency.Config{
		DB: db, Copies: copies, Wait: wait,
		Table: idempotency.Table{
			Name: "bff_consumer.idempotency_keys", Key: "composite_key", Owners: []string{"guest_session_id"}, Route: "route",
			Digest: "request_digest", Status: "response_status", Body: "response_body",
		},
		Codes: idempotency.Codes{Reused: bff.CodeIdempotencyKeyReused, InFlight: bff.CodeIdempotencyInFlight},
	})
}

// counting is a mutation that says how often it ran.
type counting struct {
	runs atomic.Int32
	fail error         // instead of an answer
	in   chan struct{} // closed inside the transaction, if there is one
	out  chan struct{} // waited for then
}

// do carries a request out from begin to commit.
func (m *counting) do(t *testing.T, db *pgxpool.Pool, s *idempotency.Store, r idempotency.Request, now time.Time) (idempotency.Answer, bool, error) {
	t.Helper()
	ctx := testkit.Context(t)
	claim, earlier, err := s.Begin(ctx, r, now)
	if err != nil {
		return idempotency.Answer{}, false, err
	}
	if earlier != nil {
		return *earlier, true, nil
	}
	defer claim.Release()
	var answer idempotency.Answer
	err = postgres.InTx(ctx, db, func(tx pgx.Tx) error {
		if err := claim.Take(ctx, tx); err != nil {
			return err
		}
		if m.in != nil {
			close(m.in)
			<-m.out
		}
		if m.fail != nil {
			return m.fail
		}
		if answer, err = idempotency.NewAnswer(http.StatusCreated, map[string]any{"run": m.runs.Add(1), "b": "<&>", "a": 1}); err != nil {
			return err
		}
		return claim.Answer(ctx, tx, answer)
	})
	return claim.Settle(ctx, answer, err)
}

func TestOnce(t *testing.T) {
	t.Parallel()
	db := open(t)
	// Three processes with one database and one Redis.
	redis := &memory{}
	var stores []*idempotency.Store
	for range 3 {
		stores = append(stores, newStore(db, redis, 5*time.Second))
	}
	var (
		wg     sync.WaitGroup
		m      counting
		fresh  atomic.Int32
		bodies sync.Map
	)
	for i := range 60 {
		wg.Go(func() {
			a, replayed, err := m.do(t, db, stores[i%3], request(), time.Now())
			if err != nil || a.Status != http.StatusCreated {
				t.Errorf("%d %v", a.Status, err)
			}
			if !replayed {
				fresh.Add(1)
			}
			bodies.Store(string(a.Body), true)
		})
	}
	wg.Wait()
	n := 0
	bodies.Range(func(any, any) bool { n++; return true })
	if m.runs.Load() != 1 || fresh.Load() != 1 || n != 1 {
		t.Errorf("%d runs, %d fresh answers, %d bodies; want one of each", m.runs.Load(), fresh.Load(), n)
	}

	redis.m.Clear()
	a, replayed, err := m.do(t, db, stores[0], request(), time.Now())
	if _, same := bodies.Load(string(a.Body)); err != nil || !replayed || !same {
		t.Errorf("without the copy: %s %v %v", a.Body, replayed, err)
	}
}

func TestKeyBelongsToOneRequest(t *testing.T) {
	t.Parallel()
	for name, copies := range map[string]idempotency.Copies{"with copies": &memory{}, "without": nil} {
		db := open(t)
		s, m := newStore(db, copies, time.Second), new(counting)
		if _, _, err := m.do(t, db, s, request(), time.Now()); err != nil {
			t.Fatal(err)
		}
		other := request()
		other.Digest = [32]byte{2}
		if _, _, err := m.do(t, db, s, other, time.Now()); bff.CodeOf(err) != bff.CodeIdempotencyKeyReused {
			t.Errorf("%s, another body: %v", name, err)
		}
		guest := request()
		guest.Owner, guest.Digest = []string{"gms_2"}, [32]byte{2}
		if _, replayed, err := m.do(t, db, s, guest, time.Now()); err != nil || replayed {
			t.Errorf("%s, another guest's same key: %v %v", name, replayed, err)
		}
	}
}

// A first attempt that fails leaves nothing behind: the duplicate has its turn.
func TestFailureIsNotRemembered(t *testing.T) {
	t.Parallel()
	db := open(t)
	s := newStore(db, &memory{}, time.Second)
	broken := errors.New("broken")
	if _, _, err := (&counting{fail: broken}).do(t, db, s, request(), time.Now()); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	// One that failed before its transaction only releases its claim.
	claim, earlier, err := s.Begin(testkit.Context(t), request(), time.Now())
	if err != nil || earlier != nil {
		t.Fatal(earlier, err)
	}
	claim.Release()
	claim.Release()
	var m counting
	if _, replayed, err := m.do(t, db, s, request(), time.Now()); err != nil || replayed || m.runs.Load() != 1 {
		t.Errorf("second attempt: %v %v %d", replayed, err, m.runs.Load())
	}
}

// A duplicate does not wait for ever, neither in this process nor for another.
func TestDuplicateGivesUp(t *testing.T) {
	t.Parallel()
	db := open(t)
	mine, theirs := newStore(db, nil, 50*time.Millisecond), newStore(db, nil, 50*time.Millisecond)
	first := &counting{in: make(chan struct{}), out: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, _, err := first.do(t, db, mine, request(), time.Now()); err != nil {
			t.Error(err)
		}
	})
	<-first.in
	var m counting
	for name, s := range map[string]*idempotency.Store{"same process": mine, "another": theirs} {
		if _, _, err := m.do(t, db, s, request(), time.Now()); bff.CodeOf(err) != bff.CodeIdempotencyInFlight {
			t.Errorf("%s: %v, want in flight", name, err)
		}
	}
	close(first.out)
	wg.Wait()
	if _, replayed, err := m.do(t, db, theirs, request(), time.Now()); err != nil || !replayed || m.runs.Load() != 0 {
		t.Errorf("afterwards: %v %v %d", replayed, err, m.runs.Load())
	}
}

// After a day a key is free again.
func TestAnswerExpires(t *testing.T) {
	t.Parallel()
	db := open(t)
	s, m := newStore(db, nil, time.Second), new(counting)
	now := time.Now()
	for i, at := range []time.Time{now, now.Add(idempotency.Lifetime - time.Second), now.Add(idempotency.Lifetime)} {
		_, replayed, err := m.do(t, db, s, request(), at)
		if want := i == 1; err != nil || replayed != want {
			t.Errorf("attempt %d: replayed %v %v, want %v", i+1, replayed, err, want)
		}
	}
}

func TestKeyFrom(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header   http.Header
		want     string
		wantCode bff.Code
	}{
		"one spelling":        {http.Header{"Idempotency-Key": {"a"}}, "a", ""},
		"the other":           {http.Header{"X-Idempotency-Key": {"a"}}, "a", ""},
		"both the same":       {http.Header{"X-Idempotency-Key": {"a"}, "Idempotency-Key": {"a"}}, "a", ""},
		"both, different":     {http.Header{"X-Idempotency-Key": {"a"}, "Idempotency-Key": {"b"}}, "", bff.CodeValidationFailed},
		"twice, different":    {http.Header{"Idempotency-Key": {"a", "b"}}, "", bff.CodeValidationFailed},
		"none":                {http.Header{}, "", bff.CodeIdempotencyKeyRequired},
		"empty":               {http.Header{"Idempotency-Key": {""}}, "", bff.CodeIdempotencyKeyRequired},
		"white space":         {http.Header{"Idempotency-Key": {"a b"}}, "", bff.CodeValidationFailed},
		"control character":   {http.Header{"Idempotency-Key": {"a\x00"}}, "", bff.CodeValidationFailed},
		"not ASCII":           {http.Header{"Idempotency-Key": {"ښ"}}, "", bff.CodeValidationFailed},
		"longer than allowed": {http.Header{"Idempotency-Key": {string(make([]byte, 129))}}, "", bff.CodeValidationFailed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := idempotency.KeyFrom(tc.header, bff.CodeIdempotencyKeyRequired)
			if got != tc.want || (err != nil) != (tc.wantCode != "") || (err != nil && bff.CodeOf(err) != tc.wantCode) {
				t.Errorf("got %q, %v; want %q, %s", got, err, tc.want, tc.wantCode)
			}
		})
	}
}

func TestULIDFrom(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"01H8YN7QV4D8KZ4F8Y5CK4MV3A":  "01H8YN7QV4D8KZ4F8Y5CK4MV3A",
		"01h8yn7qv4d8kz4f8y5ck4mv3a":  "01H8YN7QV4D8KZ4F8Y5CK4MV3A",
		"01H8YN7QV4D8KZ4F8Y5CK4MV3":   "",
		"81H8YN7QV4D8KZ4F8Y5CK4MV3A":  "", // beyond 128 bits
		"01H8YN7QV4D8KZ4F8Y5CK4MV3U":  "",
		"01H8YN7QV4D8KZ4F8Y5CK4MV3AA": "",
	} {
		got, err := idempotency.ULIDFrom(http.Header{"X-Idempotency-Key": {given}}, bff.CodeStaffIdempotencyRequired)
		if got != want || (want == "" && bff.CodeOf(err) != bff.CodeValidationFailed) {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
	if _, err := idempotency.ULIDFrom(http.Header{}, bff.CodeStaffIdempotencyRequired); bff.CodeOf(err) != bff.CodeStaffIdempotencyRequired {
		t.Errorf("none: %v", err)
	}
}

func TestFinal(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		200: true, 201: true, 204: true, 400: true, 404: true, 409: true, 412: true, 422: true,
		0: false, 100: false, 302: false, 401: false, 403: false, 408: false, 425: false, 429: false, 500: false, 502: false, 503: false, 504: false,
	} {
		if got := idempotency.Final(status); got != want {
			t.Errorf("%d: %v, want %v", status, got, want)
		}
	}
}
