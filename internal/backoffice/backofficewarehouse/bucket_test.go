package backofficewarehouse_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficewarehouse"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// large takes several chunks, and more than the 16 MB that other clients send at once.
var large = bytes.Repeat([]byte("0123456789abcdef"), 18<<20/16)

// Both kinds of buckets keep what the lake is told of them.
func TestBuckets(t *testing.T) {
	t.Parallel()
	_, storage := openStorage(t)
	dir := t.TempDir()
	for name, open := range map[string]func(context.Context) (backofficelake.Bucket, error){
		"gs": storage,
		"file": func(ctx context.Context) (backofficelake.Bucket, error) {
			return backofficewarehouse.OpenBucket(ctx, "file://"+dir+"/made/by/opening")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := testkit.Context(t)
			b, err := open(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.Close() }()
			testBucket(ctx, t, b)
		})
	}
}

func testBucket(ctx context.Context, t *testing.T, b backofficelake.Bucket) {
	t.Helper()
	for _, err := range []error{
		third(b.Read(ctx, "none", 0, -1)), third(b.Read(ctx, "none", 2, 3)), b.Remove(ctx, "none"), b.Copy(ctx, "some", "none"),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file that is not there: %v", err)
		}
	}
	for _, body := range []string{"first", "", "small", string(large)} { // each replaces the one before
		must(t, b.Write(ctx, "a/file", strings.NewReader(body), false))
		if got := content(ctx, t, b, "a/file", 0, -1); got != body {
			t.Fatalf("read %d bytes, want %d", len(got), len(body))
		}
	}
	end := int64(len(large))
	for _, part := range [][2]int64{{0, 0}, {0, 1}, {5 << 20, 4}, {end - 4, 4}, {end - 4, 100}, {7, -1}} {
		want := large[part[0]:]
		if part[1] >= 0 {
			want = want[:min(int(part[1]), len(want))]
		}
		if got := content(ctx, t, b, "a/file", part[0], part[1]); got != string(want) {
			t.Errorf("part %v: %d bytes, want %d", part, len(got), len(want))
		}
	}
	// What is written once stays, large or small.
	for _, body := range []string{"{}", string(large)} {
		if err := b.Write(ctx, "a/file", strings.NewReader(body), true); !errors.Is(err, fs.ErrExist) {
			t.Errorf("written again: %v", err)
		}
	}
	must(t, b.Write(ctx, "once.json", strings.NewReader("{}"), true))
	// Of several writers at once one has written.
	results := make(chan error)
	for range 4 {
		go func() { results <- b.Write(ctx, "race.json", strings.NewReader("{}"), true) }()
	}
	written := 0
	for range 4 {
		switch err := <-results; {
		case err == nil:
			written++
		case !errors.Is(err, fs.ErrExist):
			t.Errorf("a second writer: %v", err)
		}
	}
	if must(t, b.Remove(ctx, "race.json")); written != 1 {
		t.Errorf("%d writers have written one file", written)
	}
	if got := content(ctx, t, b, "a/file", 0, 4) + content(ctx, t, b, "once.json", 0, 100); got != "0123{}" {
		t.Errorf("then there is %q", got)
	}
	// A file whose content fails is not there, neither early nor late.
	for _, before := range [][]byte{nil, []byte("half"), large} {
		if err := b.Write(ctx, "half", io.MultiReader(bytes.NewReader(before), broken{}), false); !errors.Is(err, errBroken) {
			t.Errorf("content that fails: %v", err)
		}
	}
	must(t, b.Copy(ctx, "b/copy", "a/file"))
	must(t, b.Copy(ctx, "b/copy", "once.json"))
	for _, name := range []string{"b/e/2", "b/e/1", "b-3", "b/d", "b/e-4"} {
		must(t, b.Write(ctx, name, strings.NewReader("x"), false))
	}
	must(t, b.Remove(ctx, "b/d"))
	for prefix, want := range map[string][]string{
		"":       {"a/file", "b-3", "b/copy", "b/e-4", "b/e/1", "b/e/2", "once.json"},
		"b/":     {"b/copy", "b/e-4", "b/e/1", "b/e/2"},
		"b/e":    {"b/e-4", "b/e/1", "b/e/2"},
		"b":      {"b-3", "b/copy", "b/e-4", "b/e/1", "b/e/2"},
		"none/":  nil,
		"half":   nil,
		"_tmp/":  nil,
		"b/e/2x": nil,
	} {
		if diff := cmp.Diff(want, names(ctx, t, b, prefix)); diff != "" {
			t.Errorf("files of %q (-want +got):\n%s", prefix, diff)
		}
	}
	for range b.List(ctx, "") {
		break // a listing may be left
	}
	if got := content(ctx, t, b, "b/copy", 0, -1); got != "{}" {
		t.Errorf("the copy is %q", got)
	}
	late, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range []error{
		third(b.Read(late, "a/file", 0, -1)), b.Write(late, "late", strings.NewReader("x"), false), b.Copy(late, "late", "a/file"), b.Remove(late, "a/file"),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("without time: %v", err)
		}
	}
}

var errBroken = errors.New("broken")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }

func third(r io.ReadCloser, err error) error {
	if err == nil {
		_ = r.Close()
	}
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func content(ctx context.Context, t *testing.T, b backofficelake.Bucket, name string, from, length int64) string {
	t.Helper()
	r, err := b.Read(ctx, name, from, length)
	must(t, err)
	data, err := io.ReadAll(r)
	must(t, errors.Join(err, r.Close()))
	return string(data)
}

func names(ctx context.Context, t *testing.T, b backofficelake.Bucket, prefix string) (all []string) {
	t.Helper()
	for o, err := range b.List(ctx, prefix) {
		must(t, err)
		if since := time.Since(o.Modified); since < -time.Hour || since > time.Hour {
			t.Errorf("%s was modified at %s", o.Name, o.Modified)
		}
		all = append(all, o.Name)
	}
	return all
}

// Names do not lead out of a directory.
func TestDirectoryIsClosed(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	b, err := backofficelake.OpenDirectory(t.TempDir() + "/lake")
	must(t, err)
	defer func() { _ = b.Close() }()
	must(t, b.Write(ctx, "file", strings.NewReader("x"), false))
	if b.Write(
		ctx, "../file", strings.NewReader("x"), false,
	) == nil || b.Copy(ctx, "../../file", "file") == nil || third(b.Read(ctx, "../lake/file", 0, -1)) == nil {
		t.Error("a name leads out of the directory")
	}
}

// A bucket that is away for a moment, in the middle of whatever it does, is asked again.
func TestStorageIsAskedAgain(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	fake, open := openStorage(t)
	b, err := open(ctx)
	must(t, err)
	failed := map[string]bool{} // kinds of requests that have failed once
	fake.set(func() {
		fake.fail = func(r *http.Request) bool {
			kind := r.Method + r.URL.Path + r.URL.Query().Get("uploadType") + r.URL.Query().Get("pageToken") + r.Header.Get("Content-Range")
			defer func() { failed[kind] = true }()
			return !failed[kind]
		}
	})
	must(t, b.Write(ctx, "large", bytes.NewReader(large), false))
	must(t, b.Write(ctx, "small", strings.NewReader("x"), true))
	must(t, b.Copy(ctx, "copy", "large"))
	fake.set(func() { fake.cut = 1 })
	if got := content(ctx, t, b, "copy", 0, -1); got != string(large) {
		t.Errorf("read %d bytes", len(got))
	}
	fake.set(func() { fake.cut = 1 })
	if got := content(ctx, t, b, "copy", 16, 20); got != string(large[:20]) {
		t.Errorf("read %q", got)
	}
	for _, name := range []string{"more", "most"} {
		must(t, b.Write(ctx, name, strings.NewReader("x"), true))
	}
	if diff := cmp.Diff([]string{"copy", "large", "more", "most", "small"}, names(ctx, t, b, "")); diff != "" {
		t.Error(diff)
	}
	must(t, b.Remove(ctx, "copy"))
	fake.set(func() {
		if fake.other == nil && (fake.chunks != 5 || len(failed) != 12) {
			t.Errorf("%d chunks were taken, and %d kinds of requests failed", fake.chunks, len(failed))
		}
		fake.fail = func(*http.Request) bool { return true }
	})
	// One that stays away is given up; one that refuses is not asked again.
	if err := b.Remove(ctx, "large"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a bucket that is away: %v", err)
	}
}

func TestBucketURLs(t *testing.T) {
	t.Parallel()
	const want = "lake-url: want gs://bucket or file:///directory"
	for address, want := range map[string]string{
		"": "lake-url: is not set, nothing is exported or pruned", "gs://%zz": "lake-url: is no URL", "s3://bucket": want, "gs://": want, "gs://Bucket": want,
		"gs://bucket/part": want, "file://here/lake": want, "file:///lake?create_dir=true": want, "file://": want, "lake": want,
	} {
		if _, err := backofficewarehouse.OpenBucket(t.Context(), address); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", address, err, want)
		}
	}
	fake, open := openStorage(t)
	_, err := open(t.Context())
	must(t, err)
	b, err := backofficewarehouse.OpenBucket(t.Context(), "gs://the-lake?prefix=audit/&endpoint="+fake.address)
	must(t, err)
	ctx := testkit.Context(t)
	must(t, b.Write(ctx, "a", strings.NewReader("x"), true))
	must(t, b.Copy(ctx, "b", "a"))
	if got := names(ctx, t, b, ""); !slices.Equal(got, []string{"a", "b"}) || !fake.has("audit/a") || !fake.has("audit/b") {
		t.Errorf("under a prefix: %v", got)
	}
}
