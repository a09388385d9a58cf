package backofficed

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

const (
	// hostilePeak is what an instance may have had in memory, in MiB: several times of
	// what it has, as race builds need, and far below what a leak per request comes to.
	hostilePeak = 768
	// hostileRedis is what both tiers together may hold, in MiB, with the server's own.
	hostileRedis = 48
	// hostileTries is how often an honest request is sent while a starved machine misses
	// the deadlines of production.
	hostileTries = 40
	hostilePause = 250 * time.Millisecond
	numberBomb   = "1e131071" // 131 072 digits for arithmetic that takes it at its word
)

// hostility is a platform of three instances under attack. Every client has an address of its
// own: limits and places are shared out by address.
type hostility struct {
	*staff
	instances []*platform.Process
	houses    map[string]string // the first property of each tenant

	mu      sync.Mutex
	answers map[string]map[string]int // of attackers, by attack and code
}

func newHostility(t *testing.T) *hostility {
	t.Helper()
	own := testkit.NewRedis(t) // it is weighed
	h := &hostility{
		staff:  &staff{t: t, World: testkit.NewWorld(t, func(p *platform.Places) { p.RedisURL = own.URL() })},
		houses: map[string]string{}, answers: map[string]map[string]int{},
	}
	for range testkit.Proof(2, 3) {
		settings := map[string]string{}
		if !testkit.LongProof() { // a flood is refused after fewer requests
			settings["BFF_BACKOFFICE_LIMITS"] = "session=60"
		}
		h.instances = append(h.instances, h.Start("bff-backoffice", settings))
	}
	for _, p := range h.Sim.Catalog().Properties {
		h.houses[p.TenantID] = cmp.Or(h.houses[p.TenantID], p.PropertyID)
	}
	return h
}

// clientAt is a client with an address of the loopback network.
func (h *hostility) clientAt(network, host int) *http.Client {
	h.t.Helper()
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(network), byte(host))}}
	transport := &http.Transport{DialContext: from.DialContext, MaxIdleConnsPerHost: 8}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// desksOf are computers that reach the instances in turn.
func (h *hostility) desksOf(n, network, addresses int) []*desk.Client {
	h.t.Helper()
	var clients []*http.Client
	for host := range addresses {
		clients = append(clients, h.clientAt(network, host+1))
	}
	desks := make([]*desk.Client, n)
	for i := range desks {
		at := "http://" + h.instances[i%len(h.instances)].Public
		d, err := desk.New(desk.Config{BackofficeURL: at, IAMURL: h.SimURL + "/iam", HTTP: clients[i%addresses]})
		if err != nil {
			h.t.Fatal(err)
		}
		desks[i] = d
	}
	return desks
}

// count keeps what an attack was answered with.
func (h *hostility) count(attack, code string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.answers[attack] == nil {
		h.answers[attack] = map[string]int{}
	}
	h.answers[attack][code]++
}

// ask sends a request of an attacker.
func (h *hostility) ask(ctx context.Context, attack string, d *desk.Client, call desk.Call) (code string) {
	a, err := d.Ask(ctx, call)
	switch code = "OK"; {
	case ctx.Err() != nil:
		return "over"
	case err != nil:
		code = "no answer"
	case a.Err() != nil:
		code = refusalCode(a)
	}
	h.count(attack, code)
	return code
}

func refusalCode(a *desk.Answer) string {
	r, ok := errors.AsType[*desk.Refusal](a.Err())
	if !ok || r.Code == "" {
		return strconv.Itoa(a.Status)
	}
	return r.Code[strings.LastIndexByte(r.Code, '.')+1:]
}

// repeat does something at a pace until the attack is over, and no more often than most.
func repeat(ctx context.Context, every time.Duration, do func(i int)) {
	const most = 100_000
	beat := time.NewTicker(every)
	defer beat.Stop()
	for i := range most {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			do(i)
		}
	}
}

// signedByNone is a token of a key that iam never had.
func signedByNone(claims map[string]any) string {
	_, key, _ := ed25519.GenerateKey(nil)
	payload, _ := json.Marshal(claims) // texts and numbers alone
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"EdDSA","typ":"at+jwt","kid":"`+rand.Text()+`"}`)) + "." + encode(payload)
	return text + "." + encode(ed25519.Sign(key, []byte(text)))
}

// stranger sends what needs no token of iam: refreshes with keys and long proof ids of
// its own, and tokens of a key that iam never had.
func (h *hostility) stranger(ctx context.Context, client *http.Client, i int) {
	var (
		attack, method, path = "refreshes of strangers", http.MethodPost, desk.Base + "/auth/refresh"
		token                string
	)
	device, err := desk.NewDevice(desk.EdDSA, time.Now())
	if err != nil {
		h.t.Error(err)
		return
	}
	if i%3 == 1 {
		attack, method, path = "tokens of unknown keys", http.MethodGet, desk.Base+"/session"
		now := time.Now()
		token = signedByNone(map[string]any{
			"iss": "https://iam.melmastoon.ghasi.io", "aud": "bff-backoffice", "sub": bff.NewID(bff.PrefixOperator, now).String(),
			"tid": bff.NewID(bff.PrefixTenant, now).String(), "device_id": device.ID(), "jti": rand.Text(), "iat": now.Unix(),
			"exp": now.Add(time.Minute).Unix(), "cnf": map[string]any{"jkt": device.Thumbprint()},
		})
	}
	url := "http://" + h.instances[i/3%len(h.instances)].Public + path
	proof, err1 := device.Prove(desk.Proof{Method: method, URL: url, AccessToken: token, ID: strings.Repeat("x", 102) + rand.Text(), At: time.Now()})
	req, err2 := http.NewRequestWithContext(ctx, method, url, strings.NewReader(`{"refreshToken":"x"}`))
	if err := errors.Join(err1, err2); err != nil {
		h.t.Error(err)
		return
	}
	req.Header = http.Header{
		"Dpop": {proof}, "X-Device-Id": {device.ID()}, "X-App-Version": {desk.AppVersion}, "X-App-Platform": {"linux"},
		"Content-Type": {"application/json"}, "X-Idempotency-Key": {bff.NewID(bff.PrefixRequest, time.Now()).ULID()},
	}
	if token != "" {
		req.Header.Set("Authorization", "DPoP "+token)
		req.Body, req.ContentLength = http.NoBody, 0
	}
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			h.count(attack, "no answer")
		}
		return
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return
	}
	a := &desk.Answer{Status: res.StatusCode, Body: body}
	if a.Err() == nil {
		h.count(attack, "OK")
		return
	}
	h.count(attack, refusalCode(a))
}

// badOperator works at many computers, in the long form at more than it may have sessions at, each with a stream,
// and sends numbers that nothing may calculate with. At its newest it floods what any
// operator may read; it closes flooded once that was refused.
func (h *hostility) badOperator(ctx context.Context, wg *sync.WaitGroup, who desk.Operator, flooded chan<- struct{}) {
	var flood sync.Once
	house := h.houses[who.TenantID]
	bombs := []desk.Call{
		{
			Method: http.MethodPost, Path: "/ai/suggestions/sug_2/decide?propertyId=" + house,
			Body: json.RawMessage(`{"outcome":"modified","modifiedDelta":{"ratePercent":` + numberBomb + `,"l":[` + strings.Repeat(numberBomb+",", 100) + `1]}}`),
		},
		{
			Method: http.MethodPut, Path: "/preferences", Header: http.Header{"If-Match": {`"1"`}},
			Body: json.RawMessage(`{"payload":{"width":` + numberBomb + `,"l":[` + strings.Repeat("-"+numberBomb+",", 100) + `1]}}`),
		},
	}
	desks := h.desksOf(testkit.Proof(6, identity.MaxSessions+20), 3, 3)
	wg.Go(func() {
		for i, d := range desks { // one after the other: the oldest sessions end
			if d.SignIn(ctx, who) != nil {
				return // over
			}
			h.ask(ctx, "sessions of an operator", d, desk.Call{Method: http.MethodGet, Path: "/session"})
			wg.Go(func() {
				res, err := d.Send(ctx, desk.Call{Method: http.MethodGet, Path: "/sse/stream", Header: http.Header{"Accept": {"text/event-stream"}}})
				if err != nil {
					return
				}
				defer func() { _ = res.Body.Close() }()
				h.count("streams of an operator", strconv.Itoa(res.StatusCode))
				_, _ = io.Copy(io.Discard, res.Body) // it ends with the session or the attack
			})
			wg.Go(func() {
				repeat(ctx, testkit.Proof(time.Second, 2*time.Second), func(n int) { h.ask(ctx, "number bombs", d, bombs[(i+n)%len(bombs)]) })
			})
		}
		newest := desks[len(desks)-1]
		for range 2 {
			wg.Go(func() {
				repeat(ctx, testkit.Proof(10*time.Millisecond, 100*time.Millisecond), func(int) {
					if h.ask(ctx, "a flood of reads", newest, desk.Call{Method: http.MethodGet, Path: "/session"}) == "RATE_LIMITED" {
						flood.Do(func() { close(flooded) })
					}
				})
			})
		}
	})
}

// badTenant has all operators of a tenant ask for whatever is dear, as often as limits allow.
func (h *hostility) badTenant(ctx context.Context, wg *sync.WaitGroup, operators []desk.Operator) {
	paths := append(boards(), "/alerts", "/ai/suggestions")
	for i, d := range h.desksOf(tenantDesks(), 4, 4) {
		who := operators[i%len(operators)]
		wg.Go(func() {
			if d.SignIn(ctx, who) != nil {
				return // over
			}
			repeat(ctx, 250*time.Millisecond, func(n int) {
				path := paths[(i+n)%len(paths)] + "?propertyId=" + h.houses[who.TenantID]
				h.ask(ctx, "views of a tenant", d, desk.Call{Method: http.MethodGet, Path: path})
			})
		})
	}
}

// honest is an operator at work.
type honest struct {
	h      *hostility
	d      *desk.Client
	who    desk.Operator
	house  string
	events <-chan desk.Event
	etag   string // of its preferences
	took   []time.Duration
	late   map[string]int // requests that were sent again, by what was answered
}

// ask sends a request until it is answered. It must not be refused; what a starved machine
// could not do within the deadlines of production is sent again, as an app does.
func (o *honest) ask(ctx context.Context, call desk.Call) *desk.Answer {
	call.IdempotencyKey = bff.NewID(bff.PrefixRequest, time.Now()).ULID()
	begin := time.Now()
	for try := 1; ; try++ {
		a, err := o.d.Ask(ctx, call)
		if err != nil {
			o.h.t.Errorf("an honest operator: %s %s: %v", call.Method, call.Path, err)
			return nil
		}
		if a.Status == http.StatusOK {
			o.took = append(o.took, time.Since(begin))
			return a
		}
		// A full gate is a refusal: attackers must not be able to take all of its places.
		shed := bytes.Contains(a.Body, []byte("too many requests are being answered"))
		late := a.Status == http.StatusServiceUnavailable && !shed || a.Status == http.StatusGatewayTimeout || refusalCode(a) == "IDEMPOTENCY_IN_FLIGHT"
		if !late || try == hostileTries || ctx.Err() != nil {
			o.h.t.Errorf("an honest operator, try %d: %s %s: %d %s", try, call.Method, call.Path, a.Status, a.Body)
			return nil
		}
		o.late[a.Err().Error()]++
		if !testkit.Forgive(o.h.t, "an honest operator's request") {
			return nil
		}
		pause.For(ctx, hostilePause)
	}
}

// work is what an operator does again and again. It reports whether all of it was served.
func (o *honest) work(ctx context.Context, round int) bool {
	of := "?propertyId=" + o.house
	for _, path := range []string{"/session", "/dashboard" + of, "/arrivals" + of} {
		if o.ask(ctx, desk.Call{Method: http.MethodGet, Path: path}) == nil {
			return false
		}
	}
	a := o.ask(ctx, desk.Call{
		Method: http.MethodPut, Path: "/preferences", Header: http.Header{"If-Match": {o.etag}}, Body: map[string]any{"payload": map[string]any{"width": round}},
	})
	if a == nil {
		return false
	}
	o.etag = a.Header.Get("Etag")
	return true
}

// shift has all honest operators work some rounds at once and returns the 99th percentile
// of their requests.
func (h *hostility) shift(ctx context.Context, all []*honest, rounds int) (p99 time.Duration) {
	h.t.Helper()
	var wg sync.WaitGroup
	for _, o := range all {
		o.took, o.late = nil, map[string]int{}
		wg.Go(func() {
			beat := time.NewTicker(testkit.Proof(250*time.Millisecond, 2*time.Second)) // within its limits
			defer beat.Stop()
			for round := range rounds {
				if !o.work(ctx, round) {
					return
				}
				select {
				case <-ctx.Done():
				case <-beat.C:
				}
			}
		})
	}
	wg.Wait()
	var took []time.Duration
	again, late := 0, map[string]int{}
	for _, o := range all {
		took = append(took, o.took...)
		for why, n := range o.late {
			again, late[why] = again+n, late[why]+n
		}
	}
	if want := rounds * len(all) * 4; len(took) != want {
		h.t.Fatalf("%d of %d honest requests were answered", len(took), want)
	}
	slices.Sort(took)
	p99 = took[len(took)*99/100]
	h.t.Logf("%d honest requests: median %v, p99 %v, %d sent again %v", len(took), took[len(took)/2], p99, again, late)
	if testkit.LongProof() && again > len(took)/100 {
		h.t.Errorf("%d of %d honest requests were late: %v", again, len(took), late)
	}
	return p99
}

// employ brings honest operators of so many tenants to work, each at its own address.
func (h *hostility) employ(n int, except ...string) []*honest {
	h.t.Helper()
	var out []*honest
	status := map[string]string{}
	for _, t := range h.Sim.Catalog().Tenants {
		status[t.TenantID] = t.Status
	}
	for _, o := range h.Sim.Catalog().Operators {
		if len(out) == n || slices.Contains(except, o.TenantID) || status[o.TenantID] != "active" || !slices.Contains(o.Roles, "front_desk") {
			continue
		}
		house := o.PropertyScope[0]
		if house == "*" {
			house = h.houses[o.TenantID]
		}
		out = append(out, &honest{h: h, who: desk.Operator{OperatorID: o.OperatorID, TenantID: o.TenantID}, house: house})
		except = append(except, o.TenantID)
	}
	ctx := testkit.Context(h.t)
	for i, d := range h.desksOf(n, 1, n) {
		o := out[i]
		o.d = d
		if err := d.SignIn(ctx, o.who); err != nil {
			h.t.Fatal(err)
		}
		h.whoAmI(d)
		o.etag = h.do(d, http.StatusOK, http.MethodGet, "/preferences", nil).Header.Get("Etag")
		o.events = h.listen(d)
	}
	return out
}

// weigh compares memory with its bounds.
func (h *hostility) weigh() {
	h.t.Helper()
	for i, p := range h.instances {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
		if err != nil {
			h.t.Fatal(err)
		}
		mib := map[string]int{}
		for line := range strings.Lines(string(status)) {
			name, rest, _ := strings.Cut(line, ":")
			if fields := strings.Fields(rest); strings.HasPrefix(name, "Vm") && len(fields) == 2 {
				kib, _ := strconv.Atoi(fields[0]) // a line of another form has no bound
				mib[name] = kib >> 10
			}
		}
		h.t.Logf("instance %d: %d MiB, at most %d MiB", i, mib["VmRSS"], mib["VmHWM"])
		if mib["VmHWM"] == 0 || mib["VmHWM"] > hostilePeak {
			h.t.Errorf("instance %d had %d MiB, want at most %d", i, mib["VmHWM"], hostilePeak)
		}
	}
	c, err := redis.Open(redis.Config{URL: h.RedisURL, Tier: "test", Timeout: time.Minute})
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Close()
	ctx := testkit.Context(h.t)
	info, err := c.Do(ctx, c.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		h.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "used_memory:")
	used, err := strconv.Atoi(strings.TrimSpace(rest[:strings.IndexByte(rest+"\n", '\n')]))
	if err != nil || used>>20 > hostileRedis {
		h.t.Errorf("Redis has %d bytes, want at most %d MiB: %v", used, hostileRedis, err)
	}
	sessions, err2 := c.Do(ctx, c.B().Keys().Pattern(h.Name+":bff-backoffice:session:bos_*").Build()).AsStrSlice()
	h.t.Logf("Redis: %d KiB, %d sessions", used>>10, len(sessions))
	if most := identity.MaxSessions + tenantDesks() + honestTenants(); err2 != nil || len(sessions) == 0 || len(sessions) > most {
		h.t.Errorf("%d sessions are open, want at most %d: %v", len(sessions), most, err2)
	}
}

func honestTenants() int { return testkit.Proof(2, 4) }

func tenantDesks() int { return testkit.Proof(3, 16) }

// Strangers, one operator with too many computers and one whole tenant do at once
// whatever they can to all instances. Operators of other
// tenants are refused nothing, the attackers get nothing, and memory stays within its bounds.
// The long form, a quarter of an hour of three instances, also compares how long honest
// requests take with how long they took before.
func TestProofHostileQuarter(t *testing.T) {
	if !testkit.LongProof() { // which measures, and shares the machine with no test of this package
		t.Parallel()
	}
	h := newHostility(t)
	ctx := testkit.Context(t)
	bad := slices.IndexFunc(h.Sim.Cast(), func(c sim.CastOperator) bool { return c.Username == "karim" })
	karim := h.Sim.Cast()[bad]
	one := desk.Operator{OperatorID: karim.OperatorID, TenantID: karim.Memberships[0].TenantID}
	chain := h.Sim.Catalog().Tenants[0].TenantID
	var tenant []desk.Operator
	for _, o := range h.Sim.Catalog().Operators {
		if o.TenantID == chain && (slices.Contains(o.PropertyScope, "*") || slices.Contains(o.PropertyScope, h.houses[chain])) {
			tenant = append(tenant, desk.Operator{OperatorID: o.OperatorID, TenantID: chain})
		}
	}
	operators := h.employ(honestTenants(), one.TenantID, chain)
	quiet := h.shift(ctx, operators, testkit.Proof(1, 130))

	var wg sync.WaitGroup
	attack, stop := context.WithCancel(ctx)
	defer wg.Wait()
	defer stop()
	for host := range 2 {
		client := h.clientAt(2, host+1)
		wg.Go(func() {
			repeat(attack, testkit.Proof(50*time.Millisecond, 25*time.Millisecond), func(i int) { h.stranger(attack, client, i) })
		})
	}
	flooded := make(chan struct{})
	h.badOperator(attack, &wg, one, flooded)
	h.badTenant(attack, &wg, tenant)
	select {
	case <-flooded: // by then all of them are at it
	case <-ctx.Done():
		t.Fatal("a flood was never refused")
	}
	hostile := h.shift(ctx, operators, testkit.Proof(6, 300))
	for i, o := range operators { // their streams live
		alert := fmt.Sprint("alr_", i)
		payload, err := json.Marshal(map[string]string{
			"tenantId": o.who.TenantID, "propertyId": o.house, "alertId": alert, "category": "safety", "severity": "high",
			"raisedAt": time.Now().UTC().Format(time.RFC3339),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.Sim.Emit(ctx, "melmastoon.notification.alert.raised.v1", payload); err != nil {
			t.Fatal(err)
		}
		h.await(o.events, "alerts", alert)
	}
	stop()
	wg.Wait()
	h.weigh()
	for _, attack := range slices.Sorted(maps.Keys(h.answers)) {
		t.Logf("%s: %v", attack, h.answers[attack])
	}
	for _, attack := range []string{"refreshes of strangers", "tokens of unknown keys", "number bombs"} {
		if got := h.answers[attack]; got["OK"] > 0 || len(got) == 0 {
			t.Errorf("%s: %v", attack, got)
		}
	}
	if h.answers["number bombs"]["VALIDATION_FAILED"] == 0 || h.answers["views of a tenant"]["OK"] == 0 {
		t.Errorf("the attack did not happen: %v", h.answers)
	}
	if testkit.LongProof() && hostile > 2*quiet {
		t.Errorf("honest requests: p99 %v under attack, %v before", hostile, quiet)
	}
}
