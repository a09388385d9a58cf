package consumer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
)

// refusals keeps one.
type refusals struct {
	guest.Refusals
	kept guest.Refusal
	err  error
}

func (r refusals) FindRefusal(context.Context, bff.ID) (guest.Refusal, error) {
	return r.kept, r.err
}

// A card says what its session says, no more and no less, and is renewed after a day.
func TestCardOf(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 17, 10, 0, 0, 7, time.UTC)
	s := consumer.GuestSession{
		ID: bff.NewID(bff.PrefixGuestSession, made), Locale: bff.LocaleUrdu, Currency: bff.PKR, Consent: consumer.Consent{Marketing: true},
		Chosen: true, Silent: true,
	}
	want := consumer.Card{
		SessionID: s.ID, Locale: bff.LocaleUrdu, Currency: bff.PKR, Consent: consumer.Consent{Marketing: true}, Chosen: true, Silent: true,
		MadeAt: made.Truncate(time.Second),
	}
	card := consumer.CardOf(s, made)
	if card != want || card.IsZero() || !(consumer.Card{}).IsZero() {
		t.Errorf("card %+v, want %+v", card, want)
	}
	for name, change := range map[string]func(*consumer.GuestSession){
		"id": func(s *consumer.GuestSession) { s.ID = bff.NewID(bff.PrefixGuestSession, made) }, "locale": func(s *consumer.GuestSession) { s.Locale = "en" },
		"currency": func(s *consumer.GuestSession) { s.Currency = bff.USD }, "telemetry": func(s *consumer.GuestSession) { s.Consent.Telemetry = true },
		"marketing": func(s *consumer.GuestSession) { s.Consent.Marketing = false }, "chosen": func(s *consumer.GuestSession) { s.Chosen = false },
		"silent": func(s *consumer.GuestSession) { s.Silent = false },
	} {
		other := s
		change(&other)
		if card.Describes(other) || !card.Describes(s) {
			t.Errorf("%s: the card describes %+v", name, other)
		}
	}
	agreed := s
	agreed.Consent.Telemetry = true
	if consumer.CardOf(agreed, made).Silent {
		t.Error("a guest who agreed is silent")
	}
	day := card.MadeAt.Add(24 * time.Hour)
	if card.Due(day) || !card.Due(day.Add(1)) {
		t.Error("a card is due after a day, and not before")
	}
}

// A session comes back from its card as the guest left it. A browser that asks not to be
// tracked is not, unless its guest has answered the banner; a refusal that is kept counts
// in any case; and what cannot be read is not guessed.
func TestSessionOfACard(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	began := now.Add(-48 * time.Hour)
	id := bff.NewID(bff.PrefixGuestSession, began)
	card := consumer.Card{
		SessionID: id, Locale: bff.LocaleUrdu, Currency: bff.PKR, Consent: consumer.Consent{Telemetry: true, Marketing: true}, MadeAt: now.Add(-time.Hour),
	}
	session := consumer.GuestSession{
		ID: id, CreatedAt: id.Time(), LastSeenAt: now, CookieAt: card.MadeAt, Locale: card.Locale, Currency: card.Currency, Consent: card.Consent,
		Fingerprint: consumer.Hash{1}, Base: consumer.Hash{2},
	}
	for name, tc := range map[string]struct {
		card        func(*consumer.Card)
		noTracking  bool
		kept        refusals
		want        func(*consumer.GuestSession)
		wantCleared bool
	}{
		"as it was": {},
		"from the future": {
			card: func(c *consumer.Card) { c.SessionID = bff.NewID(bff.PrefixGuestSession, now.Add(time.Minute)) },
			want: func(s *consumer.GuestSession) { s.CreatedAt = now },
		},
		"refused by the browser": {noTracking: true, want: func(s *consumer.GuestSession) { s.Consent.Telemetry = false }},
		"refused by the browser, agreed by the guest": {
			card: func(c *consumer.Card) { c.Chosen = true }, noTracking: true, want: func(s *consumer.GuestSession) { s.Chosen = true },
		},
		"silent": {
			card: func(c *consumer.Card) { c.Consent.Telemetry, c.Silent = false, true },
			want: func(s *consumer.GuestSession) { s.Consent.Telemetry, s.Silent = false, true },
		},
		"refused since": {kept: refusals{kept: guest.Refusal{Refused: true, Silent: true}}, want: func(s *consumer.GuestSession) { s.Consent.Telemetry = false }},
		"silent, and refused later": {
			card: func(c *consumer.Card) { c.Consent.Telemetry, c.Silent = false, true }, kept: refusals{kept: guest.Refusal{Refused: true}},
			want: func(s *consumer.GuestSession) { s.Consent.Telemetry = false },
		},
		"silent, and kept so": {
			card: func(c *consumer.Card) { c.Consent.Telemetry, c.Silent = false, true }, kept: refusals{kept: guest.Refusal{Refused: true, Silent: true}},
			want: func(s *consumer.GuestSession) { s.Consent.Telemetry, s.Silent = false, true },
		},
		"cleared": {kept: refusals{kept: guest.Refusal{Cleared: true}}, wantCleared: true},
		"cannot tell": {
			kept: refusals{kept: guest.Refusal{Refused: true, Cleared: true}, err: errors.New("away")}, want: func(s *consumer.GuestSession) { s.Unread = true },
		},
	} {
		c, want := card, session
		if tc.card != nil {
			tc.card(&c)
		}
		want.ID = c.SessionID
		v := &consumer.Visit{
			At: now, Card: c, Fingerprint: consumer.Hash{1}, Base: consumer.Hash{2}, Locale: bff.LocaleEnglish, Currency: bff.USD, NoTracking: tc.noTracking,
		}
		if tc.want != nil {
			tc.want(&want)
		}
		got, cleared := guest.RestoreCard(t.Context(), tc.kept, v)
		if diff := cmp.Diff(want, got, sameID); diff != "" || cleared != tc.wantCleared {
			t.Errorf("%s: cleared %t (-want +got):\n%s", name, cleared, diff)
		}
	}
}

// A session of which only the refusal is left is what the refusal says.
func TestRestored(t *testing.T) {
	t.Parallel()
	lost := consumer.GuestSession{Consent: consumer.Consent{Telemetry: true, Marketing: true}, Silent: true, Unread: true}
	for name, tc := range map[string]struct {
		kept        refusals
		want        consumer.GuestSession
		wantCleared bool
	}{
		"nothing": {want: consumer.GuestSession{Consent: consumer.Consent{Telemetry: true, Marketing: true}}},
		"refused": {kept: refusals{kept: guest.Refusal{Refused: true}}, want: consumer.GuestSession{Consent: consumer.Consent{Marketing: true}}},
		"silent": {
			kept: refusals{kept: guest.Refusal{Refused: true, Silent: true}}, want: consumer.GuestSession{Consent: consumer.Consent{Marketing: true}, Silent: true},
		},
		"cleared": {
			kept:        refusals{kept: guest.Refusal{Cleared: true}},
			want:        consumer.GuestSession{Consent: consumer.Consent{Telemetry: true, Marketing: true}},
			wantCleared: true,
		},
		"cannot tell": {kept: refusals{kept: guest.Refusal{Cleared: true}, err: errors.New("away")}, want: lost},
	} {
		if got, cleared := guest.RestoreSession(t.Context(), tc.kept, lost); got != tc.want || cleared != tc.wantCleared {
			t.Errorf("%s: %+v, cleared %t; want %+v", name, got, cleared, tc.want)
		}
	}
	found := consumer.GuestSession{Consent: consumer.Consent{Telemetry: true}}
	if got, _ := guest.RestoreSession(t.Context(), refusals{err: errors.New("away")}, found); !got.Unread {
		t.Error("a session whose refusal cannot be read is read")
	}
}

// An id counts without a card over plain http, or if it is older than the upgrade and
// that is not thirty days ago.
func TestCardless(t *testing.T) {
	t.Parallel()
	upgrade := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		cardless consumer.Cardless
		opened   time.Time
		now      time.Time
		want     bool
	}{
		"nowhere":    {opened: upgrade, now: upgrade},
		"plain http": {cardless: consumer.Cardless{Always: true}, opened: upgrade, now: upgrade, want: true},
		"older":      {cardless: consumer.Cardless{Before: upgrade}, opened: upgrade.Add(-time.Millisecond), now: upgrade, want: true},
		"as old":     {cardless: consumer.Cardless{Before: upgrade}, opened: upgrade, now: upgrade},
		"older, at the last": {
			cardless: consumer.Cardless{Before: upgrade}, opened: upgrade.Add(-time.Hour), now: upgrade.Add(30 * 24 * time.Hour), want: true,
		},
		"older, thirty days after": {cardless: consumer.Cardless{Before: upgrade}, opened: upgrade.Add(-time.Hour), now: upgrade.Add(30*24*time.Hour + 1)},
		"both": {
			cardless: consumer.Cardless{Always: true, Before: upgrade}, opened: upgrade.Add(-time.Hour), now: upgrade, want: true,
		},
	} {
		if got := tc.cardless.Counts(bff.NewID(bff.PrefixGuestSession, tc.opened), tc.now); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A change writes what it names and leaves the rest; what was chosen stays chosen, and who
// agreed once is silent no more.
func TestApply(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	session := consumer.GuestSession{
		ID: bff.NewID(bff.PrefixGuestSession, now), CreatedAt: now, LastSeenAt: now, CookieAt: now, Locale: "en", Currency: bff.USD, Fingerprint: consumer.Hash{1},
		Base: consumer.Hash{2}, Silent: true,
	}
	for name, tc := range map[string]struct {
		change consumer.SessionChange
		want   func(*consumer.GuestSession)
	}{
		"nothing":  {},
		"seen":     {consumer.SessionChange{SeenAt: now.Add(1)}, func(s *consumer.GuestSession) { s.LastSeenAt = now.Add(1) }},
		"cookie":   {consumer.SessionChange{CookieAt: now.Add(1)}, func(s *consumer.GuestSession) { s.CookieAt = now.Add(1) }},
		"locale":   {consumer.SessionChange{Locale: "ur"}, func(s *consumer.GuestSession) { s.Locale = "ur" }},
		"currency": {consumer.SessionChange{Currency: bff.PKR}, func(s *consumer.GuestSession) { s.Currency = bff.PKR }},
		"campaign": {
			consumer.SessionChange{Campaign: &consumer.Campaign{Source: "a"}}, func(s *consumer.GuestSession) { s.Campaign = &consumer.Campaign{Source: "a"} },
		},
		"refusal": {consumer.SessionChange{Consent: &consumer.Consent{Marketing: true}}, func(s *consumer.GuestSession) { s.Consent.Marketing = true }},
		"consent": {
			consumer.SessionChange{Consent: &consumer.Consent{Telemetry: true}, Chosen: true},
			func(s *consumer.GuestSession) { s.Consent.Telemetry, s.Chosen, s.Silent = true, true, false },
		},
		"browser": {
			consumer.SessionChange{Prints: &consumer.Prints{Fingerprint: consumer.Hash{3}, Base: consumer.Hash{4}}},
			func(s *consumer.GuestSession) { s.Fingerprint, s.Base = consumer.Hash{3}, consumer.Hash{4} },
		},
		"rotated": {consumer.SessionChange{Rotated: true}, func(s *consumer.GuestSession) { s.Rotated = true }},
	} {
		want := session
		if tc.want != nil {
			tc.want(&want)
		}
		if diff := cmp.Diff(want, session.Apply(tc.change), sameID); diff != "" || tc.change.IsZero() != (name == "nothing") {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	chosen := session
	chosen.Chosen, chosen.Rotated, chosen.Silent = true, true, false
	if got := chosen.Apply(consumer.SessionChange{Consent: &consumer.Consent{}}); !got.Chosen || !got.Rotated || got.Silent {
		t.Errorf("forgotten: %+v", got)
	}
	if left := session.ExpiresAt().Sub(now); left != consumer.NewSessionLifetime {
		t.Errorf("a session that has not come back lives %s", left)
	}
	if left := session.Apply(consumer.SessionChange{SeenAt: now.Add(1)}).ExpiresAt().Sub(now.Add(1)); left != consumer.SessionLifetime {
		t.Errorf("a session lives %s", left)
	}
}

// What events say of a guest's changes names the right things.
func TestChangesAreTold(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	s := consumer.GuestSession{ID: bff.NewID(bff.PrefixGuestSession, now), Locale: "en", Currency: bff.USD}
	e := consumer.WishlistEntry{
		ID: bff.NewID(bff.PrefixWishlist, now), PropertyID: bff.NewID(bff.PrefixProperty, now), TenantID: bff.NewID(bff.PrefixTenant, now),
		AddedAt: bff.At(now.Add(-time.Hour)), Source: "map", Note: "ours alone",
	}
	for _, tc := range []struct{ want, got any }{
		{
			guest.LocaleChanged{GuestSessionID: s.ID, PreviousLocale: "en", NewLocale: "ur", Trigger: guest.TriggerUser, OccurredAt: bff.At(now)},
			guest.NewLocaleChanged(s, "ur", guest.TriggerUser, now),
		},
		{
			guest.CurrencyChanged{GuestSessionID: s.ID, PreviousCurrency: bff.USD, NewCurrency: bff.PKR, Trigger: guest.TriggerUser, OccurredAt: bff.At(now)},
			guest.NewCurrencyChanged(s, bff.PKR, guest.TriggerUser, now),
		},
		{
			guest.WishlistAdded{
				WishlistID: e.ID, GuestSessionID: s.ID, TenantID: e.TenantID, PropertyID: e.PropertyID, Source: "map",
				AddedAt: e.AddedAt, WishlistSize: 3,
			},
			guest.NewWishlistAdded(e, s.ID, 3),
		},
		{
			guest.WishlistRemoved{WishlistID: e.ID, GuestSessionID: s.ID, TenantID: e.TenantID, PropertyID: e.PropertyID, RemovedAt: bff.At(now), WishlistSize: 2},
			guest.NewWishlistRemoved(e, s.ID, 2, now),
		},
	} {
		if tc.got != tc.want {
			t.Errorf("told %+v, want %+v", tc.got, tc.want)
		}
	}
}
