package consumerhttp_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

const (
	firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
	safari  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile/15E148 Safari/604.1"
)

// site is a testkit.World with some processes of the service.
type site struct {
	*testkit.World
	t     *testing.T
	procs []*platform.Process
	logs  []string // files, by process
}

func newSite(t *testing.T, processes int, settings map[string]string, change func(*platform.Places)) *site {
	t.Helper()
	s := &site{World: testkit.NewWorld(t, change), t: t}
	for range processes {
		s.start(settings)
	}
	return s
}

// start adds a process whose log the test can read.
func (s *site) start(settings map[string]string) {
	s.t.Helper()
	svc, err := platform.NewService("bff-consumer", false)
	if err != nil {
		s.t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(s.t.TempDir(), "bff-consumer.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	env := s.Env()
	if len(s.procs)%2 == 1 { // requests alternate: half are served with the fast path, half by net/http
		env["MELMASTOON_NO_FAST_PATH"] = "true"
	}
	maps.Copy(env, settings)
	if settings["BFF_CONSUMER_HANDOFF_KEYS_FILE"] != "" {
		delete(env, "BFF_CONSUMER_HANDOFF_KEYS")
	}
	p, err := svc.Start([]string{testkit.Binary(s.t, svc.Name), "serve"}, platform.Pairs(env), log)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		p.Kill()
		_ = log.Close()
		if s.t.Failed() {
			if b, err := os.ReadFile(log.Name()); err == nil {
				s.t.Logf("end of a log:\n%s", b[max(0, len(b)-4000):])
			}
		}
	})
	if err := p.AwaitReady(testkit.Context(s.t)); err != nil {
		b, _ := os.ReadFile(log.Name())
		if !strings.Contains(string(b), "address already in use") || !testkit.Forgive(s.t, "another process has taken the port") {
			s.t.Fatal(err)
		}
		s.start(settings)
		return
	}
	s.procs, s.logs = append(s.procs, p), append(s.logs, log.Name())
}

// guest is a browser; its requests go to one process after the other.
type guest struct {
	s      *site
	cookie string // the session's id
	card   string
	header map[string]string
	next   int
}

func (s *site) guest(header ...string) *guest {
	g := &guest{s: s, header: map[string]string{"User-Agent": firefox, "Accept-Language": "ps-AF"}}
	for i := 0; i+1 < len(header); i += 2 {
		g.header[header[i]] = header[i+1]
	}
	return g
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) code() string {
	var doc struct{ Error struct{ Code string } }
	if json.Unmarshal(a.body, &doc) != nil {
		return ""
	}
	return doc.Error.Code[strings.LastIndexByte(doc.Error.Code, '.')+1:]
}

func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

func (a answer) field(name string) string {
	var m map[string]any
	if json.Unmarshal(a.body, &m) != nil {
		return ""
	}
	s, _ := m[name].(string)
	return s
}

// client has no limit of idle connections that a crowd would exceed.
var client = &http.Client{
	Timeout: time.Minute,
	Transport: &http.Transport{
		MaxIdleConnsPerHost: 256, DialContext: (&net.Dialer{Timeout: time.Minute}).DialContext,
	},
}

func do(ctx context.Context, method, target string, header map[string]string, body any) (answer, error) {
	var raw []byte
	switch b := body.(type) {
	case nil:
	case []byte:
		raw = b
	default:
		var err error
		if raw, err = json.Marshal(b); err != nil {
			return answer{}, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(raw))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, b}, err
}

// ask sends a request and keeps the cookies.
func (g *guest) ask(method, path string, body any, header ...string) answer {
	g.s.t.Helper()
	h := maps.Clone(g.header)
	for i := 0; i+1 < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	if sent := testkit.CookieHeader(g.cookie, g.card); sent != "" && h["Cookie"] == "" {
		h["Cookie"] = sent
	}
	p := g.s.procs[g.next%len(g.s.procs)]
	g.next++
	a, err := do(testkit.Context(g.s.t), method, "http://"+p.Public+"/bff/consumer/v1"+path, h, body)
	if err != nil {
		g.s.t.Fatalf("%s %s: %v", method, path, err)
	}
	testkit.TakeCookies(a.header, &g.cookie, &g.card)
	return a
}

// must is ask for a request that has to succeed.
func (g *guest) must(want int, method, path string, body any, header ...string) answer {
	g.s.t.Helper()
	var a answer
	testkit.Retry(g.s.t, method+" "+path+" within the budgets of upstreams", func() bool {
		a = g.ask(method, path, body, header...)
		return a.status == want || a.status != http.StatusServiceUnavailable && !testkit.TooSlow(a.status, a.body)
	})
	if a.status != want {
		g.s.t.Fatalf("%s %s: %d, want %d: %s", method, path, a.status, want, a.body)
	}
	return a
}

func once() []string { return []string{"Idempotency-Key", rand.Text()} }

// hotel is the n-th hotel of the catalogue.
func (s *site) hotel(n int) (property, tenant string) {
	h := s.Sim.Catalog().Properties[n]
	return h.PropertyID, h.TenantID
}

func (s *site) wish(n int) map[string]any {
	property, _ := s.hotel(n)
	return map[string]any{"propertyId": property, "source": "detail"}
}

func (s *site) stay(n int) map[string]any {
	property, tenant := s.hotel(n)
	return map[string]any{
		"propertyId": property, "tenantId": tenant, "currency": "USD",
		"dates":     map[string]string{"checkIn": "2077-05-12", "checkOut": "2077-05-15"},
		"occupancy": map[string]any{"adults": 2, "children": 1, "rooms": 1, "childrenAges": []int{7}},
	}
}

func search() map[string]any {
	return map[string]any{
		"geo": map[string]any{"mode": "city", "city": "Kabul"}, "dates": map[string]any{"checkIn": "2077-05-12", "checkOut": "2077-05-15"},
		"occupancy": map[string]any{"adults": 2, "children": 1, "rooms": 1, "childrenAges": []int{7}},
	}
}

func tokenOf(t *testing.T, a answer) (id, token string) {
	t.Helper()
	var minted struct{ HandoffID, URL string }
	a.into(t, &minted)
	u, err := url.Parse(minted.URL)
	if err != nil || u.Query().Get("h") == "" {
		t.Fatalf("no token: %d %s", a.status, a.body)
	}
	return minted.HandoffID, u.Query().Get("h")
}

// consume calls a process as the booking service does.
func (s *site) consume(ctx context.Context, p *platform.Process, id, token, instance string) (answer, error) {
	body, err := json.Marshal(map[string]string{"token": token, "instance": instance})
	if err != nil {
		return answer{}, err
	}
	path, now := "/internal/handoff/"+id+"/consume", time.Now().Unix()
	digest := sha256.Sum256(body)
	mac := hmac.New(sha256.New, []byte(s.Secrets.InternalHMACKey))
	_, _ = fmt.Fprintf(mac, "POST\n%s\n%d\n%s", path, now, hex.EncodeToString(digest[:]))
	return do(ctx, http.MethodPost, "http://"+p.Internal+path, map[string]string{
		"Authorization":   "Bearer " + s.Secrets.InternalToken,
		"X-Internal-HMAC": fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil))),
	}, body)
}

// count asks Postgres.
func (s *site) count(sql string, args ...any) int {
	s.t.Helper()
	var n int
	s.query(&n, sql, args...)
	return n
}

func (s *site) query(into any, sql string, args ...any) {
	s.t.Helper()
	ctx := testkit.Context(s.t)
	conn, err := pgx.Connect(ctx, s.PostgresURL)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if err := conn.QueryRow(ctx, sql, args...).Scan(into); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		s.t.Fatal(err)
	}
}

// event waits for an event of a guest in the outbox and returns its payload.
func (s *site) event(subject consumer.Subject, guest string) map[string]any {
	s.t.Helper()
	var raw []byte
	s.until("no "+string(subject), func() bool {
		raw = nil
		s.query(&raw, `SELECT payload FROM bff_consumer.outbox WHERE topic = $1 AND headers->>'sessionId' = $2 ORDER BY id LIMIT 1`, string(subject), guest)
		return raw != nil
	})
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *site) events(subject consumer.Subject, guest string) int {
	s.t.Helper()
	return s.count(`SELECT count(*) FROM bff_consumer.outbox WHERE topic = $1 AND headers->>'sessionId' = $2`, string(subject), guest)
}

// until waits for a condition that comes true after a response.
func (s *site) until(otherwise string, done func() bool) {
	s.t.Helper()
	testkit.Until(s.t, otherwise, done)
}

func redisClient(t *testing.T, url string) rueidis.Client {
	t.Helper()
	c, err := redis.Open(redis.Config{URL: url, Tier: "test", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
