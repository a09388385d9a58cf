package consumerstore_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// silent announces nothing: the guest did not agree.
func silent(guestID bff.ID) consumer.Announcer {
	return consumer.Announcer{Telemetry: consumer.NewTelemetry("test", nil), Session: consumer.GuestSession{ID: guestID}, Now: time.Now()}
}

// telling announces as the surface does.
func telling(guestID bff.ID) consumer.Announcer {
	by := silent(guestID)
	by.Session.Consent.Telemetry = true
	return by
}

func entry(property bff.ID) consumer.WishlistEntry {
	now := time.Now()
	return consumer.WishlistEntry{
		ID: bff.NewID(bff.PrefixWishlist, now), PropertyID: property, TenantID: bff.NewID(bff.PrefixTenant, now),
		AddedAt: bff.At(now), Source: "detail", Note: "برای نوروز",
	}
}

func addTo(s *shop, guestID, property bff.ID, key string, by consumer.Announcer) (consumer.Answer, error) {
	claim, earlier, err := s.BeginWishlist(s.ctx(), consumer.Once{Guest: guestID, Route: "POST /wishlist", Key: key}, time.Now())
	if err != nil {
		return consumer.Answer{}, err
	}
	if earlier != nil {
		return *earlier, nil
	}
	defer claim.Release()
	return claim.Add(s.ctx(), entry(property), by)
}

func add(t *testing.T, s *shop, guestID, property bff.ID) guest.WishlistChanged {
	t.Helper()
	a, err := addTo(s, guestID, property, rand.Text(), telling(guestID))
	if err != nil {
		t.Fatal(err)
	}
	var got guest.WishlistChanged
	s.check(json.Unmarshal(a.Body, &got))
	return got
}

func remove(t *testing.T, s *shop, guestID, property bff.ID) consumer.Answer {
	t.Helper()
	claim, _, err := s.BeginWishlist(s.ctx(), consumer.Once{Guest: guestID, Route: "DELETE", Key: rand.Text()}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Release()
	a, err := claim.Remove(s.ctx(), property, telling(guestID))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// mirror returns the ids in Redis, rows those in Postgres.
func (s *shop) mirror(guestID bff.ID) []string {
	s.t.Helper()
	var ids []string
	for i, item := range s.list(s.keys.Key("session", guestID.String(), "wishlist")) {
		if i == 0 { // says what the mirror is
			continue
		}
		var e consumer.WishlistEntry
		s.check(json.Unmarshal([]byte(item), &e))
		ids = append(ids, e.ID.String())
	}
	return ids
}

func (s *shop) rows(guestID bff.ID) []string {
	s.t.Helper()
	var ids []string
	s.check(s.db.QueryRow(s.ctx(), `SELECT coalesce(array_agg(id ORDER BY added_at, id), '{}') FROM bff_consumer.wishlist_anonymous
		WHERE guest_session_id = $1 AND removed_at IS NULL`, guestID.String()).Scan(&ids))
	return ids
}

func (s *shop) converged(guestID bff.ID, want int) {
	s.t.Helper()
	rows, mirror := s.rows(guestID), s.mirror(guestID)
	// A mirror that a busy Redis did not take in time is absent, never wrong:
	// the guest's next read fills it.
	for try := 0; try < 50 && len(mirror) == 0 && len(rows) > 0; try++ {
		if _, err := s.ListWishlist(s.t.Context(), guestID); err != nil {
			s.t.Fatal(err)
		}
		mirror = s.mirror(guestID)
	}
	if len(rows) != want {
		s.t.Errorf("Postgres has %d entries, want %d", len(rows), want)
	}
	if diff := cmp.Diff(rows, mirror, cmpopts.EquateEmpty()); diff != "" {
		s.t.Errorf("Postgres and Redis differ (-postgres +redis):\n%s", diff)
	}
}

func TestWishlist(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		guestID, hotel := newID(bff.PrefixGuestSession), newID(bff.PrefixProperty)
		first := add(t, s, guestID, hotel)
		if first.Size != 1 || first.Note != "برای نوروز" {
			t.Errorf("first: %+v", first)
		}
		again, err := addTo(s, guestID, hotel, rand.Text(), telling(guestID))
		if err != nil || again.Status != http.StatusOK || again.Replayed || !strings.Contains(string(again.Body), first.ID.String()) {
			t.Errorf("already there: %d %s %v, want 200 and the same entry", again.Status, again.Body, err)
		}
		add(t, s, guestID, newID(bff.PrefixProperty))
		s.converged(guestID, 2)

		if a := remove(t, s, guestID, hotel); a.Status != http.StatusNoContent {
			t.Errorf("remove: %d", a.Status)
		}
		if a := remove(t, s, guestID, hotel); a.Status != http.StatusNoContent {
			t.Errorf("remove again: %d", a.Status)
		}
		s.converged(guestID, 1)
		if n := s.count(`SELECT count(*) FROM bff_consumer.wishlist_anonymous WHERE guest_session_id = $1 AND removed_at IS NOT NULL`, guestID.String()); n != 1 {
			t.Errorf("%d soft-deleted rows, want 1", n)
		}

		revived := add(t, s, guestID, hotel)
		if revived.ID == first.ID || revived.Size != 2 {
			t.Errorf("revived as %v of size %d, want a new id and 2", revived.ID, revived.Size)
		}
		s.converged(guestID, 2)
		added, removed := s.events(consumer.SubjectWishlistAdded), s.events(consumer.SubjectWishlistRemoved)
		if len(added) != 3 || len(removed) != 1 || removed[0]["wishlistSize"] != 1.0 || removed[0]["wishlistId"] != first.ID.String() {
			t.Errorf("events: %v %v", added, removed)
		}
		for _, e := range added {
			if _, told := e["note"]; told {
				t.Error("the note left the service")
			}
		}
	})
}

// The cap holds under any number of additions at once, and both stores agree.
func TestWishlistCap(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		guestID := newID(bff.PrefixGuestSession)
		var wg sync.WaitGroup
		var added, refused atomic.Int32
		turns := make(chan struct{}, 24) // on a starved machine more would wait in the guest's lane for longer than requests do
		for range 200 {
			wg.Go(func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				hotel, key := newID(bff.PrefixProperty), rand.Text()
				testkit.Retry(t, "an addition", func() bool {
					a, err := addTo(s, guestID, hotel, key, telling(guestID))
					switch {
					case err == nil && a.Status == http.StatusCreated:
						added.Add(1)
					case bff.CodeOf(err) == bff.CodeWishlistLimitExceeded:
						refused.Add(1)
					case bff.CodeOf(err) == bff.CodeServiceUnavailable: // the store was too slow: a client asks again
						return false
					default:
						t.Errorf("%d %v", a.Status, err)
					}
					return true
				})
			})
		}
		wg.Wait()
		if added.Load() != consumer.MaxWishlist || refused.Load() != 100 {
			t.Errorf("%d added and %d refused, want %d and 100", added.Load(), refused.Load(), consumer.MaxWishlist)
		}
		s.converged(guestID, consumer.MaxWishlist)
		if n := len(s.events(consumer.SubjectWishlistAdded)); n != consumer.MaxWishlist {
			t.Errorf("%d events, want one for each entry", n)
		}
		remove(t, s, guestID, entryOf(t, s, guestID))
		add(t, s, guestID, newID(bff.PrefixProperty))
		s.converged(guestID, consumer.MaxWishlist)
	})
}

func entryOf(t *testing.T, s *shop, guestID bff.ID) bff.ID {
	t.Helper()
	entries, err := s.ListWishlist(s.ctx(), guestID)
	if err != nil || len(entries) == 0 {
		t.Fatalf("list: %v %v", entries, err)
	}
	return entries[0].PropertyID
}

// A mirror that is lost, or that missed a change, is filled from Postgres.
func TestWishlistMirrorHeals(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		guestID := newID(bff.PrefixGuestSession)
		key := s.keys.Key("session", guestID.String(), "wishlist")
		add(t, s, guestID, newID(bff.PrefixProperty))
		before := s.list(key)
		add(t, s, guestID, newID(bff.PrefixProperty))

		s.del(key)
		if got, err := s.ListWishlist(s.ctx(), guestID); err != nil || len(got) != 2 {
			t.Errorf("after the loss: %v %v", got, err)
		}
		s.converged(guestID, 2)

		// As if Redis had not heard of the second addition, for longer than a
		// mirror is believed.
		s.del(key)
		head := strings.Fields(before[0])
		before[0] = head[0] + " " + head[1] + " 1000"
		s.check(s.redis.Do(s.ctx(), s.redis.B().Rpush().Key(key).Element(before...).Build()).Error())
		if got, err := s.ListWishlist(s.ctx(), guestID); err != nil || len(got) != 2 {
			t.Errorf("from an old mirror: %v %v", got, err)
		}
		s.converged(guestID, 2)

		s.del(key)
		s.check(s.redis.Do(s.ctx(), s.redis.B().Rpush().Key(key).Element("{").Build()).Error())
		if got, err := s.ListWishlist(s.ctx(), guestID); err != nil || len(got) != 2 {
			t.Errorf("from a broken mirror: %v %v", got, err)
		}
		s.converged(guestID, 2)
	})
}

// Without Postgres a wishlist can be read as long as Redis has it, and is not
// changed; without Redis it can be read and changed.
func TestWishlistWithOneStore(t *testing.T) {
	t.Parallel()
	t.Run("without Postgres", func(t *testing.T) {
		t.Parallel()
		s := newShop(t, testkit.Redis(t), database(t))
		guestID := newID(bff.PrefixGuestSession)
		add(t, s, guestID, newID(bff.PrefixProperty))
		s.db.Close()
		if got, err := s.ListWishlist(s.ctx(), guestID); err != nil || len(got) != 1 {
			t.Errorf("list: %v %v", got, err)
		}
		if _, err := addTo(s, guestID, newID(bff.PrefixProperty), "k", silent(guestID)); bff.CodeOf(err) != bff.CodeServiceUnavailable {
			t.Errorf("add: %v, want service unavailable", err)
		}
	})
	t.Run("without Redis", func(t *testing.T) {
		t.Parallel()
		server := testkit.NewRedis(t)
		s := newShop(t, server.URL(), database(t))
		guestID := newID(bff.PrefixGuestSession)
		s.check(server.Kill())
		add(t, s, guestID, newID(bff.PrefixProperty))
		if got, err := s.ListWishlist(s.ctx(), guestID); err != nil || len(got) != 1 {
			t.Errorf("list: %v %v", got, err)
		}
		s.check(server.Start(s.ctx()))
		add(t, s, guestID, newID(bff.PrefixProperty))
		if got := s.rows(guestID); len(got) != 2 {
			t.Errorf("rows: %v", got)
		}
	})
}

// Redis forgets everything again and again while guests change their lists: no
// entry and no answer is lost.
func TestFlushLosesNothing(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	s := newShop(t, server.URL(), database(t))
	type done struct {
		guest, hotel bff.ID
		key          string
		body         string
	}
	const guests, each = 8, 10
	finished := make(chan done, guests*each)
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	var flusher, wg sync.WaitGroup
	flusher.Go(func() {
		for ctx.Err() == nil {
			_ = s.redis.Do(ctx, s.redis.B().Flushall().Build()).Error() // once more in a moment
		}
	})
	for range guests {
		wg.Go(func() {
			guestID := newID(bff.PrefixGuestSession)
			for range each {
				hotel, key := newID(bff.PrefixProperty), rand.Text()
				a, err := addTo(s, guestID, hotel, key, silent(guestID))
				if err != nil {
					t.Error(err)
					return
				}
				finished <- done{guestID, hotel, key, string(a.Body)}
			}
		})
	}
	wg.Wait()
	cancel()
	flusher.Wait()
	close(finished)
	seen := map[bff.ID]bool{}
	for d := range finished {
		a, err := addTo(s, d.guest, d.hotel, d.key, silent(d.guest))
		if err != nil || !a.Replayed || string(a.Body) != d.body {
			t.Fatalf("answer lost: %v %v %s, want %s", err, a.Replayed, a.Body, d.body)
		}
		seen[d.guest] = true
	}
	for guestID := range seen {
		if got, err := s.ListWishlist(s.ctx(), guestID); err != nil || len(got) != each {
			t.Errorf("%d entries, %v; want %d", len(got), err, each)
		}
		s.converged(guestID, each)
	}
}

// A guest without wishes has a mirror, too: reading it opens no transaction.
func TestEmptyWishlistIsMirrored(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.Redis(t), database(t))
	guestID := newID(bff.PrefixGuestSession)
	if got, err := s.ListWishlist(s.ctx(), guestID); err != nil || len(got) != 0 {
		t.Fatalf("first: %v %v", got, err)
	}
	s.db.Close()
	if got, err := s.ListWishlist(s.ctx(), guestID); err != nil || len(got) != 0 {
		t.Errorf("without Postgres: %v %v", got, err)
	}
}

// A wishlist that is changed while Redis is away is not hidden afterwards by the
// mirror that Redis still has, nor by a writing of it that arrives late.
func TestOldMirrorHidesNothing(t *testing.T) {
	t.Parallel()
	server, dsn := testkit.NewRedis(t), database(t)
	s, other := newShop(t, server.URL(), dsn), newShop(t, server.URL(), dsn)
	guestID := newID(bff.PrefixGuestSession)
	key := s.keys.Key("session", guestID.String(), "wishlist")
	elsewhere := consumerstore.New(consumerstore.Config{
		DB: other.db, Sessions: other.redis, Keys: s.keys, Outbox: consumerstore.OutboxTable(), Waker: noRelay{}, Peppers: [][]byte{{1}},
		LeastTimeout: 10 * time.Second,
	})
	add(t, s, guestID, newID(bff.PrefixProperty))
	before := s.list(key)
	s.check(server.Kill())
	add(t, s, guestID, newID(bff.PrefixProperty))
	s.check(server.Start(s.ctx()))
	// As if Redis had been unreachable, and had lost nothing.
	restore := func() {
		t.Helper()
		s.check(s.redis.Do(s.ctx(), s.redis.B().Rpush().Key(key).Element(before...).Build()).Error())
	}
	restore()
	if got, err := s.ListWishlist(s.ctx(), guestID); err != nil || len(got) != 2 {
		t.Errorf("in the same process: %v %v", got, err)
	}
	s.del(key)
	restore()
	s.MirrorMissed(guestID)
	ctx, cancel := context.WithCancel(s.ctx())
	defer cancel()
	go func() { _ = s.RepairMirrors(ctx) }()
	for repaired := false; !repaired && ctx.Err() == nil; {
		repaired = len(s.list(key)) == 1
	}
	if got, err := elsewhere.ListWishlist(s.ctx(), guestID); err != nil || len(got) != 2 {
		t.Errorf("in another process: %v %v", got, err)
	}

	version, err := strconv.ParseInt(strings.Fields(before[0])[1], 10, 64)
	s.check(err)
	s.check(s.ReplaceMirror(s.ctx(), guestID, "full", version, before[1:]...))
	if got, err := elsewhere.ListWishlist(s.ctx(), guestID); err != nil || len(got) != 2 {
		t.Errorf("after a late write: %v %v", got, err)
	}
}
