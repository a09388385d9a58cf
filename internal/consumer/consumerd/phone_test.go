package consumerd_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// phonePage does what a front end does on a phone that reaches a developer's machine
// over plain http, where a page has no crypto.randomUUID.
const phonePage = `<!doctype html><meta charset="utf-8"><script>
(async () => {
  const base = 'http://%s/bff/consumer/v1';
  const call = async (method, path, body, headers) => {
    let answer;
    do answer = await fetch(base + path, {method, credentials: 'include', body: body && JSON.stringify(body), headers: {...(body && {'Content-Type': 'application/json'}), ...headers}});
    while (answer.status === 503 || answer.status === 504); // a busy machine
    return {status: answer.status, body: await answer.json().catch(() => null)};
  };
  const key = () => ({'Idempotency-Key': [...crypto.getRandomValues(new Uint8Array(16))].map(b => b.toString(16).padStart(2, '0')).join('')});
  const told = {secure: isSecureContext};
  try {
    const stay = {dates: {checkIn: '2077-05-12', checkOut: '2077-05-15'}, occupancy: {adults: 2, rooms: 1}};
    told.first = (await call('GET', '/session')).body.sessionId;
    const found = (await call('POST', '/search', {geo: {mode: 'city', city: 'Kabul'}, ...stay})).body.results[0];
    told.wish = (await call('POST', '/wishlist', {propertyId: found.propertyId, source: 'list'}, key())).status;
    told.handoff = (await call('POST', '/handoff', {propertyId: found.propertyId, tenantId: found.tenantId, ...stay}, key())).status;
    const last = (await call('GET', '/session')).body;
    Object.assign(told, {last: last.sessionId, wishes: last.wishlistSize});
    told.cleared = (await call('POST', '/session/clear')).status;
    told.next = (await call('GET', '/session')).body.sessionId;
  } catch (e) { told.threw = String(e); }
  await fetch('/told', {method: 'POST', body: JSON.stringify(told)});
})();
</script>`

// TestPhone has a real Chromium use the service as a phone on the network does:
// over plain http, from a page on another port, at an address that is no loopback.
func TestPhone(t *testing.T) {
	t.Parallel()
	const host = "192.168.7.7"
	w := testkit.NewWorld(t, nil)
	_, port, err := net.SplitHostPort(w.Start("bff-consumer", map[string]string{
		"BFF_CONSUMER_ALLOWED_ORIGINS": "host:" + host, "BFF_CONSUMER_PLAIN_COOKIES": "true", "BFF_CONSUMER_BOT_DEFENCE": "watch",
	}).Public)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan []byte, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, phonePage, net.JoinHostPort(host, port))
	})
	mux.HandleFunc("POST /told", func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body) // what is cut off is no JSON
		told <- b
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	_, pages, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Chromium(t, "http://"+net.JoinHostPort(host, pages)+"/")
	ctx := testkit.Context(t)
	select {
	case b := <-told:
		got := decode[struct {
			Secure                bool
			First, Last, Next     string
			Wish, Handoff, Wishes int
			Cleared               int
		}](t, b)
		if got.Secure {
			t.Fatalf("the page's origin counts as secure: nothing is shown by this test: %s", b)
		}
		if got.First == "" || got.Last != got.First || got.Wish != http.StatusCreated || got.Handoff != http.StatusCreated || got.Wishes != 1 {
			t.Errorf("the guest does not keep a session: %s", b)
		}
		if got.Cleared != http.StatusNoContent || got.Next == "" || got.Next == got.First {
			t.Errorf("the guest cannot clear the session: %s", b)
		}
	case <-ctx.Done():
		t.Fatal("the page told nothing")
	}
}
