package guest_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
)

var cardMade = time.Date(2026, 4, 22, 9, 30, 0, 0, time.UTC)

func cardSet(t testing.TB, id string, secret byte) *handoff.KeySet {
	t.Helper()
	set, err := handoff.NewKeySet(id, bytes.Repeat([]byte{secret}, 32), cardMade.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func cardsOf(t testing.TB, id string, secret byte) *guest.Cards {
	t.Helper()
	return guest.NewCards(handoff.NewKeyring(cardSet(t, id, secret)))
}

func someCard() consumer.Card {
	return consumer.Card{
		SessionID: bff.MustParseID(bff.PrefixGuestSession, "gms_01H8YN7QV4D8KZ4F8Y5CK4MV3D"), Locale: bff.LocalePashto, Currency: bff.AFN,
		Consent: consumer.Consent{Telemetry: true}, Chosen: true, MadeAt: cardMade,
	}
}

func mintCard(t testing.TB, cards *guest.Cards, c consumer.Card) string {
	t.Helper()
	text, err := cards.Mint(c)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestCardVectors: the bytes of a card never change, or every guest loses theirs.
func TestCardVectors(t *testing.T) {
	t.Parallel()
	cards := cardsOf(t, "card-2026-04", 7)
	quiet := someCard()
	quiet.Consent, quiet.Chosen, quiet.Silent, quiet.Locale, quiet.Currency = consumer.Consent{Marketing: true}, false, true, bff.LocaleEnglish, bff.USD
	for name, tc := range map[string]struct {
		card consumer.Card
		want string
	}{
		"agreed": {someCard(), "AQGKPVPfZGon8j0eKyZKbG1BRk4FcHMtQUYFaeiVGAxjYXJkLTIwMjYtMDS2yeFYUre-CuO2EcWubGof29kKGmMyALHw8oz4RnkQSA"},
		"silent": {quiet, "AQGKPVPfZGon8j0eKyZKbG1VU0QCZW4KaeiVGAxjYXJkLTIwMjYtMDRDgkYJBM7Fd0lxzFhZZadoN105aB2Z19QbuRMlLdSAGQ"},
	} {
		got := mintCard(t, cards, tc.card)
		if got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
		back, err := cards.Verify(tc.want, cardMade)
		if err != nil || back != tc.card {
			t.Errorf("%s: read %+v, %v, want %+v", name, back, err, tc.card)
		}
	}
}

// TestCardsAreStrict: a card has one spelling, and no bit of it can be changed.
func TestCardsAreStrict(t *testing.T) {
	t.Parallel()
	cards := cardsOf(t, "card-2026-04", 7)
	text := mintCard(t, cards, someCard())
	for _, bad := range []string{
		"", "A", text + "A", text + "=", text[:len(text)-1], text[1:], "\n" + text, text + "\n", text[:9] + "\r\n" + text[9:],
		strings.Repeat("A", 4096), strings.ToLower(text), " " + text, `"` + text + `"`,
	} {
		if c, err := cards.Verify(bad, cardMade); err == nil {
			t.Errorf("%q is a card: %+v", bad, c)
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			changed := bytes.Clone(raw)
			changed[i] ^= 1 << bit
			if c, err := cards.Verify(base64.RawURLEncoding.EncodeToString(changed), cardMade); err == nil {
				t.Fatalf("bit %d of byte %d does not count: %+v", bit, i, c)
			}
		}
	}
	for name, c := range map[string]func(*consumer.Card){
		"another kind of id": func(c *consumer.Card) { c.SessionID = bff.NewID(bff.PrefixHandoff, cardMade) },
		"no id":              func(c *consumer.Card) { c.SessionID = bff.ID{} },
		"a locale":           func(c *consumer.Card) { c.Locale = "xx" },
		"a currency":         func(c *consumer.Card) { c.Currency = "usd" },
		"a time":             func(c *consumer.Card) { c.MadeAt = c.MadeAt.Add(time.Millisecond) },
		"before 1970":        func(c *consumer.Card) { c.MadeAt = time.Unix(-1, 0).UTC() },
		"silent and agreed":  func(c *consumer.Card) { c.Silent = true },
	} {
		card := someCard()
		c(&card)
		if text, err := cards.Mint(card); err == nil {
			t.Errorf("%s: minted %q", name, text)
		}
	}
}

// TestCardKeys: keys are active, in grace or gone, and the hand-off's are not the
// card's even where an operator gave both the same secret.
func TestCardKeys(t *testing.T) {
	t.Parallel()
	ring := handoff.NewKeyring(cardSet(t, "a", 1))
	cards := guest.NewCards(ring)
	old := mintCard(t, cards, someCard())
	verify := func(text string) error {
		_, err := cards.Verify(text, cardMade)
		return err
	}
	next := func(set *handoff.KeySet, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		ring.Replace(set)
	}
	next(ring.KeySet().Add("b", bytes.Repeat([]byte{2}, 32)))
	if text := mintCard(t, cards, someCard()); text != old {
		t.Error("a pending key signs")
	}
	next(ring.KeySet().Promote("b", cardMade))
	newer := mintCard(t, cards, someCard())
	if newer == old || verify(newer) != nil || verify(old) != nil {
		t.Errorf("after the rotation: old %v, new %v", verify(old), verify(newer))
	}
	if set, err := ring.KeySet().RetireAfter("a", consumer.CardLifetime, cardMade.Add(consumer.CardLifetime-1)); err == nil {
		t.Errorf("retired while its cards live: %v", set)
	}
	next(ring.KeySet().RetireAfter("a", consumer.CardLifetime, cardMade.Add(consumer.CardLifetime)))
	if err := verify(old); !errors.Is(err, guest.ErrCardKey) || verify(newer) != nil {
		t.Errorf("the old key is gone: old %v, new %v", err, verify(newer))
	}
	if err := verify(mintCard(t, cardsOf(t, "c", 3), someCard())); !errors.Is(err, guest.ErrCardKey) {
		t.Errorf("an unknown key: %v", err)
	}
	if err := verify(mintCard(t, cardsOf(t, "b", 3), someCard())); !errors.Is(err, guest.ErrCardMAC) {
		t.Errorf("another secret under a known id: %v", err)
	}
	none := guest.NewCards(new(handoff.Keyring))
	if text, err := none.Mint(someCard()); err == nil {
		t.Errorf("without keys: %q", text)
	}
	if _, err := none.Verify(newer, cardMade); !errors.Is(err, guest.ErrCardKey) {
		t.Errorf("without keys: %v", err)
	}
}

func TestCardTime(t *testing.T) {
	t.Parallel()
	cards := cardsOf(t, "a", 1)
	text := mintCard(t, cards, someCard())
	for name, tc := range map[string]struct {
		now  time.Time
		want error
	}{
		"at once":       {cardMade, nil},
		"last moment":   {cardMade.Add(consumer.CardLifetime), nil},
		"too old":       {cardMade.Add(consumer.CardLifetime + 1), guest.ErrCardTime},
		"a little skew": {cardMade.Add(-time.Minute), nil},
		"the future":    {cardMade.Add(-time.Minute - 1), guest.ErrCardTime},
	} {
		if _, err := cards.Verify(text, tc.now); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// FuzzCard: whatever is read as a card is written the same again.
func FuzzCard(f *testing.F) {
	cards := cardsOf(f, "a", 1)
	f.Add(mintCard(f, cards, someCard()))
	f.Add(mintCard(f, cardsOf(f, "b", 2), someCard()))
	f.Add("")
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := cards.Verify(text, cardMade)
		if err != nil {
			if c != (consumer.Card{}) {
				t.Errorf("refused with %+v", c)
			}
			return
		}
		if again, err := cards.Mint(c); err != nil || again != text {
			t.Errorf("%q is written again as %q, %v", text, again, err)
		}
	})
}

// BenchmarkCard is what a card costs each request that carries one.
func BenchmarkCard(b *testing.B) {
	cards := cardsOf(b, "card-2026-04", 1)
	text := mintCard(b, cards, someCard())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := cards.Verify(text, cardMade); err != nil {
			b.Fatal(err)
		}
	}
}
