package backofficestore_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// A key acts within a day. After that it is answered with its answer while that is kept,
// and then with what the ledger has of it, however the clock was set meanwhile.
func TestOldKeysDoNothing(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	d.atAnyTime(t)
	tenant, start := id(bff.PrefixTenant), time.Now().Truncate(time.Millisecond).UTC()
	const day = 24 * time.Hour
	timeout := bff.Errorf(bff.CodeUpstreamTimeout, "late")
	for name, tc := range map[string]struct {
		first   error         // how the first attempt ended
		never   bool          // there was none
		after   time.Duration // the repetition comes
		age     time.Duration // of its key, by the device's clock
		code    bff.Code      // "" = it is answered as before, or done
		outcome string        // known
		calls   int
	}{
		"answer is kept":                      {after: day - time.Minute, age: day - time.Minute, calls: 1},
		"answer is kept a little longer":      {after: day + time.Minute, age: day + time.Minute, calls: 1},
		"answer is kept, the clock was ahead": {after: time.Hour, age: -9 * 365 * day, calls: 1},
		"answer is kept, the clock was slow":  {after: time.Hour, age: 9 * 365 * day, calls: 1},
		"answer is forgotten":                 {after: 2 * day, age: 2 * day, code: bff.CodeStaffIdempotencyExpired, outcome: "success", calls: 1},
		"nearly everything is forgotten":      {after: 89 * day, age: 89 * day, code: bff.CodeStaffIdempotencyExpired, outcome: "success", calls: 1},
		"the clock was ahead":                 {after: 2 * day, age: -9 * 365 * day, code: bff.CodeStaffIdempotencyExpired, outcome: "success", calls: 1},
		"the clock was set back by the same":  {after: 2 * day, age: time.Hour, code: bff.CodeStaffIdempotencyExpired, outcome: "success", calls: 1},
		"and long ago":                        {after: 89 * day, age: 0, code: bff.CodeStaffIdempotencyExpired, outcome: "success", calls: 1},
		"unknown is asked again":              {first: timeout, after: day - time.Minute, age: day - time.Minute, calls: 1},
		"unknown is not asked for ever":       {first: timeout, after: day + 1, age: day + 1, code: bff.CodeStaffIdempotencyExpired, outcome: "unknown"},
		"nor if the clock was set back":       {first: timeout, after: day, age: time.Hour, code: bff.CodeStaffIdempotencyExpired, outcome: "unknown"},
		"new":                                 {never: true, age: day - time.Second, calls: 1},
		"new, a little ahead":                 {never: true, age: -time.Minute, calls: 1},
		"new, of yesterday":                   {never: true, age: day, code: bff.CodeStaffIdempotencyExpired, outcome: "none"},
		"new, of tomorrow":                    {never: true, age: -time.Minute - time.Millisecond, code: bff.CodeStaffIdempotencyExpired, outcome: "none"},
	} {
		u := &upstream{}
		k := bff.NewID(bff.PrefixRequest, start)
		o := backoffice.Once{Key: k.ULID(), Digest: [32]byte{1}, Sent: start}
		if !tc.never {
			if _, err := d.attempt(t, u, checkIn(tenant, start), o, tc.first); err != nil && tc.first == nil {
				t.Fatal(err)
			}
		}
		o.Sent = start.Add(tc.age)
		again := checkIn(tenant, start.Add(tc.after))
		if _, err := d.admin.Exec(testkit.Context(t), `DELETE FROM bff_backoffice.idempotency WHERE expires_at < $1`, again.At); err != nil { // as its job does
			t.Fatal(err)
		}
		got, err := d.attempt(t, u, again, o, nil)
		switch {
		case tc.code == "":
			if err != nil || got.Status != 200 || u.calls != tc.calls {
				t.Errorf("%s: %+v, %v, %d calls", name, got, err, u.calls)
			}
			continue
		case bff.CodeOf(err) != tc.code || u.calls != tc.calls || asError(t, err).Known == nil:
			t.Errorf("%s: %v, %d calls", name, err, u.calls)
			continue
		}
		want := bff.Known{Outcome: tc.outcome}
		if !tc.never {
			at := bff.At(start)
			want.At, want.OperatorID = &at, "opt_1"
		}
		if tc.first != nil {
			want.Code = bff.CodeUpstreamTimeout
		}
		if diff := cmp.Diff(want, *asError(t, err).Known); diff != "" {
			t.Errorf("%s (-want +known):\n%s", name, diff)
		}
		// Not to another operator of the tenant, and not to another tenant.
		other := checkIn(tenant, again.At)
		other.Operator = "opt_2"
		if _, err := d.attempt(t, u, other, o, nil); !tc.never && bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
			t.Errorf("%s: another operator: %v", name, err)
		}
		o.Sent = start.Add(2 * day)
		if _, err := d.attempt(
			t, u, checkIn(id(bff.PrefixTenant), again.At), o, nil,
		); bff.CodeOf(err) != tc.code || asError(t, err).Known.Outcome != backoffice.NoTrace {
			t.Errorf("%s: another tenant: %v", name, err)
		}
		if u.calls != tc.calls {
			t.Errorf("%s: %d calls", name, u.calls)
		}
	}
	if got := d.rows(t, `SELECT action FROM bff_backoffice.operator_activity WHERE key_hash IS NULL`); len(got) > 0 {
		t.Errorf("%d entries without a key", len(got))
	}
}

// The runbook for a mutation that is said to be doubled finds its key in both tables.
func TestKeyIsFoundByHand(t *testing.T) {
	t.Parallel()
	d, u := openDesk(t), &upstream{}
	a := checkIn(id(bff.PrefixTenant), time.Now())
	if _, err := d.attempt(t, u, a, pressed(key, 1), nil); err != nil {
		t.Fatal(err)
	}
	const hash = `encode(sha256(convert_to($1 || '||' || upper($2), 'UTF8')), 'hex')`
	inLedger := `SELECT outcome FROM bff_backoffice.operator_activity WHERE tenant_id = $1::uuid AND key_hash = left(` + hash + `, 32)::uuid`
	if got := d.rows(t, inLedger, a.Tenant.UUID(), key); !cmp.Equal(got, []string{"success"}) {
		t.Errorf("ledger: %v", got)
	}
	kept := `SELECT state FROM bff_backoffice.idempotency WHERE tenant_id = $1::uuid AND idem_key = ` + hash
	if got := d.rows(t, kept, a.Tenant.UUID(), key); !cmp.Equal(got, []string{"done"}) {
		t.Errorf("kept answers: %v", got)
	}
}

// FindDone names the operator of the last success that no reopening may have undone, also when
// the answer to another operator's earlier attempt came later.
func TestWhoWasFirst(t *testing.T) {
	t.Parallel()
	d, late := openDesk(t), bff.Errorf(bff.CodeUpstreamTimeout, "late")
	d.atAnyTime(t)
	resolve, _ := backoffice.FindAction(backoffice.WorkOrderResolve)
	type step struct {
		operator string
		action   backoffice.ActionName
		key      int // of the operator's
		failure  error
	}
	mine, theirs, reopened := step{"opt_1", resolve.Name, 1, nil}, step{"opt_2", resolve.Name, 2, nil}, step{"opt_3", backoffice.WorkOrderReopen, 3, nil}
	lost, lostReopening := step{"opt_1", resolve.Name, 1, late}, step{"opt_3", backoffice.WorkOrderReopen, 3, late}
	for name, tc := range map[string]struct {
		steps []step
		known string
		begun int // the step
	}{
		"nobody":                                {},
		"one":                                   {steps: []step{mine}, known: "opt_1"},
		"answered late":                         {steps: []step{lost, mine}, known: "opt_1"},
		"not known to be done":                  {steps: []step{lost}},
		"reopened":                              {steps: []step{mine, reopened}},
		"may be reopened":                       {steps: []step{mine, lostReopening}},
		"reopened before":                       {steps: []step{reopened, mine}, known: "opt_1", begun: 1},
		"done again":                            {steps: []step{mine, reopened, theirs}, known: "opt_2", begun: 2},
		"answered late, reopened before":        {steps: []step{lost, reopened, mine}},
		"answered late, and done by another":    {steps: []step{lost, reopened, theirs, mine}, known: "opt_2", begun: 2},
		"answered late, and all of it reopened": {steps: []step{lost, theirs, reopened, mine}},
	} {
		start := time.Now().Add(-time.Hour).Truncate(time.Millisecond).UTC()
		a := checkIn(id(bff.PrefixTenant), start)
		a.Category, a.Resource = resolve.Category, backoffice.Resource{Kind: resolve.Kind, ID: "wko_1"}
		keys := [4]string{}
		for i := range keys {
			keys[i] = bff.NewID(bff.PrefixRequest, start).ULID()
		}
		at := func(i int) time.Time { return start.Add(time.Duration(i) * 5 * time.Minute) }
		for i, s := range tc.steps {
			a.ID, a.Operator, a.Action, a.At = id(bff.PrefixActivity), s.operator, string(s.action), at(i)
			once := backoffice.Once{Key: keys[s.key], Digest: [32]byte{1}, Sent: at(i)}
			if _, err := d.attempt(t, &upstream{}, a, once, s.failure); (err == nil) != (s.failure == nil) {
				t.Fatalf("%s: step %d: %v", name, i, err)
			}
		}
		a.At = at(len(tc.steps))
		known, err := d.FindDone(testkit.Context(t), resolve, a)
		var want *bff.Known
		if begun := bff.At(at(tc.begun)); tc.known != "" {
			want = &bff.Known{Outcome: "success", At: &begun, OperatorID: tc.known}
		}
		if diff := cmp.Diff(want, known); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +known):\n%s", name, err, diff)
		}
	}
}
