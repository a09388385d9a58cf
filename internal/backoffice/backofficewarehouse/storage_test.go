package backofficewarehouse_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficewarehouse"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// fakeStorage speaks as much of the JSON API of Google Cloud Storage as a lake uses: uploads in one request and in chunks, whole and partial
// reads, copies in steps, deletions and lists in pages.
type fakeStorage struct {
	mu      sync.Mutex
	address string
	objects map[string]object
	uploads map[string]*upload
	count   int64 // generation of the newest
	chunks  int   // that were taken
	refused int   // for a passing reason
	// How it behaves.
	fail func(r *http.Request) bool // answers 503
	cut  int                        // breaks this many reads after a byte
	kept bool                       // refuses to overwrite and to delete, as a retention policy does
	// other, a server of another maker, has the objects: `make parts-storage`.
	other http.Handler
}

// storageProgram is that server; empty = the objects are here.
var storageProgram = os.Getenv("MELMASTOON_STORAGE")

// startOther starts that server with an empty bucket, and has the fake pass on to it what it does not refuse.
func (f *fakeStorage) startOther(t *testing.T) {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(ln.Addr().String())
	must(t, errors.Join(err, ln.Close()))
	cmd := exec.CommandContext(t.Context(), storageProgram, "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", port,
		"-external-url", f.address, "-public-host", strings.TrimPrefix(f.address, "http://"), "-log-level", "error")
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // ended with the test's context
	at := mustParse(t, "http://127.0.0.1:"+port)
	testkit.Until(t, "a bucket", func() bool {
		res, err := http.Post(at.String()+"/storage/v1/b?project=p", "application/json", strings.NewReader(`{"name":"the-lake"}`)) //nolint:noctx // a test's own server
		return err == nil && res.Body.Close() == nil
	})
	f.other = &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at); r.Out.Host = r.In.Host }}
}

type object struct {
	data       []byte
	generation int64
	at         time.Time
}

// upload is a file in the making.
type upload struct {
	name string
	once bool
	data []byte
}

// openStorage returns a fake, and what opens a bucket of it.
func openStorage(t *testing.T) (*fakeStorage, func(context.Context) (backofficelake.Bucket, error)) {
	t.Helper()
	fake := &fakeStorage{objects: map[string]object{}, uploads: map[string]*upload{}}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	fake.address = server.URL
	if storageProgram != "" {
		fake.startOther(t)
	}
	return fake, func(ctx context.Context) (backofficelake.Bucket, error) {
		return backofficewarehouse.OpenBucket(ctx, "gs://the-lake?endpoint="+url.QueryEscape(server.URL))
	}
}

func (f *fakeStorage) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// has reports whether there is an object.
func (f *fakeStorage) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.exists(name)
}

func (f *fakeStorage) exists(name string) bool {
	if f.other == nil {
		_, ok := f.objects[name]
		return ok
	}
	w := httptest.NewRecorder()
	f.other.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/storage/v1/b/the-lake/o/"+url.PathEscape(name), http.NoBody))
	return w.Code == http.StatusOK
}

// forbidden reports whether a request would change what a retention policy keeps: only a new name may be written.
func (f *fakeStorage) forbidden(r *http.Request, part []string, data []byte) bool {
	if !f.kept {
		return false
	}
	name := r.URL.Query().Get("name")
	if m := named.FindSubmatch(data); name == "" && m != nil {
		name = string(m[1])
	}
	return r.Method == http.MethodDelete || len(part) == 6 && f.exists(part[5]) ||
		strings.HasPrefix(r.URL.Path, "/upload/") && r.URL.Query().Get("ifGenerationMatch") != "0" && f.exists(name)
}

var named = regexp.MustCompile(`"name": ?"([^"]+)"`)

func (f *fakeStorage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	const metadata = "/storage/v1/b/the-lake/o"
	rest, ours := strings.CutPrefix(r.URL.EscapedPath(), metadata)
	part := strings.Split(strings.TrimPrefix(rest, "/"), "/")
	for i, p := range part {
		part[i], _ = url.PathUnescape(p) // came from a URL
	}
	o, found := f.objects[part[0]]
	query := r.URL.Query()
	switch {
	case err != nil: // half a file
	case f.fail != nil && f.fail(r):
		f.refused++
		refuse(w, []int{http.StatusServiceUnavailable, http.StatusTooManyRequests}[f.refused%2])
	case f.forbidden(r, part, data):
		refuse(w, http.StatusForbidden)
	case f.other != nil && f.cut > 0 && query.Get("alt") == "media":
		f.read(w, r, object{data: large})
	case f.other != nil:
		r.Body = io.NopCloser(bytes.NewReader(data))
		f.other.ServeHTTP(w, r)
	case r.Method == http.MethodPost && r.URL.Path == "/upload"+metadata && query.Get("uploadType") == "multipart":
		f.put(w, r, data)
	case r.Method == http.MethodPost && r.URL.Path == "/upload"+metadata && query.Get("uploadType") == "resumable":
		f.begin(w, r, data)
	case r.Method == http.MethodPost && r.URL.Path == "/chunks":
		f.chunk(w, r, data)
	case !ours:
		refuse(w, http.StatusBadRequest)
	case r.Method == http.MethodGet && rest == "":
		f.list(w, query)
	case !found:
		refuse(w, http.StatusNotFound)
	case r.Method == http.MethodGet && len(part) == 1 && query.Get("alt") == "media":
		f.read(w, r, o)
	case r.Method == http.MethodPost && len(part) == 6 && part[1] == "rewriteTo":
		f.rewrite(w, o, part[5], query.Get("rewriteToken"))
	case r.Method == http.MethodDelete && len(part) == 1:
		delete(f.objects, part[0])
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusBadRequest)
	}
}

func (f *fakeStorage) put(w http.ResponseWriter, r *http.Request, data []byte) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		refuse(w, http.StatusBadRequest)
		return
	}
	parts := multipart.NewReader(bytes.NewReader(data), params["boundary"])
	var about struct{ Name, ContentType string }
	first, err := parts.NextPart()
	if err == nil {
		err = json.NewDecoder(first).Decode(&about)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest)
		return
	}
	second, err := parts.NextPart()
	if err != nil || second.Header.Get("Content-Type") != about.ContentType {
		refuse(w, http.StatusBadRequest)
		return
	}
	content, err := io.ReadAll(second)
	if err != nil { // half a file
		refuse(w, http.StatusBadRequest)
		return
	}
	f.keep(w, &upload{about.Name, r.URL.Query().Get("ifGenerationMatch") == "0", content})
}

func (f *fakeStorage) begin(w http.ResponseWriter, r *http.Request, data []byte) {
	var about struct{ Name string }
	if json.Unmarshal(data, &about) != nil {
		refuse(w, http.StatusBadRequest)
		return
	}
	id := fmt.Sprint(len(f.uploads))
	f.uploads[id] = &upload{name: about.Name, once: r.URL.Query().Get("ifGenerationMatch") == "0"}
	w.Header().Set("Location", f.address+"/chunks?id="+id)
}

// chunk takes bytes that continue an upload: "bytes 0-1023/*", "bytes 1024-2047/2048", or "bytes */2048" for none.
func (f *fakeStorage) chunk(w http.ResponseWriter, r *http.Request, data []byte) {
	u := f.uploads[r.URL.Query().Get("id")]
	span, total, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Content-Range"), "bytes "), "/")
	from, _, _ := strings.Cut(span, "-")
	if at, err := strconv.Atoi(from); u == nil || !ok || span != "*" && (err != nil || at != len(u.data)) {
		refuse(w, http.StatusBadRequest)
		return
	}
	u.data = append(u.data, data...)
	f.chunks++
	if total == "*" {
		w.Header().Set("X-Http-Status-Code-Override", "308")
		return
	}
	f.keep(w, u)
}

func (f *fakeStorage) keep(w http.ResponseWriter, u *upload) {
	if _, ok := f.objects[u.name]; ok && u.once {
		refuse(w, http.StatusPreconditionFailed)
		return
	}
	f.count++
	f.objects[u.name] = object{u.data, f.count, time.Now()}
	encode(w, f.describe(u.name))
}

func (f *fakeStorage) describe(name string) map[string]any {
	o := f.objects[name]
	return map[string]any{
		"kind": "storage#object", "bucket": "the-lake", "name": name, "size": fmt.Sprint(len(o.data)), "generation": fmt.Sprint(o.generation),
		"updated": o.at.UTC().Format(time.RFC3339Nano),
	}
}

func (f *fakeStorage) read(w http.ResponseWriter, r *http.Request, o object) {
	w.Header().Set("Content-Type", "application/octet-stream")
	if f.cut > 0 {
		f.cut--
		w.Header().Set("Content-Length", fmt.Sprint(len(o.data)))
		_, _ = w.Write(o.data[:1]) // the rest is missing
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", o.at, bytes.NewReader(o.data))
}

const listPage = 3

func (f *fakeStorage) list(w http.ResponseWriter, query url.Values) {
	answer := map[string]any{"kind": "storage#objects"}
	items := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		if !strings.HasPrefix(name, query.Get("prefix")) || cmp.Compare(name, query.Get("pageToken")) <= 0 {
			continue
		}
		if len(items) == listPage {
			answer["nextPageToken"] = items[listPage-1]["name"]
			break
		}
		items = append(items, f.describe(name))
	}
	answer["items"] = items
	encode(w, answer)
}

// rewrite copies in two steps.
func (f *fakeStorage) rewrite(w http.ResponseWriter, o object, to, token string) {
	if token == "" {
		encode(w, map[string]any{"kind": "storage#rewriteResponse", "done": false, "rewriteToken": "go on"})
		return
	}
	f.count++
	f.objects[to] = object{o.data, f.count, time.Now()}
	encode(w, map[string]any{"kind": "storage#rewriteResponse", "done": true, "resource": f.describe(to)})
}

func encode(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a test that is told nothing fails
}
