package backofficeevents_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeevents"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/inbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

const topic = "melmastoon.reservation.checked_in.v1"

// board notes what streams were told.
type board struct {
	mu   sync.Mutex
	told []string
}

func (b *board) Notify(_ context.Context, n backoffice.Notice) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told = append(b.told, string(n.Channel)+" "+n.Type+" "+n.Tenant.String()+" "+n.Property.String()+" "+n.CausedBy)
	return nil
}

// instance is a process's cache of arrivals.
type instance struct {
	store    *cache.Store
	arrivals *cache.Cache
}

func newInstance(t *testing.T, url, prefix string) *instance {
	t.Helper()
	open := func() rueidis.Client {
		client, err := redis.Open(redis.Config{URL: url, Tier: "test", Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	store, err := cache.NewStore(cache.StoreConfig{Redis: open(), Bus: open(), Prefix: prefix, ReadTimeout: time.Minute, WriteTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	c, err := cache.New(store, cache.Config{
		Name: "arrivals", MaxBytes: 1 << 20, Shared: true, TTL: func() cache.TTL { return cache.TTL{Fresh: time.Hour, Stale: time.Hour} },
	})
	if err != nil {
		t.Fatal(err)
	}
	return &instance{store, c}
}

// place is a property, and what its upstream says now.
type place struct {
	tenant, property bff.ID
	says             *atomic.Int32
}

func newPlace(tenant bff.ID) place {
	p := place{tenant, bff.NewID(bff.PrefixProperty, time.Now()), &atomic.Int32{}}
	p.says.Store(1)
	return p
}

// read is what an instance says of a place.
func (i *instance) read(t *testing.T, p place) string {
	t.Helper()
	e, _, err := i.arrivals.Get(testkit.Context(t), "arrivals:"+p.property.String(), func(context.Context) (cache.Fill, error) {
		return cache.Fill{Body: strconv.AppendInt(nil, int64(p.says.Load()), 10), Tags: backoffice.PartArrivals.Tags(p.tenant, p.property)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(e.Body())
}

// An event makes the copies of its property void on every instance and is told once,
// however often it is delivered; other properties and tenants notice nothing. One that
// cannot be read is set aside and holds up no other.
func TestReactThroughPubSub(t *testing.T) {
	t.Parallel()
	testkit.EachPubSub(t, reactThroughPubSub)
}

func reactThroughPubSub(t *testing.T, host, project string) {
	t.Helper()
	ctx, cancel := context.WithCancel(testkit.Context(t))
	defer cancel()
	db, err := postgres.Open(ctx, testkit.Patient(testkit.PostgresTemplate(t, "bff_backoffice", func(url string) error {
		return postgres.Migrate(context.WithoutCancel(ctx), url, migrations.Backoffice(), postgres.MigrateOptions{})
	})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	url, prefix := testkit.Redis(t), "t"+strings.ToLower(rand.Text()[:8])+":bff-backoffice:"
	receiving, other := newInstance(t, url, prefix), newInstance(t, url, prefix)
	tenant := bff.NewID(bff.PrefixTenant, time.Now())
	own, neighbour, stranger := newPlace(tenant), newPlace(tenant), newPlace(bff.NewID(bff.PrefixTenant, time.Now()))
	places := []place{own, neighbour, stranger}
	for _, p := range places {
		for _, i := range []*instance{receiving, other} {
			i.read(t, p)
		}
		p.says.Store(2)
		if got := other.read(t, p); got != "1" {
			t.Fatalf("it is not kept: %s", got)
		}
	}

	received := inbox.New(db, backofficestore.InboxTable(), identity.ErrSessionsAway, backoffice.ErrCopiesAway)
	told := &board{}
	r := backofficeevents.NewReceiver(backofficeevents.Config{
		Inbox: received, Kept: backofficecache.NewInvalidator(receiving.store), Streams: told, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: project, EmulatorHost: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	subs := backofficeevents.Subscriptions()
	sub := subs[slices.IndexFunc(subs, func(s pubsub.Subscription) bool { return s.Topic == topic })]
	sub.Attempts, sub.MaxAttempts, sub.MinBackoff, sub.MaxBackoff = received, 3, time.Millisecond, 2*time.Millisecond
	dead := pubsub.Subscription{Name: sub.DLQ, Topic: sub.DLQ}
	if err := errors.Join(client.EnsureSubscription(ctx, sub), client.EnsureSubscription(ctx, dead)); err != nil {
		t.Fatal(err)
	}
	handled, letters := make(chan struct{}, 100), make(chan string, 100)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := client.Subscribe(ctx, sub, func(ctx context.Context, d pubsub.Delivery) error {
			err := r.Receive(ctx, d)
			if err == nil {
				handled <- struct{}{}
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := client.Subscribe(ctx, dead, func(_ context.Context, d pubsub.Delivery) error {
			letters <- string(d.Data)
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer cancel()

	event := func(id string, property any) []byte {
		b, err := json.Marshal(map[string]any{
			"envelope": map[string]any{"eventId": id, "subject": topic, "requestId": "req_1"},
			"payload":  map[string]any{"tenantId": tenant, "propertyId": property, "reservationId": "rsv_1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	publish := func(data []byte) {
		t.Helper()
		if err := errors.Join(client.Publish(ctx, []pubsub.Message{{Topic: topic, Data: data}})...); err != nil {
			t.Fatal(err)
		}
	}
	await := func() {
		t.Helper()
		select {
		case <-handled:
		case <-ctx.Done():
			t.Fatal("the event was not handled")
		}
	}
	poison, good := event("evt_poison", "x"), event("evt_good", own.property)
	publish(poison)
	publish(good)
	await()
	for other.read(t, own) != "2" { // the other instance hears of it over Redis
		if ctx.Err() != nil {
			t.Fatal("the copy of another instance lives on")
		}
	}
	if got := receiving.read(t, own); got != "2" {
		t.Errorf("the receiving instance says %s", got)
	}

	own.says.Store(3)
	publish(good)
	await()
	for name, want := range map[string]struct {
		place
		says string
	}{"the property, after a duplicate": {own, "2"}, "its neighbour": {neighbour, "1"}, "another tenant": {stranger, "1"}} {
		for _, i := range []*instance{receiving, other} {
			if got := i.read(t, want.place); got != want.says {
				t.Errorf("%s: %s, want %s", name, got, want.says)
			}
		}
	}
	told.mu.Lock()
	got := slices.Clone(told.told)
	told.mu.Unlock()
	if diff := cmp.Diff([]string{"dashboard dashboard.changed " + tenant.String() + " " + own.property.String() + " req_1"}, got); diff != "" {
		t.Error(diff)
	}
	select {
	case letter := <-letters:
		if letter != string(poison) {
			t.Errorf("dead letter %s", letter)
		}
	case <-ctx.Done():
		t.Fatal("the poison was not set aside")
	}
}
