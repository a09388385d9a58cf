package consumerstore_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
)

func newSession(now time.Time) consumer.GuestSession {
	return consumer.NewGuestSession(bff.NewID(bff.PrefixGuestSession, now), &consumer.Visit{
		At: now, Fingerprint: consumer.Hash{1}, Base: consumer.Hash{2}, Locale: "fa-AF", Currency: bff.AFN,
		Campaign: &consumer.Campaign{Source: "newsletter", CapturedAt: bff.At(now)},
	})
}

func TestSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		now := bff.At(time.Now()).Time
		want := newSession(now)
		if _, found, err := s.FindSession(s.ctx(), want.ID); found || err != nil {
			t.Fatalf("before it was saved: %v, %v", found, err)
		}
		s.check(s.SaveSession(s.ctx(), want))
		find := func() consumer.GuestSession {
			t.Helper()
			got, found, err := s.FindSession(s.ctx(), want.ID)
			if err != nil || !found {
				t.Fatalf("find: %v, %v", found, err)
			}
			return got
		}
		if diff := cmp.Diff(want, find(), cmpopts.EquateComparable(bff.ID{})); diff != "" {
			t.Errorf("saved and found differ (-want +got):\n%s", diff)
		}

		change := consumer.SessionChange{
			SeenAt: now.Add(time.Minute), CookieAt: now.Add(time.Minute), Locale: "ps-AF", Currency: bff.USD,
			Campaign: &consumer.Campaign{Medium: "cpc", CapturedAt: bff.At(now)},
			Consent:  &consumer.Consent{Marketing: true}, Chosen: true, Rotated: true,
			Prints: &consumer.Prints{Fingerprint: consumer.Hash{3}, Base: consumer.Hash{4}},
		}
		if there, err := s.UpdateSession(s.ctx(), want.ID, change); err != nil || !there {
			t.Fatalf("update: %v, %v", there, err)
		}
		if diff := cmp.Diff(want.Apply(change), find(), cmpopts.EquateComparable(bff.ID{})); diff != "" {
			t.Errorf("after the change (-want +got):\n%s", diff)
		}
		if there, err := s.UpdateSession(s.ctx(), newID(bff.PrefixGuestSession), change); err != nil || there {
			t.Errorf("a session that never was: %v, %v", there, err)
		}
	})
}

// All keys of a session live on together from each visit.
func TestSessionSlides(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		now := time.Now()
		g := newSession(now)
		key := s.keys.Key("session", g.ID.String())
		s.check(s.SaveSession(s.ctx(), g))
		s.check(s.Follow(s.ctx(), []guest.Step{{Guest: g.ID, Viewed: &guest.RecentlyViewed{PropertyID: newID(bff.PrefixProperty)}}}))
		s.check(s.Follow(s.ctx(), []guest.Step{{Guest: g.ID, Search: searchOf(g.ID, "Kabul")}}))
		add(t, s, g.ID, newID(bff.PrefixProperty))
		all := []string{key, key + ":wishlist", key + ":recent", key + ":history"}
		for _, k := range all {
			s.check(s.redis.Do(s.ctx(), s.redis.B().Expire().Key(k).Seconds(3*86400).Build()).Error())
		}
		if _, err := s.UpdateSession(s.ctx(), g.ID, consumer.SessionChange{SeenAt: now.Add(time.Second)}); err != nil {
			t.Fatal(err)
		}
		for _, k := range all {
			if got := s.ttl(k); got != 30 {
				t.Errorf("%s lives %d more days, want 30", k, got)
			}
		}
	})
}

// A session that is not used again is gone after an hour, and its end announced.
func TestNewSessionsLiveAnHour(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		now := time.Now()
		g := newSession(now)
		key := s.keys.Key("session", g.ID.String())
		life := func(k string) time.Duration {
			t.Helper()
			n, err := s.redis.Do(s.ctx(), s.redis.B().Ttl().Key(k).Build()).AsInt64()
			s.check(err)
			return time.Duration(n) * time.Second
		}
		s.check(s.SaveSession(s.ctx(), g))
		s.check(s.Follow(s.ctx(), []guest.Step{
			{Guest: g.ID, New: true, Search: searchOf(g.ID, "Kabul"), Viewed: &guest.RecentlyViewed{PropertyID: newID(bff.PrefixProperty)}},
		}))
		if _, err := s.UpdateSession(s.ctx(), g.ID, consumer.SessionChange{Locale: "ps-AF"}); err != nil {
			t.Fatal(err)
		}
		if got := life(key); got > consumer.NewSessionLifetime || got < time.Minute {
			t.Errorf("a new session lives %v, want an hour", got)
		}
		later := now.Add(2 * time.Hour)
		tell := consumer.NewTelemetry("test", nil)
		returned := newSession(now)
		s.check(s.SaveSession(s.ctx(), returned))
		if _, err := s.UpdateSession(s.ctx(), returned.ID, consumer.SessionChange{SeenAt: now.Add(time.Second)}); err != nil {
			t.Fatal(err)
		}
		if got := s.ttl(s.keys.Key("session", returned.ID.String())); got != 30 {
			t.Errorf("one whose cookie came back lives %d days, want 30", got)
		}
		if n, err := s.EndExpired(s.ctx(), tell, later); err != nil || n != 1 {
			t.Errorf("%d sessions ended after two hours, want 1: %v", n, err)
		}
		if events := s.events(consumer.SubjectSessionEnded); len(events) != 1 || events[0]["guestSessionId"] != g.ID.String() {
			t.Errorf("announced: %v", events)
		}
	})
}

func searchOf(guestID bff.ID, city string) *consumer.SearchSession {
	q := consumer.SearchQuery{Geo: consumer.GeoQuery{Mode: consumer.GeoCity, City: city}}
	return &consumer.SearchSession{ID: newID(bff.PrefixSearchSession), Guest: guestID, Query: q.Ask(), StartedAt: time.Now()}
}

// Many guests' steps are written at once, also by a Redis that has forgotten
// the scripts, and a search is found only by its guest and for its query.
func TestFollow(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		now := time.Now()
		var steps []guest.Step
		for range 20 {
			g := newSession(now.Add(-time.Hour))
			s.check(s.SaveSession(s.ctx(), g))
			ss := searchOf(g.ID, "Kabul")
			ss.Orders = consumer.Orders{{Window: 0, Name: consumer.Hash{1}}, {Window: 3, Name: consumer.Hash{2}}}
			steps = append(steps, guest.Step{
				Guest: g.ID, Touch: consumer.SessionChange{SeenAt: now}, Search: ss,
				Viewed: &guest.RecentlyViewed{PropertyID: newID(bff.PrefixProperty)},
			})
		}
		for _, node := range s.redis.Nodes() {
			s.check(node.Do(s.ctx(), node.B().ScriptFlush().Build()).Error())
		}
		s.check(s.Follow(s.ctx(), steps))
		ids := make([]bff.ID, len(steps))
		for i, step := range steps {
			ids[i] = step.Guest
			got, found, err := s.FindSearch(s.ctx(), step.Search.ID, step.Guest, step.Search.Query)
			if third, _ := got.Orders.Of(3); err != nil || !found || len(got.Orders) != 2 || third != (consumer.Hash{2}) {
				t.Errorf("search: %+v %v %v", got, found, err)
			}
			trail, err := s.FindTrail(s.ctx(), step.Guest)
			if err != nil || len(trail.RecentlyViewed) != 1 || len(trail.SearchHistory) != 1 {
				t.Fatalf("trail: %+v %v", trail, err)
			}
			if diff := cmp.Diff(guest.HistoryOf(*step.Search), trail.SearchHistory[0], cmp.Comparer(func(a, b bff.ID) bool { return a == b })); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
		}
		for i, f := range s.FindSessions(s.ctx(), ids) {
			if f.Err != nil || !f.Found || f.ID != ids[i] || f.LastSeenAt.Before(now.Add(-time.Minute)) {
				t.Errorf("session: %+v", f)
			}
		}
		first, other := steps[0].Search, steps[1]
		for _, wrong := range []struct {
			guest bff.ID
			q     *consumer.Asked
		}{{other.Guest, first.Query}, {first.Guest, searchOf(first.Guest, "Herat").Query}} {
			if _, found, err := s.FindSearch(s.ctx(), first.ID, wrong.guest, wrong.q); found || err != nil {
				t.Errorf("found for %v: %v %v", wrong, found, err)
			}
		}
		s.check(s.SaveOrder(s.ctx(), consumer.Hash{1}, ids))
		hotels, found, err := s.FindOrder(s.ctx(), consumer.Hash{1})
		if err != nil || !found || len(hotels) != len(ids) || hotels[0].Bytes() != ids[0].Bytes() || hotels[19].Bytes() != ids[19].Bytes() {
			t.Errorf("order: %v %v %v, want %v", hotels, found, err, ids)
		}
		if _, found, err := s.FindOrder(s.ctx(), consumer.Hash{2}); found || err != nil {
			t.Errorf("an order that was not saved: %v %v", found, err)
		}
	})
}

func TestTrail(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		guestID := newID(bff.PrefixGuestSession)
		hotels := make([]bff.ID, guest.MaxRecentlyViewed+5)
		for i := range hotels {
			hotels[i] = newID(bff.PrefixProperty)
			s.check(s.Follow(s.ctx(), []guest.Step{
				{Guest: guestID, Viewed: &guest.RecentlyViewed{PropertyID: hotels[i], TenantID: newID(bff.PrefixTenant), Source: "detail-link"}},
			}))
		}
		again := hotels[20]
		s.check(s.Follow(s.ctx(), []guest.Step{{Guest: guestID, Viewed: &guest.RecentlyViewed{PropertyID: again, Source: "wishlist"}}}))
		for i := range guest.MaxSearchHistory + 3 {
			s.check(s.Follow(s.ctx(), []guest.Step{{Guest: guestID, Search: searchOf(guestID, strconv.Itoa(i))}}))
		}
		s.check(s.Follow(s.ctx(), []guest.Step{{Guest: guestID, Search: searchOf(guestID, "10")}}))
		trail, err := s.FindTrail(s.ctx(), guestID)
		s.check(err)
		if n := len(trail.RecentlyViewed); n != guest.MaxRecentlyViewed {
			t.Errorf("%d hotels are remembered, want %d", n, guest.MaxRecentlyViewed)
		}
		if v := trail.RecentlyViewed[0]; v.PropertyID != again || v.Source != "wishlist" {
			t.Errorf("first is %v, want the one seen again", v)
		}
		seen := map[bff.ID]int{}
		for _, v := range trail.RecentlyViewed {
			seen[v.PropertyID]++
		}
		if seen[again] != 1 || seen[hotels[0]] != 0 || seen[hotels[len(hotels)-1]] != 1 {
			t.Errorf("seen again %d times, oldest %d, newest %d; want 1, 0, 1", seen[again], seen[hotels[0]], seen[hotels[len(hotels)-1]])
		}
		if n := len(trail.SearchHistory); n != guest.MaxSearchHistory || trail.SearchHistory[0].Geo.City != "10" {
			t.Errorf("%d searches, first %q; want %d, the repeated one", n, trail.SearchHistory[0].Geo.City, guest.MaxSearchHistory)
		}
	})
}

// A session that was lost is restored, unless there is one again or its guest had it
// purged.
func TestRestoreSession(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		now := time.Now()
		for name, tc := range map[string]struct {
			before     func(g consumer.GuestSession)
			wantLocale bff.Locale
			wantErr    error
		}{
			"lost":   {func(consumer.GuestSession) {}, bff.LocaleUrdu, nil},
			"again":  {func(g consumer.GuestSession) { s.check(s.SaveSession(s.ctx(), g)) }, bff.LocalePashto, nil},
			"purged": {func(g consumer.GuestSession) { s.check(s.PurgeSession(s.ctx(), g.ID, nil)) }, "", guest.ErrSessionCleared},
		} {
			g := newSession(now)
			g.Locale = bff.LocalePashto
			tc.before(g)
			g.Locale = bff.LocaleUrdu
			s.patiently(func() error { return s.RestoreSession(s.ctx(), g) })
			var got consumer.GuestSession
			s.patiently(func() (err error) {
				if got, _, err = s.FindSession(s.ctx(), g.ID); errors.Is(err, tc.wantErr) {
					return nil
				}
				return err
			})
			if got.Locale != tc.wantLocale {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

// A cleared session is gone from both stores, and what was still on its way
// cannot bring any of it back.
func TestPurge(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		now := time.Now()
		g, other := newSession(now), newSession(now)
		searched := searchOf(g.ID, "Herat")
		for _, guestID := range []consumer.GuestSession{g, other} {
			s.check(s.SaveSession(s.ctx(), guestID))
			s.check(s.Follow(s.ctx(), []guest.Step{{Guest: guestID.ID, Viewed: &guest.RecentlyViewed{PropertyID: newID(bff.PrefixProperty)}}}))
			add(t, s, guestID.ID, newID(bff.PrefixProperty))
		}
		// Two sessions of one query: the history names the later one only.
		other1, again := searchOf(other.ID, "Herat"), searchOf(g.ID, "Herat")
		s.check(s.Follow(s.ctx(), []guest.Step{{Guest: g.ID, Search: searched}, {Guest: g.ID, Search: again}, {Guest: other.ID, Search: other1}}))
		tell := consumer.NewTelemetry("test", nil)
		e, ok, err := tell.Event(g, guest.NewSessionEnded(g, guest.EndedByGuest, now), consumer.Occasion{}, now)
		if err != nil || !ok {
			t.Fatalf("event: %v, %v", ok, err)
		}
		s.check(s.PurgeSession(s.ctx(), g.ID, &e))

		if _, _, err := s.FindSession(s.ctx(), g.ID); !errors.Is(err, guest.ErrSessionCleared) {
			t.Errorf("find: %v, want cleared", err)
		}
		for _, table := range []string{"wishlist_anonymous", "idempotency_keys"} {
			sql := `SELECT count(*) FROM bff_consumer.` + table + ` WHERE guest_session_id = $1`
			if n := s.count(sql, g.ID.String()); n != 0 {
				t.Errorf("%s still has %d rows", table, n)
			}
			if n := s.count(sql, other.ID.String()); n != 1 {
				t.Errorf("%s has %d rows of another guest, want 1", table, n)
			}
		}
		if ended := s.events(consumer.SubjectSessionEnded); len(ended) != 1 || ended[0]["reason"] != "explicit-clear" {
			t.Errorf("events: %v", ended)
		}
		late := searchOf(g.ID, "Kabul")
		s.check(s.Follow(s.ctx(), []guest.Step{{Guest: g.ID, Search: late}}))
		for name, ss := range map[string]*consumer.SearchSession{"first": searched, "again": again, "late": late} {
			if n := s.ttl(s.keys.Key("srs", ss.ID.String())); n != -2 {
				t.Errorf("the search session %s is still there", name)
			}
		}
		if _, found, err := s.FindSearch(s.ctx(), other1.ID, other.ID, other1.Query); !found || err != nil {
			t.Errorf("another guest's search: %v, %v", found, err)
		}

		_, err = s.UpdateSession(s.ctx(), g.ID, consumer.SessionChange{SeenAt: now})
		s.check(err)
		s.check(s.Follow(s.ctx(), []guest.Step{{Guest: g.ID, Viewed: &guest.RecentlyViewed{PropertyID: newID(bff.PrefixProperty)}}}))
		s.check(s.Follow(s.ctx(), []guest.Step{{Guest: g.ID, Touch: consumer.SessionChange{SeenAt: now}, Search: searchOf(g.ID, "Kabul")}}))
		if _, _, err := s.FindSession(s.ctx(), g.ID); !errors.Is(err, guest.ErrSessionCleared) {
			t.Errorf("after late writes: %v, want cleared", err)
		}
		trail, err := s.FindTrail(s.ctx(), g.ID)
		s.check(err)
		wishes, err := s.ListWishlist(s.ctx(), g.ID)
		s.check(err)
		if len(trail.RecentlyViewed)+len(trail.SearchHistory)+len(wishes) != 0 {
			t.Errorf("came back: %v %v", trail, wishes)
		}
	})
}

// The end of a session that was not used is announced once, however many
// processes look for it, and never for a guest who wants no telemetry.
func TestExpiredSessionsEndOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *shop) { //nolint:thelper // the test itself
		now := time.Now()
		long := now.Add(-consumer.SessionLifetime - time.Hour)
		const gone = 450
		for i := range gone + 2 {
			g := newSession(long)
			switch i {
			case gone: // came back
				s.check(s.SaveSession(s.ctx(), g))
				if _, err := s.UpdateSession(s.ctx(), g.ID, consumer.SessionChange{SeenAt: now}); err != nil {
					t.Fatal(err)
				}
				continue
			case gone + 1: // withdrew consent
				s.check(s.SaveSession(s.ctx(), g))
				if _, err := s.UpdateSession(s.ctx(), g.ID, consumer.SessionChange{Consent: &consumer.Consent{}}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			s.check(s.SaveSession(s.ctx(), g))
		}
		silent := newSession(long)
		silent.Consent.Telemetry = false
		s.check(s.SaveSession(s.ctx(), silent))

		tell := consumer.NewTelemetry("test", nil)
		var wg sync.WaitGroup
		ended := make([]int, 3)
		for i := range ended {
			wg.Go(func() {
				n, err := s.EndExpired(s.ctx(), tell, now)
				if err != nil {
					t.Error(err)
				}
				ended[i] = n
			})
		}
		wg.Wait()
		if n := ended[0] + ended[1] + ended[2]; n != gone {
			t.Errorf("%d sessions were ended, want %d", n, gone)
		}
		events := s.events(consumer.SubjectSessionEnded)
		if len(events) != gone || events[0]["reason"] != "ttl-expired" {
			t.Errorf("%d events, want %d", len(events), gone)
		}
	})
}
