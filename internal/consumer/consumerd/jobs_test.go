package consumerd

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// store is a migrated database, as the application's role sees it.
func store(t *testing.T) *pgxpool.Pool {
	t.Helper()
	u, err := url.Parse(testkit.PostgresTemplate(t, "consumer", func(url string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return postgres.Migrate(ctx, url, migrations.Consumer(), postgres.MigrateOptions{})
	}))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("role", migrations.ConsumerApp)
	u.RawQuery = q.Encode()
	db, err := postgres.Open(t.Context(), testkit.Patient(u.String()))
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
	if err := Identity().Outbox.Append(testkit.Context(t), db, events...); err != nil {
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
			VALUES ($1, 'gms_x', gen_random_uuid(), gen_random_uuid(), '2077-01-01', '2077-01-02', 1, 0, 1, 'AFN', 'en', 'k', $2, $2, $3, $4)`,
			bff.NewID(bff.PrefixHandoff, now).String(), hash, ago(age), ago(age).Add(time.Minute))
	}
	for i, left := range []time.Duration{-time.Second, time.Hour} {
		exec(t, db, `INSERT INTO bff_consumer.idempotency_keys (composite_key, guest_session_id, route, request_digest, response_status, response_body, expires_at)
			VALUES ($1, 'gms_x', 'r', $2, 201, '{}', $3)`, fmt.Sprint("k", i), hash, now.Add(left))
	}
	dead := appendEvents(t, db, 1, ago(91*day))
	dead = append(dead, appendEvents(t, db, 1, ago(89*day))...)
	for i, age := range []time.Duration{91 * day, 89 * day} {
		exec(t, db, `UPDATE bff_consumer.outbox SET dlq = true, created_at = $2 WHERE id = $1`, dead[i].String(), ago(age))
	}
	for i, age := range []time.Duration{33 * day, 31 * day} {
		exec(t, db, `INSERT INTO bff_consumer.telemetry_refusals (session_hash, silent, seen_at) VALUES ($1, false, $2)`,
			bytes.Repeat([]byte{byte(i)}, 32), ago(age))
	}
	for i, age := range []time.Duration{33 * day, 31 * day} {
		exec(t, db, `INSERT INTO bff_consumer.cleared_sessions (session_hash, cleared_at) VALUES ($1, $2)`, bytes.Repeat([]byte{byte(i)}, 32), ago(age))
	}
	for _, age := range []time.Duration{91 * day, 89 * day} {
		exec(t, db, `INSERT INTO bff_consumer.tenants_seen (tenant_id, seen_at) VALUES (gen_random_uuid(), $1)`, ago(age))
	}
	for _, age := range []time.Duration{62 * day, 60 * day} { // a session that ended 32 and 30 days ago
		exec(t, db, `INSERT INTO bff_consumer.wishlist_anonymous (id, guest_session_id, tenant_id, property_id, source, added_at, seen_at)
			VALUES ($1, 'gms_y', gen_random_uuid(), gen_random_uuid(), 'list', $2, $2)`, bff.NewID(bff.PrefixWishlist, now).String(), ago(age))
	}
	for _, removed := range []any{ago(31 * day), ago(29 * day), nil} {
		exec(t, db, `INSERT INTO bff_consumer.wishlist_anonymous (id, guest_session_id, tenant_id, property_id, source, added_at, removed_at)
			VALUES ($1, 'gms_x', gen_random_uuid(), gen_random_uuid(), 'list', $2, $3)`, bff.NewID(bff.PrefixWishlist, now).String(), ago(90*day), removed)
	}

	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := Identity().RunJobs(testkit.Context(t), db, Identity().Jobs, slog.New(slog.DiscardHandler)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for table, want := range map[string]int{
		"outbox": 7, "telemetry_refusals": 1, "cleared_sessions": 1, "tenants_seen": 1, "job_runs": len(Identity().Jobs), "inbox": 3, "bot_score_log": 3, "handoff_replay_log": 1, "idempotency_keys": 1, "wishlist_anonymous": 3,
	} {
		if got := count(t, db, `SELECT count(*) FROM bff_consumer.`+table); got != want {
			t.Errorf("%s has %d rows, want %d", table, got, want)
		}
	}
}

func TestSettingsAreDescribed(t *testing.T) {
	t.Parallel()
	testkit.CheckSettings(t, Config{})
	settings, err := Identity().Describe(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	testkit.CheckDescribedSettings(t, Identity().Name, settings)
}

func TestJobsAreDescribed(t *testing.T) {
	t.Parallel()
	var jobs []string
	for _, j := range Identity().Jobs {
		jobs = append(jobs, j.Name)
	}
	testkit.CheckJobs(t, "bff-consumer", jobs)
	testkit.CheckAges(t, migrations.Consumer().FS, jobs)
}
