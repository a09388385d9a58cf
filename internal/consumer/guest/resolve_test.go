package guest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
)

var (
	now               = time.Date(2026, 5, 12, 12, 0, 0, 0, time.UTC)
	own               = bff.NewID(bff.PrefixGuestSession, now.Add(-48*time.Hour))
	fresh             = bff.NewID(bff.PrefixGuestSession, now)
	mine, base, other = consumer.Hash{1}, consumer.Hash{2}, consumer.Hash{3}
)

// sent is what came with the visit, by words: its cookies, then what is known of its
// sender. The browser asks for English and dollars; the guest chose Dari and afghanis.
func sent(words string) *consumer.Visit {
	v := &consumer.Visit{At: now, Fingerprint: mine, Base: base, Locale: bff.LocaleEnglish, Currency: bff.USD}
	card := consumer.Card{SessionID: own, Locale: bff.LocaleDari, Currency: bff.AFN, Consent: consumer.Consent{Telemetry: true}, MadeAt: now.Add(-time.Hour)}
	for word := range strings.FieldsSeq(words) {
		switch word {
		case "nothing":
		case "id":
			v.SessionID = own
		case "card":
			v.SessionID, v.Card = own, card
		case "mismatch":
			v.CookieMismatch = true
		case "due":
			v.Card.MadeAt = now.Add(-25 * time.Hour)
		case "silent":
			v.Card.Consent.Telemetry, v.Card.Silent = false, true
		case "chosen":
			v.Card.Chosen = true
		case "dnt":
			v.NoTracking = true
		case "untracked":
			v.Untracked = true
		case "full":
			v.NoSession = true
		default:
			panic(word)
		}
	}
	return v
}

// found is what the session store has.
func found(word string) *guest.FoundSession {
	f := &guest.FoundSession{Found: true, GuestSession: consumer.GuestSession{
		ID: own, CreatedAt: own.Time(), LastSeenAt: now.Add(-time.Second), CookieAt: now.Add(-time.Hour), Locale: bff.LocaleDari, Currency: bff.AFN,
		Fingerprint: mine, Base: base, Consent: consumer.Consent{Telemetry: true},
	}}
	switch word {
	case "":
		return nil
	case "current":
	case "later":
		f.LastSeenAt = now.Add(-time.Minute)
	case "once":
		f.LastSeenAt = f.CreatedAt
	case "old-cookie":
		f.CookieAt = now.Add(-25 * time.Hour)
	case "changed":
		f.Currency = bff.EUR
	case "chosen":
		f.Chosen = true
	case "foreign":
		f.Fingerprint, f.Base = other, other
	case "rotated":
		f.Fingerprint, f.Base, f.Rotated = other, other, true
	case "cleared":
		return &guest.FoundSession{Err: guest.ErrSessionCleared}
	case "away":
		return &guest.FoundSession{Err: errors.New("redis is away")}
	case "lost":
		return &guest.FoundSession{}
	default:
		panic(word)
	}
	return f
}

// kept is what outlives the session.
func kept(word string) *guest.Kept {
	switch word {
	case "":
		return nil
	case "unknown":
		return &guest.Kept{Unknown: true}
	case "known":
		return &guest.Kept{}
	case "refused":
		return &guest.Kept{Refusal: guest.Refusal{Refused: true}}
	case "silent":
		return &guest.Kept{Refusal: guest.Refusal{Refused: true, Silent: true}}
	case "cleared":
		return &guest.Kept{Refusal: guest.Refusal{Refused: true, Cleared: true}}
	case "away":
		return &guest.Kept{Err: errors.New("postgres is away")}
	}
	panic(word)
}

var (
	needs   = []string{guest.NeedStored: "stored?", guest.NeedKept: "kept?", guest.NeedID: "id?"}
	actions = []string{
		guest.Count: "count", guest.Save: "save", guest.Refuse: "refuse", guest.Started: "started", guest.Rotated: "rotated",
		guest.Suspect: "suspect", guest.Renew: "renew", guest.Touch: "touch", guest.Restore: "restore",
	}
)

// told is a decision in words: what it needs; whose session it is; the session's
// language and whether telemetry may leave (+, or - and s for silent; ? if nothing is
// known of it); the cookies; the effects.
func told(d guest.Decision) string {
	if d.Needs != guest.NeedNothing {
		return needs[d.Needs]
	}
	id := map[bff.ID]string{{}: "none", own: "own", fresh: "new"}[d.ID]
	words := []string{id}
	if d.Resolved() {
		consent := map[bool]string{true: "+", false: "-"}[d.Session.Consent.Telemetry]
		if d.Session.Silent {
			consent += "s"
		}
		if d.Session.Unread {
			consent += "?"
		}
		words = append(words, string(d.Session.Locale)+consent)
	}
	if d.Session.ID != d.ID && d.Resolved() {
		words = append(words, "IDS-DIFFER")
	}
	if d.Refused {
		words = append(words, "refused")
	}
	if d.Away {
		words = append(words, "away")
	}
	switch c := d.Cookies; {
	case c.Card.IsZero():
	case c.Card.SessionID != d.ID:
		words = append(words, "COOKIES-OF-ANOTHER")
	case c.CardOnly:
		words = append(words, "card")
	case c.Card.MadeAt.Equal(now):
		words = append(words, "cookies")
	default:
		words = append(words, "same-cookies")
	}
	for _, e := range d.Effects {
		words = append(words, actions[e.Do])
	}
	return strings.Join(words, " ")
}

// TestResolve holds every kind of visit, with the literal decision for each purpose.
func TestResolve(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		sent, found, kept                   string
		identify, use, report, record, peek string
	}{
		{"nothing", "", "", "new en+ cookies count save started", "new en+ cookies count save started", "none", "none", "none en+?"},
		{"nothing dnt", "", "", "new en-s cookies count save refuse started", "new en-s cookies count save refuse started", "none", "none", "none en-s?"},
		{"nothing untracked", "", "", "none en+?", "none en+?", "none", "none", "none en+?"},
		{"nothing full", "", "", "none en+? refused", "none en+? refused", "none", "none", "none en+?"},
		{"id", "", "", "own", "stored?", "stored?", "stored?", "stored?"},
		{"id", "current", "", "own", "own fa-AF+ card", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"id", "later", "", "own", "own fa-AF+ card touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"id", "once", "", "own", "own fa-AF+ card touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"id", "old-cookie", "", "own", "own fa-AF+ cookies renew touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"id", "changed", "", "own", "own fa-AF+ card", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"id", "chosen", "", "own", "own fa-AF+ card", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"id", "foreign", "", "own", "new en+ cookies count save started rotated suspect", "none", "none", "none en+?"},
		{"id", "rotated", "", "own", "new en+ cookies count save started suspect", "none", "none", "none en+?"},
		{"id", "cleared", "", "own", "new en+ cookies count save started", "none", "none", "none en+?"},
		{"id", "away", "", "own", "own en+? away", "own en+? away", "none", "none en+?"},
		{"id", "lost", "", "own", "kept?", "kept?", "own", "none en+?"},
		{"id", "lost", "unknown", "own", "new en+ cookies count save started", "none", "own", "none en+?"},
		{"id", "lost", "known", "own", "own en+ cookies count save", "own en+", "own", "none en+?"},
		{"id", "lost", "refused", "own", "own en- cookies count save refuse", "own en-", "own", "none en+?"},
		{"id", "lost", "silent", "own", "own en-s cookies count save refuse", "own en-s", "own", "none en+?"},
		{"id", "lost", "cleared", "own", "new en+ cookies count save started", "none", "own", "none en+?"},
		{"id", "lost", "away", "own", "own en+? away", "own en+?", "own", "none en+?"},
		{"id dnt", "current", "", "own", "own fa-AF- card refuse touch", "own fa-AF- refuse touch", "own fa-AF- refuse touch", "own fa-AF-"},
		{"id dnt", "chosen", "", "own", "own fa-AF+ card", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"id dnt", "foreign", "", "own", "new en-s cookies count save refuse started rotated suspect", "none", "none", "none en-s?"},
		{"id dnt", "away", "", "own", "own en-s? away", "own en-s? away", "none", "none en-s?"},
		{"id dnt", "lost", "", "own", "kept?", "kept?", "own", "none en-s?"},
		{"id dnt", "lost", "unknown", "own", "new en-s cookies count save refuse started", "none", "own", "none en-s?"},
		{"id dnt", "lost", "known", "own", "own en- cookies count save refuse", "own en-", "own", "none en-s?"},
		{"id dnt", "lost", "refused", "own", "own en- cookies count save refuse", "own en-", "own", "none en-s?"},
		{"id dnt", "lost", "silent", "own", "own en-s cookies count save refuse", "own en-s", "own", "none en-s?"},
		{"id dnt", "lost", "cleared", "own", "new en-s cookies count save refuse started", "none", "own", "none en-s?"},
		{"id dnt", "lost", "away", "own", "own en-s? away", "own en-s?", "own", "none en-s?"},
		{"id untracked", "", "", "own", "stored?", "stored?", "stored?", "none en+?"},
		{"id untracked", "later", "", "own", "own fa-AF+ card", "own fa-AF+", "own fa-AF+", "none en+?"},
		{"id untracked", "old-cookie", "", "own", "own fa-AF+ cookies renew", "own fa-AF+", "own fa-AF+", "none en+?"},
		{"id untracked", "foreign", "", "own", "none en+?", "none", "none", "none en+?"},
		{"id untracked", "cleared", "", "own", "none en+?", "none", "none", "none en+?"},
		{"id untracked", "away", "", "own", "own en+? away", "own en+? away", "none", "none en+?"},
		{"id untracked", "lost", "", "own", "own en+?", "kept?", "own", "none en+?"},
		{"id untracked", "lost", "known", "own", "own en+?", "own en+", "own", "none en+?"},
		{"id untracked", "lost", "refused", "own", "own en+?", "own en-", "own", "none en+?"},
		{"id untracked", "lost", "cleared", "own", "own en+?", "none", "own", "none en+?"},
		{"id full", "", "", "own", "stored?", "stored?", "stored?", "stored?"},
		{"id full", "later", "", "own", "own fa-AF+ card touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"id full", "old-cookie", "", "own", "own fa-AF+ cookies renew touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"id full", "foreign", "", "own", "none en+? refused", "none", "none", "none en+?"},
		{"id full", "cleared", "", "own", "none en+? refused", "none", "none", "none en+?"},
		{"id full", "away", "", "own", "own en+? away", "own en+? away", "none", "none en+?"},
		{"id full", "lost", "", "own", "none en+? refused", "kept?", "own", "none en+?"},
		{"id full", "lost", "known", "own", "none en+? refused", "own en+", "own", "none en+?"},
		{"id full", "lost", "refused", "own", "none en+? refused", "own en-", "own", "none en+?"},
		{"id full", "lost", "cleared", "own", "none en+? refused", "none", "own", "none en+?"},
		{"id untracked dnt", "later", "", "own", "own fa-AF- card refuse", "own fa-AF- refuse", "own fa-AF- refuse", "none en-s?"},
		{"card", "", "", "own", "stored?", "stored?", "stored?", "own fa-AF+"},
		{"card", "current", "", "own", "own fa-AF+", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"card", "later", "", "own", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"card", "once", "", "own", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"card", "old-cookie", "", "own", "own fa-AF+ cookies renew touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"card", "changed", "", "own", "own fa-AF+ card", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"card", "chosen", "", "own", "own fa-AF+ card", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"card", "foreign", "", "own", "new en+ cookies count save started rotated suspect", "none", "none", "own fa-AF+"},
		{"card", "rotated", "", "own", "new en+ cookies count save started suspect", "none", "none", "own fa-AF+"},
		{"card", "cleared", "", "own", "new en+ cookies count save started", "none", "none", "own fa-AF+"},
		{"card", "away", "", "own", "own fa-AF+? away", "kept?", "none", "own fa-AF+"},
		{"card", "away", "known", "own", "own fa-AF+? away", "own fa-AF+", "none", "own fa-AF+"},
		{"card", "away", "refused", "own", "own fa-AF+? away", "own fa-AF-", "none", "own fa-AF+"},
		{"card", "away", "silent", "own", "own fa-AF+? away", "own fa-AF-", "none", "own fa-AF+"},
		{"card", "away", "cleared", "own", "own fa-AF+? away", "none", "none", "own fa-AF+"},
		{"card", "away", "away", "own", "own fa-AF+? away", "own fa-AF+?", "none", "own fa-AF+"},
		{"card", "lost", "", "own", "kept?", "kept?", "kept?", "own fa-AF+"},
		{"card", "lost", "known", "own", "own fa-AF+ cookies save", "own fa-AF+", "own fa-AF+ restore", "own fa-AF+"},
		{"card", "lost", "refused", "own", "own fa-AF- cookies save refuse", "own fa-AF-", "own fa-AF- restore", "own fa-AF+"},
		{"card", "lost", "silent", "own", "own fa-AF- cookies save refuse", "own fa-AF-", "own fa-AF- restore", "own fa-AF+"},
		{"card", "lost", "cleared", "own", "new en+ cookies count save started", "none", "none", "own fa-AF+"},
		{"card", "lost", "away", "own", "own fa-AF+? away", "own fa-AF+?", "own fa-AF+? away", "own fa-AF+"},
		{"card mismatch", "", "", "own same-cookies", "stored?", "stored?", "stored?", "own fa-AF+"},
		{"card mismatch", "current", "", "own same-cookies", "own fa-AF+ same-cookies", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"card mismatch", "old-cookie", "", "own same-cookies", "own fa-AF+ cookies renew touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"card mismatch", "changed", "", "own same-cookies", "own fa-AF+ card", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"card mismatch", "foreign", "", "own same-cookies", "new en+ cookies count save started rotated suspect", "none", "none", "own fa-AF+"},
		{"card mismatch", "cleared", "", "own same-cookies", "new en+ cookies count save started", "none", "none", "own fa-AF+"},
		{"card mismatch", "away", "", "own same-cookies", "own fa-AF+? away same-cookies", "kept?", "none", "own fa-AF+"},
		{"card mismatch", "away", "known", "own same-cookies", "own fa-AF+? away same-cookies", "own fa-AF+", "none", "own fa-AF+"},
		{"card mismatch", "away", "away", "own same-cookies", "own fa-AF+? away same-cookies", "own fa-AF+?", "none", "own fa-AF+"},
		{"card mismatch", "lost", "", "own same-cookies", "kept?", "kept?", "kept?", "own fa-AF+"},
		{"card mismatch", "lost", "known", "own same-cookies", "own fa-AF+ cookies save", "own fa-AF+", "own fa-AF+ restore", "own fa-AF+"},
		{"card mismatch", "lost", "away", "own same-cookies", "own fa-AF+? away same-cookies", "own fa-AF+?", "own fa-AF+? away", "own fa-AF+"},
		{"card due", "", "", "stored?", "stored?", "stored?", "stored?", "own fa-AF+"},
		{"card due", "current", "", "own fa-AF+ cookies renew", "own fa-AF+ cookies renew", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{
			"card due", "foreign", "", "new en+ cookies count save started rotated suspect",
			"new en+ cookies count save started rotated suspect", "none", "none", "own fa-AF+",
		},
		{"card due", "cleared", "", "new en+ cookies count save started", "new en+ cookies count save started", "none", "none", "own fa-AF+"},
		{"card due", "away", "", "own fa-AF+? away", "own fa-AF+? away", "kept?", "none", "own fa-AF+"},
		{"card due", "lost", "known", "own fa-AF+ cookies save", "own fa-AF+ cookies save", "own fa-AF+", "own fa-AF+ restore", "own fa-AF+"},
		{"card due", "lost", "cleared", "new en+ cookies count save started", "new en+ cookies count save started", "none", "none", "own fa-AF+"},
		{"card mismatch due", "", "", "stored?", "stored?", "stored?", "stored?", "own fa-AF+"},
		{"card mismatch due", "current", "", "own fa-AF+ cookies renew", "own fa-AF+ cookies renew", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{
			"card mismatch due", "foreign", "", "new en+ cookies count save started rotated suspect",
			"new en+ cookies count save started rotated suspect", "none", "none", "own fa-AF+",
		},
		{"card mismatch due", "cleared", "", "new en+ cookies count save started", "new en+ cookies count save started", "none", "none", "own fa-AF+"},
		{"card mismatch due", "away", "", "own fa-AF+? away same-cookies", "own fa-AF+? away same-cookies", "kept?", "none", "own fa-AF+"},
		{"card mismatch due", "lost", "known", "own fa-AF+ cookies save", "own fa-AF+ cookies save", "own fa-AF+", "own fa-AF+ restore", "own fa-AF+"},
		{"card mismatch due", "lost", "cleared", "new en+ cookies count save started", "new en+ cookies count save started", "none", "none", "own fa-AF+"},
		{"card dnt", "current", "", "own", "own fa-AF- card refuse touch", "own fa-AF- refuse touch", "own fa-AF- refuse touch", "own fa-AF-"},
		{"card dnt", "chosen", "", "own", "own fa-AF+ card", "own fa-AF+", "own fa-AF+", "own fa-AF-"},
		{"card dnt", "foreign", "", "own", "new en-s cookies count save refuse started rotated suspect", "none", "none", "own fa-AF-"},
		{"card dnt", "away", "", "own", "own fa-AF-? away", "kept?", "none", "own fa-AF-"},
		{"card dnt", "away", "known", "own", "own fa-AF-? away", "own fa-AF-", "none", "own fa-AF-"},
		{"card dnt", "away", "refused", "own", "own fa-AF-? away", "own fa-AF-", "none", "own fa-AF-"},
		{"card dnt", "away", "silent", "own", "own fa-AF-? away", "own fa-AF-", "none", "own fa-AF-"},
		{"card dnt", "away", "cleared", "own", "own fa-AF-? away", "none", "none", "own fa-AF-"},
		{"card dnt", "away", "away", "own", "own fa-AF-? away", "own fa-AF-?", "none", "own fa-AF-"},
		{"card dnt", "lost", "", "own", "kept?", "kept?", "kept?", "own fa-AF-"},
		{"card dnt", "lost", "known", "own", "own fa-AF- cookies save refuse", "own fa-AF-", "own fa-AF- restore", "own fa-AF-"},
		{"card dnt", "lost", "refused", "own", "own fa-AF- cookies save refuse", "own fa-AF-", "own fa-AF- restore", "own fa-AF-"},
		{"card dnt", "lost", "silent", "own", "own fa-AF- cookies save refuse", "own fa-AF-", "own fa-AF- restore", "own fa-AF-"},
		{"card dnt", "lost", "cleared", "own", "new en-s cookies count save refuse started", "none", "none", "own fa-AF-"},
		{"card dnt", "lost", "away", "own", "own fa-AF-? away", "own fa-AF-?", "own fa-AF-? away", "own fa-AF-"},
		{"card silent", "away", "", "own", "own fa-AF-s? away", "kept?", "none", "own fa-AF-s"},
		{"card silent", "away", "known", "own", "own fa-AF-s? away", "own fa-AF-s", "none", "own fa-AF-s"},
		{"card silent", "away", "refused", "own", "own fa-AF-s? away", "own fa-AF-", "none", "own fa-AF-s"},
		{"card silent", "away", "silent", "own", "own fa-AF-s? away", "own fa-AF-s", "none", "own fa-AF-s"},
		{"card silent", "away", "cleared", "own", "own fa-AF-s? away", "none", "none", "own fa-AF-s"},
		{"card silent", "away", "away", "own", "own fa-AF-s? away", "own fa-AF-s?", "none", "own fa-AF-s"},
		{"card silent", "lost", "", "own", "kept?", "kept?", "kept?", "own fa-AF-s"},
		{"card silent", "lost", "known", "own", "own fa-AF-s cookies save refuse", "own fa-AF-s", "own fa-AF-s restore", "own fa-AF-s"},
		{"card silent", "lost", "refused", "own", "own fa-AF- cookies save refuse", "own fa-AF-", "own fa-AF- restore", "own fa-AF-s"},
		{"card silent", "lost", "silent", "own", "own fa-AF-s cookies save refuse", "own fa-AF-s", "own fa-AF-s restore", "own fa-AF-s"},
		{"card silent", "lost", "cleared", "own", "new en+ cookies count save started", "none", "none", "own fa-AF-s"},
		{"card silent", "lost", "away", "own", "own fa-AF-s? away", "own fa-AF-s?", "own fa-AF-s? away", "own fa-AF-s"},
		{"card chosen dnt", "current", "", "own", "own fa-AF- card refuse touch", "own fa-AF- refuse touch", "own fa-AF- refuse touch", "own fa-AF+"},
		{"card chosen dnt", "chosen", "", "own", "own fa-AF+", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"card chosen dnt", "foreign", "", "own", "new en-s cookies count save refuse started rotated suspect", "none", "none", "own fa-AF+"},
		{"card chosen dnt", "away", "", "own", "own fa-AF+? away", "kept?", "none", "own fa-AF+"},
		{"card chosen dnt", "away", "known", "own", "own fa-AF+? away", "own fa-AF+", "none", "own fa-AF+"},
		{"card chosen dnt", "away", "refused", "own", "own fa-AF+? away", "own fa-AF-", "none", "own fa-AF+"},
		{"card chosen dnt", "away", "silent", "own", "own fa-AF+? away", "own fa-AF-", "none", "own fa-AF+"},
		{"card chosen dnt", "away", "cleared", "own", "own fa-AF+? away", "none", "none", "own fa-AF+"},
		{"card chosen dnt", "away", "away", "own", "own fa-AF+? away", "own fa-AF+?", "none", "own fa-AF+"},
		{"card chosen dnt", "lost", "", "own", "kept?", "kept?", "kept?", "own fa-AF+"},
		{"card chosen dnt", "lost", "known", "own", "own fa-AF+ cookies save", "own fa-AF+", "own fa-AF+ restore", "own fa-AF+"},
		{"card chosen dnt", "lost", "refused", "own", "own fa-AF- cookies save refuse", "own fa-AF-", "own fa-AF- restore", "own fa-AF+"},
		{"card chosen dnt", "lost", "silent", "own", "own fa-AF- cookies save refuse", "own fa-AF-", "own fa-AF- restore", "own fa-AF+"},
		{"card chosen dnt", "lost", "cleared", "own", "new en-s cookies count save refuse started", "none", "none", "own fa-AF+"},
		{"card chosen dnt", "lost", "away", "own", "own fa-AF+? away", "own fa-AF+?", "own fa-AF+? away", "own fa-AF+"},
		{"card untracked", "", "", "own", "stored?", "stored?", "stored?", "none en+?"},
		{"card untracked", "later", "", "own", "own fa-AF+", "own fa-AF+", "own fa-AF+", "none en+?"},
		{"card untracked", "old-cookie", "", "own", "own fa-AF+ cookies renew", "own fa-AF+", "own fa-AF+", "none en+?"},
		{"card untracked", "foreign", "", "own", "none en+?", "none", "none", "none en+?"},
		{"card untracked", "cleared", "", "own", "none en+?", "none", "none", "none en+?"},
		{"card untracked", "away", "", "own", "own fa-AF+? away", "kept?", "none", "none en+?"},
		{"card untracked", "away", "known", "own", "own fa-AF+? away", "own fa-AF+", "none", "none en+?"},
		{"card untracked", "away", "refused", "own", "own fa-AF+? away", "own fa-AF-", "none", "none en+?"},
		{"card untracked", "away", "cleared", "own", "own fa-AF+? away", "none", "none", "none en+?"},
		{"card untracked", "lost", "", "own", "own fa-AF+?", "kept?", "own fa-AF+?", "none en+?"},
		{"card untracked", "lost", "known", "own", "own fa-AF+?", "own fa-AF+", "own fa-AF+?", "none en+?"},
		{"card untracked", "lost", "refused", "own", "own fa-AF+?", "own fa-AF-", "own fa-AF+?", "none en+?"},
		{"card untracked", "lost", "cleared", "own", "own fa-AF+?", "none", "own fa-AF+?", "none en+?"},
		{"card full", "", "", "own", "stored?", "stored?", "stored?", "own fa-AF+"},
		{"card full", "later", "", "own", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"card full", "old-cookie", "", "own", "own fa-AF+ cookies renew touch", "own fa-AF+ touch", "own fa-AF+ touch", "own fa-AF+"},
		{"card full", "foreign", "", "own", "none en+? refused", "none", "none", "own fa-AF+"},
		{"card full", "cleared", "", "own", "none en+? refused", "none", "none", "own fa-AF+"},
		{"card full", "away", "", "own", "own fa-AF+? away", "kept?", "none", "own fa-AF+"},
		{"card full", "away", "known", "own", "own fa-AF+? away", "own fa-AF+", "none", "own fa-AF+"},
		{"card full", "away", "refused", "own", "own fa-AF+? away", "own fa-AF-", "none", "own fa-AF+"},
		{"card full", "away", "cleared", "own", "own fa-AF+? away", "none", "none", "own fa-AF+"},
		{"card full", "lost", "", "own", "kept?", "kept?", "kept?", "own fa-AF+"},
		{"card full", "lost", "known", "own", "own fa-AF+ cookies save", "own fa-AF+", "own fa-AF+ restore", "own fa-AF+"},
		{"card full", "lost", "refused", "own", "own fa-AF- cookies save refuse", "own fa-AF-", "own fa-AF- restore", "own fa-AF+"},
		{"card full", "lost", "cleared", "own", "none en+? refused", "none", "none", "own fa-AF+"},
		{"card mismatch untracked", "current", "", "own", "own fa-AF+", "own fa-AF+", "own fa-AF+", "none en+?"},
		{"card mismatch untracked", "foreign", "", "own", "none en+?", "none", "none", "none en+?"},
		{"card mismatch untracked", "cleared", "", "own", "none en+?", "none", "none", "none en+?"},
		{"card mismatch full", "current", "", "own same-cookies", "own fa-AF+ same-cookies", "own fa-AF+", "own fa-AF+", "own fa-AF+"},
		{"card mismatch full", "foreign", "", "own same-cookies", "none en+? refused", "none", "none", "own fa-AF+"},
		{"card mismatch full", "cleared", "", "own same-cookies", "none en+? refused", "none", "none", "own fa-AF+"},
	} {
		for p, want := range []string{guest.Identify: tc.identify, guest.Use: tc.use, guest.Report: tc.report, guest.Record: tc.record, guest.Peek: tc.peek} {
			d := guest.Resolve(sent(tc.sent), guest.Known{Stored: found(tc.found), Kept: kept(tc.kept), ID: fresh}, guest.Purpose(p)) //nolint:gosec // five
			if got := told(d); got != want {
				t.Errorf("sent %s; found %q, kept %q; purpose %d:\n got %s\nwant %s", tc.sent, tc.found, tc.kept, p, got, want)
			}
		}
	}
}

// TestNewID: an id is made only for a session that is opened.
func TestNewID(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{"nothing": "id?", "nothing full": "none en+? refused", "nothing untracked": "none en+?"} {
		if got := told(guest.Resolve(sent(words), guest.Known{}, guest.Use)); got != want {
			t.Errorf("%s: %s, want %s", words, got, want)
		}
	}
}

// What holds for every visit, whatever was sent, stored and kept.
func TestResolveAlways(t *testing.T) {
	t.Parallel()
	visits := []string{"nothing", "id", "card", "card mismatch", "card due", "card mismatch due", "card silent", "card chosen"}
	for flags := range 8 {
		words := ""
		for i, w := range []string{" dnt", " untracked", " full"} {
			if flags&(1<<i) != 0 {
				words += w
			}
		}
		for _, v := range visits {
			for _, f := range []string{"current", "later", "once", "old-cookie", "changed", "chosen", "foreign", "rotated", "cleared", "away", "lost"} {
				for _, k := range []string{"unknown", "known", "refused", "silent", "cleared", "away"} {
					for p := guest.Identify; p <= guest.Peek; p++ {
						if k == "unknown" && v != "id" { // cards are proof enough
							continue
						}
						checkAlways(t, v+words, f, k, p)
					}
				}
			}
		}
	}
}

func checkAlways(t *testing.T, words, f, k string, p guest.Purpose) {
	t.Helper()
	v := sent(words)
	d := guest.Resolve(v, guest.Known{Stored: found(f), Kept: kept(k), ID: fresh}, p)
	does := func(all ...guest.Action) bool {
		return slices.ContainsFunc(d.Effects, func(e guest.Effect) bool { return slices.Contains(all, e.Do) })
	}
	s, asked := d.Session, p == guest.Identify || p == guest.Use
	refused := k == "refused" || k == "silent"
	gone := f == "cleared" || f == "lost" && k == "cleared"
	for rule, broken := range map[string]bool{
		"everything was given, and yet something is needed":    d.Needs != guest.NeedNothing,
		"a session that is used is resolved":                   p == guest.Use && !d.Resolved(),
		"a session is opened that must not be":                 (v.NoSession || v.Untracked) && does(guest.Count, guest.Started),
		"a session that was cleared is used":                   gone && p != guest.Peek && !v.Untracked && d.Resolved() && s.ID == own,
		"another browser's session is used":                    (f == "foreign" || f == "rotated") && p != guest.Peek && d.Resolved() && s.ID == own,
		"an unread session is written":                         s.Unread && len(d.Effects) > 0,
		"cookies or a new session without an answer":           !asked && (!d.Cookies.Card.IsZero() || does(guest.Count, guest.Save, guest.Started, guest.Renew)),
		"a look leaves something behind":                       p == guest.Peek && len(d.Effects) > 0,
		"a refusal that is kept does not count":                f == "lost" && refused && s.ID == own && s.Consent.Telemetry && !s.Unread && p != guest.Peek,
		"a session without telemetry is saved and not kept so": does(guest.Save) && !s.Consent.Telemetry && !does(guest.Refuse),
		"the card that is sent differs from the session":       !d.Cookies.Card.IsZero() && d.Resolved() && !s.Unread && !d.Cookies.Card.Describes(s),
	} {
		if broken {
			t.Errorf("sent %s; found %s, kept %s; purpose %d: %s: %s", words, f, k, p, rule, told(d))
		}
	}
}

// A visit with a card, which changes nothing, costs no allocation.
func TestNothingToDoAllocatesNothing(t *testing.T) {
	card, known := sent("card"), guest.Known{Stored: found("current")}
	if n := testing.AllocsPerRun(100, func() {
		d := guest.Resolve(card, guest.Known{}, guest.Identify)
		r := guest.Resolve(card, known, guest.Record)
		if d.ID != own || r.ID != own {
			t.Error("not the guest's")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
