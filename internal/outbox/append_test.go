package outbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// What goes in comes out: envelope and payload, with publishedAt and nothing
// else added, whatever text a guest has typed.
func TestAppendRoundTrip(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		e := fx.event("gms_x", 0)
		e.Envelope.PublishedAt = e.Envelope.OccurredAt // not the caller's to say
		e.Payload = json.RawMessage(`{"note":"a\u0000b \ud83d\ude00 \ud83d \\u0000 \"}","n":1.50,"nested":{"x":[]}}`)
		fx.commit(t, e)
		var got []bff.Event
		r := fx.newRelay(t, publisherFunc(func(messages []message) []error {
			for _, m := range messages {
				var e bff.Event
				if err := json.Unmarshal(m.Data, &e); err != nil {
					t.Error(err)
				}
				got = append(got, e)
				if m.Topic != topic || m.Key != "gms_x" || m.Attributes["eventId"] != e.Envelope.EventID {
					t.Errorf("topic %q, key %q, attributes %v", m.Topic, m.Key, m.Attributes)
				}
			}
			return make([]error, len(messages))
		}), nil)
		if n, _, err := r.RunOnce(ctx); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		if got[0].Envelope.PublishedAt.Before(e.Envelope.OccurredAt.Time) {
			t.Errorf("publishedAt = %s", got[0].Envelope.PublishedAt)
		}
		got[0].Envelope.PublishedAt, e.Envelope.PublishedAt = bff.Timestamp{}, bff.Timestamp{}
		if diff := cmp.Diff(e.Envelope, got[0].Envelope); diff != "" {
			t.Errorf("envelope (-want +got):\n%s", diff)
		}
		var payload struct {
			Note string          `json:"note"`
			N    json.Number     `json:"n"`
			Nest json.RawMessage `json:"nested"`
		}
		if err := json.Unmarshal(got[0].Payload, &payload); err != nil {
			t.Fatal(err)
		}
		if want := "a\ufffdb \U0001f600 \ufffd \\u0000 \"}"; payload.Note != want || payload.N != "1.50" {
			t.Errorf("note = %q, n = %s", payload.Note, payload.N)
		}
	})
}

func TestAppendRefuses(t *testing.T) {
	t.Parallel()
	fx := &fixture{ids: bff.NewSequence(bff.PrefixEvent)}
	for name, change := range map[string]func(*bff.Event){
		"no id":      func(e *bff.Event) { e.Envelope.EventID = "" },
		"other id":   func(e *bff.Event) { e.Envelope.EventID = "req_01H8YN7QV4D8KZ4F8Y5CK4MV3D" },
		"no subject": func(e *bff.Event) { e.Envelope.Subject = "" },
		"no payload": func(e *bff.Event) { e.Payload = nil },
		"broken":     func(e *bff.Event) { e.Payload = json.RawMessage(`{"a":`) },
		"two values": func(e *bff.Event) { e.Payload = json.RawMessage(`{}{}`) },
		"too large":  func(e *bff.Event) { e.Payload = json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`) },
		"not JSON":   func(e *bff.Event) { e.Payload = json.RawMessage(`nan`) },
	} {
		e := fx.event("k", 0)
		change(&e)
		var b pgx.Batch
		if err := textTable().Queue(&b, e); !errors.Is(err, outbox.ErrEvent) || b.Len() != 0 {
			t.Errorf("%s: %v, %d statements", name, err, b.Len())
		}
	}
}

// An event may hang on a condition of the statement that it is part of.
func TestStatementInsideAnother(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		for i, condition := range []string{"1 = 1", "1 = 2"} {
			sql, args, err := fx.table.Statement(2, fx.event("k", i))
			if err != nil {
				t.Fatal(err)
			}
			sql = "WITH done AS (SELECT $1::int AS n WHERE " + condition + "), told AS (" + sql + " WHERE EXISTS (SELECT FROM done)) SELECT count(*) FROM done"
			if _, err := fx.write.Exec(ctx, sql, append([]any{7}, args...)...); err != nil {
				t.Fatal(err)
			}
		}
		s, err := fx.table.Stats(ctx, fx.relay)
		if err != nil || s.Depth != 1 {
			t.Errorf("stats = %+v, %v, want one row", s, err)
		}
	})
}

func TestAppenderCoalesces(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		b := newBroker()
		r := fx.newRelay(t, b, nil)
		run(t, r)
		a := outbox.NewAppender(fx.write, fx.table, r, 10_000)
		const writers, each = 50, 20
		var wg sync.WaitGroup
		write := func(k int) {
			for n := range each {
				if err := a.Append(ctx, fx.event(fmt.Sprint("k", k), n)); err != nil {
					t.Error(err)
				}
			}
		}
		// One insert is held up, and meanwhile all others append.
		block, err := fx.super.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := block.Exec(ctx, "LOCK TABLE "+fx.table.Name()+" IN EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() { write(0) })
		eventually(t, "the first insert", func() (waits bool, err error) {
			err = fx.super.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = $1::regclass AND NOT granted)", fx.table.Name()).Scan(&waits)
			return waits, err
		})
		for k := 1; k < writers; k++ {
			wg.Go(func() { write(k) })
		}
		eventually(t, "the others", func() (bool, error) { return a.Queued() == writers-1, nil })
		if err := block.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		var rows, together int
		if err := fx.super.QueryRow(
			ctx, "SELECT sum(n), max(n) FROM (SELECT count(*) AS n FROM "+fx.table.Name()+" GROUP BY tx_id) AS t",
		).Scan(&rows, &together); err != nil {
			t.Fatal(err)
		}
		if rows != writers*each || together < writers-1 {
			t.Errorf("%d rows, at most %d in one transaction; want %d and %d", rows, together, writers*each, writers-1)
		}
		b.distinct(t, writers*each)
		inOrder(t, b.all())
		if err := a.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := a.Append(ctx, fx.event("k", 0)); !errors.Is(err, outbox.ErrClosed) {
			t.Errorf("err = %v, want closed", err)
		}
	})
}

// One caller's bad event is that caller's error.
func TestAppenderKeepsErrorsApart(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, shapes[0])
	ctx := testkit.Context(t)
	a := outbox.NewAppender(fx.write, fx.table, nil, 10_000)
	var wg sync.WaitGroup
	for n := range 40 {
		wg.Go(func() {
			e := fx.event("k", n)
			if n%10 == 0 {
				e.Envelope.RetentionClass = "forever" // the table's CHECK refuses it
			}
			if err := a.Append(ctx, e); (err != nil) != (n%10 == 0) {
				t.Errorf("event %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	if s, err := fx.table.Stats(ctx, fx.relay); err != nil || s.Depth != 36 {
		t.Errorf("stats = %+v, %v, want 36 rows", s, err)
	}
	// The same event again is no second row and no error.
	e := fx.event("k", 0)
	for range 2 {
		if err := a.Append(ctx, e); err != nil {
			t.Error(err)
		}
	}
	if s, err := fx.table.Stats(ctx, fx.relay); err != nil || s.Depth != 37 {
		t.Errorf("stats = %+v, %v, want 37 rows", s, err)
	}
	full := outbox.NewAppender(fx.write, fx.table, nil, 1)
	if err := full.Append(ctx, fx.event("k", 0), fx.event("k", 1)); !errors.Is(err, outbox.ErrFull) {
		t.Errorf("err = %v, want full", err)
	}
}
