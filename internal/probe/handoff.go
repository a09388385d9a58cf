package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/doctor"
)

const (
	handoffAdvice = "stop hand-offs until it is found out why: a guest could be charged twice or for another's stay"
	cardAdvice    = "replace the keyring of the cards: pages of others could choose a guest's session"
)

// ledger is where hand-offs are used up.
type ledger interface {
	AddHandoff(ctx context.Context, h booking.Handoff) error
	RemoveHandoff(ctx context.Context, id bff.ID) error
	Consume(ctx context.Context, id bff.ID, instance string, now time.Time) (booking.Handoff, error)
}

// attackedClaims are those of a hand-off to a tenant that is no hotel.
func attackedClaims(now time.Time) handoff.Claims {
	tenant := doctor.Tenant()
	today := bff.DateOf(now)
	return handoff.Claims{
		ID: bff.NewID(bff.PrefixHandoff, now), GuestSessionID: bff.NewID(bff.PrefixGuestSession, now), TenantID: tenant,
		PropertyID: bff.IDFromBytes(bff.PrefixProperty, tenant.Bytes()), Dates: bff.StayDates{CheckIn: today + 1, CheckOut: today + 2},
		Occupancy: handoff.Occupancy{Adults: 1, Rooms: 1}, Currency: bff.Currencies()[0], Locale: bff.Locales()[0],
	}
}

// untrustedRing signs with a key of the examination's own, under the id of another.
func untrustedRing(id string, now time.Time) (*handoff.Keyring, error) {
	set, err := handoff.NewKeySet(id, []byte("a secret that no service has, 32 b"), now)
	if err != nil {
		return nil, err
	}
	return handoff.NewKeyring(set), nil
}

// attackLedger uses one hand-off several times at once and again, and one that has
// expired. Its rows are removed.
func attackLedger(ctx context.Context, l ledger) (found []doctor.Finding, err error) {
	now := time.Now()
	ring, err := untrustedRing("doctor", now)
	if err != nil {
		return nil, err
	}
	var planted []bff.ID
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		for _, id := range planted {
			err = errors.Join(err, l.RemoveHandoff(ctx, id))
		}
	}()
	plant := func(minted time.Time) (bff.ID, error) {
		_, p, err := handoff.Mint(ring, attackedClaims(minted), minted)
		if err != nil {
			return bff.ID{}, err
		}
		planted = append(planted, p.ID)
		return p.ID, l.AddHandoff(ctx, booking.Handoff{Payload: p})
	}
	fresh, err := plant(now)
	if err != nil {
		return nil, err
	}
	old, err := plant(now.Add(-handoff.Lifetime - time.Minute))
	if err != nil {
		return nil, err
	}
	found = append(found, onlyOne(handoffAdvice, func(i int) error {
		_, err := l.Consume(ctx, fresh, fmt.Sprintf("doctor-%d", i), time.Now())
		return err
	}))
	_, err = l.Consume(ctx, fresh, "doctor-again", time.Now())
	found = append(found, refusal("used again", err, bff.CodeHandoffReplayed, handoffAdvice))
	_, err = l.Consume(ctx, old, "doctor-late", time.Now())
	return append(found, refusal("used after it has expired", err, bff.CodeHandoffExpired, handoffAdvice)), nil
}

// attackToken verifies tokens that are not what the service has signed, with the keys
// that are in use.
func attackToken(ring *handoff.Keyring) ([]doctor.Finding, error) {
	now := time.Now()
	token, p, err := handoff.Mint(ring, attackedClaims(now), now)
	if err != nil {
		return nil, err
	}
	if _, err := handoff.Verify(ring, token, now); err != nil {
		return doctor.Bad( //nolint:nilerr // that is the finding
			"the attacks were not tried: they would be refused for the same reason", "a token that was just minted is refused",
		), nil
	}
	untrusted, err := untrustedRing(p.KeyID, now)
	if err != nil {
		return nil, err
	}
	forged, _, err1 := handoff.Mint(untrusted, p.Claims, now)
	expired, _, err2 := handoff.Mint(ring, p.Claims, now.Add(-handoff.Lifetime-time.Second))
	future, _, err3 := handoff.Mint(ring, p.Claims, now.Add(handoff.MaxSkew+time.Minute))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	verify := func(token string) error {
		_, err := handoff.Verify(ring, token, now)
		return err
	}
	found := []doctor.Finding{
		refusal("token of another key", verify(forged), bff.CodeHandoffSignatureInvalid, handoffAdvice),
		refusal("expired token", verify(expired), bff.CodeHandoffExpired, handoffAdvice),
		refusal("token of the future", verify(future), bff.CodeHandoffSignatureInvalid, handoffAdvice),
	}
	return append(found, tampered("changed token", token, verify, handoffAdvice)), nil
}

// attackCard plants cards that the service has not made.
func attackCard(ring *handoff.Keyring) ([]doctor.Finding, error) {
	now := time.Now()
	cards := guest.NewCards(ring)
	card := consumer.Card{
		SessionID: bff.NewID(bff.PrefixGuestSession, now), Locale: bff.Locales()[0], Currency: bff.Currencies()[0], MadeAt: now.UTC().Truncate(time.Second),
	}
	text, err := cards.Mint(card)
	if err != nil {
		return nil, err
	}
	if _, err := cards.Verify(text, now); err != nil {
		return doctor.Bad( //nolint:nilerr // that is the finding
			"the attacks were not tried: they would be refused for the same reason", "a card that was just made is refused",
		), nil
	}
	id := ""
	for _, k := range ring.KeySet().Keys() {
		if k.State() == handoff.Active {
			id = k.ID()
		}
	}
	untrusted, err := untrustedRing(id, now)
	if err != nil {
		return nil, err
	}
	planted, err1 := guest.NewCards(untrusted).Mint(card)
	card.MadeAt = card.MadeAt.Add(-consumer.CardLifetime - time.Minute)
	old, err2 := cards.Mint(card)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	verify := func(text string) error {
		_, err := cards.Verify(text, now)
		return err
	}
	return []doctor.Finding{
		refusal("card of another key", verify(planted), "", cardAdvice), refusal("card that is too old", verify(old), "", cardAdvice),
		tampered("changed card", text, verify, cardAdvice),
	}, nil
}
