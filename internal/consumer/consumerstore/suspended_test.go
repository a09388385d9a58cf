package consumerstore_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/local/stack"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// instances are the keepers of several processes, on one database and one Redis
// that the test may kill.
type instances struct {
	t        *testing.T
	postgres *stack.Postgres
	redis    *stack.Redis
	keys     redis.Keys
	client   rueidis.Client
}

func newInstances(t *testing.T) *instances {
	t.Helper()
	i := &instances{
		t: t, postgres: testkit.NewPostgres(t, false), redis: testkit.NewRedis(t),
		keys: redis.NewKeys("t"+strings.ToLower(rand.Text()[:8]), "bff-consumer"),
	}
	if err := postgres.Migrate(testkit.Context(t), i.postgres.URL(), migrations.Consumer(), postgres.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	i.client = i.connect()
	return i
}

type noCache struct{}

func (noCache) Invalidate(context.Context, ...string) error { return nil }

func (i *instances) connect() rueidis.Client {
	i.t.Helper()
	c, err := redis.Open(redis.Config{URL: i.redis.URL(), Tier: "test", Timeout: time.Minute})
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(c.Close)
	return c
}

func (i *instances) keeper(every time.Duration) (*consumerstore.Suspensions, *consumer.SuspendedTenants) {
	i.t.Helper()
	db, err := postgres.Open(i.t.Context(), postgres.Config{URL: i.postgres.URL(), ConnectTimeout: time.Minute})
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(db.Close)
	list := &consumer.SuspendedTenants{}
	return consumerstore.NewSuspensions(consumerstore.SuspensionsConfig{
		DB: db, Set: i.client, Bell: i.connect(), Keys: i.keys, Cache: noCache{}, List: list, Log: slog.New(slog.DiscardHandler), Every: every,
	}), list
}

func (i *instances) change(s *consumerstore.Suspensions, tenant bff.ID, suspended bool, at time.Time) {
	i.t.Helper()
	_, err := s.ChangeTenant(testkit.Context(i.t), consumer.Inbound{ID: rand.Text(), Subject: "test", OccurredAt: at},
		consumer.TenantChange{Tenant: tenant, Suspended: suspended, Reason: "test"})
	if err != nil {
		i.t.Fatal(err)
	}
}

func (i *instances) mirrored() []string {
	i.t.Helper()
	c := i.client
	m, err := c.Do(testkit.Context(i.t), c.B().Smembers().Key(i.keys.Key("tenant-suspended")).Build()).AsStrSlice()
	if err != nil {
		i.t.Fatal(err)
	}
	return m
}

var noon = time.Date(2026, 5, 12, 12, 0, 0, 0, time.UTC)

// TestSuspensionReachesEveryInstance has one keeper receive and the others hear.
func TestSuspensionReachesEveryInstance(t *testing.T) {
	t.Parallel()
	i := newInstances(t)
	ctx, cancel := context.WithCancel(testkit.Context(t))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	receiver, own := i.keeper(time.Hour)
	var lists []*consumer.SuspendedTenants
	for range 3 { // by the bell alone: their clocks stand still
		k, list := i.keeper(time.Hour)
		wg.Go(func() { _ = k.Run(ctx) })
		lists = append(lists, list)
	}
	clocked, byClock := i.keeper(20 * time.Millisecond)
	wg.Go(func() { _ = clocked.Run(ctx) })

	// A keeper that has subscribed reads once, which marks that it listens.
	early := bff.NewID(bff.PrefixTenant, noon)
	i.change(receiver, early, true, noon)
	for _, l := range lists {
		testkit.Until(t, "subscription", func() bool {
			if err := receiver.Announce(ctx, early); err != nil {
				t.Fatal(err)
			}
			return l.Has(early)
		})
	}
	tenant := bff.NewID(bff.PrefixTenant, noon)
	for n, want := range []bool{true, false, true} {
		i.change(receiver, tenant, want, noon.Add(time.Duration(n)*time.Second))
		if err := receiver.Announce(ctx, tenant); err != nil {
			t.Fatal(err)
		}
		if own.Has(tenant) != want {
			t.Errorf("change %d: the receiver's own list has it: %v", n, !want)
		}
		for _, l := range append(lists, byClock) {
			testkit.Until(t, "suspension", func() bool { return l.Has(tenant) == want })
		}
		if got := strings.Contains(strings.Join(i.mirrored(), " "), tenant.String()); got != want {
			t.Errorf("change %d: mirrored %v", n, got)
		}
	}
	// Older news changes nothing.
	i.change(receiver, tenant, false, noon)
	if err := receiver.Announce(ctx, tenant); err != nil || !own.Has(tenant) {
		t.Errorf("older news won: %v", err)
	}
}

// TestSuspensionsSurvive loses Redis, then Postgres.
func TestSuspensionsSurvive(t *testing.T) {
	t.Parallel()
	i := newInstances(t)
	ctx := testkit.Context(t)
	k, _ := i.keeper(time.Hour)
	tenant := bff.NewID(bff.PrefixTenant, noon)
	i.change(k, tenant, true, noon)
	if err := k.Announce(ctx, tenant); err != nil {
		t.Fatal(err)
	}
	if err := i.client.Do(ctx, i.client.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	fresh, list := i.keeper(time.Hour)
	if err := fresh.Load(ctx); err != nil || !list.Has(tenant) {
		t.Errorf("after the loss of Redis: %v", err)
	}
	if got := i.mirrored(); len(got) != 1 || got[0] != tenant.String() {
		t.Errorf("the mirror was not put right: %v", got)
	}
	if err := i.postgres.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	fresh, list = i.keeper(time.Hour)
	if err := fresh.Load(ctx); err != nil || !list.Has(tenant) {
		t.Errorf("without Postgres: %v", err)
	}
}

// TestReadingDoesNotUndoAnEvent: what was read from tenant-service wins over what is
// older, and an event wins over what was read before it happened.
func TestReadingDoesNotUndoAnEvent(t *testing.T) {
	t.Parallel()
	i := newInstances(t)
	ctx := testkit.Context(t)
	k, list := i.keeper(time.Hour)
	tenant := bff.NewID(bff.PrefixTenant, noon)
	for n, step := range []struct {
		read      bool // from tenant-service, else an event
		suspended bool
		after     int // seconds after noon
		want      bool
	}{
		{read: true, suspended: true, after: 0, want: true}, // before we listened
		{read: true, suspended: false, after: 2, want: false},
		{suspended: true, after: 5, want: true},              // an event
		{read: true, suspended: false, after: 4, want: true}, // that came while this was read
		{read: true, suspended: false, after: 5, want: true}, // of one moment the suspension wins
		{suspended: true, after: 3, want: true},              // late
		{read: true, suspended: false, after: 6, want: false},
		{suspended: true, after: 5, want: false}, // again, by another id
		{suspended: false, after: 9, want: false},
		{read: true, suspended: true, after: 8, want: false}, // read before the reinstatement
	} {
		at := noon.Add(time.Duration(step.after) * time.Second)
		if step.read {
			if _, err := k.CorrectTenant(ctx, consumer.TenantChange{Tenant: tenant, Suspended: step.suspended, Reason: "read"}, at); err != nil {
				t.Fatal(err)
			}
		} else {
			i.change(k, tenant, step.suspended, at)
		}
		if err := k.Announce(ctx, tenant); err != nil {
			t.Fatal(err)
		}
		if list.Has(tenant) != step.want {
			t.Fatalf("step %d: suspended %v, want %v", n, !step.want, step.want)
		}
	}
}

// TestSeenTenants: what one instance saw another lists, with the suspended ones,
// page by page.
func TestSeenTenants(t *testing.T) {
	t.Parallel()
	i := newInstances(t)
	k, _ := i.keeper(time.Hour)
	ctx, cancel := context.WithCancel(testkit.Context(t))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	want := map[bff.ID]bool{}
	for n := range 2 {
		db, err := postgres.Open(ctx, testkit.Patient(i.postgres.URL()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		seen := consumerstore.NewSeenTenants(db, slog.New(slog.DiscardHandler))
		wg.Go(func() { _ = seen.Run(ctx) })
		for id := range 6 { // half of them are the other's as well
			tenant := bff.IDFromBytes(bff.PrefixTenant, [16]byte{1, 15: byte(3*n + id)})
			want[tenant] = true
			seen.Add(tenant, tenant, bff.ID{})
		}
	}
	gone := bff.NewID(bff.PrefixTenant, noon)
	i.change(k, gone, true, noon)
	want[gone] = true
	fresh, err := postgres.Open(ctx, testkit.Patient(i.postgres.URL()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fresh.Close)
	reader := consumerstore.NewSeenTenants(fresh, slog.New(slog.DiscardHandler))
	testkit.Until(t, "the tenants", func() bool {
		got := map[bff.ID]bool{}
		for after := (bff.ID{}); ; {
			page, err := reader.ListTenants(ctx, after, 4)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range page {
				if got[id] {
					t.Fatalf("%s is listed twice", id)
				}
				got[id] = true
			}
			if len(page) < 4 {
				return maps.Equal(got, want)
			}
			after = page[3]
		}
	})
}
