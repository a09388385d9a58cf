package inbox_test

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/inbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	db, err := postgres.Open(t.Context(), testkit.Patient(testkit.Postgres(t)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Exec(testkit.Context(t), `CREATE TABLE plain (message_id text PRIMARY KEY, subject text NOT NULL, processed_at timestamptz, attempts int NOT NULL DEFAULT 0, last_error text);
		CREATE TABLE hashed (event_id text PRIMARY KEY, subject text NOT NULL, digest bytea NOT NULL, processed_at timestamptz, attempts int NOT NULL DEFAULT 0, last_error text)`); err != nil {
		t.Fatal(err)
	}
	return db
}

// Both shapes of tables remember an event, and only one that keeps what it says can
// tell another event of the same id.
func TestInbox(t *testing.T) {
	t.Parallel()
	db, away := open(t), errors.New("away")
	for name, test := range map[string]struct {
		shape inbox.Shape
		other inbox.Reception
	}{
		"plain":  {inbox.Shape{Name: "plain", ID: "message_id"}, inbox.Again},
		"hashed": {inbox.Shape{Name: "hashed", ID: "event_id", Digest: "digest"}, inbox.Other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := testkit.Context(t)
			in := inbox.New(db, inbox.NewTable(test.shape), away)
			e := inbox.Event{ID: "evt_1", Subject: "s", Digest: sha256.Sum256([]byte("a"))}
			receive := func(e inbox.Event, want inbox.Reception) {
				t.Helper()
				if got, err := in.Receive(ctx, e); err != nil || got != want {
					t.Errorf("%v, %v; want %v", got, err, want)
				}
			}
			receive(e, inbox.First)
			receive(e, inbox.First)
			if err := in.Processed(ctx, e); err != nil {
				t.Fatal(err)
			}
			receive(e, inbox.Again)
			e.Digest = sha256.Sum256([]byte("b"))
			receive(e, test.other)

			d := pubsub.Delivery{ID: "7", Topic: "t", Data: []byte("unreadable")}
			for want := 1; want <= 3; want++ {
				if n, err := in.Failed(ctx, d, errors.New("no")); err != nil || n != want {
					t.Errorf("%d failures, %v; want %d", n, err, want)
				}
			}
			if n, err := in.Failed(ctx, d, errors.Join(away)); err != nil || n != 0 {
				t.Errorf("an outage was counted: %d, %v", n, err)
			}
		})
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		data string
		want string // when it happened; empty = unreadable
	}{
		"in the payload": {
			`{"eventId":"1","type":"melmastoon.x.v1","data":{"revokedAt":"2026-11-17T11:00:00Z"},"time":"2026-11-17T10:00:00Z"}`, "2026-11-17T11:00:00.000Z",
		},
		"in the envelope": {
			`{"envelope":{"eventId":"1","subject":"melmastoon.x.v1","occurredAt":"2026-11-17T10:00:00Z"},"payload":{"revokedAt":7}}`, "2026-11-17T10:00:00.000Z",
		},
		"nowhere":            {`{"id":"1","subject":"melmastoon.x.v1","payload":{}}`, "2026-11-17T11:59:00.000Z"},
		"far in the future":  {`{"id":"1","subject":"melmastoon.x.v1","payload":{"revokedAt":"2030-01-01T00:00:00Z"}}`, "2026-11-17T11:59:00.000Z"},
		"payload no object":  {`{"id":"1","subject":"melmastoon.x.v1","payload":[]}`, ""},
		"no event":           {`{}`, ""},
		"another's platform": {`{"id":"1","subject":"x.v1","payload":{}}`, ""},
	} {
		m, err := inbox.Read(pubsub.Delivery{Data: []byte(test.data), PublishTime: now.Add(-time.Minute)}, now, "revokedAt")
		if (err == nil) != (test.want != "") || err == nil && bff.At(m.OccurredAt).String() != test.want {
			t.Errorf("%s: %v, %v", name, m.OccurredAt, err)
		}
	}
}
