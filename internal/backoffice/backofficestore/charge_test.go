package backofficestore_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// charge begins a charge and returns what counts it.
func (d *desk) charge(t *testing.T, c action.Charged) (backoffice.Mutation, func(most int64) bool) {
	t.Helper()
	a := checkIn(c.Tenant, time.Now())
	a.ID, a.Operator, a.Category, a.Action, a.Resource = id(bff.PrefixActivity), c.Operator, "folio", "charge", backoffice.Resource{Kind: "folio", ID: c.Folio.String()}
	m, earlier, err := d.BeginMutation(testkit.Context(t), backoffice.Attempt{Activity: a, Once: c.Once})
	if err != nil || earlier != nil {
		t.Fatal(earlier, err)
	}
	return m, func(most int64) bool {
		counted, err := d.CountCharge(testkit.Context(t), c, func(sums action.Sums) bool { return sums[bff.AFN] <= most })
		if err != nil {
			t.Error(err)
		}
		return counted
	}
}

func newCharge(tenant, folio bff.ID) action.Charged {
	return action.Charged{
		Tenant: tenant, Operator: "opt_1", Folio: folio, Day: bff.DateOf(time.Now()),
		Once: pressed(id(bff.PrefixRequest).ULID(), 1), Amount: bff.Money{Minor: 100, Currency: bff.AFN},
	}
}

// Of many charges at once, as many pass as the threshold has room for, and none because
// it did not see another.
func TestChargesAtOnceAreAddedUp(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	tenant, folio := id(bff.PrefixTenant), id(bff.PrefixFolio)
	var passed atomic.Int32
	var wg sync.WaitGroup
	for range 12 {
		_, count := d.charge(t, newCharge(tenant, folio))
		wg.Go(func() {
			if count(500) {
				passed.Add(1)
			}
		})
	}
	wg.Wait()
	if got := passed.Load(); got != 5 {
		t.Errorf("%d of 12 passed, want 5", got)
	}
}

// A charge that comes while another is being added up waits for it.
func TestChargesTakeTurns(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	ctx := testkit.Context(t)
	tenant, folio := id(bff.PrefixTenant), id(bff.PrefixFolio)
	first, second := newCharge(tenant, folio), newCharge(tenant, folio)
	d.charge(t, first)
	_, count := d.charge(t, second)
	inside, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if counted, err := d.CountCharge(ctx, first, func(action.Sums) bool {
			close(inside)
			<-release
			return true
		}); !counted || err != nil {
			t.Errorf("the first: %v, %v", counted, err)
		}
	})
	<-inside
	passed := make(chan bool, 1)
	wg.Go(func() { passed <- count(100) })
	for waits := false; !waits && len(passed) == 0; {
		waits = len(d.rows(t, `SELECT 'waits' FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)) > 0
	}
	close(release)
	wg.Wait()
	if <-passed {
		t.Error("two charges of 100 passed where one may")
	}
}

func TestChargesOfTheDay(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	ctx := testkit.Context(t)
	tenant, folio := id(bff.PrefixTenant), id(bff.PrefixFolio)
	first := newCharge(tenant, folio)
	m, count := d.charge(t, first)
	for _, most := range []int64{100, 100, 0} {
		if !count(most) {
			t.Error("a charge that was counted is asked for again")
		}
	}
	for name, change := range map[string]func(*action.Charged){
		"operator": func(c *action.Charged) { c.Operator = "opt_2" },
		"folio":    func(c *action.Charged) { c.Folio = id(bff.PrefixFolio) },
		"day":      func(c *action.Charged) { c.Day++ },
		"tenant":   func(c *action.Charged) { c.Tenant = id(bff.PrefixTenant) },
	} {
		c := newCharge(tenant, folio)
		change(&c)
		if _, count := d.charge(t, c); !count(100) {
			t.Errorf("of another %s: it was added", name)
		}
	}
	_, count = d.charge(t, newCharge(tenant, folio))
	if count(199) {
		t.Error("what runs does not count")
	}
	if _, err := m.Finish(ctx, backoffice.Finished{At: time.Now(), Answer: backoffice.Answer{Status: 201}}); err != nil {
		t.Fatal(err)
	}
	if count(199) || !count(200) {
		t.Error("what was done does not count, or counts twice")
	}
	// A refusal is no charge, and neither is one that was taken out.
	refused, gone := newCharge(tenant, folio), newCharge(tenant, folio)
	m, count = d.charge(t, refused)
	if !count(300) {
		t.Fatal("not counted")
	}
	if _, err := m.Finish(ctx, backoffice.Finished{
		At: time.Now(), Failure: bff.Errorf(bff.CodeStateConflict, "settled"),
	}); bff.CodeOf(err) != bff.CodeStateConflict {
		t.Fatal(err)
	}
	_, count = d.charge(t, gone)
	if !count(300) {
		t.Error("a refusal counts")
	}
	if err := d.UncountCharge(ctx, gone); err != nil {
		t.Fatal(err)
	}
	if _, count = d.charge(t, newCharge(tenant, folio)); !count(300) {
		t.Error("what was taken out counts")
	}
}
