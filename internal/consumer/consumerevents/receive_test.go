package consumerevents_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// tags records what was invalidated; fail makes it fail.
type tags struct {
	mu   sync.Mutex
	seen []string
	fail error
}

func (c *tags) Invalidate(_ context.Context, tags ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	c.seen = append(c.seen, tags...)
	return nil
}

func (c *tags) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

// house is a receiver on real servers.
type house struct {
	*consumerevents.Receiver
	db    *pgxpool.Pool
	inbox *consumerstore.Inbox
	list  *consumer.SuspendedTenants
	cache *tags
	log   *testkit.Log
}

func newHouse(t *testing.T) *house {
	t.Helper()
	url := testkit.PostgresTemplate(t, "consumer", func(url string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return postgres.Migrate(ctx, url, migrations.Consumer(), postgres.MigrateOptions{})
	})
	db, err := postgres.Open(t.Context(), testkit.Patient(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	client, err := redis.Open(redis.Config{URL: testkit.Redis(t), Tier: "test", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	h := &house{db: db, inbox: consumerstore.NewInbox(db), list: &consumer.SuspendedTenants{}, cache: &tags{}, log: &testkit.Log{}}
	log := slog.New(slog.NewTextHandler(h.log, nil))
	h.Receiver = consumerevents.NewReceiver(consumerevents.Config{
		Inbox: h.inbox, Cache: h.cache, Log: log, Now: time.Now,
		Tenants: consumerstore.NewSuspensions(consumerstore.SuspensionsConfig{
			DB: db, Set: client, Bell: client, Keys: redis.NewKeys("t"+strings.ToLower(rand.Text()[:8]), "bff-consumer"), Cache: h.cache, List: h.list, Log: log,
		}),
	})
	return h
}

func (h *house) rows(t *testing.T, query string, args ...any) int {
	t.Helper()
	var n int
	if err := h.db.QueryRow(testkit.Context(t), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	suspended   = "melmastoon.tenant.suspended.v1"
	reinstated  = "melmastoon.tenant.reinstated.v1"
	reactivated = "melmastoon.tenant.reactivated.v1"
)

// delivery wraps a payload in the platform's envelope.
func delivery(topic, id string, at time.Time, payload string) pubsub.Delivery {
	return pubsub.Delivery{
		ID: rand.Text(), Topic: topic, PublishTime: at,
		Data: fmt.Appendf(nil, `{"envelope":{"eventId":%q,"subject":%q,"occurredAt":%q},"payload":%s}`, id, topic, bff.At(at), payload),
	}
}

func about(tenant bff.ID) string {
	return fmt.Sprintf(`{"tenantId":%q,"reason":"billing-overdue"}`, tenant)
}

func TestEffects(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := testkit.Context(t)
	const tnt, ppt = "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D", "ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3E"
	for _, tc := range []struct {
		name, topic, data string
		want              []string
		suspended         bool
	}{
		{
			name: "theme", topic: "melmastoon.theme.published.v1",
			data: `{"envelope":{"eventId":"e1","subject":"melmastoon.theme.published.v1"},"payload":{"tenantId":"` + tnt + `","themeId":7}}`,
			want: []string{"brand:" + tnt},
		},
		{
			name: "listing", topic: "melmastoon.search_aggregation.listing.indexed.v1",
			data: `{"envelope":{"eventId":"e2","subject":"melmastoon.search_aggregation.listing.indexed.v1"},"payload":{"propertyId":"` + ppt + `","geoCell":"h3:8a283082aa67fff"}}`,
			want: []string{"property:" + ppt, "cell:8a283082aa67fff"},
		},
		{
			name: "listing by its other name, without a usable cell", topic: "melmastoon.search.projection.updated.v1",
			data: `{"id":"e3","type":"melmastoon.search.projection.updated.v1","data":{"propertyId":"prp_01H8YN7QV4D8KZ4F8Y5CK4MV3E","geoCell":["?"]}}`,
			want: []string{"property:" + ppt},
		},
		{
			name: "listing without a cell", topic: "melmastoon.search.projection.updated.v1",
			data: `{"id":"e6","type":"melmastoon.search.projection.updated.v1","data":{"propertyId":"` + ppt + `","tenantId":"` + tnt + `"}}`,
			want: []string{"property:" + ppt, "tenant:" + tnt},
		},
		{
			name: "suspended", topic: suspended,
			data:      `{"eventId":"e4","eventType":"melmastoon.tenant.suspended.v1","payload":{"tenantId":"` + tnt + `","reason":"x","suspendedAt":"2026-01-01T00:00:00Z"}}`,
			want:      []string{"tenant:" + tnt, "without:" + tnt},
			suspended: true,
		},
		{
			name: "reactivated", topic: reactivated,
			data: `{"eventId":"e5","eventType":"melmastoon.tenant.reactivated.v1","data":{"tenantId":"ten_01H8YN7QV4D8KZ4F8Y5CK4MV3D"},"time":"2026-01-01T00:00:01Z"}`,
			want: []string{"tenant:" + tnt, "without:" + tnt},
		},
	} {
		if err := h.Receive(ctx, pubsub.Delivery{ID: tc.name, Topic: tc.topic, Data: []byte(tc.data), PublishTime: now}); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if diff := cmp.Diff(tc.want, h.cache.take()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
		if got := h.list.Has(bff.MustParseID(bff.PrefixTenant, tnt)); got != tc.suspended {
			t.Errorf("%s: suspended %v", tc.name, got)
		}
	}
	if n := h.rows(t, `SELECT count(*) FROM bff_consumer.inbox WHERE event_id LIKE 'e%' AND processed_at IS NOT NULL`); n != 6 {
		t.Errorf("%d events processed, want 6", n)
	}
}

func TestPoison(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for _, data := range []string{
		``, `[]`, `{}`, `{"id":"x","type":"melmastoon.tenant.suspended.v1","data":7}`,
		`{"id":"x","type":"melmastoon.tenant.suspended.v1","data":{}}`,
		`{"id":"x","type":"melmastoon.tenant.suspended.v1","data":{"tenantId":"ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3D"}}`,
	} {
		if err := h.Receive(t.Context(), pubsub.Delivery{Topic: suspended, Data: []byte(data)}); !errors.Is(err, bff.ErrEvent) {
			t.Errorf("%s: %v", data, err)
		}
	}
}

func TestRedeliveryAndConflict(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := testkit.Context(t)
	tenant := bff.NewID(bff.PrefixTenant, now)
	first := delivery(suspended, "s1", now, about(tenant))
	for range 3 {
		if err := h.Receive(ctx, first); err != nil {
			t.Fatal(err)
		}
	}
	// A crash after the commit and before the rest: the redelivery does the rest.
	if got := h.cache.take(); len(got) != 3*2 {
		t.Errorf("invalidated %d tags, want two each time", len(got))
	}
	// The producer publishes once more: another envelope, the same event.
	again := delivery(suspended, "s1", now, strings.ReplaceAll(about(tenant), ",", ", "))
	if err := h.Receive(ctx, again); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(h.log.String(), "different content") {
		t.Error("the same event in other bytes counts as another one")
	}
	other := bff.NewID(bff.PrefixTenant, now)
	if err := h.Receive(ctx, delivery(suspended, "s1", now.Add(time.Hour), about(other))); err != nil {
		t.Fatal(err)
	}
	if h.list.Has(other) || !h.list.Has(tenant) {
		t.Error("an event with a used id had an effect")
	}
	if !strings.Contains(h.log.String(), "different content") {
		t.Error("the conflict was not logged")
	}
	theme := func(tenant bff.ID) pubsub.Delivery {
		return delivery("melmastoon.theme.published.v1", "th1", now, about(tenant))
	}
	h.cache.take()
	for _, d := range []pubsub.Delivery{theme(tenant), theme(tenant), theme(other)} {
		if err := h.Receive(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.cache.take(); len(got) != 1 {
		t.Errorf("a processed event ran again: %v", got)
	}
}

// TestNewestWins delivers a tenant's history in every order, several times, many
// at once: what is left is what happened last.
func TestNewestWins(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := testkit.Context(t)
	rnd := mathrand.New(mathrand.NewPCG(7, 7))
	type tenantCase struct {
		tenant bff.ID
		want   bool
	}
	var cases []tenantCase
	var all []pubsub.Delivery
	for range 12 {
		tc := tenantCase{tenant: bff.NewID(bff.PrefixTenant, now)}
		for i := range 5 {
			topic := []string{suspended, reinstated, reactivated}[rnd.IntN(3)]
			tc.want = topic == suspended
			d := delivery(topic, rand.Text(), now.Add(time.Duration(i)*time.Millisecond), about(tc.tenant))
			all = append(all, d, d)
		}
		cases = append(cases, tc)
	}
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var wg sync.WaitGroup
	work := make(chan pubsub.Delivery)
	for range 8 {
		wg.Go(func() {
			for d := range work {
				if err := h.Receive(ctx, d); err != nil {
					t.Errorf("%s: %v", d.Topic, err)
				}
			}
		})
	}
	for _, d := range all {
		work <- d
	}
	close(work)
	wg.Wait()
	for i, tc := range cases {
		if got := h.list.Has(tc.tenant); got != tc.want {
			t.Errorf("tenant %d: suspended %v, want %v", i, got, tc.want)
		}
		if got := h.rows(t, `SELECT count(*) FROM bff_consumer.tenant_suspended_cache WHERE tenant_id = $1::uuid`, tc.tenant.UUID()) == 1; got != tc.want {
			t.Errorf("tenant %d: row %v, want %v", i, got, tc.want)
		}
	}
}

// TestFarFutureDoesNotRule has a producer with a broken clock.
func TestFarFutureDoesNotRule(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := testkit.Context(t)
	tenant := bff.NewID(bff.PrefixTenant, now)
	broken := delivery(suspended, "far", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), about(tenant))
	broken.PublishTime = now
	for _, d := range []pubsub.Delivery{broken, delivery(reinstated, "back", now.Add(time.Second), about(tenant))} {
		if err := h.Receive(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	if h.list.Has(tenant) {
		t.Error("a moment in the far future cannot be undone")
	}
}

// A reinstatement that claims to come from the future must not outlive a
// suspension that happens before that moment.
func TestSuspensionBeatsReinstatementFromTheFuture(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := testkit.Context(t)
	at := time.Now() // as the receiver's clock has it
	tenant := bff.NewID(bff.PrefixTenant, at)
	ahead := delivery(reinstated, "ahead", at.Add(9*time.Minute), about(tenant))
	ahead.PublishTime = at.Add(-time.Second)
	for _, d := range []pubsub.Delivery{ahead, delivery(suspended, "true", at, about(tenant))} {
		if err := h.Receive(ctx, d); err != nil {
			t.Fatal(err)
		}
	}
	if !h.list.Has(tenant) {
		t.Error("the tenant is shown although it is suspended")
	}
}

// TestOutagesAreNotCounted: an outage must not empty a subscription into its
// dead-letter topic, real failures must.
func TestOutagesAreNotCounted(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ctx := testkit.Context(t)
	d := delivery("melmastoon.theme.published.v1", "th9", now, about(bff.NewID(bff.PrefixTenant, now)))
	h.cache.fail = errors.New("redis is away")
	err := h.Receive(ctx, d)
	if !errors.Is(err, consumer.ErrAway) {
		t.Fatalf("%v, want away", err)
	}
	for range 20 {
		if n, err := h.inbox.Failed(ctx, d, err); n != 0 || err != nil {
			t.Fatalf("an outage counts: %d %v", n, err)
		}
	}
	for want := 1; want <= 3; want++ {
		n, err := h.inbox.Failed(ctx, d, errors.New("broken \x00 handler"))
		if n != want || err != nil {
			t.Fatalf("attempt %d: %d %v", want, n, err)
		}
	}
	h.cache.fail = nil
	if err := h.Receive(ctx, d); err != nil || len(h.cache.take()) != 1 {
		t.Errorf("counted failures keep the event from its effect: %v", err)
	}
}

// TestDeadLetter sends one poison message and one good one through Pub/Sub: poison is
// tried as often as configured and then set aside.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	testkit.EachPubSub(t, receivePoison)
}

func receivePoison(t *testing.T, host, project string) {
	t.Helper()
	h := newHouse(t)
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: project, EmulatorHost: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	sub := consumerevents.Subscriptions()[3]
	sub.Attempts, sub.MaxAttempts, sub.MinBackoff, sub.MaxBackoff = h.inbox, 4, time.Millisecond, 2*time.Millisecond
	dead := pubsub.Subscription{Name: sub.DLQ, Topic: sub.DLQ}
	if err := errors.Join(client.EnsureSubscription(ctx, sub), client.EnsureSubscription(ctx, dead)); err != nil {
		t.Fatal(err)
	}
	tenant := bff.NewID(bff.PrefixTenant, now)
	good := delivery(suspended, "ok", now, about(tenant))
	if err := errors.Join(client.Publish(ctx, []pubsub.Message{
		{Topic: suspended, Data: []byte(`{"id":"p1","type":"` + suspended + `","data":{"tenantId":"nobody"}}`)},
		{Topic: suspended, Data: good.Data},
	})...); err != nil {
		t.Fatal(err)
	}
	handled := make(chan struct{}, 10)
	letters := make(chan string, 10)
	var (
		wg    sync.WaitGroup
		tries atomic.Int32
	)
	wg.Go(func() {
		if err := client.Subscribe(ctx, sub, func(ctx context.Context, d pubsub.Delivery) error {
			err := h.Receive(ctx, d)
			if err == nil {
				handled <- struct{}{}
			} else {
				tries.Add(1)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := client.Subscribe(ctx, dead, func(_ context.Context, d pubsub.Delivery) error {
			var e struct{ ID string }
			err := json.Unmarshal(d.Data, &e)
			letters <- e.ID + " after " + d.Attributes["dlqAttempts"]
			return err
		}); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-handled:
	case <-ctx.Done():
		t.Fatal("the good message was not handled")
	}
	select {
	case id := <-letters:
		if id != "p1 after 4" || tries.Load() != 4 {
			t.Errorf("dead letter %s, tried %d times; want 4", id, tries.Load())
		}
	case <-ctx.Done():
		t.Fatal("the poison was not set aside")
	}
	cancel()
	wg.Wait()
	if !h.list.Has(tenant) {
		t.Error("the good message had no effect")
	}
}

func FuzzReceive(f *testing.F) {
	for _, s := range []string{
		string(delivery(suspended, "a", now, `{"tenantId":"tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D"}`).Data),
		`{"id":"x","type":"melmastoon.a","data":{"tenantId":null}}`, `{"id":"x","type":"melmastoon.a","data":[]}`, `{`,
	} {
		f.Add(s)
	}
	r := consumerevents.NewReceiver(consumerevents.Config{
		Inbox: nowhere{}, Tenants: nowhere{}, Cache: &tags{}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	f.Fuzz(func(t *testing.T, data string) {
		for _, s := range consumerevents.Subscriptions() {
			if err := r.Receive(t.Context(), pubsub.Delivery{Topic: s.Topic, Data: []byte(data)}); err != nil && !errors.Is(err, bff.ErrEvent) {
				t.Errorf("%v", err)
			}
		}
	})
}

// nowhere takes everything.
type nowhere struct{}

func (nowhere) Receive(context.Context, consumer.Inbound) (consumer.Reception, error) { return 0, nil }
func (nowhere) Processed(context.Context, consumer.Inbound) error                     { return nil }
func (nowhere) Announce(context.Context, bff.ID) error                                { return nil }

func (nowhere) CorrectTenant(context.Context, consumer.TenantChange, time.Time) (bool, error) {
	return false, nil
}

func (nowhere) ChangeTenant(_ context.Context, in consumer.Inbound, c consumer.TenantChange) (consumer.Reception, error) {
	if in.ID == "" || in.OccurredAt.IsZero() || c.Tenant.IsZero() {
		return 0, errors.New("an event without id, moment or tenant came through")
	}
	return 0, nil
}
