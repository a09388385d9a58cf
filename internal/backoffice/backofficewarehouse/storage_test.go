package backofficewarehouse_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
)

// fakeStorage speaks as much of Google Cloud Storage as a lake uses: uploads in one
// request, whole and partial reads, copies, deletions and lists.
type fakeStorage struct {
	mu      sync.Mutex
	objects map[string]object
	upload  int64 // generation of the newest
}

type object struct {
	data       []byte
	generation int64
	at         time.Time
}

// openStorage returns a fake, and what opens a bucket of it.
func openStorage(t *testing.T) (*fakeStorage, func(context.Context) (*blob.Bucket, error)) {
	t.Helper()
	fake := &fakeStorage{objects: map[string]object{}}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	to := redirect{mustParse(t, server.URL).Host, server.Client().Transport}
	return fake, func(ctx context.Context) (*blob.Bucket, error) {
		return gcsblob.OpenBucket(ctx, gcp.NewAnonymousHTTPClient(to), "the-lake", nil)
	}
}

// redirect sends every request to one host, whichever it is for.
type redirect struct {
	host string
	over http.RoundTripper
}

func (r redirect) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.URL.Scheme, req.URL.Host = "http", r.host
	return r.over.RoundTrip(req)
}

// has reports whether there is an object.
func (f *fakeStorage) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.objects[name]
	return ok
}

func (f *fakeStorage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for i, p := range path {
		path[i], _ = url.PathUnescape(p) // came from a URL
	}
	metadata := "storage/v1/b/the-lake/o"
	switch joined := strings.Join(path[:min(5, len(path))], "/"); {
	case r.Method == http.MethodPost && strings.Join(path, "/") == "upload/"+metadata:
		f.put(w, r)
	case r.Method == http.MethodGet && path[0] == "the-lake":
		f.read(w, r, strings.Join(path[1:], "/"))
	case joined != metadata:
		refuse(w, http.StatusBadRequest) // 501 would be tried again
	case r.Method == http.MethodGet && len(path) == 5:
		f.list(w, r.URL.Query().Get("prefix"))
	case r.Method == http.MethodGet && len(path) == 6:
		if _, ok := f.objects[path[5]]; !ok {
			refuse(w, http.StatusNotFound)
			return
		}
		encode(w, f.describe(path[5]))
	case r.Method == http.MethodPost && len(path) == 11 && path[6] == "rewriteTo":
		f.rewrite(w, path[5], path[10])
	case r.Method == http.MethodDelete && len(path) == 6:
		if _, ok := f.objects[path[5]]; !ok {
			refuse(w, http.StatusNotFound)
			return
		}
		delete(f.objects, path[5])
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusBadRequest)
	}
}

func (f *fakeStorage) put(w http.ResponseWriter, r *http.Request) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || r.URL.Query().Get("uploadType") != "multipart" {
		refuse(w, http.StatusBadRequest)
		return
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	var about struct{ Name string }
	first, err := parts.NextPart()
	if err == nil {
		err = json.NewDecoder(first).Decode(&about)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest)
		return
	}
	second, err := parts.NextPart()
	if err != nil {
		refuse(w, http.StatusBadRequest)
		return
	}
	data, err := io.ReadAll(second)
	if err != nil { // half a file
		refuse(w, http.StatusBadRequest)
		return
	}
	if _, ok := f.objects[about.Name]; ok && r.URL.Query().Get("ifGenerationMatch") == "0" {
		refuse(w, http.StatusPreconditionFailed)
		return
	}
	f.keep(about.Name, data)
	encode(w, f.describe(about.Name))
}

func (f *fakeStorage) keep(name string, data []byte) {
	f.upload++
	f.objects[name] = object{data, f.upload, time.Now()}
}

func (f *fakeStorage) describe(name string) map[string]any {
	o := f.objects[name]
	return map[string]any{
		"kind": "storage#object", "bucket": "the-lake", "name": name, "size": fmt.Sprint(len(o.data)), "generation": fmt.Sprint(o.generation), "metageneration": "1",
		"updated": o.at.UTC().Format(time.RFC3339Nano), "timeCreated": o.at.UTC().Format(time.RFC3339Nano),
	}
}

func (f *fakeStorage) read(w http.ResponseWriter, r *http.Request, name string) {
	o, ok := f.objects[name]
	if !ok {
		refuse(w, http.StatusNotFound)
		return
	}
	w.Header().Set("X-Goog-Generation", fmt.Sprint(o.generation))
	w.Header().Set("X-Goog-Metageneration", "1")
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", o.at, bytes.NewReader(o.data))
}

func (f *fakeStorage) list(w http.ResponseWriter, prefix string) {
	items := []map[string]any{}
	for name := range f.objects {
		if strings.HasPrefix(name, prefix) {
			items = append(items, f.describe(name))
		}
	}
	encode(w, map[string]any{"kind": "storage#objects", "items": items})
}

func (f *fakeStorage) rewrite(w http.ResponseWriter, from, to string) {
	o, ok := f.objects[from]
	if !ok {
		refuse(w, http.StatusNotFound)
		return
	}
	f.keep(to, o.data)
	size := fmt.Sprint(len(o.data))
	encode(w, map[string]any{"kind": "storage#rewriteResponse", "done": true, "objectSize": size, "totalBytesRewritten": size, "resource": f.describe(to)})
}

func encode(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a test that is told nothing fails
}
