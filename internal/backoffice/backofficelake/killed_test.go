package backofficelake_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/parquet-go/parquet-go"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// An export is cut off before each of its effects, in the database and in the bucket:
// before and after the files have their names, before the manifest, between the
// manifest and the confirmation, between that and pruning, and in the middle of
// pruning. Nothing was pruned that a reader of manifests does not find; after the next
// run such a reader finds every row once, and the chain is whole.
//
// Files are written beside the rest, so that an effect has no place of its own in a run:
// it is chosen by its kind and by how many of the kind came before.
func TestExportKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	const young, prune = 5, "WITH batch AS"
	kinds := []string{
		"INSERT INTO bff_backoffice.audit_cursors", "INSERT INTO bff_backoffice.outbox", "INSERT INTO bff_backoffice.audit_exports",
		"write _tmp/", "copy operator_activity/", "delete _tmp/", "write _manifests/operator_activity/",
		"UPDATE bff_backoffice.audit_exports", prune,
	}
	old, inserted, runs := 50, 0, 0
	f := &sealed{fixture: newFixture(t)}
	export := func(l *backofficelake.Lake) service.Job {
		jobs := l.Jobs()
		return jobs[slices.IndexFunc(jobs, func(j service.Job) bool { return j.Name == "activity-export" })]
	}
	found := map[string]string{}
	died := map[string]int{}
	for _, kind := range kinds {
		if kind == prune {
			old = 1100 // take two statements to prune
		}
		for l := new(life); l.diedAt != "" || l.kind == ""; runs++ {
			if runs > 60 {
				t.Fatalf("never done: cut off at %v", died)
			}
			f.exec(`INSERT INTO bff_backoffice.operator_activity (tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome)
				SELECT $1, 'o', 'd', 's', $2::timestamptz - CASE WHEN n > $4 THEN interval '91 days' ELSE interval '1 minute' END, 'c', 'a', 'success' FROM generate_series(1, $3::int + $4::int) AS n`,
				tenantA.UUID(), now, old, young)
			f.forgetPasses()
			inserted += old + young
			l = &life{kind: kind, left: died[kind]}
			f.exportUntil(l, export)
			f.exported(found)
			if left := f.count(`SELECT count(*) FROM bff_backoffice.operator_activity`); len(found) < inserted-left {
				t.Errorf("cut off at %s: %d rows pruned, %d exported", l.diedAt, inserted-left, len(found))
			}
			if _, err := export(f.Lake).Run(testkit.Context(t), f.jobs, now); err != nil {
				t.Errorf("cut off at %s, and then: %v", l.diedAt, err)
			}
			f.exported(found)
			want := map[string]int{"rows in manifests": inserted, "rows left": (runs + 1) * young}
			got := map[string]int{"rows in manifests": len(found), "rows left": f.count(`SELECT count(*) FROM bff_backoffice.operator_activity`)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("cut off at %s (-want +got):\n%s", l.diedAt, diff)
			}
			for _, name := range l.had {
				if !slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasPrefix(name, kind) }) {
					t.Errorf("an effect of no kind: %s", name)
				}
			}
			if t.Failed() {
				t.FailNow()
			}
			if l.diedAt != "" {
				died[kind]++
			}
		}
	}
	f.run(f.Lake)
	if findings, _ := f.verify(noHeads); len(findings) > 0 {
		t.Errorf("%q", findings)
	}
	if len(died) != len(kinds) || died[prune] < 2 {
		t.Errorf("cut off at %v", died)
	}
}

// exportUntil runs the export of activities until it dies or is done, and waits until
// the server has noticed.
func (f *sealed) exportUntil(l *life, export func(*backofficelake.Lake) service.Job) {
	f.t.Helper()
	ctx := testkit.Context(f.t)
	cfg := f.jobs.Config()
	cfg.ConnConfig.Tracer = l
	db, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	lake := f.config()
	lake.Bucket = func(context.Context) (backofficelake.Bucket, error) {
		inner, err := backofficelake.OpenDirectory(f.dir)
		return &mortalBucket{inner, l}, err
	}
	if _, err := export(backofficelake.New(lake)).Run(ctx, db, now); (err != nil) != (l.diedAt != "") {
		f.t.Errorf("cut off at %q: %v", l.diedAt, err)
	}
	db.Close()
	for f.count(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) > 0 {
		if ctx.Err() != nil {
			f.t.Fatal("the locks of the one that was cut off are left")
		}
	}
}

// exported adds the ids of activities in the files that manifests name, and where they
// were found.
func (f *sealed) exported(ids map[string]string) {
	f.t.Helper()
	read := map[string]bool{}
	for _, path := range ids {
		read[path] = true
	}
	paths, err := fs.Glob(os.DirFS(f.dir), "_manifests/operator_activity/*.json")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, path := range paths {
		var m backofficelake.Manifest
		if err := json.Unmarshal(f.bytes(f.dir+"/"+path), &m); err != nil {
			f.t.Fatal(err)
		}
		for _, file := range m.Files {
			if read[file.Path] {
				continue
			}
			rows, err := parquet.ReadFile[struct {
				ID string `parquet:"id"`
			}](f.dir + "/" + file.Path)
			if err != nil || int64(len(rows)) != file.Rows {
				f.t.Fatalf("%s: %d rows, want %d: %v", file.Path, len(rows), file.Rows, err)
			}
			for _, r := range rows {
				if before, ok := ids[r.ID]; ok {
					f.t.Errorf("%s is in %s and %s", r.ID, before, file.Path)
				}
				ids[r.ID] = file.Path
			}
		}
	}
}

// errDead is what a process that was cut off can still do.
var errDead = errors.New("cut off")

// life ends before an effect: nothing of the process reaches the database or the bucket
// any more.
type life struct {
	mu   sync.Mutex
	kind string // how the name of the effect begins
	left int    // effects of the kind before it ends
	had  []string
	// changes has of each session the last statement of its transaction that changes something.
	changes map[uint32]string
	diedAt  string // empty = it lives
}

// step reports whether an effect may be had; one that has no effect may as long as the
// process lives.
func (l *life) step(name string, effect bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.diedAt != "":
		return errDead
	case !effect:
	case !strings.HasPrefix(name, l.kind):
		l.had = append(l.had, name)
	case l.left == 0:
		l.diedAt = name
		return errDead
	default:
		l.left--
	}
	return nil
}

// TraceQueryStart implements pgx.QueryTracer. A statement in a transaction has its
// effect with the commit.
func (l *life) TraceQueryStart(ctx context.Context, conn *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	words := strings.Join(strings.Fields(data.SQL)[:min(3, len(strings.Fields(data.SQL)))], " ")
	const idle = 'I'
	changes := slices.Contains([]string{"INSERT", "UPDATE", "DELETE"}, strings.Fields(words)[0]) || words == "WITH batch AS"
	switch change := l.changed(conn, "-"); {
	case words == "begin":
		l.changed(conn, "")
	case words == "commit" && change != "":
		return l.trace(ctx, change, true)
	case changes:
		l.changed(conn, words)
	}
	return l.trace(ctx, words, changes && conn.PgConn().TxStatus() == idle)
}

// changed keeps what a session's transaction has changed, unless it is "-", and returns it.
func (l *life) changed(conn *pgx.Conn, words string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes == nil {
		l.changes = map[uint32]string{}
	}
	if words != "-" {
		l.changes[conn.PgConn().PID()] = words
	}
	return l.changes[conn.PgConn().PID()]
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*life) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements pgx.BatchTracer.
func (l *life) TraceBatchStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	l.changed(conn, "batch")
	return l.trace(ctx, "batch", false)
}

// TraceBatchQuery implements pgx.BatchTracer.
func (*life) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (*life) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// trace returns a context that has ended if the process has.
func (l *life) trace(ctx context.Context, name string, effect bool) context.Context {
	if l.step(name, effect) == nil {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// mortalBucket is the bucket of a process that may end.
type mortalBucket struct {
	backofficelake.Bucket

	life *life
}

func (b *mortalBucket) Read(ctx context.Context, name string, from, length int64) (io.ReadCloser, error) {
	if err := b.life.step("read "+name, false); err != nil {
		return nil, err
	}
	return b.Bucket.Read(ctx, name, from, length)
}

// Write makes a file appear when its content has ended.
func (b *mortalBucket) Write(ctx context.Context, name string, content io.Reader, once bool) error {
	return b.Bucket.Write(ctx, name, &mortalReader{content, b.life, name}, once)
}

func (b *mortalBucket) Copy(ctx context.Context, to, from string) error {
	if err := b.life.step("copy "+to, true); err != nil {
		return err
	}
	return b.Bucket.Copy(ctx, to, from)
}

func (b *mortalBucket) Remove(ctx context.Context, name string) error {
	if err := b.life.step("delete "+name, true); err != nil {
		return err
	}
	return b.Bucket.Remove(ctx, name)
}

type mortalReader struct {
	io.Reader

	life *life
	name string
}

func (r *mortalReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		if dead := r.life.step("write "+r.name, true); dead != nil {
			return n, dead
		}
	}
	return n, err
}
