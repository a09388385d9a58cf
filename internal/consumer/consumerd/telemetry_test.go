package consumerd_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/telemetry"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// everything leaves, so that a test need not find a guest who is in the sample.
var everything = map[string]string{
	"BFF_CONSUMER_SAMPLING": string(consumer.SubjectSearchExecuted) + "=1;" + string(consumer.SubjectDetailViewed) + "=1",
}

func kabul() map[string]any {
	return map[string]any{
		"geo": map[string]any{"mode": "city", "city": "Kabul"}, "dates": stay(),
		"occupancy": map[string]any{"adults": 2, "children": 0, "rooms": 1},
	}
}

func stay() map[string]string {
	return map[string]string{"checkIn": "2077-05-12", "checkOut": "2077-05-15"}
}

func handoffTo(propertyID, tenantID string) map[string]any {
	return map[string]any{
		"propertyId": propertyID, "tenantId": tenantID, "dates": stay(),
		"occupancy": map[string]int{"adults": 2, "children": 0, "rooms": 1},
	}
}

func rows(t testing.TB, url, query string, args ...any) int {
	t.Helper()
	ctx := testkit.Context(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var n int
	if err := conn.QueryRow(ctx, query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestTelemetryArrives sends a guest through everything that tells something
// and waits for each event, held to its schema.
func TestTelemetryArrives(t *testing.T) {
	t.Parallel()
	w := testkit.NewWorld(t, nil)
	events := listen(t, w)
	p := w.Start("bff-consumer", everything)
	v := &visitor{base: "http://" + p.Public}
	hotels := w.Sim.Catalog().Properties
	hotel := hotels[0]

	v.ask(t, http.StatusOK, "GET", "/session", nil)
	guest := v.cookie
	events.of(consumer.SubjectSessionStarted, guest)
	sessions := map[any]bool{}
	var srs string
	search := events.provoke(consumer.SubjectSearchExecuted, guest, func(int) {
		srs = v.ask(t, http.StatusOK, "POST", "/search", kabul()).header.Get("X-Search-Session")
		sessions[srs] = true
	})
	if search.Envelope.SamplingRate != 1 || !sessions[search.Payload["searchSessionId"]] {
		t.Errorf("search: %s", search.raw)
	}

	for _, r := range reports(hotel) {
		events.promised(r, v.ask(t, http.StatusAccepted, "POST", r.path, r.body))
	}
	id := v.ask(t, http.StatusAccepted, "POST", "/telemetry/click", map[string]any{
		"kind": "map-pin", "tenantId": hotel.TenantID, "propertyId": hotel.PropertyID, "searchSessionId": srs,
		"position": 3, "page": 1, "sortKey": "recommended",
	}).field("id")
	if e := events.await("click", func(r received) bool { return r.Envelope.EventID == id }); e.Payload["position"] != 3.0 || e.Payload["kind"] != "map-pin" {
		t.Errorf("click: %s, answered %s", e.raw, id)
	}
	id = v.ask(t, http.StatusAccepted, "POST", "/telemetry/page-view", map[string]any{
		"path": "/search?q=secret#secret", "referer": "https://user:secret@www.google.com:8443/secret?q=secret", "propertyId": hotel.PropertyID,
	}).field("id")
	if e := events.await("page view", func(r received) bool { return r.Payload["id"] == id }); e.Payload["path"] != "/search" ||
		e.Payload["referer"] != "https://www.google.com:8443" || strings.Contains(e.raw, "secret") {
		t.Errorf("page view: %s, answered %s", e.raw, id)
	}
	for _, step := range telemetry.FunnelSteps() {
		id := v.ask(t, http.StatusAccepted, "POST", "/telemetry/funnel", map[string]any{
			"step": step, "metadata": map[string]any{"variant": "b", "depth": 2, "first": true},
		}).field("id")
		e := events.await(step, func(r received) bool { return r.Payload["id"] == id })
		if e.Payload["step"] != step || fmt.Sprint(e.Payload["metadata"]) != "map[depth:2 first:true variant:b]" {
			t.Errorf("funnel: %s", e.raw)
		}
	}

	events.provoke(consumer.SubjectDetailViewed, guest, func(int) { v.ask(t, http.StatusOK, "GET", "/hotels/"+hotel.PropertyID, nil) })
	events.provoke(consumer.SubjectLocaleChanged, guest, func(n int) {
		v.ask(t, http.StatusOK, "POST", "/session/locale", map[string]string{"locale": []string{"en", "ur"}[n%2]})
	})
	events.provoke(consumer.SubjectCurrencyChanged, guest, func(n int) {
		v.ask(t, http.StatusOK, "POST", "/session/currency", map[string]string{"currency": []string{"USD", "EUR"}[n%2]})
	})
	once := func() map[string]string { return map[string]string{"Idempotency-Key": rand.Text()} }
	// What was committed with its event is promised: one action, one event.
	v.ask(t, http.StatusCreated, "POST", "/wishlist", map[string]string{"propertyId": hotels[1].PropertyID, "source": "detail", "note": "secret"}, once())
	events.of(consumer.SubjectWishlistAdded, guest)
	v.ask(t, http.StatusNoContent, "DELETE", "/wishlist/"+hotels[1].PropertyID, nil, once())
	events.of(consumer.SubjectWishlistRemoved, guest)
	minted := v.ask(t, http.StatusCreated, "POST", "/handoff", handoffTo(hotel.PropertyID, hotel.TenantID), once()).field("handoffId")
	if e := events.of(consumer.SubjectHandoffInitiated, guest); e.Payload["handoffId"] != minted {
		t.Errorf("hand-off: %s, answered %s", e.raw, minted)
	}
	// Another browser with this guest's cookies.
	thief := &visitor{base: v.base, cookie: guest, card: v.card, header: map[string]string{"User-Agent": "Mozilla/5.0 (iPhone)"}}
	for thief.cookie == guest { // a session that could not be read is no guest's
		thief.ask(t, http.StatusOK, "GET", "/session", nil)
	}
	events.of(consumer.SubjectBotSuspected, thief.cookie)
	v.ask(t, http.StatusNoContent, "POST", "/session/clear", nil)
	events.await("end by the guest", func(r received) bool { return r.session() == guest && r.Payload["reason"] == "explicit-clear" })

	for _, e := range events.all() {
		if strings.Contains(e.raw, "secret") {
			t.Errorf("what a guest typed left: %s", e.raw)
		}
	}
}

// TestPersonalDataStaysOutside plants markers where requests carry personal
// data and looks for them in every event, log line, row and key.
func TestPersonalDataStaysOutside(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NewRedis(t)
	w := testkit.NewWorld(t, func(p *platform.Places) { p.RedisURL = server.URL() })
	events := listen(t, w)
	svc, err := platform.NewService("bff-consumer", false)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := svc.Start([]string{testkit.Binary(t, svc.Name), "serve"}, platform.Pairs(w.Env(), everything, map[string]string{
		"MELMASTOON_LOG_LEVEL": "debug", "BFF_CONSUMER_TRUSTED_PROXIES": "127.0.0.0/8",
	}), log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.AwaitReady(ctx); err != nil {
		t.Fatal(err)
	}

	v := &visitor{base: "http://" + p.Public, header: map[string]string{
		"X-Forwarded-For":   "203.0.113.77",
		"X-Real-Ip":         "203.0.113.78",
		"User-Agent":        "Mozilla/5.0 (planted-agent) Firefox/130.0",
		"Accept-Language":   "ps-AF, x-planted;q=0.1",
		"X-Client-Timezone": "Planted/Zone",
		"X-Client-Screen":   "1x1planted",
		"Referer":           "https://planted:pass@other.example/p?mail=planted@example.com#planted",
		"X-Planted":         "planted",
	}}
	hotel := w.Sim.Catalog().Properties[0]
	mistyped := kabul()
	mistyped["geo"] = map[string]any{"mode": "city", "city": "typed-name-of-a-person"}
	mistyped["filters"] = map[string]any{"neighbourhoods": []string{"typed-street 5"}, "amenities": []string{"typed-amenity"}}
	v.ask(t, http.StatusOK, "POST", "/search?mail=planted@example.com", kabul())
	v.ask(t, http.StatusOK, "POST", "/search", mistyped)
	v.ask(t, http.StatusOK, "GET", "/suggest?q=planted%40example.com", nil)
	v.ask(t, http.StatusOK, "GET", "/hotels/"+hotel.PropertyID+"?planted=planted", nil)
	v.ask(t, http.StatusAccepted, "POST", "/telemetry/page-view?planted", map[string]any{
		"path": "/search?mail=planted@example.com#planted", "referer": "https://planted@x.example/planted?planted", "planted": "planted",
	})
	v.plant(t, hotel, "planted@example.com")
	v.ask(t, http.StatusBadRequest, "POST", "/telemetry/funnel", map[string]any{"step": "planted", "metadata": map[string]any{"a": "planted@example.com"}})
	v.ask(t, http.StatusNotFound, "GET", "/planted@example.com", nil)
	v.ask(t, http.StatusCreated, "POST", "/handoff", handoffTo(hotel.PropertyID, hotel.TenantID), map[string]string{"Idempotency-Key": rand.Text()})
	events.of(consumer.SubjectHandoffInitiated, v.cookie)
	thief := &visitor{base: v.base, cookie: v.cookie, card: v.card, header: maps.Clone(v.header)}
	thief.header["User-Agent"] = "planted-other-agent"
	for thief.cookie == v.cookie {
		thief.ask(t, http.StatusOK, "GET", "/session", nil)
	}
	events.of(consumer.SubjectBotSuspected, thief.cookie)
	if err := p.Stop(30 * time.Second); err != nil { // all that happens behind answers has happened
		t.Fatal(err)
	}

	everywhere := []string{"203.0.113.7", "planted", "Planted"}
	typed := []string{"typed-name", "typed-street", "typed-amenity"}
	search := func(place, text string, markers []string) {
		t.Helper()
		for _, m := range markers {
			if i := strings.Index(text, m); i >= 0 {
				t.Errorf("%s holds %q: …%s…", place, m, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
	all := events.all()
	if len(all) < 8 {
		t.Errorf("only %d events", len(all))
	}
	for _, e := range all {
		search("event", e.raw, append(everywhere, typed...))
	}
	written, err := os.ReadFile(log.Name())
	if err != nil || !bytes.Contains(written, []byte(`"route"`)) {
		t.Fatalf("no log: %v", err)
	}
	search("log", string(written), append(everywhere, typed...))
	search("Postgres", dumpPostgres(t, w.PostgresURL), append(everywhere, typed...))
	// What a guest searched for is part of the guest's own session.
	search("Redis", dumpRedis(t, server.URL()), everywhere)
}

// dumpPostgres writes out every row of the service's schema.
func dumpPostgres(t *testing.T, url string) string {
	t.Helper()
	ctx := testkit.Context(t)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	read := func(sql string) []string {
		t.Helper()
		r, err := conn.Query(ctx, sql)
		if err != nil {
			t.Fatal(err)
		}
		out, err := pgx.CollectRows(r, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	var all strings.Builder
	for _, table := range read(`SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables WHERE schemaname = 'bff_consumer'`) {
		for _, row := range read(`SELECT r::text FROM ` + table + ` r`) {
			all.WriteString(table + ": " + row + "\n")
		}
	}
	if !strings.Contains(all.String(), "bff_consumer.outbox: ") || !strings.Contains(all.String(), "bff_consumer.handoff_replay_log: ") {
		t.Error("the dump misses tables")
	}
	return all.String()
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

// dumpRedis writes out every key of the server with its value.
func dumpRedis(t *testing.T, url string) string {
	t.Helper()
	ctx := testkit.Context(t)
	c := redisClient(t, url)
	keys, err := c.Do(ctx, c.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	var all strings.Builder
	for _, k := range keys {
		kind, err := c.Do(ctx, c.B().Type().Key(k).Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		var read rueidis.Completed
		switch kind {
		case "string":
			read = c.B().Get().Key(k).Build()
		case "hash":
			read = c.B().Hgetall().Key(k).Build()
		case "list":
			read = c.B().Lrange().Key(k).Start(0).Stop(-1).Build()
		case "set":
			read = c.B().Smembers().Key(k).Build()
		case "zset":
			read = c.B().Zrange().Key(k).Min("0").Max("-1").Build()
		case "stream":
			read = c.B().Xrange().Key(k).Start("-").End("+").Build()
		default:
			t.Fatalf("key %s is a %s", k, kind)
		}
		value, err := c.Do(ctx, read).ToAny()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s: %v\n", k, value)
	}
	return all.String()
}
