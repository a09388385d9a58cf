package main_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// guest speaks to the running system as a front end does.
type guest struct {
	t      *testing.T
	cookie string // the session's id
	card   string
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
}

func (a answer) code(t *testing.T) string {
	t.Helper()
	var doc struct {
		Error struct{ Code string }
	}
	a.into(t, &doc)
	return doc.Error.Code[strings.LastIndexByte(doc.Error.Code, '.')+1:]
}

func send(t *testing.T, method, target string, header map[string]string, body []byte) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(t), method, target, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, b}
}

func (g *guest) post(path string, header map[string]string, body any) answer {
	g.t.Helper()
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			g.t.Fatal(err)
		}
	}
	h := map[string]string{"User-Agent": "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0", "Accept-Language": "prs-AF, en;q=0.5"}
	maps.Copy(h, header)
	if sent := testkit.CookieHeader(g.cookie, g.card); sent != "" {
		h["Cookie"] = sent
	}
	a := send(g.t, http.MethodPost, os.Getenv("MELMASTOON_CONSUMER_URL")+"/bff/consumer/v1"+path, h, b)
	for _, c := range (&http.Response{Header: a.header}).Cookies() {
		if c.Name == "gms_id" || c.Name == "__Host-gms_card" {
			if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 2592000 || c.Path != "/" {
				g.t.Errorf("cookie attributes: %v", c)
			}
		}
	}
	testkit.TakeCookies(a.header, &g.cookie, &g.card)
	return a
}

func search() map[string]any {
	return map[string]any{
		"geo": map[string]any{"mode": "city", "city": "Kabul"}, "dates": map[string]any{"checkIn": "2077-05-12", "checkOut": "2077-05-15"},
		"occupancy": map[string]any{"adults": 2, "children": 1, "rooms": 1, "childrenAges": []int{7}},
	}
}

func (g *guest) handoff(key string, body any) answer {
	return g.post("/handoff", map[string]string{"Idempotency-Key": key}, body)
}

// consume calls as the booking service does.
func consume(t *testing.T, id string, body any) answer {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	path, now := "/internal/handoff/"+id+"/consume", time.Now().Unix()
	digest := sha256.Sum256(b)
	mac := hmac.New(sha256.New, []byte(os.Getenv("MELMASTOON_INTERNAL_HMAC_KEY")))
	_, _ = fmt.Fprintf(mac, "POST\n%s\n%d\n%s", path, now, hex.EncodeToString(digest[:])) // a hash takes everything
	return send(t, "POST", os.Getenv("MELMASTOON_CONSUMER_INTERNAL_URL")+path, map[string]string{
		"Authorization":   "Bearer " + os.Getenv("MELMASTOON_INTERNAL_TOKEN"),
		"X-Internal-HMAC": fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil))),
	}, b)
}

// listen subscribes to a topic and returns the events of one guest.
func listen(t *testing.T, topic string) func(session string) map[string]any {
	t.Helper()
	ctx := testkit.Context(t)
	client, err := pubsub.NewClient(ctx, os.Getenv("PUBSUB_PROJECT_ID"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	name := "projects/" + os.Getenv("PUBSUB_PROJECT_ID") + "/subscriptions/test-" + strings.ToLower(rand.Text())
	if _, err := client.SubscriptionAdminClient.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: name, Topic: "projects/" + os.Getenv("PUBSUB_PROJECT_ID") + "/topics/" + topic,
	}); err != nil {
		t.Fatal(err)
	}
	return func(session string) map[string]any {
		t.Helper()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		got := make(chan map[string]any, 1)
		go func() {
			_ = client.Subscriber(name).Receive(ctx, func(_ context.Context, m *pubsub.Message) {
				m.Ack()
				var e map[string]any
				if json.Unmarshal(m.Data, &e) != nil {
					return
				}
				if env, ok := e["envelope"].(map[string]any); ok && env["sessionId"] == session {
					select {
					case got <- e:
					default:
					}
				}
			})
		}()
		select {
		case e := <-got:
			return e
		case <-ctx.Done():
			t.Fatalf("no %s of %s arrived", topic, session)
			return nil
		}
	}
}

func insideGuestIsHandedOff(t *testing.T) {
	g := &guest{t: t}
	started := listen(t, "melmastoon.bff.consumer.session.started.v1")
	initiated := listen(t, "melmastoon.bff.consumer.handoff.initiated.v1")
	suspected := listen(t, "melmastoon.bff.consumer.bot_suspected.v1")

	a := g.post("/search", map[string]string{"X-Currency": "USD", "X-Campaign-Source": "newsletter"}, search())
	if a.status != http.StatusOK || g.cookie == "" || !strings.HasPrefix(a.header.Get("X-Search-Session"), "srs_") {
		t.Fatalf("search: %d %v %s", a.status, a.header, a.body)
	}
	var found struct {
		Results []struct {
			PropertyID, TenantID, TenantSlug string
			BrandPeek                        struct{ PrimaryColor string }
			RateSnapshot                     *struct {
				CheapestNightlyMinor, TotalForStayMinor, Currency string
				IsStale                                           bool
			}
		}
		Page     struct{ Limit, Offset, Total int }
		Degraded []any
	}
	a.into(t, &found)
	if len(found.Results) != 20 || found.Page.Total < 100 || len(found.Degraded) != 0 {
		t.Fatalf("found %d of %d, degraded %v", len(found.Results), found.Page.Total, found.Degraded)
	}
	hotel := found.Results[0]
	if hotel.RateSnapshot == nil || hotel.RateSnapshot.Currency != "USD" || hotel.BrandPeek.PrimaryColor == "" {
		t.Fatalf("no price or brand: %+v", hotel)
	}
	if e := started(g.cookie); e["payload"].(map[string]any)["localePreference"] != "fa-AF" {
		t.Errorf("session.started: %v", e)
	}

	body := map[string]any{
		"propertyId": hotel.PropertyID, "tenantId": hotel.TenantID, "currency": "USD",
		"dates": search()["dates"], "occupancy": search()["occupancy"],
	}
	key := rand.Text()
	a = g.handoff(key, body)
	var minted struct{ HandoffID, URL, ExpiresAt string }
	a.into(t, &minted)
	u, err := url.Parse(minted.URL)
	if a.status != http.StatusCreated || err != nil || u.Path != "/booking/"+hotel.TenantSlug+"/book" {
		t.Fatalf("handoff: %d %s", a.status, a.body)
	}
	token := u.Query().Get("h")
	if len(token) == 0 || len(token) > 180 {
		t.Errorf("token of %d characters", len(token))
	}
	if again := g.handoff(key, body); again.status != http.StatusCreated || !bytes.Equal(again.body, a.body) ||
		again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("replayed mint: %d %s, want the first answer", again.status, again.body)
	}
	body["currency"] = "EUR"
	if other := g.handoff(key, body); other.status != http.StatusUnprocessableEntity {
		t.Errorf("other body, same key: %d %s", other.status, other.body)
	}
	e := initiated(g.cookie)
	if p := e["payload"].(map[string]any); p["handoffId"] != minted.HandoffID || e["envelope"].(map[string]any)["retentionClass"] != "audit" {
		t.Errorf("handoff.initiated: %v", e)
	}

	tampered := []byte(token)
	tampered[len(tampered)/2] ^= 1
	if a := consume(t, minted.HandoffID, map[string]string{
		"token": string(tampered), "instance": "booking-1",
	}); a.status != http.StatusUnauthorized || a.code(t) != "HANDOFF_SIGNATURE_INVALID" {
		t.Errorf("tampered: %d %s", a.status, a.body)
	}
	a = consume(t, minted.HandoffID, map[string]string{"token": token, "instance": "booking-1"})
	var consumed struct {
		GuestSessionID, PropertyID string
		Occupancy                  struct{ ChildrenAges []int }
		SourceCampaign             struct{ Source string }
	}
	a.into(t, &consumed)
	if a.status != http.StatusOK || consumed.GuestSessionID != g.cookie || consumed.PropertyID != hotel.PropertyID ||
		len(consumed.Occupancy.ChildrenAges) != 1 || consumed.SourceCampaign.Source != "newsletter" {
		t.Errorf("consume: %d %s", a.status, a.body)
	}
	if a := consume(t, minted.HandoffID, map[string]string{
		"token": token, "instance": "booking-2",
	}); a.status != http.StatusConflict || a.code(t) != "HANDOFF_REPLAYED" {
		t.Errorf("twice: %d %s", a.status, a.body)
	}
	if e := suspected(g.cookie); !strings.Contains(fmt.Sprint(e["payload"]), "handoff-replay") {
		t.Errorf("bot_suspected: %v", e)
	}
	if a := g.handoff(key, map[string]any{
		"propertyId": hotel.PropertyID, "tenantId": hotel.TenantID, "currency": "USD", "dates": search()["dates"], "occupancy": search()["occupancy"],
	}); a.status != http.StatusConflict {
		t.Errorf("mint replayed after use: %d %s", a.status, a.body)
	}

	// The guest follows the redirect, and comes back to it.
	body["currency"] = "AFN"
	body["shown"] = map[string]any{"minor": "1021295", "currency": "AFN", "capturedAt": time.Now().UTC().Format(time.RFC3339)}
	g.handoff(rand.Text(), body).into(t, &minted)
	for _, want := range []struct {
		url    string
		status int
		shows  []string
	}{
		{minted.URL[:len(minted.URL)-9], http.StatusUnauthorized, []string{"not genuine"}},
		{strings.Replace(minted.URL, "/booking/"+hotel.TenantSlug, "/booking/other", 1), http.StatusNotFound, []string{"another hotel"}},
		{minted.URL, http.StatusOK, []string{
			hotel.PropertyID, "2077-05-12", "2077-05-15", `id="adults">۲<`, `id="ages">۷<`, "۱۰٬۲۱۲٫۹۵", "AFN", "fa-AF", `dir="rtl"`, `alt="`,
		}},
		{minted.URL, http.StatusConflict, []string{"already used"}},
	} {
		a := send(t, http.MethodGet, want.url, nil, nil)
		for _, text := range want.shows {
			if a.status != want.status || !bytes.Contains(a.body, []byte(text)) {
				t.Errorf("booking page: %d, want %d with %q\n%s", a.status, want.status, text, a.body)
			}
		}
	}

	// A hand-off whose half hour is over.
	delete(body, "currency")
	a = g.handoff(rand.Text(), body)
	a.into(t, &minted)
	conn, err := pgx.Connect(testkit.Context(t), os.Getenv("MELMASTOON_POSTGRES_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(testkit.Context(t))) }()
	if _, err := conn.Exec(testkit.Context(t), `UPDATE bff_consumer.handoff_replay_log
		SET minted_at = minted_at - interval '1 hour', expires_at = expires_at - interval '1 hour' WHERE id = $1`, minted.HandoffID); err != nil {
		t.Fatal(err)
	}
	u, _ = url.Parse(minted.URL)
	if a := send(t, http.MethodGet, minted.URL, nil, nil); a.status != http.StatusGone {
		t.Errorf("expired, at the booking page: %d %s", a.status, a.body)
	}
	if a := consume(t, minted.HandoffID, map[string]string{"token": u.Query().Get("h"), "instance": "booking-1"}); a.status != http.StatusGone {
		t.Errorf("expired: %d %s", a.status, a.body)
	}
}

func insideStrangersAreRefused(t *testing.T) {
	g := &guest{t: t}
	if a := g.post("/search", map[string]string{"Authorization": "Bearer x"}, search()); a.status != 400 || a.code(t) != "SURFACE_MISMATCH" {
		t.Errorf("credentials: %d %s", a.status, a.body)
	}
	body := map[string]any{
		"propertyId": "ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3D", "tenantId": "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D",
		"dates": search()["dates"], "occupancy": search()["occupancy"],
	}
	if a := g.post("/handoff", nil, body); a.status != 428 {
		t.Errorf("no idempotency key: %d %s", a.status, a.body)
	}
	if a := g.post("/handoff", map[string]string{"Idempotency-Key": "a", "X-Idempotency-Key": "b"}, body); a.status != 400 {
		t.Errorf("two idempotency keys: %d %s", a.status, a.body)
	}
	if a := g.handoff(rand.Text(), body); a.status != 404 {
		t.Errorf("unknown property: %d %s", a.status, a.body)
	}
	for origin, want := range map[string]int{"http://localhost:5173": 200, "https://hotel.example": 403} {
		a := g.post("/search", map[string]string{"Origin": origin, "Sec-Fetch-Site": "cross-site"}, search())
		if shared := a.header.Get("Access-Control-Allow-Origin") == origin; a.status != want || shared != (want == 200) {
			t.Errorf("a page of %s: %d %s", origin, a.status, a.body)
		}
	}
	internal := os.Getenv("MELMASTOON_CONSUMER_INTERNAL_URL") + "/internal/handoff/bhd_01H8YN7QV4D8KZ4F8Y5CK4MV3D/consume"
	if a := send(t, "POST", internal, nil, []byte(`{}`)); a.status != 401 || a.code(t) != "UNAUTHENTICATED" {
		t.Errorf("consume without proof: %d %s", a.status, a.body)
	}
	if a := send(t, "GET", os.Getenv("MELMASTOON_CONSUMER_URL")+"/health", nil, nil); a.status != 404 {
		t.Errorf("health on the public listener: %d", a.status)
	}
	if a := send(t, "GET", os.Getenv("MELMASTOON_BACKOFFICE_ADMIN_URL")+"/ready", nil, nil); a.status != 200 {
		t.Errorf("backoffice is not ready: %d", a.status)
	}
}

// insideGarbage throws malformed requests at the slice's routes: each gets
// a problem document, none a server error.
func insideGarbage(t *testing.T) {
	g := &guest{t: t}
	rnd := mathrand.New(mathrand.NewPCG(1, 2))
	garbage := []string{
		"", " ", "\x7f", "null", "[]", "{", `{"geo":1}`, "'; DROP TABLE x;--", strings.Repeat("a", 3000), "٪", "1e999", "../..", "%00", "\"", "gms_", "-1",
	}
	pick := func() string { return garbage[rnd.IntN(len(garbage))] }
	leaf := func() any {
		return []any{nil, true, -1, 1e300, pick(), []any{pick()}, map[string]any{pick(): pick()}, "2026-02-30"}[rnd.IntN(8)]
	}
	for i := range 600 {
		body := search()
		path := "/search"
		if i%2 == 1 {
			path = "/handoff"
			body["propertyId"], body["tenantId"] = "ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3D", "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D"
		}
		for range 1 + rnd.IntN(3) {
			field := []string{"geo", "dates", "occupancy", "filters", "sortKey", "page", "locale", "currency", "propertyId", "tenantId"}[rnd.IntN(10)]
			body[field] = leaf()
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			raw = raw[:rnd.IntN(len(raw))]
		}
		header := map[string]string{}
		for range rnd.IntN(3) {
			name := []string{
				"Cookie", "X-Request-Id", "Accept-Language", "X-Currency", "Idempotency-Key", "X-Idempotency-Key", "Traceparent", "Referer", "User-Agent",
				"Content-Type",
			}[rnd.IntN(10)]
			value := strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7f {
					return '?'
				}
				return r
			}, pick())
			if name == "Cookie" {
				value = "gms_id=" + value
			}
			header[name] = value
		}
		a := send(t, "POST", os.Getenv("MELMASTOON_CONSUMER_URL")+"/bff/consumer/v1"+path, header, raw)
		if a.status >= 500 {
			t.Fatalf("%s with %s and %v: %d %s", path, raw, header, a.status, a.body)
		}
		if a.status >= 400 {
			var doc struct {
				Error struct {
					Code   string
					Status int
					Errors []struct{ Field, Code string }
				}
			}
			a.into(t, &doc)
			if doc.Error.Status != a.status || a.header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("not a problem document: %d %s", a.status, a.body)
			}
			if strings.HasSuffix(doc.Error.Code, "VALIDATION_FAILED") && len(doc.Error.Errors) == 0 {
				t.Fatalf("no field is named: %s", a.body)
			}
		}
	}
	all := g.post("/search", nil, map[string]any{
		"geo": map[string]any{"mode": "city", "point": map[string]any{}}, "dates": map[string]any{"checkIn": "2077-05-15", "checkOut": "2077-05-12"},
		"occupancy": map[string]any{"adults": 0, "rooms": 1}, "sortKey": "best", "page": map[string]any{"limit": 51},
	})
	for _, want := range []string{"geo.city", "geo.point", "dates.checkOut", "occupancy.adults", "sortKey", "page.limit"} {
		if !strings.Contains(string(all.body), `"`+want) {
			t.Errorf("%s is not named in %s", want, all.body)
		}
	}
}
