package consumerd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Hosts of the sites that the browser visits.
const (
	ownHost     = "www.melmastoon.ghasi.io"
	siblingHost = "hotel.melmastoon.ghasi.io" // a hotel's own site, same-site with ours
	listedHost  = "app.melmastoon.ghasi.io"   // a front end whose origin is allowed
	foreignHost = "evil.example"
)

// visit is one page that the browser opens: a script runs on it, and what the script
// returns is checked.
type visit struct {
	at string // host
	// script is the body of an async function.
	script string
	// setCookies come with the page.
	setCookies []string
	check      func(t *testing.T, got told)
}

// told is what became of a visit: what the script returned, and the API calls that
// the service saw meanwhile.
type told struct {
	visit  int
	result json.RawMessage
	calls  []apiCall
}

// apiCall is a request of the browser as it arrived.
type apiCall struct {
	Method, Path string
	Status       int
	Site         string // Sec-Fetch-Site
	IDs, Cards   int    // cookies with a session's id, and with a card
}

// browserPrelude are the functions that scripts use.
const browserPrelude = `
const base = 'https://%s:' + location.port + '/bff/consumer/v1';
// call sends a request as a front end does, and returns all that the page can read.
async function call(method, path, body, headers) {
  const init = {method, credentials: 'include', headers: {...headers}};
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    init.headers['Content-Type'] = 'application/json';
  }
  try {
    let response;
    do response = await fetch(base + path, init); while (response.status === 503 || response.status === 504); // a busy machine
    const text = await response.text();
    return {status: response.status, body: text ? JSON.parse(text) : null, headers: Object.fromEntries(response.headers)};
  } catch (e) {
    return {status: 0, body: null, headers: {}};
  }
}
// key is an idempotency key.
const key = () => ({'Idempotency-Key': crypto.randomUUID()});
// submit sends a form into a frame, and waits for what comes back.
function submit(path, type, name, value) {
  const frame = Object.assign(document.createElement('iframe'), {name: 'f' + Math.random()});
  const form = Object.assign(document.createElement('form'), {method: 'POST', action: base + path, target: frame.name, enctype: type});
  form.append(Object.assign(document.createElement('input'), {name, value}));
  document.body.append(frame, form);
  return new Promise(done => { frame.onload = done; form.submit(); });
}
`

// browserPage runs a script, reports what it returned and goes where it is told.
const browserPage = `<!doctype html><meta charset="utf-8"><body><script>` + browserPrelude + `
(async () => {
  let result;
  try { result = await (async () => {%s})(); } catch (e) { result = {threw: String(e)}; }
  const answer = await fetch('/told/%d', {method: 'POST', body: JSON.stringify(result === undefined ? null : result)});
  const next = await answer.text();
  if (next) location.replace(next);
})();
</script>`

// journey has a browser visit pages one after the other, over TLS, with the service
// behind a proxy on the sites' hosts.
type journey struct {
	t    *testing.T
	port string
	told chan told

	mu      sync.Mutex
	service *url.URL
	visits  []visit
	calls   []apiCall
}

func (j *journey) origin(host string) string { return "https://" + host + ":" + j.port }

// visit finds a visit by its number.
func (j *journey) visit(number string) (i int, v visit, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if i, err := strconv.Atoi(number); err == nil && i < len(j.visits) {
		return i, j.visits[i], true
	}
	return 0, visit{}, false
}

// page is the address of a visit; "" after the last.
func (j *journey) page(i int) string {
	_, v, ok := j.visit(strconv.Itoa(i))
	if !ok {
		return ""
	}
	return j.origin(v.at) + "/page/" + strconv.Itoa(i)
}

// newJourney opens the sites.
func newJourney(t *testing.T) *journey {
	t.Helper()
	j := &journey{t: t, told: make(chan told, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /page/{i}", func(w http.ResponseWriter, r *http.Request) {
		i, v, ok := j.visit(r.PathValue("i"))
		if !ok {
			http.NotFound(w, r)
			return
		}
		for _, c := range v.setCookies {
			w.Header().Add("Set-Cookie", c)
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, browserPage, ownHost, v.script, i)
	})
	mux.HandleFunc("POST /told/{i}", func(w http.ResponseWriter, r *http.Request) {
		i, _, ok := j.visit(r.PathValue("i"))
		result, err := io.ReadAll(r.Body)
		if !ok || err != nil {
			http.NotFound(w, r)
			return
		}
		j.mu.Lock()
		calls := j.calls
		j.calls = nil
		j.mu.Unlock()
		select {
		case j.told <- told{i, result, calls}:
			_, _ = io.WriteString(w, j.page(i+1))
		case <-r.Context().Done(): // the test has given up
		}
	})
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			j.mu.Lock()
			defer j.mu.Unlock()
			r.SetURL(j.service)
			r.SetXForwarded()
			r.Out.Host = r.In.Host // as the browser sent it
		},
		ModifyResponse: func(res *http.Response) error {
			r := res.Request
			c := apiCall{Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, apiBase), Status: res.StatusCode, Site: r.Header.Get("Sec-Fetch-Site")}
			c.IDs, c.Cards = len(r.CookiesNamed(consumer.SessionCookie)), len(r.CookiesNamed(consumer.CardCookie))
			j.mu.Lock()
			defer j.mu.Unlock()
			j.calls = append(j.calls, c)
			return nil
		},
	}
	mux.Handle(ownHost+"/bff/", proxy)
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) // connections that the browser opens ahead and drops
	server.StartTLS()
	t.Cleanup(server.Close)
	_, j.port, _ = strings.Cut(server.Listener.Addr().String(), ":")
	return j
}

// run visits all pages of a service and checks each visit.
func (j *journey) run(service string, visits []visit) {
	j.t.Helper()
	to, err := url.Parse(service)
	if err != nil {
		j.t.Fatal(err)
	}
	j.mu.Lock()
	j.service, j.visits = to, visits
	j.mu.Unlock()
	testkit.Chromium(j.t, j.page(0))
	ctx := testkit.Context(j.t)
	for i, v := range visits {
		select {
		case got := <-j.told:
			if got.visit != i {
				j.t.Fatalf("visit %d comes after visit %d", got.visit, i-1)
			}
			v.check(j.t, got)
		case <-ctx.Done():
			j.t.Fatalf("visit %d, on %s: nothing was told", i, v.at)
		}
	}
}

// page is what call returns in a script.
type pageCall struct {
	Status  int
	Body    json.RawMessage
	Headers map[string]string
}

// guestSession is what a page can see of its guest.
type guestSession struct {
	SessionID    string
	Locale       string
	Consent      struct{ Telemetry, Marketing bool }
	WishlistSize int
}

func decode[T any](t *testing.T, raw json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

// TestBrowser has a real Chromium visit a guest's pages, a hotel's site on a sibling
// host, a foreign site and a front end of an allowed origin: what those may read and
// change is decided between the browser and the service, and only a browser knows its
// part.
func TestBrowser(t *testing.T) {
	t.Parallel()
	w := testkit.NewWorld(t, nil)
	j := newJourney(t)
	settings := patient()
	maps.Copy(settings, map[string]string{
		"BFF_CONSUMER_ALLOWED_ORIGINS": j.origin(listedHost),
		"BFF_CONSUMER_BOT_DEFENCE":     "off", // a browser without a window is a bot
	})
	service := "http://" + w.Start("bff-consumer", settings).Public

	var guest guestSession // as the guest left it
	const look = `return (await call('GET', '/session')).body`
	unchanged := func(t *testing.T, got told) {
		t.Helper()
		if diff := cmp.Diff(guest, decode[guestSession](t, got.result)); diff != "" {
			t.Errorf("the guest's session is another (-left +found):\n%s", diff)
		}
	}
	// Everything that a page can send without the service's leave, and some that
	// needs it.
	const attack = `
		const send = (path, init) => fetch(base + path, {method: 'POST', mode: 'no-cors', credentials: 'include', ...init});
		const consent = JSON.stringify({telemetry: true, marketing: true});
		await send('/session/consent', {body: new Blob([consent])});
		await send('/session/consent', {body: consent});
		await send('/session/clear');
		await send('/session/clear', {body: new Blob([])});
		await submit('/session/consent', 'text/plain', '{"telemetry":true,"marketing":true,"a":"', '"}');
		await submit('/session/clear', 'application/x-www-form-urlencoded', 'a', 'b');
		const before = performance.getEntriesByType('resource').length;
		navigator.sendBeacon(base + '/session/clear');
		while (performance.getEntriesByType('resource').length === before) await new Promise(done => setTimeout(done, 5));
		return {read: await call('GET', '/session'), consent: await call('POST', '/session/consent', {telemetry: true, marketing: true})};`
	attacked := func(site string, cookies int) func(*testing.T, told) {
		return func(t *testing.T, got told) {
			t.Helper()
			attempts := 0
			for _, c := range got.calls {
				switch {
				case c.Method == http.MethodPost:
					if attempts++; c.Status != http.StatusForbidden && c.Status != http.StatusUnsupportedMediaType || c.Site != site || c.IDs != cookies ||
						c.Cards != cookies {
						t.Errorf("an attack from %s: %+v, want a refusal, and %d cookie of each kind", site, c, cookies)
					}
				case c.Method == http.MethodOptions:
					if c.Status != http.StatusForbidden {
						t.Errorf("a preflight from %s: %+v", site, c)
					}
				}
			}
			if attempts != 7 { // the last change waits for its preflight
				t.Errorf("%d attempts arrived from %s, want 7: %+v", attempts, site, got.calls)
			}
			for what, c := range decode[map[string]pageCall](t, got.result) {
				if c.Status != 0 {
					t.Errorf("a page of %s can read an answer (%s): %d %s", site, what, c.Status, c.Body)
				}
			}
		}
	}
	visits := []visit{
		{
			at: ownHost, script: `
			await call('GET', '/session');
			await call('POST', '/session/consent', {telemetry: false, marketing: false});
			const found = (await call('POST', '/search', {geo: {mode: 'city', city: 'Kabul'}, dates: {checkIn: '2077-05-12', checkOut: '2077-05-15'}, occupancy: {adults: 2, rooms: 1}})).body.results[0];
			await call('POST', '/wishlist', {propertyId: found.propertyId, source: 'list'}, key());` + look,
			check: func(t *testing.T, got told) {
				t.Helper()
				guest = decode[guestSession](t, got.result)
				if guest.SessionID == "" || guest.Consent.Telemetry || guest.Consent.Marketing || guest.WishlistSize != 1 {
					t.Fatalf("the guest's first visit: %+v %+v", guest, got.calls)
				}
			},
		},
		{at: foreignHost, script: attack, check: attacked("cross-site", 0)}, // the browser sends no Lax cookies
		{at: ownHost, script: look, check: unchanged},
		{at: siblingHost, script: attack, check: attacked("same-site", 1)}, // but here it does
		{at: ownHost, script: look, check: unchanged},
		{at: listedHost, script: listedScript, check: func(t *testing.T, got told) {
			t.Helper()
			checkListed(t, got, &guest)
		}},
		{at: ownHost, script: look, check: unchanged},
		{at: ownHost, script: ownScript, check: func(t *testing.T, got told) {
			t.Helper()
			guest = checkOwn(t, got)
		}},
	}
	visits = append(visits, planted(&guest)...)
	j.run(service, visits)
	checkVary(t, service, j.origin(listedHost), w.Sim.Catalog().Properties[0].PropertyID)
}

// A search and what follows from it, as a front end does it.
const wholeVisit = `
	const calls = {};
	const stay = {dates: {checkIn: '2077-05-12', checkOut: '2077-05-15'}, occupancy: {adults: 2, rooms: 1}};
	calls.search = await call('POST', '/search', {geo: {mode: 'city', city: 'Kabul'}, ...stay}, {'X-Currency': 'USD'});
	const hotel = calls.search.body.results[1];
	const path = '/hotels/' + hotel.propertyId;
	calls.hotel = await call('GET', path, undefined, {'X-View-Source': 'search', 'X-Request-Id': '01H8YN7QV4D8KZ4F8Y5CK4MV3D'});
	calls.again = await call('GET', path);
	const wish = key();
	calls.wish = await call('POST', '/wishlist', {propertyId: hotel.propertyId, source: 'list'}, wish);
	calls.replayed = await call('POST', '/wishlist', {propertyId: hotel.propertyId, source: 'list'}, wish);
	calls.remove = await call('DELETE', '/wishlist/' + hotel.propertyId, undefined, key());
	calls.handoff = await call('POST', '/handoff', {propertyId: hotel.propertyId, tenantId: hotel.tenantId, ...stay}, key());
	calls.invalid = await call('POST', '/session/locale', {locale: 'xx'});
	calls.keyless = await call('POST', '/wishlist', {propertyId: hotel.propertyId, source: 'list'});
	calls.nowhere = await call('GET', '/nowhere');
	calls.locale = await call('POST', '/session/locale', {locale: 'fa-AF'});
	calls.consent = await call('POST', '/session/consent', {telemetry: true});
	calls.challenge = await call('GET', '/challenge');
	calls.session = await call('GET', '/session');
`

const (
	listedScript = wholeVisit + `return calls`
	// ownScript ends with a report that goes out by itself, as pages send them when
	// they are left.
	ownScript = wholeVisit + `
	calls.report = {status: navigator.sendBeacon(base + '/telemetry/page-view', new Blob([JSON.stringify({path: '/x'})], {type: 'application/json'})) ? 202 : 0};
	await call('GET', '/session');
	return calls`
)

// wantWhole are the statuses of wholeVisit.
func wantWhole() map[string]int {
	return map[string]int{
		"search": 200, "hotel": 200, "again": 200, "wish": 201, "replayed": 201, "remove": 204, "handoff": 201, "invalid": 422, "keyless": 428,
		"nowhere": 404, "locale": 200, "consent": 200, "challenge": 200, "session": 200,
	}
}

func statuses(calls map[string]pageCall) map[string]int {
	got := map[string]int{}
	for name, c := range calls {
		got[name] = c.Status
	}
	return got
}

// checkListed: a page of an allowed origin reads and changes the guest's session,
// refusals and headers included.
func checkListed(t *testing.T, got told, guest *guestSession) {
	t.Helper()
	calls := decode[map[string]pageCall](t, got.result)
	if diff := cmp.Diff(wantWhole(), statuses(calls)); diff != "" {
		t.Errorf("what a page of an allowed origin was answered (-want +got):\n%s\n%v", diff, got.calls)
	}
	for name, want := range map[string][]string{
		"search":   {"x-search-session", "x-cache", "cache-status", "ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "x-request-id", "traceparent"},
		"again":    {"etag", "age", "x-cache"},
		"replayed": {"idempotency-replayed"},
		"nowhere":  {"x-request-id"},
	} {
		for _, header := range want {
			if calls[name].Headers[header] == "" {
				t.Errorf("%s: the page cannot read %s: %v", name, header, calls[name].Headers)
			}
		}
	}
	if got := calls["hotel"].Headers["x-request-id"]; got != "01H8YN7QV4D8KZ4F8Y5CK4MV3D" {
		t.Errorf("the page's own request id is not echoed: %q", got)
	}
	preflights := 0
	for _, c := range got.calls {
		if c.Method == http.MethodOptions {
			if preflights++; c.Status != http.StatusNoContent {
				t.Errorf("preflight: %+v", c)
			}
		} else if c.Site != "same-site" || c.IDs != 1 || c.Cards != 1 {
			t.Errorf("not a call with the guest's cookies from a sibling host: %+v", c)
		}
	}
	if preflights == 0 {
		t.Error("the browser asked for no leave")
	}
	after := decode[guestSession](t, calls["session"].Body)
	want := *guest
	want.Locale, want.Consent.Telemetry = "fa-AF", true
	if diff := cmp.Diff(want, after); diff != "" {
		t.Errorf("the session after an allowed page changed it (-want +got):\n%s", diff)
	}
	*guest = after
}

// checkOwn: a page of our own does everything, and asks for no leave.
func checkOwn(t *testing.T, got told) guestSession {
	t.Helper()
	calls := decode[map[string]pageCall](t, got.result)
	want := wantWhole()
	want["report"] = 202
	if diff := cmp.Diff(want, statuses(calls)); diff != "" {
		t.Errorf("what our own page was answered (-want +got):\n%s\n%v", diff, got.calls)
	}
	for _, c := range got.calls {
		if c.Method == http.MethodOptions || c.Site != "same-origin" || c.Status == http.StatusForbidden {
			t.Errorf("our own page: %+v", c)
		}
	}
	return decode[guestSession](t, calls["session"].Body)
}

// planted are visits to a hotel's site that plants cookies for all of our hosts, and
// what follows for the guest: nothing. The planter is one whose id the guest would
// share.
func planted(guest *guestSession) []visit {
	const id = "gms_01H8YN7QV4D8KZ4F8Y5CK4MV3D"
	domain := "; Domain=melmastoon.ghasi.io; Secure"
	plant := func(cookies ...string) visit {
		script := ""
		for _, c := range cookies {
			script += "document.cookie = " + strconv.Quote(c+domain) + ";\n"
		}
		return visit{at: siblingHost, script: script, check: func(t *testing.T, got told) {
			t.Helper()
			if string(got.result) != "null" {
				t.Errorf("planting: %s", got.result)
			}
		}}
	}
	twice := `
		const calls = [await call('GET', '/session'), await call('POST', '/session/locale', {locale: 'ps-AF'}), await call('GET', '/session')];
		return calls`
	// sessions returns the guest's sessions of a visit's three calls.
	sessions := func(t *testing.T, got told, wantIDs int) []guestSession {
		t.Helper()
		var all []guestSession
		for _, c := range decode[[]pageCall](t, got.result) {
			if c.Status != http.StatusOK {
				t.Fatalf("a planted cookie locks the guest out: %d %s", c.Status, c.Body)
			}
			all = append(all, decode[guestSession](t, c.Body))
		}
		for _, c := range got.calls {
			if c.IDs < wantIDs || c.Cards > 1 {
				t.Errorf("%+v: want %d ids, the planted ones among them, and no card but ours", c, wantIDs)
			}
		}
		return all
	}
	keeps := func(wantIDs int) func(*testing.T, told) {
		return func(t *testing.T, got told) {
			t.Helper()
			for _, s := range sessions(t, got, wantIDs) {
				if s.SessionID != guest.SessionID || s.Consent != guest.Consent || s.WishlistSize != guest.WishlistSize {
					t.Errorf("the guest has another session: %+v, before it was %+v", s, *guest)
				}
			}
		}
	}
	// begins is a newcomer's visit: the browser has nothing but what was planted.
	begins := func(t *testing.T, got told) {
		t.Helper()
		all := sessions(t, got, 1)
		for _, s := range all {
			if s.SessionID == id || s.SessionID == guest.SessionID || s.SessionID != all[0].SessionID {
				t.Errorf("a newcomer's session is planted, old or lost at once: %+v, first %+v", s, all[0])
			}
		}
		*guest = all[len(all)-1]
	}
	gone := []string{consumer.SessionCookie + "=; Path=/; Max-Age=0; Secure", consumer.CardCookie + "=; Path=/; Max-Age=0; Secure"}
	const whole, below, no = "; Path=/", "; Path=/bff/consumer", "; Max-Age=0"
	return []visit{
		plant("gms_id="+id+whole, "__Host-gms_card=x"+whole), // the browser takes no such card
		{at: ownHost, script: twice, check: keeps(2)},
		plant("gms_id=" + id + below), // sent before the guest's own
		{at: ownHost, script: twice, check: keeps(3)},
		plant("gms_id=junk"+whole, "gms_id=junk"+below),
		{at: ownHost, script: twice, check: keeps(3)},
		{at: ownHost, script: twice, setCookies: gone, check: begins},
		{at: ownHost, script: twice, check: keeps(3)},
		plant("gms_id="+id+whole, "gms_id="+id+below),
		{at: ownHost, script: twice, setCookies: gone, check: begins},
		plant("gms_id="+whole+no, "gms_id="+below+no),
		{at: ownHost, script: twice, check: keeps(1)},
	}
}

// checkVary: an answer that a CDN may keep says that it differs by origin, however it
// was made and for every page.
func checkVary(t *testing.T, service, listed, hotel string) {
	t.Helper()
	for range 3 { // filled, then kept
		for _, origin := range []string{"", listed, "https://" + foreignHost} {
			req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodGet, service+apiBase+"/hotels/"+hotel, nil)
			if err != nil {
				t.Fatal(err)
			}
			if origin != "" {
				req.Header.Set("Origin", origin)
			}
			res, err := browser.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			vary := strings.Split(strings.Join(res.Header["Vary"], ", "), ", ")
			slices.Sort(vary)
			if diff := cmp.Diff([]string{"Accept-Encoding", "Accept-Language", "Origin", "X-Currency"}, vary); diff != "" {
				t.Errorf("Vary for %q (-want +got):\n%s", origin, diff)
			}
			allowed := ""
			if origin == listed {
				allowed = listed
			}
			if got := res.Header.Get("Access-Control-Allow-Origin"); got != allowed {
				t.Errorf("a page of %q: Access-Control-Allow-Origin = %q", origin, got)
			}
		}
	}
}
