package consumerd_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/challenge"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

const robot = "Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)"

const headless = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/142.0.0.0 Safari/537.36"

// patient lets one client do what only a crowd would: for tests of something
// else. Everything is counted and judged as ever.
func patient() map[string]string {
	return map[string]string{
		"BFF_CONSUMER_LIMITS":      "search=100000,detail=100000,handoff=100000,wishlist=100000,session=100000,telemetry=100000",
		"BFF_CONSUMER_BOT_WEIGHTS": "fast=0;faster=0;fastest=0;steady=0;steadier=0;steadiest=0;made-up=0;no-cookies=0",
	}
}

// newWatch is a fleet with settings.
func newWatch(t *testing.T, nodes int, settings map[string]string) *fleet {
	t.Helper()
	f := newFleet(t, 0)
	f.settings = settings
	for range nodes {
		f.nodes = append(f.nodes, f.launch(settings))
	}
	for i := range f.nodes {
		f.awaitReady(i)
	}
	return f
}

// with adds headers to a call.
func (c guestCall) with(header ...string) guestCall {
	h := map[string]string{}
	maps.Copy(h, c.header)
	for i := 0; i+1 < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	c.header = h
	return c
}

func (c guestCall) at(node, guest int) guestCall {
	c.node, c.guest = node, guest
	return c
}

// session opens a session for a guest and returns its cookies.
func (f *fleet) session(guest int, header ...string) string {
	f.t.Helper()
	a := f.get(guestCall{method: http.MethodGet, path: "/session"}.with(header...).at(0, guest))
	sent := cookieHeader(a)
	if sent == "" {
		f.t.Fatalf("no cookie: %s", a)
	}
	return sent
}

// cookieHeader returns the cookies that an answer sets, as they come back.
func cookieHeader(a guestAnswer) string {
	var id, card string
	testkit.TakeCookies(a.header, &id, &card)
	return testkit.CookieHeader(id, card)
}

func wishCall(f *fleet, n int) guestCall {
	return guestCall{
		method: http.MethodPost, path: "/wishlist", body: `{"propertyId":"` + f.hotels()[n].PropertyID + `","source":"detail"}`,
	}.with("Idempotency-Key", rand.Text())
}

func codeOf(a guestAnswer) string {
	var doc struct{ Error struct{ Code string } }
	if json.Unmarshal(a.body, &doc) != nil {
		return ""
	}
	return doc.Error.Code[strings.LastIndexByte(doc.Error.Code, '.')+1:]
}

// TestLimitsHoldOverInstances: one session, three instances, one limit.
func TestLimitsHoldOverInstances(t *testing.T) {
	f := newWatch(t, 3, map[string]string{"BFF_CONSUMER_BOT_DEFENCE": "off"})
	cookie := f.session(1)
	hotel := f.hotels()[0].PropertyID
	call := hotelCall(hotel+"/availability?from=2077-03-10&to=2077-03-12").with("Cookie", cookie)
	f.get(call.at(0, 1)) // one of them has it in its cache, and the buckets are known
	var (
		mu             sync.Mutex
		wg             sync.WaitGroup
		admitted       = 1
		refused        int
		began          = time.Now()
		limit, perSecs = 120.0, 2.0
	)
	for worker := range 6 {
		wg.Go(func() {
			for i := range 60 {
				a, err := f.try(testkit.Context(t), call.at((worker+i)%3, 1))
				mu.Lock()
				switch {
				case err == nil && a.status == http.StatusOK:
					admitted++
				case err == nil && a.status == http.StatusTooManyRequests && codeOf(a) == "RATE_LIMITED" && a.header.Get("Retry-After") != "":
					refused++
					if limit, left := a.header.Get("RateLimit-Limit"), a.header.Get("RateLimit-Remaining"); limit != "120" || left != "0" {
						t.Errorf("refused with RateLimit-Limit %s, RateLimit-Remaining %s", limit, left)
					}
				default:
					t.Errorf("%v %s", err, a)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	most := (limit + perSecs*time.Since(began).Seconds()) * 1.02
	for i := range 3 { // an instance that Redis kept waiting admits by its own share
		most += f.metric(i, "bff_consumer_limits_local_total")
	}
	t.Logf("%d admitted, %d refused; the limit is %.0f", admitted, refused, most)
	if float64(admitted) > most || float64(admitted) < limit*0.98 {
		t.Errorf("%d requests were admitted, want %.0f to %.0f", admitted, limit*0.98, most)
	}
}

// TestForwardingHeadersOfStrangers: an address that a client made up is no
// address.
func TestForwardingHeadersOfStrangers(t *testing.T) {
	t.Parallel()
	f := newWatch(t, 1, map[string]string{"BFF_CONSUMER_TRUSTED_PROXIES": "192.0.2.0/24", "BFF_CONSUMER_LIMITS": "wishlist=5,ip=2,fingerprint=1000"})
	served, began := 0, time.Now()
	for i := range 40 {
		a := f.ask(guestCall{method: http.MethodGet, path: "/wishlist"}.with(
			"X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i), "Forwarded", fmt.Sprintf("for=203.0.113.%d", i),
			"X-Real-IP", fmt.Sprintf("203.0.113.%d", i), "True-Client-IP", fmt.Sprintf("203.0.113.%d", i)).at(0, i))
		if a.status == http.StatusOK {
			served++
		}
	}
	const limit = 10
	if most := limit*(1+time.Since(began).Minutes()) + 2; served < limit-1 || float64(served) > most { // and what is refilled meanwhile
		t.Errorf("%d requests from one address were served, want %d to %.0f", served, limit, most)
	}
}

// solve gets a challenge and does its work.
func (f *fleet) solve(node, guest int, header ...string) string {
	f.t.Helper()
	a := f.get(guestCall{method: http.MethodGet, path: "/challenge"}.with(header...).at(node, guest))
	if a.header.Get("Cache-Control") != "private, no-store" {
		f.t.Errorf("Cache-Control: %s", a.header.Get("Cache-Control"))
	}
	var ch challenge.Challenge
	if err := json.Unmarshal(a.body, &ch); err != nil {
		f.t.Fatal(err)
	}
	n, err := ch.Solve(testkit.Context(f.t))
	if err != nil {
		f.t.Fatal(err)
	}
	payload, err := ch.Encode(n)
	if err != nil {
		f.t.Fatal(err)
	}
	return payload
}

// TestChallenge: a program that says what it is is told how to go on, pays, and is let in for
// a while, at every instance. The solution is that client's alone and counts once.
func TestChallenge(t *testing.T) {
	t.Parallel()
	f := newWatch(t, 2, nil)
	agent := []string{"User-Agent", robot}
	cookie := f.session(1, agent...)
	as := func(c guestCall, node int, more ...string) guestAnswer {
		return f.ask(c.with(append([]string{"User-Agent", robot, "Cookie", cookie}, more...)...).at(node, 1))
	}
	refused := as(wishCall(f, 0), 0)
	if refused.status != http.StatusTooManyRequests || codeOf(refused) != "SUSPECTED_BOT" {
		t.Fatalf("got %s, want a challenge", refused)
	}
	if !strings.Contains(refused.header.Get("Link"), apiBase+"/challenge") || !strings.Contains(string(refused.body), apiBase+"/challenge") {
		t.Errorf("the answer does not say how to go on: %v %s", refused.header, refused.body)
	}
	payload := f.solve(0, 1, "User-Agent", robot, "Cookie", cookie)

	other := f.session(2, agent...)
	if a := f.ask(wishCall(f, 0).with("User-Agent", robot, "Cookie", other, "X-Challenge", payload).at(0, 2)); codeOf(a) != "CHALLENGE_INVALID" {
		t.Errorf("another client's solution: %s", a)
	}
	if a := as(wishCall(f, 0), 0, "X-Challenge", payload); a.status != http.StatusCreated {
		t.Fatalf("with the solution: %s", a)
	}
	for node := range f.nodes {
		if a := as(wishCall(f, 1+node), node); a.status != http.StatusCreated {
			t.Errorf("instance %d does not know the solution: %s", node, a)
		}
	}
	if a := as(wishCall(f, 4), 1, "X-Challenge", payload); codeOf(a) != "CHALLENGE_INVALID" || a.status != http.StatusForbidden {
		t.Errorf("a solution that was spent: %s", a)
	}

	db, err := pgx.Connect(testkit.Context(t), f.PostgresURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(testkit.Context(t))) }()
	id, _, _ := strings.Cut(strings.TrimPrefix(cookie, "gms_id="), ";")
	until(t, "the verdict in the log", func() bool {
		var verdict, action string
		err := db.QueryRow(
			testkit.Context(t), `SELECT verdict, action_taken FROM bff_consumer.bot_score_log WHERE guest_session_id = $1 ORDER BY id LIMIT 1`, id,
		).Scan(&verdict, &action)
		return err == nil && verdict == "suspect" && action == "challenge"
	})
	until(t, "the event", func() bool {
		var n int
		err := db.QueryRow(
			testkit.Context(t), `SELECT count(*) FROM bff_consumer.outbox WHERE topic LIKE '%bot_suspected.v1' AND headers->>'sessionId' = $1`, id,
		).Scan(&n)
		return err == nil && n > 0
	})

	// A client that fails challenges again and again is shut out, everywhere, for ten
	// minutes; others are not.
	cookie = f.session(3)
	for range 3 {
		if a := f.ask(wishCall(f, 0).with("Cookie", cookie, "X-Challenge", "nonsense").at(0, 3)); codeOf(a) != "CHALLENGE_INVALID" {
			t.Fatalf("nonsense: %s", a)
		}
	}
	suggest := guestCall{method: http.MethodGet, path: "/suggest?q=kab"}
	a := f.ask(suggest.with("Cookie", cookie).at(0, 3))
	if wait, _ := strconv.Atoi(a.header.Get("Retry-After")); a.status != http.StatusTooManyRequests || codeOf(a) != "SUSPECTED_BOT" || wait < 300 {
		t.Fatalf("got %s, Retry-After %d", a, wait)
	}
	until(t, "the block at the other instance", func() bool {
		return f.ask(suggest.with("Cookie", cookie).at(1, 3)).status == http.StatusTooManyRequests
	})
	f.get(suggest.with("Cookie", f.session(4)).at(1, 4))
}

// TestStampedeOfStrangers: a thousand identical searches without cookies from
// one address are one search. It is not parallel: it wants the machine for itself.
// The budgets are those of production, which a machine with other work may not
// keep: a stampede in which an upstream call was late, hedged or tried again says
// nothing about the service, and there is another. So there is after one in which
// strangers beyond the limit of their browser came before the first search had begun:
// those are refused, because there is nothing yet that could answer them.
func TestStampedeOfStrangers(t *testing.T) {
	f := newWatch(t, 1, nil)
	begun, before := f.peekCalls()[callListings], f.extraCalls()
	for guests := int64(1); guests <= 20; guests++ { // each a search that is in no cache yet
		earlier := f.peekCalls()[callListings]
		got := f.rush(searchCall("Kabul", fmt.Sprintf(`"occupancy":{"adults":%d,"children":0,"rooms":1}`, 1+guests%4),
			fmt.Sprintf(
				`"dates":{"checkIn":"2077-04-%02d","checkOut":"2077-04-%02d"}`, guests, guests+2,
			)).at(0, int(guests))) // from another address and browser: both have limits
		calls := f.peekCalls()[callListings]
		if got[http.StatusOK] == 1000 && calls-earlier == 1 {
			return
		}
		// Counted from the first stampede: a hedge may arrive after its stampede is over.
		busy := f.extraCalls() - before
		t.Logf("answers %v, %d upstream searches; so far %d calls because the machine was slow", got, calls-earlier, busy)
		if calls-begun > guests+busy || busy == 0 && got[http.StatusOK]+got[http.StatusTooManyRequests] != 1000 {
			t.Fatalf("answers %v, and %d upstream searches for %d questions", got, calls-begun, guests)
		}
	}
	t.Error("in no stampede a thousand were answered by one upstream search")
}

// rush asks a thousand times at once, and counts the answers by status.
func (f *fleet) rush(c guestCall) map[int]int {
	f.t.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		got   = map[int]int{}
		start = make(chan struct{})
		ctx   = testkit.Context(f.t)
	)
	for range 1000 {
		wg.Go(func() {
			<-start
			a, err := f.try(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			if got[a.status]++; err != nil && got[a.status] == 1 {
				f.t.Log(err)
			}
		})
	}
	close(start)
	wg.Wait()
	return got
}
