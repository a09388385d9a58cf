package consumerhttp_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// A token is consumed once, however many callers ask, and however often, although Postgres
// dies among them. Callers insist until they are told yes or no.
func TestProofOneConsumer(t *testing.T) {
	t.Parallel()
	callers := testkit.Proof(40, 1000)
	db := testkit.NewPostgres(t, true)
	s := newSite(t, 3, nil, func(p *platform.Places) { p.PostgresURL = db.URL() })
	g := s.guest()
	id, token := tokenOf(t, g.must(http.StatusCreated, "POST", "/handoff", s.stay(0), once()...))

	ctx := testkit.Context(t)
	var (
		wg             sync.WaitGroup
		answered       atomic.Int32
		won, lost      atomic.Int32
		half, released = make(chan struct{}), make(chan struct{})
	)
	for i := range callers {
		wg.Go(func() {
			if i >= callers/2 { // the others come while Postgres is away
				<-released
			}
			for try := 0; ctx.Err() == nil; try++ {
				a, err := s.consume(ctx, s.procs[(i+try)%3], id, token, fmt.Sprintf("booking-%d", i))
				switch {
				case err == nil && a.status == http.StatusOK:
					won.Add(1)
				case err == nil && a.status == http.StatusConflict && a.code() == "HANDOFF_REPLAYED":
					lost.Add(1)
				case err == nil && a.status < 500:
					t.Errorf("%d %s", a.status, a.body)
				default: // the outcome is unknown: ask again
					pause.For(ctx, breath)
					continue
				}
				if answered.Add(1) == int32(callers/10) {
					close(half)
				}
				return
			}
		})
	}
	<-half
	if err := db.Kill(); err != nil {
		t.Fatal(err)
	}
	close(released)
	if err := db.Start(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if won.Load() != 1 || int(lost.Load()) != callers-1 {
		t.Errorf("%d of %d callers won and %d lost, want 1 and the rest", won.Load(), callers, lost.Load())
	}
	var by string
	s.query(&by, `SELECT consumed_by FROM bff_consumer.handoff_replay_log WHERE id = $1 AND consumed`, id)
	if by == "" {
		t.Error("the ledger names no consumer")
	}
	s.until("a replay left no trace", func() bool {
		return s.count(`SELECT count(*) FROM bff_consumer.bot_score_log WHERE guest_session_id = $1`, g.cookie) > 0
	})
}

// A mint happens once, although it is sent many times to several processes of
// which one is killed: one row, one event, the same answer for everyone.
func TestProofOneMint(t *testing.T) {
	t.Parallel()
	attempts := testkit.Proof(24, 500)
	// More retries than are free, and faster than people are.
	s := newSite(t, 3, map[string]string{"BFF_CONSUMER_LIMITS": "handoff=10000", "BFF_CONSUMER_BOT_DEFENCE": "watch"}, nil)
	g := s.guest()
	g.must(http.StatusOK, "GET", "/session", nil)
	key := rand.Text()
	header := map[string]string{"User-Agent": firefox, "Accept-Language": "ps-AF", "Idempotency-Key": key, "Cookie": testkit.CookieHeader(g.cookie, g.card)}

	ctx := testkit.Context(t)
	var (
		wg      sync.WaitGroup
		fresh   atomic.Int32
		bodies  sync.Map
		started = make(chan struct{}, attempts)
	)
	for i := range attempts {
		wg.Go(func() {
			started <- struct{}{}
			for try := 0; ctx.Err() == nil; try++ {
				a, err := do(ctx, http.MethodPost, "http://"+s.procs[(i+try)%3].Public+"/bff/consumer/v1/handoff", header, s.stay(0))
				if err != nil || a.status == http.StatusConflict || a.status >= 500 {
					pause.For(ctx, breath) // killed, still running or overloaded
					continue
				}
				if a.status != http.StatusCreated {
					t.Errorf("%d %s", a.status, a.body)
					return
				}
				if a.header.Get("Idempotency-Replayed") == "" {
					fresh.Add(1)
				}
				bodies.Store(string(a.body), true)
				return
			}
		})
	}
	for range attempts / 4 {
		<-started
	}
	s.procs[0].Kill()
	wg.Wait()
	n := 0
	bodies.Range(func(any, any) bool { n++; return true })
	if n != 1 || fresh.Load() > 1 {
		t.Errorf("%d different answers, %d of them fresh; want one, told once", n, fresh.Load())
	}
	if rows := s.count(`SELECT count(*) FROM bff_consumer.handoff_replay_log WHERE guest_session_id = $1`, g.cookie); rows != 1 {
		t.Errorf("%d rows in the ledger, want 1", rows)
	}
	if n := s.events(consumer.SubjectHandoffInitiated, g.cookie); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// Keys are rotated under load and no hand-off fails; and whatever happened,
// nothing secret is in any log.
func TestProofKeyRotation(t *testing.T) {
	t.Parallel()
	rotations := testkit.Proof(1, 10)
	file := filepath.Join(t.TempDir(), "keys.json")
	keys := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(testkit.Context(t), testkit.Binary(t, "bff-consumer"), append([]string{"keys"}, append(args, "--file", file)...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("keys %v: %v %s", args, err, out)
		}
	}
	keys("add", "k0")
	s := newSite(t, 2, map[string]string{
		"BFF_CONSUMER_HANDOFF_KEYS_FILE": file, "MELMASTOON_LOG_LEVEL": "debug", "BFF_CONSUMER_LIMITS": generous, "BFF_CONSUMER_BOT_DEFENCE": "watch",
	}, nil)

	ctx := testkit.Context(t)
	stop := make(chan struct{})
	var (
		wg     sync.WaitGroup
		passed sync.Map // key id → *atomic.Int32
		tokens sync.Map
	)
	count := func(id string) *atomic.Int32 {
		n, _ := passed.LoadOrStore(id, new(atomic.Int32))
		return n.(*atomic.Int32)
	}
	const note = "a-note-that-nobody-else-may-read"
	for i := range 4 {
		wg.Go(func() {
			g := s.guest()
			g.must(http.StatusCreated, "POST", "/wishlist", map[string]any{"propertyId": s.wish(i)["propertyId"], "source": "list", "note": note}, once()...)
			for n := i; ; n++ {
				select {
				case <-stop:
					tokens.Store(g.cookie, true)
					return
				default:
				}
				a := g.ask("POST", "/handoff", s.stay(i), once()...)
				if a.status != http.StatusCreated {
					t.Errorf("mint: %d %s", a.status, a.body)
					return
				}
				id, token := tokenOf(t, a)
				tokens.Store(token, true)
				p, err := handoff.Inspect(token)
				if err != nil {
					t.Error(err)
					return
				}
				if c, err := s.consume(ctx, s.procs[n%2], id, token, "booking"); err != nil || c.status != http.StatusOK {
					t.Errorf("consume of a token by %s: %v %d %s", p.KeyID, err, c.status, c.body)
					return
				}
				count(p.KeyID).Add(1)
				if !testkit.LongProof() { // short proofs share the machine with other tests
					pause.For(ctx, breath)
				}
			}
		})
	}
	enough := func(id string) {
		s.until("no hand-off by "+id, func() bool { return t.Failed() || count(id).Load() >= 20 })
	}
	enough("k0")
	for i := range rotations {
		next := fmt.Sprintf("k%d", i+1)
		keys("add", next)
		keys("promote", next)
		enough(next)
		if i == 0 { // a broken file changes nothing
			good, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			replace(t, file, []byte(`{"keys":[{"id":"broken","state":"active","secret":"AAAA"}]}`))
			s.until("nobody noticed the broken file", func() bool { return !slices.Contains(s.logged("new secret is invalid"), 0) })
			n := count(next).Load()
			s.until("no hand-off with a broken file", func() bool { return t.Failed() || count(next).Load() > n+5 })
			replace(t, file, good)
		}
	}
	close(stop)
	wg.Wait()

	secrets := map[string]string{
		"pepper": s.Secrets.Pepper, "internal token": s.Secrets.InternalToken, "internal key": s.Secrets.InternalHMACKey,
		"note": note, "user agent": "rv:130.0", "password": ":only-for-tests@",
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var ring struct{ Keys []struct{ ID, Secret string } }
	if err := json.Unmarshal(b, &ring); err != nil {
		t.Fatal(err)
	}
	for _, k := range ring.Keys {
		raw, err := base64.StdEncoding.DecodeString(k.Secret)
		if err != nil {
			t.Fatal(err)
		}
		secrets["secret of "+k.ID], secrets["raw secret of "+k.ID] = k.Secret, string(raw)
	}
	tokens.Range(func(token, _ any) bool {
		secrets["token or cookie "+token.(string)[:12]] = token.(string)
		return true
	})
	for _, name := range s.logs {
		log, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(log, []byte(`"msg":"request"`)) {
			t.Error("the log holds no requests: this proves nothing")
		}
		for what, secret := range secrets {
			if bytes.Contains(log, []byte(secret)) {
				t.Errorf("the log holds the %s", what)
			}
		}
	}
}

// logged counts how often each process logged something.
func (s *site) logged(what string) (n []int) {
	s.t.Helper()
	for _, name := range s.logs {
		log, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		n = append(n, bytes.Count(log, []byte(what)))
	}
	return n
}

// replace swaps a file whole, as an orchestrator does.
func replace(t *testing.T, file string, b []byte) {
	t.Helper()
	tmp := file + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, file); err != nil {
		t.Fatal(err)
	}
}

// Redis forgets everything while guests are busy: sessions come back under the
// same cookie, wishlists and answers are all there.
func TestProofRedisForgets(t *testing.T) {
	t.Parallel()
	guests, each := testkit.Proof(4, 20), testkit.Proof(6, 40)
	redis := testkit.NewRedis(t)
	s := newSite(t, 2, map[string]string{"BFF_CONSUMER_LIMITS": generous, "BFF_CONSUMER_BOT_DEFENCE": "watch"}, // these guests are busier than people
		func(p *platform.Places) { p.RedisURL = redis.URL() })
	type told struct {
		key  string
		body map[string]any
		said string
	}
	var (
		wg       sync.WaitGroup
		finished atomic.Int32
		over     = make(chan struct{})
	)
	wg.Go(func() { // after every few changes
		last := int32(0)
		for {
			select {
			case <-over:
				return
			default:
			}
			if n := finished.Load(); n >= last+3 {
				last = n
				flush(t, redis.URL())
			} else {
				pause.For(testkit.Context(t), breath)
			}
		}
	})
	var busy sync.WaitGroup
	for range guests {
		busy.Go(func() {
			g := s.guest()
			g.must(http.StatusOK, "GET", "/session", nil)
			cookie := g.cookie
			var all []told
			for n := range each {
				key, body := rand.Text(), s.wish(n)
				a := g.must(http.StatusCreated, "POST", "/wishlist", body, "Idempotency-Key", key)
				all = append(all, told{key, body, string(a.body)})
				finished.Add(1)
			}
			for _, w := range all {
				a := g.must(http.StatusCreated, "POST", "/wishlist", w.body, "Idempotency-Key", w.key)
				if string(a.body) != w.said || a.header.Get("Idempotency-Replayed") != "true" {
					t.Errorf("the answer was lost: %s, want %s", a.body, w.said)
				}
			}
			var list struct{ Size int }
			g.must(http.StatusOK, "GET", "/wishlist", nil).into(t, &list)
			if list.Size != each || g.cookie != cookie {
				t.Errorf("%d entries under %s, want %d under %s", list.Size, g.cookie, each, cookie)
			}
		})
	}
	busy.Wait()
	close(over)
	wg.Wait()
}

func flush(t *testing.T, url string) {
	t.Helper()
	c := redisClient(t, url)
	if err := c.Do(testkit.Context(t), c.B().Flushall().Build()).Error(); err != nil {
		t.Error(err)
	}
	c.Close()
}

// generous are limits for proofs of something else.
const generous = "search=100000,detail=100000,handoff=100000,wishlist=100000,session=100000,telemetry=100000"

// breath keeps clients that ask again while a server is killed from taking the machine from the processes.
const breath = 20 * time.Millisecond

// A wishlist holds its hundred however many processes add to it.
func TestProofWishlistCap(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, map[string]string{"BFF_CONSUMER_LIMITS": generous, "BFF_CONSUMER_BOT_DEFENCE": "watch"}, nil)
	g := s.guest()
	g.must(http.StatusOK, "GET", "/session", nil)
	ctx := testkit.Context(t)
	hotels := s.Sim.Catalog().Properties
	if len(hotels) < 200 {
		t.Fatalf("only %d hotels", len(hotels))
	}
	var wg sync.WaitGroup
	var added, refused atomic.Int32
	crowd := make(chan struct{}, 24) // at the same time: a busy machine would let all 200 wait until none has time left
	for i := range 200 {
		wg.Go(func() {
			crowd <- struct{}{}
			defer func() { <-crowd }()
			header := maps.Clone(g.header)
			header["Cookie"], header["Idempotency-Key"] = testkit.CookieHeader(g.cookie, g.card), rand.Text()
			for ctx.Err() == nil {
				a, err := do(ctx, http.MethodPost, "http://"+s.procs[i%2].Public+"/bff/consumer/v1/wishlist", header,
					map[string]any{"propertyId": hotels[i].PropertyID, "source": "list"})
				switch {
				case err == nil && a.status == http.StatusCreated:
					added.Add(1)
				case err == nil && a.code() == "WISHLIST_LIMIT_EXCEEDED" && a.status == http.StatusUnprocessableEntity:
					refused.Add(1)
				case err == nil && (a.status == http.StatusConflict || a.status >= 500): // a busy machine: insist
					if testkit.Forgive(t, "an addition") && pause.For(ctx, breath) {
						continue
					}
				default:
					t.Errorf("%v %d %s", err, a.status, a.body)
				}
				return
			}
		})
	}
	wg.Wait()
	if added.Load() != 100 || refused.Load() != 100 {
		t.Errorf("%d added, %d refused; want 100 and 100", added.Load(), refused.Load())
	}
	rows := s.count(`SELECT count(*) FROM bff_consumer.wishlist_anonymous WHERE guest_session_id = $1 AND removed_at IS NULL`, g.cookie)
	c := redisClient(t, s.RedisURL)
	g.must(http.StatusOK, "GET", "/wishlist", nil) // fills the mirror if a busy machine did not
	mirror, err := c.Do(ctx, c.B().Lrange().Key(strings.Join([]string{
		s.Name, "bff-consumer", "session", g.cookie, "wishlist",
	}, ":")).Start(0).Stop(-1).Build()).AsStrSlice()
	c.Close()
	// Its first item is the version.
	if err != nil || len(mirror) != 1+rows || rows != 100 {
		t.Errorf("%d in Redis (%v), %d in Postgres; want 100 in both", len(mirror)-1, err, rows)
	}
}
