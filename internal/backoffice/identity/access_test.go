package identity_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
)

// door is a session tier with one session, which took the place of another
// operator's and is never marked as announced.
type door struct {
	identity.Sessions
	session backoffice.Session
}

func (d *door) Enter(context.Context, backoffice.Caller, identity.Proof, time.Time) (identity.AccessState, error) {
	return identity.AccessState{Session: &d.session}, nil
}

func (d *door) FindMember(context.Context, bff.ID, string, string) (*backoffice.Member, error) {
	return &backoffice.Member{}, nil
}

// hangingJournal answers nothing; what it was given may be committed all the same.
type hangingJournal struct{ tried [][]string }

func (j *hangingJournal) Record(ctx context.Context, did []backoffice.Activity, events ...bff.Event) error {
	var ids []string
	for i := range did {
		ids = append(ids, did[i].ID.String())
	}
	for i := range events {
		ids = append(ids, events[i].Envelope.EventID)
	}
	j.tried = append(j.tried, ids)
	<-ctx.Done()
	return errors.New("postgres hangs")
}

// While the ledger hangs a request waits for its announcement once, however long that
// took, and the others not at all for a while. Each attempt has the same ids: the
// write that was left behind and the one that succeeds are one opening.
func TestAnnouncementsWhileTheLedgerHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		caller := backoffice.Caller{
			Tenant: bff.NewID(bff.PrefixTenant, now), Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, now), TokenIssued: now,
		}
		d := &door{session: backoffice.Session{
			ID: bff.NewID(bff.PrefixBackofficeLogin, now), Tenant: caller.Tenant, Operator: caller.Operator, Device: caller.Device, OpenedAt: now, TokenIssued: now,
			Replaced: &backoffice.Replaced{ID: bff.NewID(bff.PrefixBackofficeLogin, now), Operator: "opt_2", OpenedAt: now},
		}}
		journal := new(hangingJournal)
		a := identity.NewAccess(d, d, journal, backoffice.NewEnvelopes("test"))
		a.AnnounceTimeout, a.Now = 5*time.Second, time.Now
		enter := func() time.Duration {
			t.Helper()
			began := time.Now()
			if _, err := a.Enter(t.Context(), caller, identity.Proof{}, backoffice.Occasion{}, time.Now()); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		for i, want := range []time.Duration{a.AnnounceTimeout, 0, 0} {
			if took := enter(); took != want {
				t.Errorf("request %d waited %v, want %v", i, took, want)
			}
		}
		<-time.After(time.Minute)
		enter()
		if len(journal.tried) != 2 || len(journal.tried[0]) != 4 {
			t.Fatalf("tried %v", journal.tried)
		}
		if diff := cmp.Diff(journal.tried[0], journal.tried[1]); diff != "" {
			t.Errorf("the repetition has ids of its own: %s", diff)
		}
		seen := map[string]bool{}
		for _, id := range journal.tried[0] {
			if seen[id] {
				t.Errorf("%s twice in one record", id)
			}
			seen[id] = true
		}
	})
}
