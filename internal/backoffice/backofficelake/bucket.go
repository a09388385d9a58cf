package backofficelake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/parquet-go/parquet-go"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// Bucket is where the lake's files are, under names with slashes. A file is there whole or not at all. Every call ends within a time of its
// own, whatever its context says, but for a Write, which may wait for its content.
type Bucket interface {
	// Read opens a file from an offset on: so many bytes, or to its end if length is negative. It fails with [fs.ErrNotExist] if there is
	// none.
	Read(ctx context.Context, name string, from, length int64) (io.ReadCloser, error)
	// Write makes a file of everything that content has, unless reading that fails. With once it fails with [fs.ErrExist] if the file is there,
	// which may also be by an attempt of its own whose answer was lost; without, it replaces it.
	Write(ctx context.Context, name string, content io.Reader, once bool) error
	// Copy makes a file of another one, or replaces it.
	Copy(ctx context.Context, to, from string) error
	// Remove removes a file, or fails with [fs.ErrNotExist].
	Remove(ctx context.Context, name string) error
	// List goes through the files whose names begin with a prefix, in the order of names.
	List(ctx context.Context, prefix string) iter.Seq2[Object, error]
	Close() error
}

// Object is a file of a bucket.
type Object struct {
	Name     string
	Modified time.Time
}

// temporary is where files in the making are.
const temporary = "_tmp/"

// maxDocument bounds manifests and heads: a manifest names at most a thousand rows, and a file per month.
const maxDocument = 8 << 20

// readDocument reads a manifest or a head.
func readDocument(ctx context.Context, bucket Bucket, name string) ([]byte, error) {
	r, err := bucket.Read(ctx, name, 0, maxDocument+1)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err == nil && len(b) > maxDocument {
		err = fmt.Errorf("%s has more than %d bytes", name, maxDocument)
	}
	return b, err
}

// bucketFile reads parts of a file.
type bucketFile struct {
	ctx    context.Context //nolint:containedctx // io.ReaderAt has none
	bucket Bucket
	name   string
}

// ReadAt implements io.ReaderAt.
func (f *bucketFile) ReadAt(b []byte, at int64) (n int, err error) {
	r, err := f.bucket.Read(f.ctx, f.name, at, int64(len(b)))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	n, err = io.ReadFull(r, b)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

func countRows(r io.ReaderAt, size int64) (int64, error) {
	f, err := parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return 0, err
	}
	return f.NumRows(), nil
}

func headPath(h audit.Head) string {
	return fmt.Sprintf("_heads/%s/%020d.json", h.Tenant, h.Seq)
}

const headExports = 500

// exportHeads writes the signed heads beside the files, each once: a bucket that keeps what it has for years refuses to
// have one written again, and a process may have died before it could say that it wrote it. A file that is there with
// another content holds up no other tenant's.
func (l *Lake) exportHeads(ctx context.Context, db *pgxpool.Pool) (err error) {
	bucket, err := l.cfg.Bucket(ctx)
	if err != nil {
		return fmt.Errorf("export audit heads: %w", err)
	}
	defer func() { err = errors.Join(err, bucket.Close()) }()
	var (
		after [16]byte
		seq   int64
		errs  []error
	)
	for {
		rows, err := db.Query(ctx, `SELECT h.tenant, h.seq, h.hash, h.sealed_at, h.key_id, h.signature FROM bff_backoffice.audit_tips t
			JOIN bff_backoffice.audit_heads h ON h.tenant = t.tenant AND h.seq > t.exported_seq WHERE (h.tenant, h.seq) > ($2, $3) ORDER BY h.tenant, h.seq LIMIT $1`, headExports, after, seq)
		if err != nil {
			return fmt.Errorf("export audit heads: %w", err)
		}
		heads, err := pgx.CollectRows(rows, scanHead)
		if err != nil {
			return fmt.Errorf("export audit heads: %w", err)
		}
		for _, h := range heads {
			if after == h.Tenant.Bytes() && seq == other { // its chain has a false head
				continue
			}
			after, seq = h.Tenant.Bytes(), h.Seq
			if err := writeHead(ctx, bucket, h); errors.Is(err, errOther) {
				errs, seq = append(errs, fmt.Errorf("export audit heads: %w", err)), other
				continue
			} else if err != nil {
				return fmt.Errorf("export audit heads: %w", err)
			}
			if _, err := db.Exec(
				ctx, `UPDATE bff_backoffice.audit_tips SET exported_seq = greatest(exported_seq, $2) WHERE tenant = $1`, h.Tenant.UUID(), h.Seq,
			); err != nil {
				return fmt.Errorf("export audit heads: %w", err)
			}
		}
		if len(heads) < headExports {
			return errors.Join(append(errs, sweepTemporary(ctx, bucket))...)
		}
	}
}

// other is behind every sequence.
const other = math.MaxInt64

var errOther = errors.New("the bucket has another head in its place: run audit verify --export")

// writeHead writes a head, unless it is there.
func writeHead(ctx context.Context, bucket Bucket, h audit.Head) error {
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if err := bucket.Write(ctx, headPath(h), bytes.NewReader(body), true); !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, err := readDocument(ctx, bucket, headPath(h))
	if err == nil && !bytes.Equal(there, body) {
		err = fmt.Errorf("%s: %w", headPath(h), errOther)
	}
	return err
}

// sweepTemporary removes what processes left behind that died while they wrote.
func sweepTemporary(ctx context.Context, bucket Bucket) error {
	for o, err := range bucket.List(ctx, temporary) {
		if err != nil {
			return fmt.Errorf("list temporary files: %w", err)
		}
		if time.Since(o.Modified) > 24*time.Hour {
			_ = bucket.Remove(ctx, o.Name) // another process may have been first
		}
	}
	return nil
}
