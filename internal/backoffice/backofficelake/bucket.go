package backofficelake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/parquet-go/parquet-go"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	"gocloud.dev/gcerrors"

	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// OpenBucket opens a bucket by its URL: file:///directory, or what the main program has
// linked (gs://bucket).
func OpenBucket(ctx context.Context, address string) (*blob.Bucket, error) {
	if address == "" {
		return nil, errors.New("lake-url: is not set, nothing is exported or pruned")
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("lake-url: is no URL")
	}
	if u.Scheme == "file" {
		q := u.Query()
		// Temporary files beside their targets, and no files of attributes.
		for name, v := range map[string]string{"create_dir": "true", "no_tmp_dir": "true", "metadata": "skip"} {
			if !q.Has(name) {
				q.Set(name, v)
			}
		}
		u.RawQuery = q.Encode()
	}
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, fmt.Errorf("lake-url: %w", err)
	}
	return b, nil
}

// blobFile reads parts of a blob.
type blobFile struct {
	ctx    context.Context //nolint:containedctx // io.ReaderAt has none
	bucket *blob.Bucket
	path   string
}

// ReadAt implements io.ReaderAt.
func (f *blobFile) ReadAt(b []byte, at int64) (n int, err error) {
	r, err := f.bucket.NewRangeReader(f.ctx, f.path, at, int64(len(b)), nil)
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

func headPath(h backoffice.AuditHead) string {
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
			if _, err := db.Exec(ctx, `UPDATE bff_backoffice.audit_tips SET exported_seq = greatest(exported_seq, $2) WHERE tenant = $1`, h.Tenant.UUID(), h.Seq); err != nil {
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
func writeHead(ctx context.Context, bucket *blob.Bucket, h backoffice.AuditHead) error {
	body, err := json.Marshal(h)
	if err != nil {
		return err
	}
	err = bucket.WriteAll(ctx, headPath(h), body, &blob.WriterOptions{ContentType: "application/json", IfNotExist: true})
	if code := gcerrors.Code(err); err == nil || code != gcerrors.FailedPrecondition && code != gcerrors.AlreadyExists {
		return err
	}
	there, err := bucket.ReadAll(ctx, headPath(h))
	if err == nil && !bytes.Equal(there, body) {
		err = fmt.Errorf("%s: %w", headPath(h), errOther)
	}
	return err
}

// sweepTemporary removes what processes left behind that died while they wrote.
func sweepTemporary(ctx context.Context, bucket *blob.Bucket) error {
	all := bucket.List(&blob.ListOptions{Prefix: "_tmp/"})
	for {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list temporary files: %w", err)
		}
		if time.Since(o.ModTime) > 24*time.Hour {
			_ = bucket.Delete(ctx, o.Key) // another process may have been first
		}
	}
}
