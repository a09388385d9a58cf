package cache

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	c := newTestCache(t, newMemoryStore(t))
	long, _, err := c.Fetch(t.Context(), newSource(string(body(10_000))).fill)
	if err != nil {
		t.Fatal(err)
	}
	short, _, err := c.Fetch(t.Context(), newSource("{}").fill)
	if err != nil {
		t.Fatal(err)
	}
	smallest := zstandard
	if len(long.variant[gzipped].body) < len(long.variant[zstandard].body) {
		smallest = gzipped
	}
	for _, tc := range []struct {
		accept    []string
		want      encoding // of a long body
		wantShort encoding // of one that grows when compressed
	}{
		{nil, identity, identity},
		{[]string{""}, identity, identity},
		{[]string{"gzip"}, gzipped, identity},
		{[]string{"x-gzip"}, gzipped, identity},
		{[]string{"GZIP"}, gzipped, identity},
		{[]string{"br"}, identity, identity},
		{[]string{"deflate, br"}, identity, identity},
		{[]string{"zstd"}, zstandard, identity},
		{[]string{"gzip, deflate, br, zstd"}, smallest, identity},
		{[]string{"gzip", "zstd"}, smallest, identity},
		{[]string{"gzip;q=0.5, zstd;q=0.4"}, gzipped, identity},
		{[]string{"gzip; q=0.4 ,\tzstd ; Q=0.5"}, zstandard, identity},
		{[]string{"gzip;q=0.001"}, gzipped, identity},
		{[]string{"gzip;q=0"}, identity, identity},
		{[]string{"gzip;q=0.000"}, identity, identity},
		{[]string{"gzip;q=1.000"}, gzipped, identity},
		{[]string{"gzip;level=9;q=0.7"}, gzipped, identity},
		{[]string{"identity"}, identity, identity},
		{[]string{"identity, gzip;q=0.5"}, identity, identity},
		{[]string{"identity;q=0.5, gzip"}, gzipped, gzipped},
		{[]string{"identity;q=0, gzip"}, gzipped, gzipped},
		{[]string{"identity;q=0, zstd;q=0.1"}, zstandard, zstandard},
		{[]string{"*"}, smallest, identity},
		{[]string{"*;q=0, gzip"}, gzipped, gzipped},
		{[]string{"*;q=0.1, gzip;q=0, zstd;q=0"}, identity, identity},
		{[]string{"*;q=0.3, identity;q=0, zstd;q=0"}, gzipped, gzipped},
		// Nothing suits: the header is disregarded.
		{[]string{"identity;q=0"}, identity, identity},
		{[]string{"*;q=0"}, identity, identity},
		{[]string{"br, identity;q=0"}, identity, identity},
		// What cannot be read asks for nothing.
		{[]string{"gzip;q=2"}, identity, identity},
		{[]string{"gzip;q=1.001"}, identity, identity},
		{[]string{"gzip;q=0.5555"}, identity, identity},
		{[]string{"gzip;q="}, identity, identity},
		{[]string{"gzip;q"}, identity, identity},
		{[]string{"gzip;q=-1"}, identity, identity},
		{[]string{"gzip;q=0,5"}, identity, identity},
		{[]string{",,;,gzip;;,"}, gzipped, identity},
		{[]string{"gzip zstd"}, identity, identity},
	} {
		if got := long.choose(tc.accept); got != tc.want {
			t.Errorf("%q: %s, want %s", tc.accept, encodingName[got], encodingName[tc.want])
		}
		if got := short.choose(tc.accept); got != tc.wantShort {
			t.Errorf("%q, short body: %s, want %s", tc.accept, encodingName[got], encodingName[tc.wantShort])
		}
	}
}

// Whatever a client says, the encoding sent is one that it did not refuse, as
// long as there is one.
func FuzzAcceptEncoding(f *testing.F) {
	for _, s := range []string{"gzip, deflate, br, zstd", "*;q=0, gzip;q=0.5", "identity;q=0", "gzip;q=0.1234", ";;,="} {
		f.Add(s)
	}
	s, err := NewStore(StoreConfig{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { closeStore(f, s) })
	c := newTestCache(f, s)
	e, _, err := c.Fetch(context.Background(), newSource(string(body(10_000))).fill)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header string) {
		w := parseAcceptEncoding([]string{header})
		likes := func(i encoding) bool {
			q := w.of[i]
			if q == unnamed {
				q = w.other
			}
			return q > 0 || q == unnamed && i == identity
		}
		got := e.choose([]string{header})
		if !likes(got) && (likes(identity) || likes(gzipped) || likes(zstandard)) {
			t.Errorf("%q: %s", header, encodingName[got])
		}
		for i, q := range w.of {
			if q > 1000 || q < unnamed {
				t.Errorf("%q: weight %d of %s", header, q, encodingName[i])
			}
		}
	})
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		``:                     false,
		`"a"`:                  true,
		`"b"`:                  false,
		`W/"a"`:                true,
		`*`:                    true,
		`"b", "a"`:             true,
		`"b","c" , W/"a"`:      true,
		`"b, \"a\""`:           false,
		`a`:                    false,
		`"a`:                   false,
		`""a"`:                 false,
		`W/`:                   false,
		`"x", , "a"`:           true,
		`"with, comma", "a"`:   true,
		`"with, "a", comma`:    false,
		`"aa", "ab", w/"a"`:    false,
		strings.Repeat(`,`, 9): false,
	} {
		if got := matches([]string{header}, `"a"`); got != want {
			t.Errorf("%s: %v, want %v", header, got, want)
		}
	}
}

func TestServe(t *testing.T) {
	t.Parallel()
	text := string(body(10_000))
	synctest.Test(t, func(t *testing.T) {
		s := newTestStore(t, StoreConfig{Namespace: "bff"})
		c := newTestCache(t, s, func(cfg *Config) {
			cfg.Vary, cfg.CacheControl = "Accept-Language, X-Currency", "public, max-age=15"
		})
		src := newSource(text)
		get := func(method string, header http.Header) *httptest.ResponseRecorder {
			e, st, err := c.Get(t.Context(), "k", src.fill)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(t.Context(), method, "/", http.NoBody)
			r.Header = header
			w := httptest.NewRecorder()
			e.Serve(w, r, st)
			return w
		}
		check := func(name string, resp *httptest.ResponseRecorder, status int, want map[string]string) {
			t.Helper()
			if resp.Code != status {
				t.Errorf("%s: status %d, want %d", name, resp.Code, status)
			}
			got := map[string]string{}
			for k := range want {
				got[k] = strings.Join(resp.Header().Values(k), " | ")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		resp := get(http.MethodGet, http.Header{})
		plain := resp.Header().Get("ETag")
		check("miss", resp, 200, map[string]string{
			"X-Cache": "MISS", "Cache-Status": "bff/test; fwd=miss", "Age": "",
			"Content-Encoding": "", "Content-Length": "10000", "Content-Type": "application/json",
			"Vary": "Accept-Encoding, Accept-Language, X-Currency", "Cache-Control": "public, max-age=15",
		})
		pause.For(t.Context(), 10*time.Second)
		resp = get(http.MethodGet, http.Header{"Accept-Encoding": {"gzip"}})
		packed := resp.Header().Get("ETag")
		unpacked, err := unzip(resp.Body)
		if err != nil || unpacked != text {
			t.Errorf("gzip body: %v", err)
		}
		check("hit", resp, 200, map[string]string{
			"X-Cache": "HIT", "Cache-Status": "bff/test; hit; ttl=50", "Age": "10", "Content-Encoding": "gzip",
		})
		if plain == packed || plain == "" || !strings.HasPrefix(plain, `"`) {
			t.Errorf("etags %s and %s must be strong and differ", plain, packed)
		}
		resp = get(http.MethodGet, http.Header{"Accept-Encoding": {"zstd"}})
		dec, err := zstd.NewReader(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		defer dec.Close()
		if b, err := io.ReadAll(dec); err != nil || string(b) != text {
			t.Errorf("zstd body: %v", err)
		}

		unchanged := map[string]string{
			"Content-Type": "", "Content-Length": "", "Content-Encoding": "", "Etag": packed,
			"Vary": "Accept-Encoding, Accept-Language, X-Currency", "Cache-Control": "public, max-age=15", "X-Cache": "HIT",
		}
		conditional := http.Header{"Accept-Encoding": {"gzip"}, "If-None-Match": {`"other", W/` + packed}}
		check("not modified", get(http.MethodGet, conditional), 304, unchanged)
		check("not modified, HEAD", get(http.MethodHead, conditional), 304, unchanged)
		check("another encoding's", get(http.MethodGet, http.Header{"If-None-Match": {packed}}), 200,
			map[string]string{"Etag": plain})
		check("POST has no condition", get(http.MethodPost, conditional), 200,
			map[string]string{"Etag": "", "Content-Encoding": "gzip", "X-Cache": "HIT"})
		resp = get(http.MethodHead, http.Header{})
		if n := resp.Body.Len(); n != 0 {
			t.Errorf("HEAD has a body of %d bytes", n)
		}
		check("HEAD", resp, 200, map[string]string{"Content-Length": "10000"})

		src.failWith(errUpstream)
		src.takes.Store(int64(time.Millisecond)) // the refresh ends after the response
		pause.For(t.Context(), 60*time.Second)
		check("stale", get(http.MethodGet, http.Header{}), 200, map[string]string{
			"X-Cache": "STALE", "Cache-Status": "bff/test; hit; ttl=-10; detail=refreshing", "Age": "70",
		})
		pause.For(t.Context(), 10*time.Millisecond)
		check("stale after a failure", get(http.MethodGet, http.Header{}), 200, map[string]string{
			"X-Cache": "STALE", "Cache-Status": "bff/test; hit; ttl=-10; detail=error", "Age": "70",
		})

		e, _ := c.Peek("k")
		w := httptest.NewRecorder()
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain")
		e.Serve(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), Status{Result: Bypass, Age: e.Age()})
		check("caller's headers", w, 200, map[string]string{
			"Vary": "Origin | Accept-Encoding, Accept-Language, X-Currency", "Cache-Control": "no-store",
			"Content-Type": "text/plain", "X-Cache": "BYPASS", "Cache-Status": "bff/test; fwd=bypass", "Age": "",
		})
		pause.For(t.Context(), time.Second)
	})
}

// serveFast serves h on a listener with the fast path, whose writer is a
// headFinisher, and returns its address.
func serveFast(t *testing.T, h http.Handler) (addr string) {
	t.Helper()
	var log testkit.Log
	d := daemon.New(daemon.Settings{Environment: "test", DrainBudget: time.Minute}, slog.New(slog.NewJSONHandler(&log, nil)))
	d.AddServer("test", "127.0.0.1:0", h, daemon.ServerOptions{FastPath: true})
	var listening struct{ Address string }
	started := make(chan struct{})
	d.Add("started", func(context.Context) error {
		defer close(started)
		for lines := json.NewDecoder(strings.NewReader(log.String())); listening.Address == ""; {
			if err := lines.Decode(&listening); err != nil {
				return err
			}
		}
		return nil
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	<-started
	return listening.Address
}

// TestServeFinished: over a server that takes finished lines an answer has the
// headers that it has over any other.
func TestServeFinished(t *testing.T) {
	t.Parallel()
	c := newTestCache(t, newMemoryStore(t), func(cfg *Config) {
		cfg.Vary, cfg.CacheControl = "Accept-Language", "public, max-age=15"
	})
	read(t, c, "k", newSource(string(body(10_000))).fill)
	e, ok := c.Peek("k")
	if !ok {
		t.Fatal("nothing is kept")
	}
	status := map[string]Status{
		"hit":    {Result: Hit, Age: 7 * time.Second},
		"later":  {Result: Hit, Age: 8 * time.Second},
		"shared": {Result: Hit, Shared: true, Age: 7 * time.Second},
		"stale":  {Result: Stale, Age: 70 * time.Second},
	}
	callers := map[string]http.Header{
		"nothing": {}, "own": {"X-Own": {"1"}}, "kind": {"Content-Type": {"text/plain"}},
		"control": {"Cache-Control": {"no-store"}}, "vary": {"Vary": {"Origin"}},
	}
	var finished atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), callers[r.URL.Query().Get("caller")])
		e.Serve(w, r, status[r.URL.Query().Get("status")])
		if w.Header().Get("X-Cache") == "" {
			finished.Add(1)
		}
	})
	addr := serveFast(t, handler)
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		for _, accept := range []string{"", "gzip", "zstd"} {
			for _, condition := range []string{"", `"other"`, e.variant[gzipped].etag} {
				for name := range status {
					for caller := range callers {
						target := "http://" + addr + "/?status=" + name + "&caller=" + caller
						r, err := http.NewRequestWithContext(t.Context(), method, target, http.NoBody)
						if err != nil {
							t.Fatal(err)
						}
						r.Header.Set("Accept-Encoding", accept)
						if condition != "" {
							r.Header.Set("If-None-Match", condition)
						}
						res, err := client.Do(r)
						if err != nil {
							t.Fatal(err)
						}
						got, err := io.ReadAll(res.Body)
						res.Body.Close()
						if err != nil {
							t.Fatal(err)
						}
						w := httptest.NewRecorder()
						handler.ServeHTTP(w, r)
						if w.Header().Get("X-Cache") == "" {
							t.Fatal("a server that takes no lines was given some")
						}
						res.Header.Del("Date")
						diff := cmp.Diff(w.Header(), res.Header)
						if res.StatusCode != w.Code || diff != "" || !bytes.Equal(got, w.Body.Bytes()) {
							t.Errorf("%s %q if not %s, %s, caller's %s: %d, want %d (-want +got):\n%s",
								method, accept, condition, name, caller, res.StatusCode, w.Code, diff)
						}
					}
				}
			}
		}
	}
	if finished.Load() == 0 {
		t.Error("no answer was finished")
	}
}

// A hit is served without allocating but for the request's own header map.
func TestServeAllocations(t *testing.T) { // not parallel: allocations are counted for the whole process
	c := newTestCache(t, newMemoryStore(t), func(cfg *Config) { cfg.CacheControl = "public" })
	src := newSource(string(body(10_000)))
	read(t, c, "k", src.fill)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	w := &sink{header: http.Header{}}
	ctx := t.Context()
	fill := FillFunc(src.fill)
	got := testing.AllocsPerRun(1000, func() {
		clear(w.header)
		e, st, err := c.Get(ctx, "k", fill)
		if err != nil {
			t.Error(err)
			return
		}
		e.Serve(w, r, st)
	})
	if got >= 1 {
		t.Errorf("%v allocations per hit, want 0", got)
	}
}

type sink struct {
	header http.Header
	status int
	n      int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { s.n += len(b); return len(b), nil }

func unzip(r io.Reader) (string, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(z)
	return string(b), err
}

// A blob that is damaged, of another release or hostile is a miss, and nothing
// worse.
func FuzzDecode(f *testing.F) {
	s, err := NewStore(StoreConfig{MaxBody: 64 << 10})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { closeStore(f, s) })
	c := newTestCache(f, s)
	raw := newTestCache(f, s, func(cfg *Config) { cfg.Name, cfg.Raw = "raw", true })
	for _, c := range []*Cache{c, raw} {
		for _, text := range []string{"", "{}", string(body(5000))} {
			e, _, err := c.Fetch(context.Background(), newSource(text, "tenant:1", "property:2").fill)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(e.encode())
		}
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		e, err := c.decode("k", blob)
		if err != nil {
			return
		}
		if len(e.Body()) > 64<<10 || len(e.tags) > maxTags+1 || e.ttl.life() < 0 {
			t.Errorf("over its limits: %d bytes, %d tags, life %v", len(e.Body()), len(e.tags), e.ttl.life())
		}
		again, err := c.decode("k", e.encode())
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if !bytes.Equal(again.Body(), e.Body()) || !cmp.Equal(again.Tags(), e.Tags()) || again.ttl != e.ttl {
			t.Error("changed on the way")
		}
	})
}

func TestDecodeLimits(t *testing.T) {
	t.Parallel()
	big := newTestCache(t, newMemoryStore(t))
	small := newTestCache(t, newTestStore(t, StoreConfig{MaxBody: 1000}))
	e, _, err := big.Fetch(t.Context(), newSource(strings.Repeat("a", 1<<20)).fill)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := big.decode("k", e.encode()); err != nil {
		t.Errorf("within limits: %v", err)
	}
	if _, err := small.decode("k", e.encode()); err == nil {
		t.Error("a small blob unpacked to a megabyte")
	}
	if _, err := big.decode("k", nil); !errors.Is(err, errBlob) {
		t.Errorf("empty blob: %v", err)
	}
}
