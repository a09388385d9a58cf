package backofficelake_test

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// What the jobs cost follows what they do, not what stays (DATA_MODEL §7): sealing,
// exporting and dropping the same rows reads as many blocks beside five times as many
// kept ones. The long form keeps five million.
// What a row weighs is said, also after the indexes of a month were built anew: appending
// to thousands of properties in turn leaves their pages half full.
func TestProofVolume(t *testing.T) {
	t.Parallel()
	kept, work := 4_000, 1_000
	if testkit.LongProof() {
		kept, work = 1_000_000, 50_000
	}
	f := newFixture(t)
	f.exec(`SELECT bff_backoffice.make_activity_month(now() - n * interval '1 month') FROM generate_series(1, 2) AS n`)
	first := f.volume(kept, work, 1)
	second := f.volume(5*kept, work, 2)
	for name, blocks := range second {
		ratio := float64(blocks) / float64(first[name])
		t.Logf("%s: %d blocks beside %d rows, %d beside %d: %.2f", name, first[name], kept, blocks, 5*kept, ratio)
		// An index of five times as many rows may be a level higher: short forms feel it.
		if most := 1.1; ratio > most && testkit.LongProof() || ratio > 1.5 {
			t.Errorf("%s reads %.2f times as many blocks beside five times as many rows", name, ratio)
		}
	}
	weigh := func(what, size string) {
		t.Logf("%s: %d bytes", what, f.count(`SELECT (sum(`+size+`(inhrelid)) / (SELECT count(*) FROM bff_backoffice.operator_activity))::int
			FROM pg_inherits WHERE inhparent = 'bff_backoffice.operator_activity'::regclass`))
	}
	patient, err := f.super.Acquire(testkit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	defer patient.Release()
	weigh("a kept row", "pg_total_relation_size")
	weigh("of them in indexes", "pg_indexes_size")
	t.Logf("an entry of the chain: %d bytes", f.count(`SELECT pg_total_relation_size('bff_backoffice.audit_chain') / count(*) FROM bff_backoffice.audit_chain`))
	for _, sql := range []string{`SET statement_timeout = 0`, `REINDEX TABLE bff_backoffice.operator_activity`} {
		if _, err := patient.Exec(testkit.Context(t), sql); err != nil {
			t.Fatal(err)
		}
	}
	weigh("a kept row of a month that was packed", "pg_total_relation_size")
}

// volume has so many rows kept, sealed and exported, and returns how many blocks the jobs
// read to seal and export some more, and to drop a month of as many.
func (f *fixture) volume(kept, work, round int) map[string]int64 {
	f.t.Helper()
	// In the order of time, as the service writes: ids and moments grow.
	const insert = `INSERT INTO bff_backoffice.operator_activity (id, tenant_id, property_id, operator_id, device_id, session_id, occurred_at, category, action,
			resource_kind, resource_id, outcome, latency_ms, context_hash, roles, key_hash)
		SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || substr(md5(random()::text), 13))::uuid,
			('00000000-0000-7000-8000-0000000000' || lpad((house % 50)::text, 2, '0'))::uuid, ('00000000-0000-7000-8000-000000000' || lpad(house::text, 3, '0'))::uuid,
			'opt_01HCCAJ930Q3Y811AXYN4D8Y' || 10 + house % 40, 'dev_01HCCAJ930Q3Y811AXYN4D8Y' || 10 + house % 60, 'bos_01HCCAJ930Q3Y811AXYN4D8Y' || 10 + house % 60,
			at, 'folio', 'charge', 'folio', 'fol_' || upper(substr(md5(random()::text), 7)), 'success', n % 900, substr(md5((n % 9000)::text), 11), '{front_desk}', gen_random_uuid()
		FROM generate_series(1, $3::int) AS n CROSS JOIN LATERAL (SELECT $1::timestamptz + n * $2::interval AS at, hashint4(n) & 255 AS house) AS h`
	add := func(from, to time.Time, rows int) {
		step := to.Sub(from) / time.Duration(rows+1)
		for done := 0; done < rows; done += 5_000 { // below the statement timeout
			f.exec(insert, from.Add(time.Duration(done)*step), step, min(rows-done, 5_000))
		}
	}
	past := time.Date(now.Year(), now.Month()-5-time.Month(round), 20, 0, 0, 0, 0, time.UTC)
	f.exec(`SELECT bff_backoffice.make_activity_month($1)`, past)
	add(past.AddDate(0, 0, -10), past, work)
	// As they were months ago, when none of them was past its time; by as many at once as a run of the sealer has time for.
	then := past.AddDate(0, 0, 1)
	jobs := slices.DeleteFunc(f.Lake.Jobs(), func(j service.Job) bool { return j.Name != "audit-seal" && j.Name != "activity-export" })
	rows := kept - f.count(`SELECT count(*) FROM bff_backoffice.operator_activity`) + work
	for done, since := 0, now.Add(-60*day); done < rows; done += 50_000 {
		n := min(rows-done, 50_000)
		until := since.Add(time.Duration(n) * (60 * day / time.Duration(rows)))
		add(since, until, n)
		since = until
		for _, j := range jobs {
			if _, err := j.Run(testkit.Context(f.t), f.jobs, then); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	add(now.Add(-time.Hour), now, work)
	f.exec(`VACUUM (ANALYZE) bff_backoffice.operator_activity`)
	f.exec(`VACUUM (ANALYZE) bff_backoffice.audit_chain`)
	read := map[string]int64{}
	for _, j := range jobs {
		before := f.blocks()
		cfg := f.jobs.Config()
		cfg.ConnConfig.RuntimeParams["application_name"] = "volume"
		db, err := pgxpool.NewWithConfig(testkit.Context(f.t), cfg)
		if err != nil {
			f.t.Fatal(err)
		}
		start := time.Now()
		if _, err := j.Run(testkit.Context(f.t), db, now); err != nil {
			f.t.Errorf("%s: %v", j.Name, err)
		}
		f.t.Logf("%s beside %d rows: %s", j.Name, kept, time.Since(start).Round(time.Millisecond))
		db.Close() // a session that ends has told what it read
		read[j.Name] = f.blocks() - before
	}
	if f.count(`SELECT count(*) FROM pg_class WHERE oid = to_regclass($1)`, month(past)) > 0 {
		f.t.Errorf("%s is there", month(past))
	}
	return read
}

// blocks is how many blocks of the database were looked at, by sessions of jobs that have ended.
func (f *fixture) blocks() (n int64) {
	f.t.Helper()
	for f.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'volume'`) > 0 {
		if testkit.Context(f.t).Err() != nil {
			f.t.Fatal("sessions of jobs do not end")
		}
	}
	if err := f.super.QueryRow(testkit.Context(f.t), `SELECT blks_read + blks_hit FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}
