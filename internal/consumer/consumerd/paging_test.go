package consumerd_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// caller speaks to one instance as one guest.
type caller struct {
	t      testing.TB
	base   string
	cookie string // the session's id
	card   string
}

func newCaller(t testing.TB, p *platform.Process) *caller {
	t.Helper()
	return &caller{t: t, base: "http://" + p.Public + "/bff/consumer/v1"}
}

// do sends a request and returns status, headers and body; the guest's cookie
// is kept.
func (c *caller) do(method, path string, header map[string]string, body any) (int, http.Header, []byte) {
	c.t.Helper()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(testkit.Context(c.t), method, c.base+path, in)
	if err != nil {
		c.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if sent := testkit.CookieHeader(c.cookie, c.card); sent != "" {
		req.Header.Set("Cookie", sent)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	testkit.TakeCookies(res.Header, &c.cookie, &c.card)
	return res.StatusCode, res.Header, out
}

type page struct {
	Results  []struct{ PropertyID string }
	Page     struct{ Total int }
	Degraded []struct {
		Part, Reason string
	}
}

// late reports whether an upstream did not answer in time: on a busy machine it may not.
func (p page) late() bool {
	for _, d := range p.Degraded {
		if d.Reason == "timeout" {
			return true
		}
	}
	return false
}

// overlaps reports whether the page says that it may repeat hotels, and nothing else.
func (p page) overlaps() bool { return len(p.Degraded) == 1 && p.Degraded[0].Part == "paging" }

// TestPagingIsStable moves the order under a guest who pages: no hotel is
// repeated or skipped. When the order is lost, the answer says so.
func TestPagingIsStable(t *testing.T) {
	t.Parallel()
	w := testkit.NewWorld(t, nil)
	p := w.Start("bff-consumer", nil)
	g := newCaller(t, p)
	ask := func(offset int, srs string) (page, string) {
		t.Helper()
		header := map[string]string{}
		if srs != "" {
			header["X-Search-Session"] = srs
		}
		status, h, body := g.do("POST", "/search", header, map[string]any{
			"geo": map[string]any{"mode": "city", "city": "Herat"}, "sortKey": "price-asc",
			"dates":     map[string]string{"checkIn": "2077-05-12", "checkOut": "2077-05-13"},
			"occupancy": map[string]int{"adults": 1, "rooms": 1}, "page": map[string]int{"limit": 20, "offset": offset},
			"locale": "en", "currency": "AFN",
		})
		var out page
		if err := json.Unmarshal(body, &out); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		return out, h.Get("X-Search-Session")
	}
	search := func(offset int, srs string) (out page, session string) {
		t.Helper()
		until(t, "an answer in time", func() bool {
			out, session = ask(offset, srs)
			return !out.late()
		})
		return out, session
	}
	first, srs := search(0, "")
	waitForSearch(t, w, srs)

	// The guest saw another order than the projection's newest: what follows
	// the first page is the other way round.
	c, ctx := redisClient(t, w.RedisURL), testkit.Context(t)
	key := w.Name + ":bff-consumer:srs:" + srs
	name, err := c.Do(ctx, c.B().Hget().Key(key).Field("order:0").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	orderKey := w.Name + ":bff-consumer:order:"
	raw, err := c.Do(ctx, c.B().Get().Key(orderKey+strings.TrimPrefix(name, "sha256:")).Build()).AsBytes()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := 0; i < len(raw); i += 16 {
		want = append(want, bff.IDFromBytes(bff.PrefixProperty, [16]byte(raw[i:i+16])).String())
	}
	slices.Reverse(want[20:])
	var pinned []byte
	for _, id := range want {
		b := bff.MustParseID(bff.PrefixProperty, id).Bytes()
		pinned = append(pinned, b[:]...)
	}
	other := strings.Repeat("ab", 32)
	for _, cmd := range []rueidis.Completed{
		c.B().Set().Key(orderKey + other).Value(string(pinned)).Build(),
		c.B().Hset().Key(key).FieldValue().FieldValue("order:0", "sha256:"+other).Build(),
	} {
		if err := c.Do(ctx, cmd).Error(); err != nil {
			t.Fatal(err)
		}
	}

	var got []string
	for _, r := range first.Results {
		got = append(got, r.PropertyID)
	}
	for offset := 20; offset < first.Page.Total; offset += 20 {
		var next page
		until(t, "a page of the search session", func() bool {
			var session string
			next, session = search(offset, srs)
			if session != srs && !next.overlaps() { // Redis did not answer in time
				t.Fatal("the search begins anew, and the answer does not say so")
			}
			return session == srs
		})
		if len(next.Degraded) != 0 {
			t.Fatalf("degraded %v", next.Degraded)
		}
		for _, r := range next.Results {
			got = append(got, r.PropertyID)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages do not follow the order that the guest saw (-want +got):\n%s", diff)
	}

	// A stranger's search session is none of ours: it is as unknown as any other.
	for _, theirs := range []string{srs, bff.NewID(bff.PrefixSearchSession, time.Now()).String()} {
		me := g
		g = newCaller(t, p)
		answer, session := search(20, theirs)
		if session == theirs || !answer.overlaps() {
			t.Errorf("another guest asked for a page of %s, and got one of %s, degraded %v", theirs, session, answer.Degraded)
		}
		g = me
	}

	// The pinned order is lost: the answer says so.
	if err := c.Do(ctx, c.B().Del().Key(orderKey+other).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if lost, _ := search(20, srs); !lost.overlaps() {
		t.Errorf("degraded: %v, want paging", lost.Degraded)
	}
}

func redisClient(t testing.TB, url string) rueidis.Client {
	t.Helper()
	opt, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	opt.DisableCache = true
	c, err := rueidis.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// waitForSearch waits until the session is written after its response.
func waitForSearch(t *testing.T, w *testkit.World, srs string) {
	t.Helper()
	c, ctx := redisClient(t, w.RedisURL), testkit.Context(t)
	until(t, "the search session is written", func() bool {
		n, err := c.Do(ctx, c.B().Exists().Key(w.Name+":bff-consumer:srs:"+srs).Build()).AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n == 1
	})
}
