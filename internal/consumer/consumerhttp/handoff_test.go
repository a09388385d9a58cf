package consumerhttp_test

import (
	"bytes"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func TestWishlistRoutes(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, nil, nil)
	g := s.guest()
	hotel, tenant := s.hotel(0)
	key := once()
	a := g.must(http.StatusCreated, "POST", "/wishlist", map[string]any{"propertyId": hotel, "source": "map", "note": strings.Repeat("ښ", 280)}, key...)
	if a.field("tenantId") != tenant || a.field("source") != "map" || !strings.HasPrefix(a.field("wishlistId"), "wsh_") {
		t.Errorf("added: %s", a.body)
	}
	if again := g.must(http.StatusOK, "POST", "/wishlist", s.wish(0), once()...); again.field("wishlistId") != a.field("wishlistId") {
		t.Errorf("already there: %s", again.body)
	}
	var list struct {
		Items []struct {
			WishlistID string
			Card       *struct{ PropertyID, TenantSlug string }
		}
		Size     int
		Degraded []any
	}
	g.must(http.StatusOK, "GET", "/wishlist", nil).into(t, &list)
	if list.Size != 1 || list.Items[0].Card == nil || list.Items[0].Card.PropertyID != hotel || len(list.Degraded) != 0 {
		t.Errorf("list: %+v", list)
	}

	for name, tc := range map[string]struct {
		want   int
		method string
		path   string
		body   any
		header []string
	}{
		"no key":            {428, "POST", "/wishlist", s.wish(1), nil},
		"no key to delete":  {428, "DELETE", "/wishlist/" + hotel, nil, nil},
		"key used already":  {422, "POST", "/wishlist", s.wish(1), key},
		"unknown hotel":     {404, "POST", "/wishlist", map[string]any{"propertyId": "ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3D", "source": "list"}, once()},
		"unknown source":    {400, "POST", "/wishlist", map[string]any{"propertyId": hotel, "source": "dream"}, once()},
		"note too long":     {400, "POST", "/wishlist", map[string]any{"propertyId": hotel, "source": "list", "note": strings.Repeat("ښ", 281)}, once()},
		"not a hotel":       {400, "DELETE", "/wishlist/all", nil, once()},
		"not there":         {204, "DELETE", "/wishlist/ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3D", nil, once()},
		"body is no object": {400, "POST", "/wishlist", []string{"x"}, once()},
	} {
		if a := g.ask(tc.method, tc.path, tc.body, tc.header...); a.status != tc.want {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.body, tc.want)
		}
	}

	// Without the upstreams the list is still the guest's.
	if err := s.Sim.SetFault(sim.Fault{Upstream: "*", Status: 503}); err != nil {
		t.Fatal(err)
	}
	g.must(http.StatusOK, "GET", "/wishlist", nil).into(t, &list)
	if list.Size != 1 {
		t.Errorf("without upstreams: %+v", list)
	}
	del := once()
	g.must(http.StatusNoContent, "DELETE", "/wishlist/"+hotel, nil, del...)
	if a := g.must(http.StatusNoContent, "DELETE", "/wishlist/"+hotel, nil, del...); a.header.Get("Idempotency-Replayed") != "true" || len(a.body) != 0 {
		t.Errorf("repeated removal: %v %q", a.header, a.body)
	}
	s.Sim.ClearFaults()
	g.must(http.StatusOK, "GET", "/wishlist", nil).into(t, &list)
	if list.Size != 0 {
		t.Errorf("after the removal: %+v", list)
	}
}

// The price that a guest saw is compared with the price of now, and the booking
// service hears of it.
func TestPriceReceipt(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, nil, nil)
	g := s.guest()
	query := search()
	query["currency"] = "USD"
	var found struct {
		Results []struct {
			PropertyID, TenantID string
			RateSnapshot         *struct {
				TotalForStayMinor, Currency, CapturedAt string
				Total                                   map[string]any
			}
		}
	}
	g.must(http.StatusOK, "POST", "/search", query).into(t, &found)
	body := s.stay(0)
	var price, total map[string]any
	for _, h := range found.Results {
		if h.RateSnapshot != nil {
			body["propertyId"], body["tenantId"] = h.PropertyID, h.TenantID
			price = map[string]any{"minor": h.RateSnapshot.TotalForStayMinor, "currency": h.RateSnapshot.Currency, "capturedAt": h.RateSnapshot.CapturedAt}
			total = h.RateSnapshot.Total
			break
		}
	}
	if price == nil {
		t.Fatal("no hotel has a price")
	}
	with := func(shown any) map[string]any {
		b := maps.Clone(body)
		if shown != nil {
			b["shown"] = shown
		}
		return b
	}
	cheaper := maps.Clone(price)
	cheaper["minor"] = "100"

	type receipt struct {
		PriceCheck   string
		CurrentPrice *struct{ Minor, Currency, CapturedAt string }
		Shown        *struct{ Minor, CapturedAt string }
		Occupancy    struct{ ChildrenAges []int }
	}
	check := func(name, want string, shown any) {
		t.Helper()
		a := g.must(http.StatusCreated, "POST", "/handoff", with(shown), once()...)
		var minted, consumed receipt
		a.into(t, &minted)
		id, token := tokenOf(t, a)
		c, err := s.consume(testkit.Context(t), s.procs[0], id, token, "booking")
		if err != nil || c.status != http.StatusOK {
			t.Fatalf("%s: %v %d %s", name, err, c.status, c.body)
		}
		c.into(t, &consumed)
		if minted.PriceCheck != want || consumed.PriceCheck != want {
			t.Errorf("%s: %q at the mint and %q at the booking, want %q", name, minted.PriceCheck, consumed.PriceCheck, want)
		}
		if changed := want == "changed"; (minted.CurrentPrice != nil) != changed ||
			(changed && (minted.CurrentPrice.Minor != price["minor"] || *consumed.CurrentPrice != *minted.CurrentPrice)) {
			t.Errorf("%s: the price of now: %+v %+v", name, minted.CurrentPrice, consumed.CurrentPrice)
		}
		if (consumed.Shown != nil) != (shown != nil) || shown != nil && consumed.Shown.CapturedAt == "" || len(consumed.Occupancy.ChildrenAges) != 1 {
			t.Errorf("%s: consumed %s", name, c.body)
		}
	}
	check("the same price", "matched", price)
	check("the same price, as the card gave it", "matched", total)
	check("another price", "changed", cheaper)
	check("another price, of no moment", "changed", map[string]any{"minor": "100", "currency": "USD"})
	check("nothing was shown", "unchecked", nil)
	if err := s.Sim.SetFault(sim.Fault{Upstream: "pricing", Hang: true}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	check("pricing hangs, and said the price a moment ago", "matched", price)
	check("pricing hangs, the price as the card gave it", "matched", total)
	unknown := maps.Clone(price)
	unknown["currency"] = "EUR"
	check("pricing hangs, and never said the price", "unchecked", unknown)
	t.Logf("a mint with a hanging pricing service took %s", time.Since(began))
	s.Sim.ClearFaults()

	g = s.guest() // one guest alone would ask too often
	for name, shown := range map[string]any{
		"no amount":   map[string]any{"currency": "USD", "capturedAt": price["capturedAt"]},
		"a float":     map[string]any{"minor": "1.5", "currency": "USD", "capturedAt": price["capturedAt"]},
		"no currency": map[string]any{"minor": "1", "capturedAt": price["capturedAt"]},
		"bad moment":  map[string]any{"minor": "1", "currency": "USD", "capturedAt": "yesterday"},
		"a number":    7,
	} {
		if a := g.ask("POST", "/handoff", with(shown), once()...); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want 400", name, a.status, a.body)
		}
	}
}

// A replayed token leaves its traces: a row, and a weight on the fingerprint. The
// instance that has redeemed it is told the same again for some seconds: the first
// answer may have been lost, which is not the guest's doing.
func TestReplayIsPenalised(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, nil, nil)
	g := s.guest("DNT", "1")
	id, token := tokenOf(t, g.must(http.StatusCreated, "POST", "/handoff", s.stay(0), once()...))
	consume := func(instance string, want int) answer {
		t.Helper()
		a, err := s.consume(testkit.Context(t), s.procs[0], id, token, instance)
		if err != nil || a.status != want {
			t.Fatalf("%s: %v %d %s, want %d", instance, err, a.status, a.body, want)
		}
		return a
	}
	first := consume("booking", http.StatusOK)
	if again := consume("booking", http.StatusOK); !bytes.Equal(first.body, again.body) {
		t.Errorf("the first answer %s, the second %s", first.body, again.body)
	}
	consume("other", http.StatusConflict)
	if s.count(`UPDATE bff_consumer.handoff_replay_log SET consumed_at = consumed_at - interval '11 seconds' WHERE id = $1 RETURNING 1`, id) != 1 {
		t.Fatal("the hand-off is not in the ledger")
	}
	consume("booking", http.StatusConflict)
	if n := s.count(`SELECT count(*) FROM bff_consumer.bot_score_log WHERE guest_session_id = $1 AND signals::text LIKE '%handoff-replay%'`, g.cookie); n != 2 {
		t.Errorf("%d rows of a guest who wants no telemetry, want 2: it is security state", n)
	}
	if n := s.count(`SELECT count(*) FROM bff_consumer.bot_score_log b JOIN bff_consumer.handoff_replay_log l ON l.id = $1
		WHERE b.guest_session_id = l.guest_session_id AND b.user_agent_hash = l.user_agent_hash AND l.user_agent_hash <> decode(repeat('00', 32), 'hex')`, id); n != 2 {
		t.Errorf("%d rows name the browser of the hand-off, want 2", n)
	}
	if n := s.count(`SELECT count(*) FROM bff_consumer.outbox WHERE headers->>'sessionId' = $1`, g.cookie); n != 0 {
		t.Errorf("%d events left for a guest who wants none", n)
	}
	c := redisClient(t, s.RedisURL)
	defer c.Close()
	found, err := c.Do(testkit.Context(t), c.B().Keys().Pattern(s.Name+":bff-consumer:bot:penalty:*").Build()).AsStrSlice()
	if err != nil || len(found) != 1 {
		t.Fatalf("penalties: %v %v", found, err)
	}
	if weight, err := c.Do(
		testkit.Context(t), c.B().Get().Key(found[0]).Build(),
	).ToString(); err != nil || !strings.HasPrefix(weight, "0.99") && !strings.HasPrefix(weight, "1.00") {
		t.Errorf("weight %q %v, want about 1: it decays", weight, err)
	}
}

// The commands for keys and tokens.
func TestKeyCommands(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(testkit.Context(t), testkit.Binary(t, "bff-consumer"), args...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := run(append(args, "--file", file)...)
		if err != nil {
			t.Fatalf("%v: %v %s", args, err, out)
		}
		return out
	}
	does := func(want string, args ...string) {
		t.Helper()
		if out := must(args...); !strings.Contains(out, want) {
			t.Errorf("%v does not say %q: %s", args, want, out)
		}
	}
	does("hmac-1 is its active key", "keys", "add", "hmac-1")
	does("hmac-2 is added and pending", "keys", "add", "hmac-2")
	if out, err := run("keys", "retire", "hmac-2", "--file", file); err == nil {
		t.Errorf("a pending key was retired: %s", out)
	}
	does("hmac-2 signs from now on", "keys", "promote", "hmac-2")
	if out, err := run("keys", "retire", "hmac-1", "--file", file); err == nil || !strings.Contains(out, "living tokens") {
		t.Errorf("a key with living tokens was retired: %s", out)
	}
	list := must("keys", "list")
	for _, want := range []string{"hmac-1", "grace", "hmac-2", "active"} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not in the list:\n%s", want, list)
		}
	}
	does("hmac-1 is revoked", "keys", "revoke", "hmac-1")

	s := newSite(t, 1, map[string]string{"BFF_CONSUMER_HANDOFF_KEYS_FILE": file}, nil)
	id, token := tokenOf(t, s.guest().must(http.StatusCreated, "POST", "/handoff", s.stay(0), once()...))
	out := must("handoff", "inspect", token)
	if !strings.Contains(out, id) || !strings.Contains(out, `"genuine"`) {
		t.Errorf("inspect: %s", out)
	}
	forged := []byte(token) // another letter of the alphabet
	if last := &forged[len(forged)-2]; *last == 'A' {
		*last = 'B'
	} else {
		*last = 'A'
	}
	if out, err := run("handoff", "inspect", string(forged), "--file", file); err != nil || !strings.Contains(out, `"refused"`) {
		t.Errorf("inspect of a forged token: %v %s", err, out)
	}
	inline, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run("handoff", "inspect", token, "--handoff-keys", string(inline)); err != nil || !strings.Contains(out, `"genuine"`) {
		t.Errorf("inspect with the keys inline: %v %s", err, out)
	}
	if out, err := run("handoff", "inspect", "nonsense"); err == nil {
		t.Errorf("inspect of nonsense: %s", out)
	}
}
