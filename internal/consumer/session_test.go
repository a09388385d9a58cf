package consumer_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

func TestMeet(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 4, 23, 9, 0, 0, 0, time.UTC)
	full, base, other, otherBase := consumer.Hash{1}, consumer.Hash{2}, consumer.Hash{3}, consumer.Hash{4}
	session := consumer.GuestSession{
		LastSeenAt: now.Add(-time.Second), CookieAt: now.Add(-time.Hour), Fingerprint: full, Base: base,
		Consent: consumer.Consent{Telemetry: true, Marketing: true}, Campaign: &consumer.Campaign{Source: "a"},
	}
	bare := session
	bare.Fingerprint = base
	tests := map[string]struct {
		session  consumer.GuestSession
		change   func(*consumer.GuestSession)
		visitor  *consumer.Visit
		want     consumer.SessionChange
		stranger bool
	}{
		"the same browser":              {session: session, visitor: &consumer.Visit{At: now, Fingerprint: full, Base: base}},
		"a request without hints":       {session: session, visitor: &consumer.Visit{At: now, Fingerprint: base, Base: base}},
		"another screen":                {session: session, visitor: &consumer.Visit{At: now, Fingerprint: other, Base: base}, stranger: true},
		"another browser":               {session: session, visitor: &consumer.Visit{At: now, Fingerprint: other, Base: otherBase}, stranger: true},
		"another browser without hints": {session: session, visitor: &consumer.Visit{At: now, Fingerprint: otherBase, Base: otherBase}, stranger: true},
		"another browser, bare session": {session: bare, visitor: &consumer.Visit{At: now, Fingerprint: otherBase, Base: otherBase}, stranger: true},
		"the first hints complete": {
			session: bare, visitor: &consumer.Visit{At: now, Fingerprint: full, Base: base},
			want: consumer.SessionChange{Prints: &consumer.Prints{Fingerprint: full, Base: base}},
		},
		"known under the old pepper": {
			session: session,
			visitor: &consumer.Visit{At: now, Fingerprint: other, Base: otherBase, Older: []consumer.Prints{{}, {Fingerprint: full, Base: base}}},
			want:    consumer.SessionChange{Prints: &consumer.Prints{Fingerprint: other, Base: otherBase}},
		},
		"unknown under every pepper": {
			session:  session,
			visitor:  &consumer.Visit{At: now, Fingerprint: other, Base: otherBase, Older: []consumer.Prints{{Fingerprint: other, Base: otherBase}}},
			stranger: true,
		},
		"the same campaign": {
			session: session,
			visitor: &consumer.Visit{At: now, Fingerprint: full, Base: base, Campaign: &consumer.Campaign{Source: "a", CapturedAt: bff.At(now)}},
		},
		"a new campaign": {
			session: session, visitor: &consumer.Visit{At: now, Fingerprint: full, Base: base, Campaign: &consumer.Campaign{Source: "b"}},
			want: consumer.SessionChange{Campaign: &consumer.Campaign{Source: "b"}},
		},
		"no tracking from now on": {
			session: session, visitor: &consumer.Visit{At: now, Fingerprint: full, Base: base, NoTracking: true},
			want: consumer.SessionChange{Consent: &consumer.Consent{Marketing: true}},
		},
		"no tracking, but the guest agreed": {
			session: session, change: func(s *consumer.GuestSession) { s.Chosen = true },
			visitor: &consumer.Visit{At: now, Fingerprint: full, Base: base, NoTracking: true},
		},
		"seen ten seconds ago": {
			session: session, change: func(s *consumer.GuestSession) { s.LastSeenAt = now.Add(-consumer.TouchAfter) },
			visitor: &consumer.Visit{At: now, Fingerprint: full, Base: base}, want: consumer.SessionChange{SeenAt: now},
		},
		"a cookie of a day": {
			session: session, change: func(s *consumer.GuestSession) { s.CookieAt = now.Add(-24 * time.Hour) },
			visitor: &consumer.Visit{At: now, Fingerprint: full, Base: base},
		},
		"not seen for a while": {
			session: session, change: func(s *consumer.GuestSession) { s.LastSeenAt = now.Add(-time.Minute) },
			visitor: &consumer.Visit{At: now, Fingerprint: full, Base: base}, want: consumer.SessionChange{SeenAt: now},
		},
		"an old cookie": {
			session: session, change: func(s *consumer.GuestSession) { s.CookieAt = now.Add(-25 * time.Hour) },
			visitor: &consumer.Visit{At: now, Fingerprint: full, Base: base}, want: consumer.SessionChange{SeenAt: now, CookieAt: now},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := tc.session
			if tc.change != nil {
				tc.change(&s)
			}
			got, same := s.Meet(tc.visitor)
			if same == tc.stranger {
				t.Fatalf("same = %v", same)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
		})
	}
}
