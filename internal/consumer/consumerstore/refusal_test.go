package consumerstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// patiently asks again while the answer takes longer than guests wait for it, as it
// does on a busy machine.
func (s *shop) patiently(ask func() error) {
	s.t.Helper()
	var err error
	testkit.Retry(s.t, "an answer within a guest's patience", func() bool {
		err = ask()
		return !errors.Is(err, context.DeadlineExceeded)
	})
	s.check(err)
}

// A refusal is kept under a hash, found under peppers that are rotated out, and
// gone when the guest agrees.
func TestRefusal(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.Redis(t), database(t))
	now := time.Now()
	find := func(g bff.ID) guest.Refusal {
		t.Helper()
		var r guest.Refusal
		s.patiently(func() (err error) {
			r, err = s.FindRefusal(s.ctx(), g)
			return err
		})
		return r
	}
	withdrawn, never := newSession(now), newSession(now)
	never.Silent = true
	if got := find(withdrawn.ID); got != (guest.Refusal{}) {
		t.Errorf("before: %+v", got)
	}
	for _, g := range []consumer.GuestSession{withdrawn, never} {
		for range 2 {
			s.check(s.AddRefusal(s.ctx(), g, now))
		}
		if got, want := find(g.ID), (guest.Refusal{Refused: true, Silent: g.Silent}); got != want {
			t.Errorf("kept: %+v, want %+v", got, want)
		}
	}
	if n := s.count(`SELECT count(*) FROM bff_consumer.telemetry_refusals r WHERE r::text LIKE '%' || $1 || '%'`, withdrawn.ID.ULID()); n != 0 {
		t.Error("the table holds the session's id")
	}
	s.check(s.RemoveRefusal(s.ctx(), never.ID))
	if got := find(never.ID); got.Refused {
		t.Errorf("after agreeing: %+v", got)
	}

	before := consumerstore.New(consumerstore.Config{DB: s.db, Peppers: [][]byte{[]byte("the pepper before it")}})
	s.check(before.AddRefusal(s.ctx(), never, now))
	if got := find(never.ID); !got.Refused || !got.Silent {
		t.Errorf("under the old pepper: %+v", got)
	}
	never.Consent.Telemetry = false
	s.check(s.RenewSession(s.ctx(), never, now.Add(24*time.Hour)))
	if n := s.count(`SELECT count(*) FROM bff_consumer.telemetry_refusals WHERE seen_at > $1`, now.Add(time.Hour)); n != 1 {
		t.Errorf("%d refusals were renewed, want 1", n)
	}
}

// A change made while the session cannot be read has its event, unless the guest
// refused: that is read in the change's own transaction.
func TestRefusalDecidesForUnreadSession(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.Redis(t), database(t))
	now := time.Now()
	tests := map[string]struct {
		refused, noTracking bool
		want                int
	}{
		"agreed":  {want: 1},
		"refused": {refused: true},
		"header":  {noTracking: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guestID := newID(bff.PrefixGuestSession)
			by := telling(guestID)
			by.Session.Unread, by.Session.Consent.Telemetry = true, !tc.noTracking
			if tc.refused {
				s.check(s.AddRefusal(s.ctx(), by.Session, now))
			}
			if _, err := addTo(s, guestID, newID(bff.PrefixProperty), rand.Text(), by); err != nil {
				t.Fatal(err)
			}
			mintFor(s, guestID, by, now)
			for _, subject := range []consumer.Subject{consumer.SubjectWishlistAdded, consumer.SubjectHandoffInitiated} {
				if n := s.count(`SELECT count(*) FROM bff_consumer.outbox WHERE topic = $1 AND headers->>'sessionId' = $2`,
					string(subject), guestID.String()); n != tc.want {
					t.Errorf("%d events %s, want %d", n, subject, tc.want)
				}
			}
		})
	}
}

// A session that its guest had purged is known as such for longer than any card of
// it can be used, also when Redis has lost it and after a change of the pepper; and
// while Redis cannot say it, nothing is added to it with an old card.
func TestClearedSessions(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.Redis(t), database(t))
	cleared := func(g bff.ID) bool {
		t.Helper()
		var r guest.Refusal
		s.patiently(func() (err error) {
			r, err = s.FindRefusal(s.ctx(), g)
			return err
		})
		return r.Cleared
	}
	before := consumerstore.New(consumerstore.Config{
		DB: s.db, Sessions: s.redis, Keys: s.keys, Outbox: consumerstore.OutboxTable(), Waker: noRelay{},
		Peppers: [][]byte{[]byte("the pepper before it")}, LeastTimeout: 10 * time.Second,
	})
	for name, store := range map[string]*consumerstore.Store{"now": s.Store, "before the pepper was changed": before} {
		g, other := newSession(time.Now()), newSession(time.Now())
		for range 2 {
			s.check(store.PurgeSession(s.ctx(), g.ID, nil))
		}
		if days := s.ttl(s.keys.Key("session", g.ID.String())); days <= int64(consumer.CardLifetime/(24*time.Hour)) {
			t.Errorf("%s: Redis refuses the id for %d days, a card lives longer", name, days)
		}
		s.del(s.keys.Key("session", g.ID.String()))
		if !cleared(g.ID) || cleared(other.ID) {
			t.Errorf("%s: cleared %t, another's %t", name, cleared(g.ID), cleared(other.ID))
		}
		by := telling(g.ID)
		by.Session.Unread = true
		_, err := addTo(s, g.ID, newID(bff.PrefixProperty), rand.Text(), by)
		if n := s.count(`SELECT count(*) FROM bff_consumer.wishlist_anonymous WHERE guest_session_id = $1`, g.ID.String()); n != 0 ||
			bff.CodeOf(err) != bff.CodeServiceUnavailable {
			t.Errorf("%s: %d wishes of a session that was cleared, %v", name, n, err)
		}
	}
	if n := s.count(`SELECT count(*) FROM bff_consumer.cleared_sessions`); n != 2 {
		t.Errorf("%d rows, want one for each session", n)
	}
}

// mintFor mints a hand-off of a guest.
func mintFor(s *shop, guestID bff.ID, by consumer.Announcer, now time.Time) {
	claim, _, err := s.BeginMint(s.ctx(), consumer.Once{Guest: guestID, Route: "POST /handoff", Key: rand.Text()}, now)
	s.check(err)
	defer claim.Release()
	h := booking.Handoff{Payload: handoff.Payload{
		Claims: handoff.Claims{
			ID: newID(bff.PrefixHandoff), GuestSessionID: guestID, TenantID: newID(bff.PrefixTenant), PropertyID: newID(bff.PrefixProperty),
			Dates:     bff.StayDates{CheckIn: bff.DateOf(now), CheckOut: bff.DateOf(now.Add(48 * time.Hour))},
			Occupancy: handoff.Occupancy{Adults: 2, Rooms: 1}, Currency: bff.AFN, Locale: "en",
		},
		KeyID: "k", MintedAt: bff.At(now), ExpiresAt: bff.At(now.Add(time.Minute)),
	}}
	_, err = claim.Mint(s.ctx(), booking.Mint{Handoff: h, Initiated: booking.HandoffInitiated{HandoffID: h.ID, GuestSessionID: guestID}, By: by})
	s.check(err)
}

// A session of which a wish, a refusal or a hand-off is kept is known, whatever
// became of the session itself; any other id may be made up.
func TestKnowsSession(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.Redis(t), database(t))
	now := time.Now()
	before := consumerstore.New(consumerstore.Config{DB: s.db, Peppers: [][]byte{[]byte("the pepper before it")}})
	for name, tc := range map[string]struct {
		leave func(g consumer.GuestSession)
		want  bool
	}{
		"nothing":                       {func(consumer.GuestSession) {}, false},
		"a session alone":               {func(g consumer.GuestSession) { s.check(s.SaveSession(s.ctx(), g)) }, false},
		"a wish":                        {func(g consumer.GuestSession) { add(t, s, g.ID, newID(bff.PrefixProperty)) }, true},
		"a hand-off":                    {func(g consumer.GuestSession) { mintFor(s, g.ID, telling(g.ID), now) }, true},
		"a refusal":                     {func(g consumer.GuestSession) { s.check(s.AddRefusal(s.ctx(), g, now)) }, true},
		"a refusal under an old pepper": {func(g consumer.GuestSession) { s.check(before.AddRefusal(s.ctx(), g, now)) }, true},
		"a refusal that was taken back": {func(g consumer.GuestSession) {
			s.check(s.AddRefusal(s.ctx(), g, now))
			s.check(s.RemoveRefusal(s.ctx(), g.ID))
		}, false},
		"what a purge leaves of a guest": {func(g consumer.GuestSession) {
			add(t, s, g.ID, newID(bff.PrefixProperty))
			s.check(s.PurgeSession(s.ctx(), g.ID, nil))
		}, false},
	} {
		g := newSession(now)
		tc.leave(g)
		known := false
		s.patiently(func() (err error) {
			known, err = s.KnowsSession(s.ctx(), g.ID)
			return err
		})
		if known != tc.want {
			t.Errorf("%s: %t, want %t", name, known, tc.want)
		}
	}
	s.db.Close()
	if known, err := s.KnowsSession(s.ctx(), newSession(now).ID); known || err == nil {
		t.Errorf("without Postgres: %t, %v", known, err)
	}
}

// What cannot be read is not guessed.
func TestRefusalUnknown(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.Redis(t), database(t))
	g := newSession(time.Now())
	s.db.Close()
	if got, cleared := guest.RestoreSession(s.ctx(), s, g); !got.Unread || cleared {
		t.Errorf("resolved without Postgres: %+v, cleared %t", got, cleared)
	}
	if err := s.AddRefusal(s.ctx(), g, time.Now()); bff.CodeOf(err) != bff.CodeServiceUnavailable {
		t.Errorf("kept without Postgres: %v", err)
	}
}
