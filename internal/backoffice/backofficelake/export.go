package backofficelake

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

const (
	// exportRows and exportBytes are of one range at most, so that it is written within one run.
	exportRows  = 500_000
	exportBytes = 256 << 20
	// maxBuffered and maxBufferedBytes bound the rows that wait in the files of all months together.
	maxBuffered      = 2 * groupRows
	maxBufferedBytes = 32 << 20
	// maxWithheld rows of a range may be withheld. If more are not as they were sealed it is not for single rows, and the export stops.
	maxWithheld = 1000
)

// Manifest names the files of an exported range. A range with a manifest is exported;
// files that no manifest names are not part of the lake.
type Manifest struct {
	Format int    `json:"format"` // 1
	Table  string `json:"table"`
	First  int64  `json:"first"` // positions of the chain: behind first
	Last   int64  `json:"last"`  // up to last
	Rows   int64  `json:"rows"`
	Files  []File `json:"files"`
	// Withheld are rows of the range that are not in its files.
	Withheld []Withheld `json:"withheld,omitempty"`
}

// File is one file of an export.
type File struct {
	Month  string    `json:"month"`
	Path   string    `json:"path"`
	Rows   int64     `json:"rows"`
	Bytes  int64     `json:"bytes"`
	SHA256 string    `json:"sha256"`
	From   time.Time `json:"from"` // moments of the first and last rows
	To     time.Time `json:"to"`
}

// span is a range of positions.
type span struct{ First, Last int64 }

func (s span) name() string { return fmt.Sprintf("%020d-%020d", s.First, s.Last) }

func manifestPath(table string, s span) string {
	return "_manifests/" + table + "/" + s.name() + ".json"
}

// export writes everything of a table that is sealed and not exported yet. Of two at
// once one does, by a lock that Postgres gives back when its process dies; should it be
// lost early, both write the same files and one manifest stands.
func (l *Lake) export(ctx context.Context, db *pgxpool.Pool, t table) (rows int, err error) {
	conn, err := db.Acquire(ctx)
	if err != nil {
		return 0, fmt.Errorf("export %s: %w", t.name, err)
	}
	defer conn.Release()
	lock := "export bff_backoffice." + t.name
	var mine bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`, lock).Scan(&mine); err != nil || !mine {
		return 0, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, err := conn.Exec(ctx, `SELECT pg_advisory_unlock(hashtextextended($1, 0))`, lock); err != nil {
			_ = conn.Conn().Close(ctx) // gives the lock back, too
		}
	}()
	bucket, err := l.cfg.Bucket(ctx)
	if err != nil {
		return 0, fmt.Errorf("export %s: %w", t.name, err)
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	for {
		s, err := plan(ctx, conn.Conn(), t)
		if err != nil {
			return rows, fmt.Errorf("plan export of %s: %w", t.name, err)
		}
		if s == nil {
			break
		}
		m, err := l.exportSpan(ctx, conn.Conn(), bucket, t, *s)
		if err != nil {
			return rows, fmt.Errorf("export %s: %w", t.name, err)
		}
		rows += int(m.Rows)
	}
	return rows, errors.Join(l.load(ctx, conn.Conn(), t), withheldError(ctx, conn.Conn(), t.name))
}

// ErrWithheld ends a run that has done everything else.
var ErrWithheld = errors.New("rows are gone or not as they were sealed, and are neither in the lake nor pruned")

// withheldError reports the rows of a table that were withheld by any export.
func withheldError(ctx context.Context, conn *pgx.Conn, name string) error {
	all, err := withheldRows(ctx, conn, name)
	if err != nil || len(all) == 0 {
		return err
	}
	return fmt.Errorf("%w: %d of %s, the first: %w", ErrWithheld, len(all), name, &all[0])
}

// withheldRows lists the rows of a table that were withheld.
func withheldRows(ctx context.Context, conn querier, name string) ([]Withheld, error) {
	rows, err := conn.Query(
		ctx,
		`SELECT manifest->'withheld' FROM bff_backoffice.audit_exports WHERE tab = $1 AND confirmed_at IS NOT NULL AND manifest ? 'withheld' ORDER BY first`,
		name,
	)
	if err != nil {
		return nil, fmt.Errorf("read what was withheld of %s: %w", name, err)
	}
	lists, err := pgx.CollectRows(rows, pgx.RowTo[[]Withheld])
	if err != nil {
		return nil, fmt.Errorf("read what was withheld of %s: %w", name, err)
	}
	return slices.Concat(lists...), nil
}

// plan returns the range to be exported: one that was begun, or a new one; nil = there
// is nothing.
func plan(ctx context.Context, conn *pgx.Conn, t table) (*span, error) {
	var (
		s    span
		done bool
	)
	err := conn.QueryRow(ctx, `SELECT first, last, confirmed_at IS NOT NULL FROM bff_backoffice.audit_exports WHERE tab = $1 ORDER BY first DESC LIMIT 1`,
		t.name).Scan(&s.First, &s.Last, &done)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	if err == nil && !done {
		return &s, nil
	}
	next := span{First: s.Last}
	if err := conn.QueryRow(ctx, `SELECT coalesce(max(pos), 0) FROM (
			SELECT pos, sum(`+t.weight+`) OVER (ORDER BY pos ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
			FROM (SELECT * FROM bff_backoffice.audit_chain WHERE `+t.only+` AND pos > $1 ORDER BY pos LIMIT $2) AS c) AS c
		WHERE coalesce(before, 0) < $3`, next.First, exportRows, exportBytes).Scan(&next.Last); err != nil || next.Last == 0 {
		return nil, err
	}
	if _, err := conn.Exec(
		ctx, `INSERT INTO bff_backoffice.audit_exports (tab, first, last) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, t.name, next.First, next.Last,
	); err != nil {
		return nil, err
	}
	// Another process may have been first, with another end.
	return &next, conn.QueryRow(ctx, `SELECT last FROM bff_backoffice.audit_exports WHERE tab = $1 AND first = $2`, t.name, next.First).Scan(&next.Last)
}

// exportSpan writes a range, unless that was done before, and confirms it.
func (l *Lake) exportSpan(ctx context.Context, conn *pgx.Conn, bucket Bucket, t table, s span) (*Manifest, error) {
	m, err := readManifest(ctx, bucket, t.name, s)
	if err == nil && m == nil {
		m, err = writeSpan(ctx, conn, bucket, t, s)
	}
	if err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if _, err := f.check(ctx, bucket); err != nil {
			return nil, err
		}
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, `UPDATE bff_backoffice.audit_exports SET confirmed_at = now(), rows = $3, manifest = $4
		WHERE tab = $1 AND first = $2 AND confirmed_at IS NULL`, t.name, s.First, m.Rows, body)
	if err != nil {
		return nil, fmt.Errorf("confirm: %w", err)
	}
	return m, nil
}

// writeSpan writes the files of a range and then its manifest.
func writeSpan(ctx context.Context, conn *pgx.Conn, bucket Bucket, t table, s span) (_ *Manifest, err error) {
	w := &spanWriter{bucket: bucket, table: t, span: s, months: map[string]*upload{}}
	defer w.discard(ctx)
	if err := w.read(ctx, conn); err != nil {
		return nil, err
	}
	m, err := w.finish(ctx)
	if err != nil {
		return nil, err
	}
	body, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	// A manifest of this range that is there already stands: its files are the lake's.
	if err := bucket.Write(ctx, manifestPath(t.name, s), bytes.NewReader(body), true); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	stands, err := readManifest(ctx, bucket, t.name, s)
	if err != nil {
		return nil, err
	}
	if stands == nil {
		return nil, errors.New("the manifest that was written is not there")
	}
	for _, f := range m.Files {
		if !slices.ContainsFunc(stands.Files, func(other File) bool { return other.Path == f.Path }) {
			_ = bucket.Remove(ctx, f.Path) // the same rows, written by another release
		}
	}
	return stands, nil
}

func readManifest(ctx context.Context, bucket Bucket, table string, s span) (*Manifest, error) {
	b, err := readDocument(ctx, bucket, manifestPath(table, s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none yet
	}
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", manifestPath(table, s), err)
	}
	if m.Format != 1 || m.Table != table || m.First != s.First || m.Last != s.Last {
		return nil, fmt.Errorf("manifest %s is about something else", manifestPath(table, s))
	}
	return m, nil
}

// spanWriter writes the files of one range, one per month.
type spanWriter struct {
	bucket   Bucket
	table    table
	span     span
	months   map[string]*upload
	buffered int
	bytes    int
	withheld []Withheld
}

// upload is a file under a temporary name.
type upload struct {
	file    *file
	content *io.PipeWriter
	written chan error // what became of it
	temp    string
	sum     hash.Hash
	size    int64
	from    time.Time
	to      time.Time
}

func (u *upload) Write(b []byte) (int, error) {
	_, _ = u.sum.Write(b) // a hash takes everything
	u.size += int64(len(b))
	return u.content.Write(b)
}

// read reads the range page by page, the next while one is written.
func (w *spanWriter) read(ctx context.Context, conn *pgx.Conn) error {
	group, both := errgroup.WithContext(ctx)
	pages := make(chan *page, 1)
	group.Go(func() error {
		defer close(pages)
		for at, limit := w.span.First, pageRows; at < w.span.Last; {
			p, err := readPage(both, conn, &w.table, span{at, w.span.Last}, &limit)
			if err != nil || len(p.entries) == 0 {
				return err
			}
			at = p.last()
			select {
			case pages <- p:
			case <-both.Done(): // writing has failed
				return both.Err()
			}
		}
		return nil
	})
	group.Go(func() error {
		for p := range pages {
			if err := w.write(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
	return group.Wait()
}

// write adds a page to the files of its months.
func (w *spanWriter) write(ctx context.Context, p *page) error {
	for _, e := range p.entries {
		var row audit.Row
		if w.table.audited != nil {
			row = p.rows[keyOf(e[entryTenant], e[entryRow])]
		}
		values, at, err := w.table.row(e, row)
		if gone, ok := errors.AsType[*Withheld](err); ok && len(w.withheld) < maxWithheld {
			if p.refused != "" {
				gone.Detail = "can not be read: " + p.refused
			}
			w.withheld = append(w.withheld, *gone)
			continue
		}
		if err == nil {
			err = w.add(ctx, values, at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *spanWriter) add(ctx context.Context, values [][]byte, at time.Time) error {
	month := at.Format("2006-01")
	u := w.months[month]
	if u == nil {
		var err error
		if u, err = w.open(ctx); err != nil {
			return err
		}
		u.from, u.to = at, at
		w.months[month] = u
	}
	if at.Before(u.from) {
		u.from = at
	}
	if at.After(u.to) {
		u.to = at
	}
	for _, v := range values {
		w.bytes += len(v)
	}
	if w.buffered++; w.buffered >= maxBuffered || w.bytes >= maxBufferedBytes {
		w.buffered, w.bytes = 0, 0
		for _, other := range w.months {
			if err := other.file.flush(); err != nil {
				return err
			}
		}
	}
	return u.file.add(values)
}

// open begins a file, which the bucket takes while it is made.
func (w *spanWriter) open(ctx context.Context) (_ *upload, err error) {
	r, content := io.Pipe()
	u := &upload{temp: temporary + rand.Text(), sum: sha256.New(), content: content, written: make(chan error, 1)}
	if u.file, err = newFile(u, w.table.name, w.table.columns); err != nil {
		return nil, err
	}
	go func() {
		err := w.bucket.Write(ctx, u.temp, r, false)
		_ = r.CloseWithError(err) // never fails
		u.written <- err
		close(u.written)
	}()
	return u, nil
}

// finish closes the files, reads each back, and gives them their names.
func (w *spanWriter) finish(ctx context.Context) (*Manifest, error) {
	m := &Manifest{Format: 1, Table: w.table.name, First: w.span.First, Last: w.span.Last, Withheld: w.withheld}
	for month, u := range w.months {
		if err := u.file.close(); err != nil {
			return nil, err
		}
		_ = u.content.Close() // never fails
		if err := <-u.written; err != nil {
			return nil, err
		}
		sum := hex.EncodeToString(u.sum.Sum(nil))
		f := File{Month: month, Path: u.temp, Rows: u.file.rows, Bytes: u.size, SHA256: sum, From: u.from, To: u.to}
		if _, err := f.check(ctx, w.bucket); err != nil {
			return nil, err
		}
		f.Path = fmt.Sprintf("%s/month=%s/%s-%s.parquet", w.table.name, month, w.span.name(), sum[:8])
		// A process that died before it wrote the manifest may have named the same file, which a bucket with a retention
		// does not have written again.
		if _, err := f.check(ctx, w.bucket); err != nil {
			if err := w.bucket.Copy(ctx, f.Path, u.temp); err != nil {
				return nil, fmt.Errorf("name %s: %w", f.Path, err)
			}
		}
		m.Files, m.Rows = append(m.Files, f), m.Rows+f.Rows
	}
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return m, nil
}

// discard removes the temporary files.
func (w *spanWriter) discard(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	for _, u := range w.months {
		_ = u.content.CloseWithError(errHalf) // unless it is whole
		<-u.written
		_ = w.bucket.Remove(ctx, u.temp) // what stays is removed when it is a day old
	}
}

var errHalf = errors.New("the export has failed, and the file is not whole")

// check reads a file back: it has the bytes and the rows that were written. It returns how many bytes there are.
func (f File) check(ctx context.Context, bucket Bucket) (size int64, err error) {
	r, err := bucket.Read(ctx, f.Path, 0, -1)
	if err != nil {
		return 0, fmt.Errorf("read back %s: %w", f.Path, err)
	}
	sum := sha256.New()
	size, err = io.Copy(sum, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return size, fmt.Errorf("read back %s: %w", f.Path, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.SHA256 {
		return size, fmt.Errorf("read back %s: has another digest than what was written", f.Path)
	}
	rows, err := countRows(&bucketFile{ctx: ctx, bucket: bucket, name: f.Path}, f.Bytes)
	if err != nil || rows != f.Rows {
		return size, fmt.Errorf("read back %s: has %d rows, want %d: %w", f.Path, rows, f.Rows, errors.Join(err, errRows))
	}
	return size, nil
}

var errRows = errors.New("the file is not as it was written")
