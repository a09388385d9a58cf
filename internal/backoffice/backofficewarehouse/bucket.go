package backofficewarehouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
)

const (
	// fileTimeout is what a file may take that is read, or is written while its rows are read: a range of an export is at most 256 MB.
	fileTimeout = 15 * time.Minute
	// chunkTimeout is what one chunk may take, and chunkRetries what it may take with its repetitions.
	chunkTimeout, chunkRetries = time.Minute, 2 * time.Minute
	// uploadChunk is sent at once, and kept until the bucket has it. What fits in one is sent in one request.
	uploadChunk = 4 << 20
	// attempts and firstWait are of calls that fail for a passing reason. All of them can be repeated.
	attempts  = 5
	firstWait = 100 * time.Millisecond
)

// bucketName is a bucket of Google Cloud Storage.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$`)

// storageBucket is a bucket of Google Cloud Storage, by its JSON API.
type storageBucket struct {
	objects *storage.ObjectsService
	name    string
	prefix  string
}

// OpenBucket opens the bucket of a lake by its URL: file:///directory, or gs://bucket, with ?prefix= for a part of it. With ?endpoint=, which
// is for tests, the bucket is asked for there, without credentials.
func OpenBucket(ctx context.Context, address string) (backofficelake.Bucket, error) {
	if address == "" {
		return nil, errors.New("lake-url: is not set, nothing is exported or pruned")
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("lake-url: is no URL")
	}
	var b backofficelake.Bucket
	switch {
	case u.Scheme == "file" && u.Host == "" && u.Path != "" && u.RawQuery == "":
		b, err = backofficelake.OpenDirectory(u.Path)
	case u.Scheme == "gs" && bucketName.MatchString(u.Host) && strings.Trim(u.Path, "/") == "":
		b, err = openStorage(ctx, u)
	default:
		err = errors.New("want gs://bucket or file:///directory")
	}
	if err != nil {
		return nil, fmt.Errorf("lake-url: %w", err)
	}
	return b, nil
}

func openStorage(ctx context.Context, u *url.URL) (*storageBucket, error) {
	options := []option.ClientOption{option.WithScopes(storage.DevstorageReadWriteScope)}
	if at := u.Query().Get("endpoint"); at != "" {
		options = []option.ClientOption{option.WithEndpoint(at + "/storage/v1/"), option.WithoutAuthentication()}
	}
	s, err := storage.NewService(context.WithoutCancel(ctx), options...)
	if err != nil {
		return nil, err
	}
	return &storageBucket{s.Objects, u.Host, u.Query().Get("prefix")}, nil
}

// Close implements backofficelake.Bucket.
func (*storageBucket) Close() error { return nil }

// Read implements backofficelake.Bucket.
func (b *storageBucket) Read(ctx context.Context, name string, from, length int64) (io.ReadCloser, error) {
	if length == 0 {
		return http.NoBody, nil
	}
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	r := &body{cancel: cancel, from: from, to: from + length, left: attempts, open: func(span string) (found io.ReadCloser, err error) {
		err = repeat(ctx, name, func() error {
			get := b.objects.Get(b.name, b.prefix+name).Context(ctx)
			if span != "" {
				get.Header().Set("Range", span)
			}
			res, err := get.Download() //nolint:bodyclose // by body
			switch {
			case err == nil:
				found = res.Body
			case status(err) == http.StatusRequestedRangeNotSatisfiable: // an empty file, or its end
				found, err = http.NoBody, nil
			}
			return err
		})
		return found, err
	}}
	if length < 0 {
		r.to = -1
	}
	if err := r.reopen(); err != nil {
		cancel()
		return nil, err
	}
	return r, nil
}

// body is a part of a file. A connection that breaks is replaced by another one: a lake is read for hours.
type body struct {
	open     func(span string) (io.ReadCloser, error)
	cancel   func()
	part     io.ReadCloser
	from, to int64 // -1 = the end
	left     int   // times that it is opened again
}

func (r *body) reopen() (err error) {
	span := ""
	switch {
	case r.to >= 0:
		span = fmt.Sprintf("bytes=%d-%d", r.from, r.to-1)
	case r.from > 0:
		span = fmt.Sprintf("bytes=%d-", r.from)
	}
	r.part, err = r.open(span)
	return err
}

// Read implements io.Reader.
func (r *body) Read(p []byte) (int, error) {
	if r.from == r.to {
		return 0, io.EOF
	}
	n, err := r.part.Read(p)
	r.from += int64(n)
	if err == nil || errors.Is(err, io.EOF) || r.from == r.to || r.left == 0 {
		return n, err
	}
	r.left--
	_ = r.part.Close() // it is broken
	if again := r.reopen(); again != nil {
		r.part = http.NoBody
		return n, errors.Join(err, again)
	}
	return n, nil
}

// Close implements io.Closer.
func (r *body) Close() error {
	defer r.cancel()
	return r.part.Close()
}

// Write implements backofficelake.Bucket. What fits in one chunk is sent in one request, the rest chunk by chunk, so that one that fails is
// sent again. Documents, which are written once, are at hand and have less time.
func (b *storageBucket) Write(ctx context.Context, name string, content io.Reader, once bool) error {
	timeout := fileTimeout
	if once {
		timeout = callTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	insert := b.objects.Insert(b.name, &storage.Object{Name: b.prefix + name, ContentType: contentType(name)}).Context(ctx).
		Media(content, googleapi.ChunkSize(uploadChunk), googleapi.ChunkTransferTimeout(chunkTimeout), googleapi.ChunkRetryDeadline(chunkRetries)).
		WithRetry(nil, nil).Fields("name")
	if once {
		insert = insert.IfGenerationMatch(0)
	}
	_, err := insert.Do()
	return explain(name, err)
}

func contentType(name string) string {
	if strings.HasSuffix(name, ".json") {
		return "application/json"
	}
	return "application/vnd.apache.parquet"
}

// Copy implements backofficelake.Bucket.
func (b *storageBucket) Copy(ctx context.Context, to, from string) error {
	ctx, cancel := context.WithTimeout(ctx, fileTimeout)
	defer cancel()
	for token, done := "", false; !done; {
		err := repeat(ctx, from, func() error {
			rewrite := b.objects.Rewrite(b.name, b.prefix+from, b.name, b.prefix+to, &storage.Object{ContentType: contentType(to)}).Context(ctx)
			if token != "" {
				rewrite = rewrite.RewriteToken(token)
			}
			res, err := rewrite.Do()
			if err == nil {
				token, done = res.RewriteToken, res.Done
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove implements backofficelake.Bucket.
func (b *storageBucket) Remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return repeat(ctx, name, func() error { return b.objects.Delete(b.name, b.prefix+name).Context(ctx).Do() })
}

// List implements backofficelake.Bucket.
func (b *storageBucket) List(ctx context.Context, prefix string) iter.Seq2[backofficelake.Object, error] {
	return func(yield func(backofficelake.Object, error) bool) {
		for token := ""; ; {
			page, err := b.page(ctx, prefix, token)
			if err != nil {
				yield(backofficelake.Object{}, err)
				return
			}
			for _, o := range page.Items {
				at, err := time.Parse(time.RFC3339, o.Updated)
				if !yield(backofficelake.Object{Name: strings.TrimPrefix(o.Name, b.prefix), Modified: at}, err) || err != nil {
					return
				}
			}
			if token = page.NextPageToken; token == "" {
				return
			}
		}
	}
}

func (b *storageBucket) page(ctx context.Context, prefix, token string) (page *storage.Objects, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = repeat(ctx, "list "+prefix, func() (err error) {
		page, err = b.objects.List(b.name).Prefix(b.prefix+prefix).PageToken(token).Fields("nextPageToken", "items(name,updated)").Context(ctx).Do()
		return err
	})
	return page, err
}

// repeat calls until it succeeds, fails for good, or has failed often enough.
func repeat(ctx context.Context, name string, call func() error) error {
	for left, wait := attempts, firstWait; ; wait *= 2 {
		err := call()
		code := status(err)
		passing := code == 0 || code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
		if left--; err == nil || !passing || left == 0 || ctx.Err() != nil {
			return explain(name, err)
		}
		select {
		case <-ctx.Done():
			return explain(name, err)
		case <-time.After(rand.N(wait)): //nolint:gosec // jitter
		}
	}
}

// status is what a call was answered; 0 = nothing.
func status(err error) int {
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		return e.Code
	}
	return 0
}

// explain says what an error is about.
func explain(name string, err error) error {
	switch status(err) {
	case http.StatusNotFound:
		err = errors.Join(fs.ErrNotExist, err)
	case http.StatusPreconditionFailed:
		err = errors.Join(fs.ErrExist, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
