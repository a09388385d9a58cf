package outbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// What Postgres would write at a thousand times its size is refused before it is
// stored, and what is a byte too large as well.
func TestAppendRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, shapes[1])
	ctx := testkit.Context(t)
	for name, payload := range map[string]string{
		"huge numbers":  `{"a":[` + strings.Repeat("1e131071,", 10) + `1]}`,
		"tiny numbers":  `{"a":[` + strings.Repeat("1E-99999,", 10) + `1]}`,
		"long in all":   `{"a":[` + strings.Repeat("1e900,", 300) + `1]}`,
		"with envelope": `"` + strings.Repeat("x", 256<<10-2) + `"`,
	} {
		e := fx.event("k", 0)
		e.Payload = json.RawMessage(payload)
		if err := fx.table.Append(ctx, fx.write, e); !errors.Is(err, outbox.ErrEvent) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := fx.event("k", 0)
	e.Payload = json.RawMessage(`{"key":"k","n":0,"pad":[` + strings.Repeat("1,", 127<<10) + `1]}`) // Postgres adds a blank to each
	fx.commit(t, e)
	b := newBroker()
	if n, _, err := fx.newRelay(t, b, nil).RunOnce(ctx); n != 1 || err != nil || b.times(e.Envelope.EventID) != 1 {
		t.Errorf("the largest that is taken: %d published, %v", n, err)
	}
}

// insert writes rows as an older release or a person with the application's password
// might: around Append.
func (fx *fixture) insert(t *testing.T, e bff.Event, payload string) {
	t.Helper()
	e.Payload = json.RawMessage(`{"planted":true}`)
	fx.commit(t, e)
	id := e.Envelope.EventID
	if strings.Contains(fx.table.Name(), "backoffice") {
		parsed, err := bff.ParseID(bff.PrefixEvent, id)
		if err != nil {
			t.Fatal(err)
		}
		id = parsed.UUID()
	}
	// In the same place of the order: the row keeps its transaction.
	tag, err := fx.super.Exec(testkit.Context(t), "UPDATE "+fx.table.Name()+" SET payload = $1 WHERE id::text = $2", payload, id)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
}

// Rows that are a few kilobytes in the table and up to more than a gigabyte as text, among
// others, some in the same lane: each is dead-lettered by itself, and all others arrive in
// their order. None is ever held whole.
func TestRowsThatAreTooLargeHoldUpNothing(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		list := func(literal string, n int) string { return `{"a":[` + strings.Repeat(literal+",", n) + `1]}` }
		bombs := []string{
			list("1e131071", 250),                               // 33 MB
			list("-1e131071", 10_000),                           // more than Postgres can write at all
			list("1e-16000", 250),                               // 4 MB
			list("0e-16000", 250),                               // the same, of zeros
			`{"a":"` + strings.Repeat("x", 3<<20) + `"}`,        // which fits into one message
			`{"a":"` + strings.Repeat("x", 20<<20) + `"}`,       // which does not
			`{"deep":{"er":[{"most":[1,2,{"n":1e131071}]}]}}`,   // 131 kB, but no honest event has it
			`{"a":"` + strings.Repeat(`\u00e9`, 300<<10) + `"}`, // 600 kB
		}
		n := 0
		for i, bomb := range bombs {
			for k := range 3 {
				fx.commit(t, fx.event(fmt.Sprint("k", k), n))
			}
			n++
			fx.insert(t, fx.event(fmt.Sprint("k", i%4), 0), bomb)
		}
		for ; n < 40; n++ {
			for k := range 3 {
				fx.commit(t, fx.event(fmt.Sprint("k", k), n))
			}
		}
		b := newBroker()
		run(t, fx.newRelay(t, b, nil))
		b.distinct(t, 3*40)
		if s := fx.settled(t); s.DLQ != len(bombs) {
			t.Errorf("%d dead letters, want %d", s.DLQ, len(bombs))
		}
		inOrder(t, b.all())
		letters, err := fx.table.DeadLetters(ctx, fx.relay, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range letters {
			if !strings.Contains(l.LastError, "larger than") || l.Attempts != 1 {
				t.Errorf("%+v", l)
			}
		}
	})
}

// A lane that waits behind such a row, as a release before this one left it, moves on.
func TestRowsThatAreTooLargeAndHeld(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		b := newBroker()
		b.setFail(func(arrival) error { return errors.New("refused") })
		r := fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.MaxAttempts = 1 << 30 })
		stop := run(t, r)
		first := fx.event("k", 0)
		fx.commit(t, first, fx.event("k", 0), fx.event("k", 1))
		eventually(t, "three held rows", func() (bool, error) {
			s, err := fx.table.Stats(ctx, fx.relay)
			return s.Held == 3, err
		})
		stop()
		if _, err := fx.super.Exec(ctx, "UPDATE "+fx.table.Name()+" SET payload = $1 WHERE id = (SELECT min(id::text) FROM "+fx.table.Name()+")::"+fx.idType(),
			`{"a":[`+strings.Repeat("1e131071,", 10_000)+`1]}`); err != nil {
			t.Fatal(err)
		}
		b.setFail(nil)
		run(t, fx.newRelay(t, b, nil))
		b.distinct(t, 2)
		if s := fx.settled(t); s.DLQ != 1 {
			t.Errorf("%d dead letters, want 1", s.DLQ)
		}
		inOrder(t, b.all())
		if b.times(first.Envelope.EventID) != 0 {
			t.Error("the large one arrived")
		}
	})
}

func (fx *fixture) idType() string {
	if strings.Contains(fx.table.Name(), "backoffice") {
		return "uuid"
	}
	return "text"
}
