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
	db, err := postgres.Open(testkit.Context(t), postgres.Config{URL: u.String()})
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
	return idempotency.Request{Owner: "gms_1", Route: "POST /x", Key: "k", Digest: [32]byte{1}}
}

// counting is a mutation that says how often it ran.
func counting(runs *atomic.Int32) func(context.Context) (idempotency.Work, error) {
	return func(context.Context) (idempotency.Work, error) {
		return func(pgx.Tx) (idempotency.Answer, error) {
			return idempotency.NewAnswer(http.StatusCreated, map[string]any{"run": runs.Add(1), "b": "<&>", "a": 1})
		}, nil
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	db := open(t)
	// Three processes with one database and one Redis.
	redis := &memory{}
	var stores []*idempotency.Store
	for range 3 {
		stores = append(stores, &idempotency.Store{DB: db, Copies: redis, Wait: 5 * time.Second})
	}
	var (
		wg     sync.WaitGroup
		runs   atomic.Int32
		fresh  atomic.Int32
		bodies sync.Map
	)
	for i := range 60 {
		wg.Go(func() {
			a, replayed, err := stores[i%3].Do(testkit.Context(t), request(), time.Now(), counting(&runs))
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
	if runs.Load() != 1 || fresh.Load() != 1 || n != 1 {
		t.Errorf("%d runs, %d fresh answers, %d bodies; want one of each", runs.Load(), fresh.Load(), n)
	}

	redis.m.Clear()
	a, replayed, err := stores[0].Do(testkit.Context(t), request(), time.Now(), counting(&runs))
	if _, same := bodies.Load(string(a.Body)); err != nil || !replayed || !same {
		t.Errorf("without the copy: %s %v %v", a.Body, replayed, err)
	}
}

func TestKeyBelongsToOneRequest(t *testing.T) {
	t.Parallel()
	var runs atomic.Int32
	for name, copies := range map[string]idempotency.Copies{"with copies": &memory{}, "without": nil} {
		s := &idempotency.Store{DB: open(t), Copies: copies, Wait: time.Second}
		if _, _, err := s.Do(testkit.Context(t), request(), time.Now(), counting(&runs)); err != nil {
			t.Fatal(err)
		}
		other := request()
		other.Digest = [32]byte{2}
		if _, _, err := s.Do(testkit.Context(t), other, time.Now(), counting(&runs)); bff.CodeOf(err) != bff.CodeIdempotencyKeyReused {
			t.Errorf("%s, another body: %v", name, err)
		}
		guest := request()
		guest.Owner, guest.Digest = "gms_2", [32]byte{2}
		if _, replayed, err := s.Do(testkit.Context(t), guest, time.Now(), counting(&runs)); err != nil || replayed {
			t.Errorf("%s, another guest's same key: %v %v", name, replayed, err)
		}
	}
}

// A first attempt that fails leaves nothing behind: the duplicate has its turn.
func TestFailureIsNotRemembered(t *testing.T) {
	t.Parallel()
	s := &idempotency.Store{DB: open(t), Copies: &memory{}, Wait: time.Second}
	broken := errors.New("broken")
	_, _, err := s.Do(testkit.Context(t), request(), time.Now(), func(context.Context) (idempotency.Work, error) {
		return func(pgx.Tx) (idempotency.Answer, error) { return idempotency.Answer{}, broken }, nil
	})
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	_, _, err = s.Do(testkit.Context(t), request(), time.Now(), func(context.Context) (idempotency.Work, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Fatal(err)
	}
	var runs atomic.Int32
	if _, replayed, err := s.Do(testkit.Context(t), request(), time.Now(), counting(&runs)); err != nil || replayed || runs.Load() != 1 {
		t.Errorf("second attempt: %v %v %d", replayed, err, runs.Load())
	}
}

// A duplicate does not wait for ever, neither in this process nor for another.
func TestDuplicateGivesUp(t *testing.T) {
	t.Parallel()
	db := open(t)
	mine := &idempotency.Store{DB: db, Wait: 50 * time.Millisecond}
	theirs := &idempotency.Store{DB: db, Wait: 50 * time.Millisecond}
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, _, err := mine.Do(testkit.Context(t), request(), time.Now(), func(context.Context) (idempotency.Work, error) {
			return func(pgx.Tx) (idempotency.Answer, error) {
				close(entered)
				<-leave
				return idempotency.NewAnswer(http.StatusOK, nil)
			}, nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-entered
	var runs atomic.Int32
	for name, s := range map[string]*idempotency.Store{"same process": mine, "another": theirs} {
		if _, _, err := s.Do(testkit.Context(t), request(), time.Now(), counting(&runs)); bff.CodeOf(err) != bff.CodeIdempotencyInFlight {
			t.Errorf("%s: %v, want in flight", name, err)
		}
	}
	close(leave)
	wg.Wait()
	if _, replayed, err := theirs.Do(testkit.Context(t), request(), time.Now(), counting(&runs)); err != nil || !replayed || runs.Load() != 0 {
		t.Errorf("afterwards: %v %v %d", replayed, err, runs.Load())
	}
}

// After a day a key is free again.
func TestAnswerExpires(t *testing.T) {
	t.Parallel()
	s := &idempotency.Store{DB: open(t), Wait: time.Second}
	var runs atomic.Int32
	now := time.Now()
	for i, at := range []time.Time{now, now.Add(idempotency.Lifetime - time.Second), now.Add(idempotency.Lifetime)} {
		_, replayed, err := s.Do(testkit.Context(t), request(), at, counting(&runs))
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
			got, err := idempotency.KeyFrom(tc.header)
			if got != tc.want || (err != nil) != (tc.wantCode != "") || (err != nil && bff.CodeOf(err) != tc.wantCode) {
				t.Errorf("got %q, %v; want %q, %s", got, err, tc.want, tc.wantCode)
			}
		})
	}
}
