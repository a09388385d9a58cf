package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func TestRelayPublishesInOrderPerKey(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		b := newBroker()
		relays := []*outbox.Relay{
			fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Batch = 16 }),
			fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Batch = 16 }),
		}
		for _, r := range relays {
			run(t, r)
		}
		const writers, each = 12, 40
		var wg sync.WaitGroup
		for k := range writers {
			wg.Go(func() {
				for n := range each {
					if err := fx.table.Append(t.Context(), fx.write, fx.event(fmt.Sprint("k", k), n)); err != nil {
						t.Error(err)
					}
					relays[k%2].Wake()
				}
			})
		}
		wg.Wait()
		b.distinct(t, writers*each)
		fx.settled(t)
		inOrder(t, b.all())
		if got := len(b.all()); got != writers*each {
			t.Errorf("%d arrivals of %d events: repetitions without a crash", got, writers*each)
		}
	})
}

// More late rows than a read takes: what comes after them waits until all of them were read.
func TestRelayManyLateCommits(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		const writers = 12
		var late [writers]pgx.Tx
		for k := range late {
			tx, err := fx.write.Begin(ctx)
			if err == nil {
				err = fx.table.Append(ctx, tx, fx.event(fmt.Sprint("k", k), 0))
			}
			if err != nil {
				t.Fatal(err)
			}
			late[k] = tx
		}
		fx.commit(t, fx.event("passes them", 0))
		b, passed, all := newBroker(), make(chan struct{}), make(chan struct{})
		b.before = sync.OnceFunc(func() { close(passed); <-all })
		run(t, fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Batch = 16 }))
		<-passed
		for k := range late { // the last of what is late is the first of what comes after
			if err := late[writers-1-k].Commit(ctx); err != nil {
				t.Fatal(err)
			}
			fx.commit(t, fx.event(fmt.Sprint("k", writers-1-k), 1))
		}
		close(all)
		b.distinct(t, 2*writers+1)
		inOrder(t, b.all())
	})
}

// A transaction with a smaller id that commits late must not be passed over.
func TestRelayLateCommit(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		b := newBroker()
		for range 2 {
			run(t, fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Poll = 20 * time.Millisecond }))
		}
		early, rolledBack, later := fx.event("late", 0), fx.event("never", 0), fx.event("soon", 0)
		late, err := fx.write.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		never, err := fx.write.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := fx.table.Append(ctx, late, early); err != nil {
			t.Fatal(err)
		}
		if err := fx.table.Append(ctx, never, rolledBack); err != nil {
			t.Fatal(err)
		}
		fx.commit(t, later)
		b.distinct(t, 1)
		for n := 1; n < 30; n++ { // the cursor moves far beyond
			fx.commit(t, fx.event("soon", n))
		}
		b.distinct(t, 30)
		fx.settled(t)
		if err := never.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		if err := late.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		b.distinct(t, 31)
		fx.settled(t)
		inOrder(t, b.all())
		if b.times(rolledBack.Envelope.EventID) != 0 {
			t.Errorf("a rolled back event arrived")
		}
	})
}

// Many transactions that end in any order, some in a rollback, with a relay that
// is replaced again and again: everything committed arrives.
func TestRelayShuffledCommits(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		b := newBroker()
		stop := func() {}
		restart := func() {
			stop()
			r := fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Batch, c.Poll = 4, 5*time.Millisecond })
			stop = run(t, r)
		}
		restart()
		var mu sync.Mutex
		var want []string
		var wg sync.WaitGroup
		for worker := range 10 {
			wg.Go(func() {
				for n := range 30 {
					ctx := context.WithoutCancel(t.Context())
					tx, err := fx.write.Begin(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					// Each waits for a while that differs, between insert and commit.
					e := fx.event(fmt.Sprintf("k%d-%d", worker, n), 0)
					if err := fx.table.Append(ctx, tx, e); err != nil {
						t.Error(err)
					}
					if _, err := tx.Exec(ctx, "SELECT pg_sleep($1::float8)", float64((worker*7+n*3)%10)/1000); err != nil {
						t.Error(err)
					}
					if (worker+n)%5 == 0 {
						err = tx.Rollback(ctx)
					} else if err = tx.Commit(ctx); err == nil {
						mu.Lock()
						want = append(want, e.Envelope.EventID)
						mu.Unlock()
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 3 {
			b.until(t, "some progress", func() bool { return len(b.seen)%20 > 10 })
			restart()
		}
		wg.Wait()
		b.distinct(t, len(want))
		fx.settled(t)
		for _, id := range want {
			if b.times(id) == 0 {
				t.Errorf("%s was lost", id)
			}
		}
		if n := b.events(); n != len(want) {
			t.Errorf("%d events arrived, %d were committed", n, len(want))
		}
	})
}

func TestRelayPoisonHoldsItsKeyOnly(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		b := newBroker()
		var tries int
		b.fail = func(a arrival) error {
			if a.Key == "bad" && a.N == 1 {
				tries++
				return status.Error(codes.InvalidArgument, "no")
			}
			return nil
		}
		for n := range 4 {
			fx.commit(t, fx.event("bad", n), fx.event("good", n))
		}
		run(t, fx.newRelay(t, b, nil))
		b.distinct(t, 7)
		stats := fx.settled(t)
		if stats.DLQ != 1 || tries != 10 {
			t.Errorf("dead letters = %d after %d tries, want 1 after 10", stats.DLQ, tries)
		}
		var bad []int
		for _, a := range b.all() {
			if a.Key == "bad" {
				bad = append(bad, a.N)
			}
		}
		if diff := cmp.Diff([]int{0, 2, 3}, bad); diff != "" {
			t.Errorf("order of the key (-want +got):\n%s", diff)
		}
		if len(b.all()) != 7 {
			t.Errorf("%d arrivals, want 7", len(b.all()))
		}
	})
}

// While a row keeps failing, rows of its key wait and rows of others do not.
func TestRelayRetriesInOrder(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		b := newBroker()
		failing := func(a arrival) error {
			if a.Key == "bad" && a.N == 0 {
				return status.Error(codes.InvalidArgument, "no")
			}
			return nil
		}
		b.setFail(failing)
		r := fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Batch, c.MaxAttempts = 4, 1<<30 })
		run(t, r)
		for n := range 20 {
			fx.commit(t, fx.event("bad", n), fx.event("good", n))
			r.Wake()
		}
		b.distinct(t, 20)
		for _, a := range b.all() {
			if a.Key == "bad" {
				t.Fatalf("event %d of the failing key arrived", a.N)
			}
		}
		b.setFail(nil)
		b.distinct(t, 40)
		fx.settled(t)
		inOrder(t, b.all())
	})
}

func TestRelayDeadLetterReplayAndDrop(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		b := newBroker()
		b.setFail(func(a arrival) error {
			if a.Key == "bad" {
				return fmt.Errorf("refused %s", strings.Repeat("é", 1000))
			}
			return nil
		})
		r := fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.MaxAttempts = 2 })
		run(t, r)
		events := []bff.Event{fx.event("bad", 0), fx.event("bad", 1), fx.event("bad", 2)}
		fx.commit(t, append(events, fx.event("good", 0))...)
		r.Wake()
		if s := fx.settled(t); s.DLQ != 3 {
			t.Fatalf("%d dead letters, want 3", s.DLQ)
		}
		if got := r.Counters(); got.DeadLettered != 3 || got.Published != 1 {
			t.Errorf("counters = %+v", got)
		}
		if n, err := fx.table.Drop(ctx, fx.relay, id(t, events[1])); n != 1 || err != nil {
			t.Fatalf("dropped %d, %v", n, err)
		}
		b.setFail(nil)
		if n, err := fx.table.Replay(ctx, fx.relay, 10, id(t, events[0])); n != 1 || err != nil {
			t.Fatalf("replayed %d, %v", n, err)
		}
		r.Wake()
		b.distinct(t, 2)
		if n, err := fx.table.Replay(ctx, fx.relay, 10); n != 1 || err != nil {
			t.Fatalf("replayed %d, %v", n, err)
		}
		r.Wake()
		b.distinct(t, 3)
		if s := fx.settled(t); s.DLQ != 0 {
			t.Errorf("%d dead letters left", s.DLQ)
		}
		if b.times(events[1].Envelope.EventID) != 0 {
			t.Error("a dropped event arrived")
		}
	})
}

func id(t testing.TB, e bff.Event) bff.ID {
	t.Helper()
	id, err := bff.ParseID(bff.PrefixEvent, e.Envelope.EventID)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// An outage of Pub/Sub is not the rows' fault: nothing is counted, nothing is
// dead-lettered, everything goes out afterwards in order.
func TestRelayOutage(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		b := newBroker()
		var refused int
		b.setFail(func(arrival) error {
			refused++
			return status.Error(codes.Unavailable, "away")
		})
		r := fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Batch, c.MaxAttempts, c.MaxPause = 4, 2, time.Millisecond })
		run(t, r)
		for n := range 10 {
			fx.commit(t, fx.event("a", n), fx.event("b", n))
		}
		r.Wake()
		b.until(t, "many refusals", func() bool { return refused > 50 })
		s, err := fx.table.Stats(testkit.Context(t), fx.relay)
		if err != nil || s.MaxAttempts != 0 || s.DLQ != 0 || s.Depth != 20 {
			t.Errorf("stats = %+v, %v: want nothing counted", s, err)
		}
		b.setFail(nil)
		b.distinct(t, 20)
		fx.settled(t)
		inOrder(t, b.all())
	})
}

// A relay that dies between publishing and marking repeats its window at most.
func TestRelayKilledBeforeMarking(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		const total, window = 100, 10
		for n := range total {
			fx.commit(t, fx.event("k", n))
		}
		b := newBroker()
		// The first relay loses its connection while its third batch is on its way,
		// and never comes back.
		stuck := make(chan struct{})
		var batches int
		dying := &hooked{broker: b, after: func() {
			if batches++; batches == 3 {
				fx.killRelays(t)
				<-stuck
			}
		}}
		first := fx.newRelay(t, dying, func(c *outbox.RelayConfig) { c.Batch = window })
		stopFirst := run(t, first)
		b.until(t, "the third batch", func() bool { return len(b.arrivals) >= 3*window/2 })
		run(t, fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Batch = window }))
		b.distinct(t, total)
		fx.settled(t)
		close(stuck)
		stopFirst()
		inOrder(t, b.all())
		if again := len(b.all()) - total; again > window {
			t.Errorf("%d repetitions, want at most the window of %d", again, window)
		}
	})
}

// hooked calls after when a batch has been published and is not marked yet.
type hooked struct {
	*broker
	after func()
}

func (h *hooked) Publish(ctx context.Context, m []pubsub.Message) []error {
	errs := h.broker.Publish(ctx, m)
	h.after()
	return errs
}

// killRelays ends every session that holds or wants the lead.
func (fx *fixture) killRelays(t testing.TB) {
	t.Helper()
	_, err := fx.super.Exec(testkit.Context(t), `SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err != nil {
		t.Error(err)
	}
}

func TestRelayTakesOver(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		b := newBroker()
		relays := []*outbox.Relay{fx.newRelay(t, b, nil), fx.newRelay(t, b, nil)}
		stops := []func(){run(t, relays[0]), run(t, relays[1])}
		leader := func() int {
			found := -1
			eventually(t, "a leader", func() (bool, error) {
				for i, r := range relays {
					if r.Counters().Leader {
						found = i
					}
				}
				return found >= 0, nil
			})
			return found
		}
		fx.commit(t, fx.event("k", 0))
		b.distinct(t, 1)
		l := leader()
		if relays[1-l].Counters().Leader {
			t.Error("two leaders")
		}
		stops[l]()
		fx.commit(t, fx.event("k", 1))
		relays[1-l].Wake()
		b.distinct(t, 2)
		if _, led, err := relays[l].RunOnce(testkit.Context(t)); led || err != nil {
			t.Errorf("led = %v, %v beside a leader", led, err)
		}
	})
}

// A follower's Wake reaches the leader, long before any poll.
func TestRelayWakesAcrossProcesses(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		b := newBroker()
		hour := func(c *outbox.RelayConfig) { c.Poll = time.Hour }
		leader := fx.newRelay(t, b, hour)
		run(t, leader)
		eventually(t, "a leader", func() (bool, error) { return leader.Counters().Leader, nil })
		follower := outbox.NewNotifier(fx.write, fx.table, nil)
		t.Cleanup(follower.Close)
		for n := range 5 {
			fx.commit(t, fx.event("k", n))
			follower.Wake()
			b.distinct(t, n+1)
		}
	})
}

func TestRelayRunOnce(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		b := newBroker()
		r := fx.newRelay(t, b, func(c *outbox.RelayConfig) { c.Batch = 8 })
		for n := range 21 {
			fx.commit(t, fx.event("k", n))
		}
		if n, led, err := r.RunOnce(ctx); n != 21 || !led || err != nil {
			t.Errorf("published %d, led %v, %v", n, led, err)
		}
		if n, led, err := r.RunOnce(ctx); n != 0 || !led || err != nil {
			t.Errorf("published %d, led %v, %v", n, led, err)
		}
		inOrder(t, b.all())
		b.setFail(func(arrival) error { return context.DeadlineExceeded })
		fx.commit(t, fx.event("k", 21))
		if _, _, err := r.RunOnce(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want the outage", err)
		}
	})
}

// A restored table may carry transaction ids from another server's future.
func TestRelayAdoptsRestoredRows(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		b := newBroker()
		fx.commit(t, fx.event("k", 0), fx.event("k", 1))
		if _, err := fx.super.Exec(ctx, "UPDATE "+fx.table.Name()+" SET tx_id = '9000000000000000000'"); err != nil {
			t.Fatal(err)
		}
		r := fx.newRelay(t, b, nil)
		run(t, r)
		b.distinct(t, 2)
		fx.commit(t, fx.event("k", 2))
		r.Wake()
		b.distinct(t, 3)
		inOrder(t, b.all())
	})
}

func TestPrune(t *testing.T) {
	eachTable(t, func(t *testing.T, fx *fixture) {
		t.Helper()
		ctx := testkit.Context(t)
		b := newBroker()
		old := time.Now().Add(-31 * 24 * time.Hour)
		for n := range 5 {
			e := fx.event("k", n)
			e.Envelope.EventID = bff.NewID(bff.PrefixEvent, old).String()
			if n == 4 { // one that says nothing of its moment
				e.Envelope.EventID = bff.IDFromBytes(bff.PrefixEvent, [16]byte{0x9c, 1, 2, 3}).String()
			}
			fx.commit(t, e)
		}
		fx.commit(t, fx.event("k", 5))
		r := fx.newRelay(t, b, nil)
		if n, _, err := r.RunOnce(ctx); n != 6 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := fx.table.Prune(ctx, fx.relay, old.Add(time.Hour), 3); n != 0 || err != nil {
			t.Errorf("pruned %d, %v of what was published just now", n, err)
		}
		if _, err := fx.super.Exec(ctx, "UPDATE "+fx.table.Name()+" SET published_at = $1 WHERE id::text <> ''", old); err != nil {
			t.Fatal(err)
		}
		if n, err := fx.table.CountPublished(ctx, fx.relay, old.Add(time.Hour)); n != 5 || err != nil {
			t.Errorf("counted %d, %v, want 5", n, err)
		}
		for _, want := range []int{3, 2, 0} {
			if n, err := fx.table.Prune(ctx, fx.relay, old.Add(time.Hour), 3); n != want || err != nil {
				t.Errorf("pruned %d, %v, want %d", n, err, want)
			}
		}
		if fx.table.Name() == "bff_backoffice.outbox" {
			var archived int
			if err := fx.relay.QueryRow(ctx, "SELECT count(*) FROM bff_backoffice.outbox_archive").Scan(&archived); err != nil || archived != 5 {
				t.Errorf("archived %d, %v", archived, err)
			}
		}
	})
}
