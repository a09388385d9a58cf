package backofficelake_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// What the jobs cost follows what they do, not what stays (DATA_MODEL §7): sealing,
// exporting, dropping and pruning the same rows reads as many blocks beside five times as
// many kept ones. The long form keeps five million. What a row weighs is said, also after
// the indexes of a month were built anew: appending to thousands of properties in turn
// leaves their pages half full.
func TestProofVolume(t *testing.T) {
	t.Parallel()
	kept, work := 4_000, 1_000
	if testkit.LongProof() {
		kept, work = 1_000_000, 20_000
	}
	f := newFixture(t)
	f.exec(`SELECT bff_backoffice.make_activity_month(now() - n * interval '1 month') FROM generate_series(1, 3) AS n`)
	first := f.volume(now.Add(-20*day), 0, kept, work)
	second := f.volume(now, kept, 5*kept, work)
	for name, blocks := range second {
		ratio := float64(blocks) / float64(first[name])
		t.Logf("%s: %d blocks beside %d rows, %d beside %d: %.2f", name, first[name], kept, blocks, 5*kept, ratio)
		// An index of five times as many rows may be a level higher: short forms feel it.
		if most := 1.1; ratio > most && testkit.LongProof() || ratio > 1.5 {
			t.Errorf("%s reads %.2f times as many blocks beside five times as many rows", name, ratio)
		}
	}
	f.unhurried(`REINDEX TABLE bff_backoffice.operator_activity`)
	f.weigh("of months that were packed")
}

// weigh says what a row takes, and what the rows of so many days do at the specified rates:
// a month goes 90 days after its last one, and entries of the chain after a week.
func (f *fixture) weigh(what string) {
	f.t.Helper()
	months := func(what string) int {
		return f.count(`SELECT sum(` + what + `)::bigint FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = 'bff_backoffice.operator_activity'::regclass`)
	}
	rows := months(`greatest(c.reltuples, 0)`)
	row, indexes := months(`pg_total_relation_size(c.oid)`)/rows, months(`pg_indexes_size(c.oid)`)/rows
	entry := f.count(`SELECT (pg_total_relation_size(oid) / greatest(reltuples, 1))::bigint FROM pg_class WHERE oid = 'bff_backoffice.audit_chain'::regclass`)
	steady := float64(2_000_000*(105*row+7*entry)) / (1 << 30)
	f.t.Logf("%d rows %s: %d bytes each, %d of them in indexes, and %d for an entry of the chain; %.0f GiB at 2 million a day, %.0f at 8 million",
		rows, what, row, indexes, entry, steady, 4*steady)
}

// unhurried runs statements of which each may take its time.
func (f *fixture) unhurried(statements ...string) {
	f.t.Helper()
	conn, err := f.super.Acquire(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Release()
	for _, sql := range append([]string{`SET statement_timeout = 0`}, append(statements, `RESET statement_timeout`)...) {
		if _, err := conn.Exec(f.t.Context(), sql); err != nil {
			f.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// volume has so many rows kept at a moment instead of those that it has, and returns how many blocks the jobs read to seal and
// export some more, to drop a month of as many, and to prune as many entries of the chain.
func (f *fixture) volume(then time.Time, has, kept, work int) map[string]int64 {
	f.t.Helper()
	// In the order of time, as the service writes: ids and moments grow, and a transaction has few of them.
	const few = 100
	const insert = `INSERT INTO bff_backoffice.operator_activity (id, tenant_id, property_id, operator_id, device_id, session_id, occurred_at, category, action,
			resource_kind, resource_id, outcome, latency_ms, context_hash, roles, key_hash)
		SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || substr(md5(random()::text), 13))::uuid,
			('00000000-0000-7000-8000-0000000000' || lpad((house % 50)::text, 2, '0'))::uuid, ('00000000-0000-7000-8000-000000000' || lpad(house::text, 3, '0'))::uuid,
			'opt_01HCCAJ930Q3Y811AXYN4D8Y' || 10 + house % 40, 'dev_01HCCAJ930Q3Y811AXYN4D8Y' || 10 + house % 60, 'bos_01HCCAJ930Q3Y811AXYN4D8Y' || 10 + house % 60,
			at, 'folio', 'charge', 'folio', 'fol_' || upper(substr(md5(random()::text), 7)), 'success', n % 900, substr(md5((n % 9000)::text), 11), '{front_desk}', gen_random_uuid()
		FROM generate_series(1, $3::int) AS n CROSS JOIN LATERAL (SELECT $1::timestamptz + n * $2::interval AS at, (random() * 255)::int AS house OFFSET 0 * n) AS h`
	add := func(from, to time.Time, rows int) {
		step := to.Sub(from) / time.Duration(rows+1)
		for done := 0; done < rows; done += few {
			if _, err := f.super.Exec(f.t.Context(), insert, from.Add(time.Duration(done)*step), step, min(rows-done, few)); err != nil {
				f.t.Fatal(err)
			}
		}
	}
	jobs := slices.DeleteFunc(f.Lake.Jobs(), func(j service.Job) bool { return j.Name != "audit-seal" && j.Name != "activity-export" })
	// A busy machine needs several runs for what one has time for.
	run := func(db *pgxpool.Pool, j service.Job, at time.Time) {
		_, err := j.Run(f.t.Context(), db, at)
		for err != nil && strings.Contains(err.Error(), "the next run goes on") {
			_, err = j.Run(f.t.Context(), db, at)
		}
		if err != nil {
			f.t.Errorf("%s: %v", j.Name, err)
		}
	}
	// What is older than a week was sealed and exported, and its entries have left the chain: they are known by the sealer's cursor alone.
	run(f.jobs, jobs[0], then.Add(-9*day))
	past := time.Date(now.Year(), now.Month()-5, 20, 0, 0, 0, 0, time.UTC)
	f.exec(`SELECT bff_backoffice.make_activity_month($1)`, past)
	week := kept * 7 / 105
	add(past.AddDate(0, 0, -10), past, work)
	add(then.Add(-60*day), then.Add(-9*day), kept-has-week-2*work)
	f.exec(`UPDATE bff_backoffice.audit_cursors SET tx_id = pg_snapshot_xmax(pg_current_snapshot()) WHERE tab = 'operator_activity'`)
	// The rest is sealed and exported in two runs, of which the entries of the first are past their week.
	for _, part := range []struct {
		rows int
		at   time.Time
	}{{work, then.Add(-8 * day)}, {week, then.Add(-6 * day)}} {
		add(part.at.Add(-time.Hour), part.at, part.rows)
		for _, j := range jobs {
			run(f.jobs, j, part.at)
		}
	}
	add(then.Add(-time.Hour), then, work)
	f.unhurried(`VACUUM (ANALYZE)`) // all of it: what the planner does not know of a small table would decide
	f.weigh("as they were written")
	entries, read := f.count(`SELECT count(*) FROM bff_backoffice.audit_chain`), map[string]int64{}
	for _, j := range jobs {
		before := f.blocks()
		run(f.jobs, j, then)
		read[j.Name] = f.blocks() - before
	}
	if f.count(`SELECT count(*) FROM pg_class WHERE oid = to_regclass($1)`, month(past)) > 0 {
		f.t.Errorf("%s is there", month(past))
	}
	if left := f.count(`SELECT count(*) FROM bff_backoffice.audit_chain`); left != entries {
		f.t.Errorf("%d entries, want %d: as many pruned as added", left, entries)
	}
	return read
}

// blocks is how many blocks of the database were looked at. Sessions tell it when they end, or in their own time.
func (f *fixture) blocks() (n int64) {
	f.t.Helper()
	f.super.Reset()
	f.jobs.Reset()
	testkit.Until(f.t, "all sessions but this one have ended", func() bool {
		return f.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()`) == 0
	})
	if err := f.super.QueryRow(testkit.Context(f.t), `SELECT blks_read + blks_hit FROM pg_stat_database WHERE datname = current_database()`).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}
