package consumerd

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// store is a migrated database.
func store(t *testing.T) *pgxpool.Pool {
	t.Helper()
	url := testkit.PostgresTemplate(t, "consumer", func(url string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return postgres.Migrate(ctx, url, migrations.Consumer(), postgres.MigrateOptions{})
	})
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func exec(t *testing.T, db *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(testkit.Context(t), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, db *pgxpool.Pool, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := db.QueryRow(testkit.Context(t), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// appendEvents puts n events of one age into the outbox and returns their ids.
func appendEvents(t *testing.T, db *pgxpool.Pool, n int, at time.Time) []bff.ID {
	t.Helper()
	var ids []bff.ID
	var events []bff.Event
	for range n {
		id := bff.NewID(bff.PrefixEvent, at)
		e, err := consumer.NewEvent(id, consumer.SubjectClickRecorded, map[string]int{}, consumer.Occasion{}, at)
		if err != nil {
			t.Fatal(err)
		}
		ids, events = append(ids, id), append(events, e)
	}
	if err := outbox.Consumer().Append(testkit.Context(t), db, events...); err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestPrune fills every table with rows on both sides of their retention and
// prunes with several processes at once.
func TestPrune(t *testing.T) {
	t.Parallel()
	db := store(t)
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	hash := bytes.Repeat([]byte{1}, 32)
	const many = 1700 // more than one batch
	old := appendEvents(t, db, many, ago(31*day))
	appendEvents(t, db, 3, ago(31*day)) // never published: kept
	young := appendEvents(t, db, 3, ago(29*day))
	texts := func(ids []bff.ID) (out []string) {
		for _, id := range ids {
			out = append(out, id.String())
		}
		return out
	}
	exec(t, db, `UPDATE bff_consumer.outbox SET published_at = $2 WHERE id = ANY($1)`, texts(old), ago(31*day))
	exec(t, db, `UPDATE bff_consumer.outbox SET published_at = $2 WHERE id = ANY($1)`, texts(young), ago(29*day))
	for _, age := range []time.Duration{8 * day, 6 * day} {
		for range 3 {
			exec(t, db, `INSERT INTO bff_consumer.inbox (event_id, subject, received_at, digest) VALUES ($1, 's', $2, '')`, rand.Text(), ago(age))
			exec(t, db, `INSERT INTO bff_consumer.bot_score_log (id, fingerprint_hash, ip_hash, user_agent_hash, score, verdict, signals, action_taken, evaluated_at)
				VALUES ($1, $2, $2, $2, 0.5, 'suspect', '[]', 'none', $3)`, bff.NewID(bff.PrefixBotScore, now).String(), hash, ago(age))
		}
	}
	for _, age := range []time.Duration{25 * time.Hour, 23 * time.Hour} {
		exec(t, db, `INSERT INTO bff_consumer.handoff_replay_log (id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms,
			currency, locale, hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at)
			VALUES ($1, 'gms_x', gen_random_uuid(), gen_random_uuid(), '2027-01-01', '2027-01-02', 1, 0, 1, 'AFN', 'en', 'k', $2, $2, $3, $4)`,
			bff.NewID(bff.PrefixHandoff, now).String(), hash, ago(age), ago(age).Add(time.Minute))
	}
	for i, left := range []time.Duration{-time.Second, time.Hour} {
		exec(t, db, `INSERT INTO bff_consumer.idempotency_keys (composite_key, guest_session_id, route, request_digest, response_status, response_body, expires_at)
			VALUES ($1, 'gms_x', 'r', $2, 201, '{}', $3)`, fmt.Sprint("k", i), hash, now.Add(left))
	}
	for _, removed := range []any{ago(31 * day), ago(29 * day), nil} {
		exec(t, db, `INSERT INTO bff_consumer.wishlist_anonymous (id, guest_session_id, tenant_id, property_id, source, added_at, removed_at)
			VALUES ($1, 'gms_x', gen_random_uuid(), gen_random_uuid(), 'list', $2, $3)`, bff.NewID(bff.PrefixWishlist, now).String(), ago(90*day), removed)
	}

	chosen, err := choose("all")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := runPrunes(testkit.Context(t), db, chosen, now, slog.New(slog.DiscardHandler)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for table, want := range map[string]int{
		"outbox": 6, "inbox": 3, "bot_score_log": 3, "handoff_replay_log": 1, "idempotency_keys": 1, "wishlist_anonymous": 2,
	} {
		if got := count(t, db, `SELECT count(*) FROM bff_consumer.`+table); got != want {
			t.Errorf("%s has %d rows, want %d", table, got, want)
		}
	}
	if _, err := choose("nonsense"); err == nil || !strings.Contains(err.Error(), "wishlists") {
		t.Errorf("unknown job: %v", err)
	}
	if one, err := choose("inbox"); err != nil || len(one) != 1 {
		t.Errorf("one job: %v %v", one, err)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	db := store(t)
	ctx := testkit.Context(t)
	ids := appendEvents(t, db, 5, time.Now())
	exec(t, db, `UPDATE bff_consumer.outbox SET dlq = true, attempts = 10, last_error = E'refused\nsecond line'`)
	waiting := appendEvents(t, db, 1, time.Now())

	letters, err := deadLetters(ctx, db, 100)
	if err != nil || len(letters) != 5 {
		t.Fatalf("%d dead letters, %v", len(letters), err)
	}
	var out bytes.Buffer
	if err := printDeadLetters(&out, letters); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{ids[0].String(), "melmastoon.bff.consumer.click.recorded.v1", "10", "refused\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
	if n, err := replay(ctx, db, ids[:1]); n != 1 || err != nil {
		t.Errorf("replay one: %d %v", n, err)
	}
	if n, err := drop(ctx, db, append(ids[1:2:2], waiting...)); n != 1 || err != nil {
		t.Errorf("drop one, and one that is no dead letter: %d %v", n, err)
	}
	if n, err := replay(ctx, db, nil); n != 3 || err != nil {
		t.Errorf("replay all: %d %v", n, err)
	}
	exec(t, db, `UPDATE bff_consumer.outbox SET dlq = true WHERE id = $1`, ids[4].String())
	if n, err := drop(ctx, db, nil); n != 1 || err != nil {
		t.Errorf("drop all: %d %v", n, err)
	}
	if n := count(t, db, `SELECT count(*) FROM bff_consumer.outbox WHERE NOT dlq`); n != 4 {
		t.Errorf("%d rows wait, want 4", n)
	}
	for name, c := range map[string]chosen{
		"nothing": {}, "both": {All: true, IDs: []string{"evt_01H8YN7QV4D8KZ4F8Y5CK4MV3D"}}, "no id": {IDs: []string{"x"}},
	} {
		if _, err := c.read(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestPrinter(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(map[string]any{
		"envelope": map[string]any{"occurredAt": "2026\x1b[2J", "sessionId": "gms_1"}, "payload": map[string]any{"kind": "map-pin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	(&printer{w: &out}).event(pubsub.Delivery{Topic: "t.v1", Data: data})
	if want := "2026[2J t.v1 gms_1\n  {\n    \"kind\": \"map-pin\"\n  }\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	out.Reset()
	(&printer{w: &out, colours: true}).event(pubsub.Delivery{Topic: "t.v1", Data: []byte("\x1b]0;x\x07")})
	if s := out.String(); !strings.Contains(s, "\x1b[1;36mt.v1\x1b[0m") || strings.Contains(s, "\x07") {
		t.Errorf("%q", s)
	}
	if got, err := (&tail{Subject: []string{"wishlist"}}).topics(); err != nil || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
	if _, err := (&tail{Subject: []string{"nonsense"}}).topics(); err == nil {
		t.Error("an unknown subject was accepted")
	}
}
