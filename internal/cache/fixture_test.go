package cache

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestMain also is the main of the processes that process_test.go starts.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain())
	}
	goleak.VerifyTestMain(
		m,
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"), // of a dependency of testkit
		// A cluster client that is closed still refreshes its list of nodes, up to a second
		// after its last connection has ended, and five seconds later drops old connections.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		// Servers live as long as the test process.
		goleak.IgnoreAnyFunction("melmastoon.ghasi.io/bff/internal/local/stack.start.func1"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Start.func2"),
	)
}

// minute is the lifetime of most tests: fresh for one, then as long in each of
// the states after.
func minute() TTL {
	return TTL{Fresh: time.Minute, Grace: time.Minute, Stale: 2 * time.Minute}
}

// newMemoryStore has no Redis.
func newMemoryStore(t testing.TB) *Store {
	t.Helper()
	return newTestStore(t, StoreConfig{})
}

func newTestStore(t testing.TB, cfg StoreConfig) *Store {
	t.Helper()
	s, err := NewStore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), slowTimeout)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func newTestCache(t testing.TB, s *Store, change ...func(*Config)) *Cache {
	t.Helper()
	cfg := Config{Name: "test", TTL: minute, MaxBytes: 16 << 20, Shared: true}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dial opens a client.
func dial(t testing.TB, urls ...string) rueidis.Client {
	t.Helper()
	opt, err := clientOption(urls...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := rueidis.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func clientOption(urls ...string) (rueidis.ClientOption, error) {
	opt, err := rueidis.ParseURL(urls[0])
	if err != nil {
		return opt, err
	}
	for _, u := range urls[1:] {
		parsed, err := url.Parse(u)
		if err != nil {
			return opt, err
		}
		opt.InitAddress = append(opt.InitAddress, parsed.Host)
	}
	opt.DisableCache = true
	// A server that a busy machine pauses is not gone: the connection must survive it.
	opt.ConnWriteTimeout = slowTimeout
	opt.Dialer = net.Dialer{Timeout: slowTimeout, KeepAlive: slowTimeout}
	return opt, nil
}

// slowTimeout is the time of leases and followers where a test counts fills: a process
// that a busy machine pauses must not lose its lease, which would cost a second fill.
const slowTimeout = time.Minute

// slowMachine is a configuration for a shared, slow machine: a scheduler that
// pauses us is no broken Redis.
func slowMachine(c rueidis.Client, prefix string) StoreConfig {
	return StoreConfig{Redis: c, Prefix: prefix, ReadTimeout: slowTimeout, WriteTimeout: slowTimeout}
}

func newPrefix() string { return "test:" + rand.Text()[:8] + ":" }

// fixture is several stores, as several processes have them, on one Redis.
type fixture struct {
	prefix string
	stores []*Store
	caches []*Cache
}

func newFixture(t testing.TB, n int, urls []string, change ...func(*Config)) *fixture {
	t.Helper()
	fx := &fixture{prefix: newPrefix()}
	change = append([]func(*Config){func(c *Config) { c.FollowTimeout = slowTimeout }}, change...)
	for range n {
		s := newTestStore(t, slowMachine(dial(t, urls...), fx.prefix))
		if !s.Up() {
			t.Fatal("store did not reach redis")
		}
		s.leaseTTL = slowTimeout
		fx.stores = append(fx.stores, s)
		fx.caches = append(fx.caches, newTestCache(t, s, change...))
	}
	return fx
}

func (fx *fixture) key(name string) string { return fx.prefix + "cache:" + name }

// eachTopology runs a test on a single Redis and on a Redis Cluster.
func eachTopology(t *testing.T, test func(t *testing.T, urls []string)) {
	t.Helper()
	for name, start := range map[string]func(testing.TB) []string{
		"single":  func(t testing.TB) []string { t.Helper(); return []string{testkit.Redis(t)} },
		"cluster": testkit.RedisCluster,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// source is an upstream that counts.
type source struct {
	calls atomic.Int64
	text  atomic.Pointer[string]
	fail  atomic.Pointer[error]
	takes atomic.Int64 // how long a fill takes, in nanoseconds
	tags  []string
}

func newSource(text string, tags ...string) *source {
	s := &source{tags: tags}
	s.say(text)
	return s
}

func (s *source) say(text string) { s.text.Store(&text) }

func (s *source) failWith(err error) { s.fail.Store(&err) }

func (s *source) fill(ctx context.Context) (Fill, error) {
	s.calls.Add(1)
	if d := s.takes.Load(); d > 0 {
		pause.For(ctx, time.Duration(d))
	}
	if err := s.fail.Load(); err != nil && *err != nil {
		return Fill{}, *err
	}
	return Fill{Body: []byte(*s.text.Load()), Tags: s.tags}, nil
}

var errUpstream = errors.New("upstream is down")

// answer is what a read returned, for comparison.
type answer struct {
	Body   string
	Result Result
	Err    string
}

func read(t testing.TB, c *Cache, key string, fill FillFunc) answer {
	t.Helper()
	e, st, err := c.Get(t.Context(), key, fill)
	if err != nil {
		return answer{Err: err.Error()}
	}
	a := answer{Body: string(e.Body()), Result: st.Result}
	if st.Err != nil {
		a.Err = st.Err.Error()
	}
	return a
}

func body(n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(b, `{"id":"prp_%026d","name":"Hotel %d","price":"%d"},`, i*7919, i, i*131%977)
	}
	return b[:n]
}
