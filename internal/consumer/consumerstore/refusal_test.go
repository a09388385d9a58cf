package consumerstore_test

import (
	"crypto/rand"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// A refusal is kept under a hash, found under peppers that are rotated out, and
// gone when the guest agrees.
func TestRefusal(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.Redis(t), database(t))
	now := time.Now()
	find := func(g bff.ID) consumer.Refusal {
		t.Helper()
		r, err := s.FindRefusal(s.ctx(), g)
		s.check(err)
		return r
	}
	withdrawn, never := newSession(now), newSession(now)
	never.Silent = true
	if got := find(withdrawn.ID); got != (consumer.Refusal{}) {
		t.Errorf("before: %+v", got)
	}
	for _, g := range []consumer.GuestSession{withdrawn, never} {
		for range 2 {
			s.check(s.AddRefusal(s.ctx(), g, now))
		}
		if got, want := find(g.ID), (consumer.Refusal{Refused: true, Silent: g.Silent}); got != want {
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
			guest := newID(bff.PrefixGuestSession)
			by := telling(guest)
			by.Session.Unread, by.Session.Consent.Telemetry = true, !tc.noTracking
			if tc.refused {
				s.check(s.AddRefusal(s.ctx(), by.Session, now))
			}
			if _, err := addTo(s, guest, newID(bff.PrefixProperty), rand.Text(), by); err != nil {
				t.Fatal(err)
			}
			claim, _, err := s.BeginMint(s.ctx(), consumer.Once{Guest: guest, Route: "POST /handoff", Key: rand.Text()}, now)
			s.check(err)
			defer claim.Release()
			h := consumer.Handoff{Payload: handoff.Payload{
				Claims: handoff.Claims{
					ID: newID(bff.PrefixHandoff), GuestSessionID: guest, TenantID: newID(bff.PrefixTenant), PropertyID: newID(bff.PrefixProperty),
					Dates:     bff.StayDates{CheckIn: bff.DateOf(now), CheckOut: bff.DateOf(now.Add(48 * time.Hour))},
					Occupancy: handoff.Occupancy{Adults: 2, Rooms: 1}, Currency: bff.AFN, Locale: "en",
				},
				KeyID: "k", MintedAt: bff.At(now), ExpiresAt: bff.At(now.Add(time.Minute)),
			}}
			_, err = claim.Mint(s.ctx(), consumer.Mint{Handoff: h, Initiated: consumer.HandoffInitiated{HandoffID: h.ID, GuestSessionID: guest}, By: by})
			s.check(err)
			for _, subject := range []consumer.Subject{consumer.SubjectWishlistAdded, consumer.SubjectHandoffInitiated} {
				if n := s.count(`SELECT count(*) FROM bff_consumer.outbox WHERE topic = $1 AND headers->>'sessionId' = $2`,
					string(subject), guest.String()); n != tc.want {
					t.Errorf("%d events %s, want %d", n, subject, tc.want)
				}
			}
		})
	}
}

// What cannot be read is not guessed.
func TestRefusalUnknown(t *testing.T) {
	t.Parallel()
	s := newShop(t, testkit.Redis(t), database(t))
	g := newSession(time.Now())
	s.db.Close()
	if got := g.Resolve(s.ctx(), s); !got.Unread {
		t.Errorf("resolved without Postgres: %+v", got)
	}
	if err := s.AddRefusal(s.ctx(), g, time.Now()); bff.CodeOf(err) != bff.CodeServiceUnavailable {
		t.Errorf("kept without Postgres: %v", err)
	}
}
