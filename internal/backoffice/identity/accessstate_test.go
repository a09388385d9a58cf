package identity

import (
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

func TestTombstones(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 17, 12, 0, 10, 400e6, time.UTC)
	second := at.Truncate(time.Second)
	for name, test := range map[string]struct {
		stones Tombstones
		issued time.Time
		want   bool
	}{
		"none":                     {Tombstones{}, at, false},
		"of the device":            {Tombstones{Device: at}, at.Add(-time.Minute), true},
		"of the operator":          {Tombstones{Operator: at}, at.Add(-time.Minute), true},
		"of the tenant":            {Tombstones{Tenant: at}, at.Add(-time.Minute), true},
		"of the operator here":     {Tombstones{Here: at}, at.Add(-time.Minute), true},
		"of the token":             {Tombstones{Tokens: []string{"x", "hash"}}, at, true},
		"of another token":         {Tombstones{Tokens: []string{"x"}}, at, false},
		"issued later":             {Tombstones{Device: at}, second.Add(time.Second), false},
		"issued that very second":  {Tombstones{Device: at}, second, true},
		"signed out that second":   {Tombstones{Here: (&backoffice.Ending{At: at}).Before()}, second, false},
		"signed out a second late": {Tombstones{Here: (&backoffice.Ending{At: at}).Before()}, second.Add(-time.Second), true},
	} {
		if got := test.stones.Refuse(backoffice.Caller{TokenHash: "hash", TokenIssued: test.issued}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (&Tombstones{Here: at}).Ended(&backoffice.Session{TokenIssued: second}) {
		t.Error("a switch ends a session by force")
	}
	for name, stones := range map[string]Tombstones{"device": {Device: at}, "operator": {Operator: at}, "tenant": {Tenant: at}} {
		if !stones.Ended(&backoffice.Session{TokenIssued: second}) {
			t.Errorf("a session before a revocation of the %s goes on", name)
		}
		if stones.Ended(&backoffice.Session{TokenIssued: second.Add(time.Second)}) {
			t.Errorf("a session after a revocation of the %s is ended", name)
		}
	}
}

// A session is the caller's, with what its token and its request say, and remembers whose
// place it took.
func TestNewSession(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	c := backoffice.Caller{
		Tenant: bff.NewID(bff.PrefixTenant, now), Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, now), TokenIssued: now.Add(-time.Minute),
		IPHash: "ip", FingerprintHash: "print", App: backoffice.App{Version: "1.2.3", Platform: "linux"},
	}
	old := &backoffice.Session{ID: bff.NewID(bff.PrefixBackofficeLogin, now), Operator: "opt_2", OpenedAt: now.Add(-time.Hour)}
	got := newSession(c, old, now)
	want := backoffice.Session{
		ID: got.ID, Tenant: c.Tenant, Operator: "opt_1", Device: c.Device, OpenedAt: now, TokenIssued: c.TokenIssued, IPHash: "ip", FingerprintHash: "print",
		AppVersion: "1.2.3", AppPlatform: "linux", Replaced: got.Replaced,
	}
	if got != want || got.Replaced == nil || *got.Replaced != (backoffice.Replaced{ID: old.ID, Operator: "opt_2", OpenedAt: old.OpenedAt}) {
		t.Errorf("%+v, replaced %+v", got, got.Replaced)
	}
	old.Operator = c.Operator
	if got := newSession(c, old, now); got.Replaced != nil {
		t.Errorf("an operator took the place of itself: %+v", got.Replaced)
	}
}
