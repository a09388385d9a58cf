package consumerd_test

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// TestMutationsBehindPgBouncer has guests change everything that is in Postgres
// through a pooler in transaction mode with two server connections, while the
// relay publishes around it.
func TestMutationsBehindPgBouncer(t *testing.T) {
	t.Parallel()
	w := testkit.NewWorld(t, nil)
	through := testkit.PgBouncer(t, map[string]string{migrations.ConsumerApp: w.Secrets.ConsumerPassword})
	direct := w.Env()["BFF_CONSUMER_POSTGRES_URL"]
	settings := patient()
	maps.Copy(settings, map[string]string{
		"BFF_CONSUMER_POSTGRES_URL":      through(direct),
		"BFF_CONSUMER_POSTGRES_POOLER":   "transaction",
		"BFF_CONSUMER_JOBS_POSTGRES_URL": direct,
	})
	p := w.Start("bff-consumer", settings)
	contract := testkit.Contract(t)

	const guests = 3
	t.Run("guests", func(t *testing.T) {
		for n := range guests {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				k := &walker{t: t, w: w, p: p, contract: contract, client: contract.Client(nil)}
				k.changeEverything(n)
			})
		}
	})

	for what, query := range map[string]string{
		"hand-offs":               "SELECT count(*) FROM bff_consumer.handoff_replay_log",
		"consumed hand-offs":      "SELECT count(*) FROM bff_consumer.handoff_replay_log WHERE consumed",
		"events of hand-offs":     "SELECT count(*) FROM bff_consumer.outbox WHERE topic LIKE '%.handoff.initiated.v1'",
		"clicks":                  "SELECT count(*) FROM bff_consumer.outbox WHERE topic LIKE '%.click.recorded.v1'",
		"events of wishlists":     "SELECT count(*) FROM bff_consumer.outbox WHERE topic LIKE '%.wishlist.added.v1'",
		"sessions that were left": "SELECT count(*) FROM bff_consumer.outbox WHERE topic LIKE '%.session.ended.v1'",
	} {
		if got := rows(t, w.PostgresURL, query); got != guests {
			t.Errorf("%d %s, want %d", got, what, guests)
		}
	}
	if got := rows(t, w.PostgresURL, "SELECT count(*) FROM bff_consumer.wishlist_anonymous WHERE removed_at IS NULL"); got != 0 {
		t.Errorf("%d entries in wishlists of sessions that were cleared", got)
	}
	// Requests went through the pooler: it holds their few server connections.
	if got := rows(t, w.PostgresURL, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND usename = $1 AND application_name = 'bff-consumer'`, migrations.ConsumerApp); got < 1 || got > 2 {
		t.Errorf("%d server connections of requests, want 1 or 2", got)
	}
	until(t, "the relay has published all", func() bool {
		return rows(t, w.PostgresURL, "SELECT count(*) FROM bff_consumer.outbox WHERE published_at IS NULL") == 0
	})
}

// changeEverything makes each mutation once, with duplicates.
func (k *walker) changeEverything(n int) {
	k.t.Helper()
	hotel := k.w.Sim.Catalog().Properties[n]
	key := func(s string) headers { return headers{"Idempotency-Key": {fmt.Sprint(s, "-", n)}} }
	k.ask(200, "GET", "/session", nil, nil)
	entry := members{"propertyId": hotel.PropertyID, "source": "detail"}
	for range 2 {
		k.ask(201, "POST", "/wishlist", key("add"), entry)
	}
	for range 2 {
		k.ask(204, "DELETE", "/wishlist/"+hotel.PropertyID, key("remove"), nil)
	}
	k.ask(200, "GET", "/wishlist", nil, nil)

	// Duplicates at the same moment: one is carried out, the others wait for its
	// answer.
	target := handoffTo(hotel.PropertyID, hotel.TenantID)
	answers := make([]answer, 3)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			v := &visitor{base: "http://" + k.p.Public, cookie: k.cookie, card: k.card, header: map[string]string{"User-Agent": walkerAgent, "Accept-Language": "en"}}
			a, err := v.try(testkit.Context(k.t), http.MethodPost, "/handoff", map[string]string{"Idempotency-Key": fmt.Sprint("handoff-", n)}, target)
			if err != nil || a.status != http.StatusCreated {
				k.t.Errorf("duplicate: %d, %v", a.status, err)
			}
			answers[i] = a
		})
	}
	wg.Wait()
	minted := k.ask(201, "POST", "/handoff", key("handoff"), target)
	for _, a := range answers {
		if got, want := a.field("handoffId"), minted.field(k.t, "handoffId"); got != want {
			k.t.Errorf("duplicate: hand-off %s, want %s", got, want)
		}
	}
	token := tokenOf(k.t, minted.field(k.t, "url"))
	k.consume(200, minted.field(k.t, "handoffId"), members{"token": token, "instance": "one"}, true)
	k.consume(409, minted.field(k.t, "handoffId"), members{"token": token, "instance": "other"}, true)

	k.ask(202, "POST", "/telemetry/click", nil, members{"kind": "brand-peek", "tenantId": hotel.TenantID})
	k.ask(202, "POST", "/telemetry/page-view", nil, members{"path": "/search"})
	k.ask(202, "POST", "/telemetry/funnel", nil, members{"step": "map.opened"})
	k.ask(204, "POST", "/session/clear", nil, nil)
}
