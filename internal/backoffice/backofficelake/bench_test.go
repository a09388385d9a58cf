package backofficelake_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// BenchmarkExport exports activities, and writes the same rows to a file with COPY: it
// reports rows per second, their ratio to COPY's, and how much memory the process has
// had at most while it exported.
func BenchmarkExport(b *testing.B) {
	for _, rows := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) { benchmarkExport(b, rows) })
	}
}

func benchmarkExport(b *testing.B, rows int) {
	b.Helper()
	for b.Loop() {
		b.StopTimer()
		f := newFixture(b)
		f.activities(rows)
		ctx := testkit.Context(b)
		if _, err := f.Seal(ctx, f.jobs, now); err != nil {
			b.Fatal(err)
		}
		f.exec("ANALYZE")
		job := f.Jobs()[1] // of activities
		resetPeak(b)
		b.StartTimer()
		start := time.Now()
		n, err := job.Run(ctx, f.jobs, now)
		exported := time.Since(start)
		b.StopTimer()
		if err != nil || n != rows {
			b.Fatal(n, err)
		}
		memory := peak(b)
		copied := f.copy("operator_activity")
		b.ReportMetric(float64(rows)/exported.Seconds(), "rows/s")
		b.ReportMetric(copied.Seconds()/exported.Seconds(), "of-COPY")
		b.ReportMetric(memory, "peak-MB")
		b.StartTimer()
	}
}

// activities adds rows of 50 tenants, which are too young to be pruned. On disk they lie in
// the order in which they are sealed, as those of small transactions do.
func (f *fixture) activities(rows int) {
	f.t.Helper()
	const step = 5_000 // below the statement timeout
	for n := 0; n < rows; n += step {
		f.exec(`INSERT INTO bff_backoffice.operator_activity (id, tenant_id, operator_id, device_id, session_id, occurred_at, category, action,
				resource_kind, resource_id, outcome, latency_ms, context_hash, roles)
			SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ('00000000-0000-7000-8000-0000000000' || lpad((n % 50)::text, 2, '0'))::uuid,
				'opt_01HCCAJ930Q3Y811AXYN4D8Y' || n % 40, 'dev_01HCCAJ930Q3Y811AXYN4D8Y' || n % 60, 'bos_01HCCAJ930Q3Y811AXYN4D' || n % 9000,
				$3::timestamptz - n * interval '5 seconds', 'folio', 'charge', 'folio', 'fol_' || md5(n::text), 'success', n % 900, md5((n % 9000)::text), '{front_desk}'
			FROM generate_series($1::int, $2::int) AS n ORDER BY n % 50, n`, n+1, min(n+step, rows), now)
	}
}

// copy writes a table to a file with COPY and returns how long that took.
func (f *fixture) copy(table string) time.Duration {
	f.t.Helper()
	ctx := testkit.Context(f.t)
	conn, err := f.super.Acquire(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, "SET statement_timeout = 0"); err != nil {
		f.t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(f.dir, "copy.txt"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = out.Close() }() // flushed below
	start := time.Now()
	w := bufio.NewWriterSize(out, 1<<20)
	_, err = conn.Conn().PgConn().CopyTo(ctx, w, "COPY (TABLE bff_backoffice."+table+") TO STDOUT")
	if err := errors.Join(err, w.Flush()); err != nil {
		f.t.Fatal(err)
	}
	return time.Since(start)
}

// resetPeak makes [peak] count from now on.
func resetPeak(b *testing.B) {
	b.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		b.Fatal(err)
	}
}

// peak is the most memory that the process has had, in MB.
func peak(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	kb, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kb) / 1024
}
