package backofficehttp_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// openKeyLedgers opens ledgers, as each process has one, of a database in which time can be moved.
func openKeyLedgers(t *testing.T) (func() *backofficestore.Ledger, *pgxpool.Pool) {
	t.Helper()
	address := testkit.PostgresTemplate(t, "bff_backoffice", func(dsn string) error {
		return postgres.Migrate(testkit.Context(t), dsn, migrations.Backoffice(), postgres.MigrateOptions{})
	})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("role", migrations.BackofficeApp)
	u.RawQuery = q.Encode()
	open := func(address string) *pgxpool.Pool {
		pool, err := postgres.Open(t.Context(), testkit.Patient(address))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	super := open(address)
	if _, err := super.Exec(testkit.Context(t), `ALTER TABLE bff_backoffice.operator_activity DISABLE TRIGGER timely`); err != nil {
		t.Fatal(err)
	}
	app := postgres.NewTenants(open(u.String()))
	return func() *backofficestore.Ledger {
		return backofficestore.NewLedger(backofficestore.LedgerConfig{DB: app, Outbox: backofficestore.OutboxTable(), Waker: unheard{}})
	}, super
}

// unheard is a relay that is not there.
type unheard struct{}

func (unheard) Wake() {}

// The drill's ledger answers as the one in Postgres does: whatever is begun, ended, left by a
// process that died, taken over, forgotten and looked up, with clocks that are set meanwhile.
func TestProofDrillLedger(t *testing.T) {
	t.Parallel()
	open, super := openKeyLedgers(t)
	seed := rand.Uint64() //nolint:gosec // a seed
	t.Logf("seed %d", seed)
	chance := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
	d := &blackout{t: t, entries: map[string]*drillEntry{}}
	fake, store := &drillLedger{d: d, claims: map[string]*drillClaim{}}, open()
	now := time.Now().Truncate(time.Millisecond).UTC()
	tenant, other, property := bff.NewID(bff.PrefixTenant, now), bff.NewID(bff.PrefixTenant, now), bff.NewID(bff.PrefixProperty, now)
	start, _ := backoffice.FindAction(backoffice.TaskStart)
	reopen, _ := backoffice.FindAction(backoffice.TaskReopen)
	says := func(known *bff.Known, err error) string {
		if e, ok := errors.AsType[*bff.Error](err); ok && e.Known != nil {
			known = e.Known
		}
		out := string(bff.CodeOf(err))
		if known != nil {
			out += fmt.Sprint(" ", known.Outcome, " ", known.OperatorID, " ", known.At, " ", known.Code)
		}
		return out
	}
	var keys []string
	for range testkit.Proof(150, 1500) {
		// Attempts of one moment have no order in a ledger.
		now = now.Add([]time.Duration{
			time.Millisecond, time.Second, 20 * time.Second, 30 * time.Second, time.Minute, time.Hour, 5 * time.Hour, 25 * time.Hour,
		}[chance.IntN(8)])
		if len(keys) < 3 || chance.IntN(6) == 0 {
			keys = append(keys, bff.NewID(bff.PrefixRequest, now).ULID())
			d.entries[keys[len(keys)-1]] = &drillEntry{}
		}
		key := keys[len(keys)-1-chance.IntN(min(3, len(keys)))]
		made := bff.MustParseID(bff.PrefixRequest, "req_"+key).Time()
		a := []*backoffice.Action{start, reopen}[int(key[25])%2]
		at := backoffice.Attempt{
			Activity: backoffice.Activity{
				ID: bff.NewID(bff.PrefixActivity, now), Tenant: tenant, Property: property, Operator: []string{"opt_1", "opt_2"}[(int(key[24])+chance.IntN(9)/8)%2],
				Device: bff.NewID(bff.PrefixDevice, now), Session: bff.NewID(bff.PrefixBackofficeLogin, now), Roles: []string{"housekeeper"}, At: now,
				Pressed: now.Add(-time.Hour), Category: a.Category, Action: string(a.Name), Resource: backoffice.Resource{Kind: a.Kind, ID: "hkt_1"},
			},
			Once: backoffice.Once{Key: key, Digest: [32]byte{byte(chance.IntN(20) / 19)}},
		}
		at.Once.Sent = []time.Time{now, now, now, made, made.Add(30 * time.Hour), made.Add(-time.Hour)}[chance.IntN(6)]
		if _, err := super.Exec(testkit.Context(t), `DELETE FROM bff_backoffice.idempotency WHERE expires_at < $1`, now); err != nil { // as its job does
			t.Fatal(err)
		}
		m1, earlier1, err1 := fake.BeginMutation(testkit.Context(t), at)
		m2, earlier2, err2 := store.BeginMutation(testkit.Context(t), at)
		if says(nil, err1) != says(nil, err2) || (m1 == nil) != (m2 == nil) || (earlier1 == nil) != (earlier2 == nil) {
			t.Fatalf("the drill says %q %v, Postgres %q %v", says(nil, err1), earlier1, says(nil, err2), earlier2)
		}
		if m1 != nil {
			f := backoffice.Finished{At: now.Add(time.Second)}
			switch end := chance.IntN(6); end {
			case 0: // the process dies
				store = open()
				continue
			case 1:
				f.Failure = bff.Errorf(bff.CodeStateConflict, "no")
			case 2:
				f.Failure = &bff.Error{Code: bff.CodeUpstreamTimeout, Err: backoffice.ErrOutcomeUnknown}
			case 3:
				f.Failure = bff.Errorf(bff.CodeMFARequired, "no")
			case 4: // before anything was asked for
				f.Failure, f.Outcome, f.Code = bff.Errorf(bff.CodeUpstreamTimeout, "late"), backoffice.Failed, bff.CodeUpstreamTimeout
			default:
				f.Answer = backoffice.Answer{Status: 200, Receipt: backoffice.NewReceipt(map[string]any{"taskId": "hkt_1"})}
			}
			gone, hangUp := context.WithCancel(testkit.Context(t))
			hangUp() // what was done for a client that is gone is done
			_, err1 = m1.Finish(gone, f)
			if _, err2 = m2.Finish(gone, f); bff.CodeOf(err1) != bff.CodeOf(err2) {
				t.Fatalf("the drill ends with %v, Postgres with %v", err1, err2)
			}
		}
		for _, a := range []*backoffice.Action{start, reopen} {
			known1, err1 := fake.FindDone(testkit.Context(t), a, at.Activity)
			known2, err2 := store.FindDone(testkit.Context(t), a, at.Activity)
			if says(known1, err1) != says(known2, err2) {
				t.Fatalf("%s: the drill finds %s, Postgres %s", a.Name, says(known1, err1), says(known2, err2))
			}
			elsewhere := backoffice.Activity{Tenant: other, Property: property, Resource: at.Activity.Resource, At: now}
			if known, err := store.FindDone(testkit.Context(t), a, elsewhere); known != nil || err != nil {
				t.Fatalf("another tenant is told %v, %v", known, err)
			}
		}
		known1, err1 := fake.FindKey(testkit.Context(t), tenant, at.Activity.Operator, key)
		known2, err2 := store.FindKey(testkit.Context(t), tenant, at.Activity.Operator, key)
		if says(known1, err1) != says(known2, err2) {
			t.Fatalf("the drill finds %s, Postgres %s", says(known1, err1), says(known2, err2))
		}
		if known, err := store.FindKey(testkit.Context(t), other, at.Activity.Operator, key); known != nil || err != nil {
			t.Fatalf("another tenant is told %v, %v", known, err)
		}
	}
}

// Two instances are sent the same entries at once, one of them after a process that has died
// between what was done and its verdict: each is done once, and both say the same.
func TestReplayAtTwoInstances(t *testing.T) {
	t.Parallel()
	open, super := openKeyLedgers(t)
	now := time.Now().Truncate(time.Millisecond).UTC()
	behind := newActionsFake()
	all := &backoffice.Member{Roles: backoffice.Roles()}
	v := &backoffice.Visit{Property: bff.MustParseID(bff.PrefixProperty, house), Member: all, Session: backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, now), Tenant: bff.NewID(bff.PrefixTenant, now), Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, now),
	}}
	thresholds, err := action.ReadThresholds("AFN=100")
	if err != nil {
		t.Fatal(err)
	}
	instance := func(ledger *backofficestore.Ledger, clock time.Time) *action.Replays {
		outbox := &outboxFake{tb: t}
		proxy := action.NewProxy(action.ProxyConfig{
			Journal: outbox, Upstream: behind, Mutations: ledger, Attestations: attested{}, Thresholds: thresholds, Charges: ledger, Traces: ledger,
			Today: func(context.Context, bff.ID, bff.ID, time.Time) (bff.Date, error) { return bff.DateOf(now), nil }, News: backoffice.NewEnvelopes("test"),
			Notifier: noNotifier{}, Now: func() time.Time { return clock },
		})
		return action.NewReplays(action.ReplaysConfig{
			Proxy: proxy, Traces: ledger, Now: func() time.Time { return clock },
			Again: func(context.Context, *backoffice.Visit, time.Time) (*backoffice.Visit, error) { return v, nil },
		})
	}
	folio, charge := bff.NewID(bff.PrefixFolio, now), func(minor int64) action.Command {
		a, _ := backoffice.FindAction(backoffice.Charge)
		return action.Command{Action: a, Posting: &action.Posting{Amount: bff.Money{Minor: minor, Currency: bff.AFN}}}
	}
	checkIn, _ := backoffice.FindAction(backoffice.CheckIn)
	var entries []action.Entry
	for i := range 20 {
		c := action.Command{Action: checkIn, ID: bff.NewID(bff.PrefixReservation, now)}
		if i%4 == 0 { // the third of these is above the threshold
			c = charge(4000)
			c.ID = folio
		}
		c.Once = backoffice.Once{Key: bff.NewID(bff.PrefixRequest, now).ULID(), Digest: [32]byte{byte(i)}, Sent: now}
		c.Pressed = now.Add(-time.Duration(i) * time.Hour)
		entries = append(entries, action.Entry{Key: c.Once.Key, Command: c})
	}
	// A process has died after the first check-in was carried out.
	dead := entries[1].Command
	did := v.Activity(dead.Action.Category, string(dead.Action.Name), backoffice.Resource{Kind: dead.Action.Kind, ID: dead.ID.String()}, now)
	if _, _, err := open().BeginMutation(testkit.Context(t), backoffice.Attempt{Activity: did, Once: dead.Once}); err != nil {
		t.Fatal(err)
	}
	if _, err := behind.Execute(testkit.Context(t), v.Session.Tenant, v.Property, &dead); err != nil {
		t.Fatal(err)
	}
	later := now.Add(61 * time.Second) // when its claim can be taken over
	told := make([]map[string]string, 3)
	run := func(i int) {
		told[i] = map[string]string{}
		instance(open(), later).Run(testkit.Context(t), v, entries, func(l action.Line) bool {
			told[i][l.Key] = words(l)
			return true
		})
	}
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() { run(i) })
	}
	both.Wait()
	run(2)
	for i, e := range entries {
		want := "done"
		if i%4 == 0 && i >= 8 {
			want = "needs_second_factor"
		}
		for n := range told {
			if got := told[n][e.Key]; got != want {
				t.Errorf("instance %d, entry %d: %s, want %s", n, i, got, want)
			}
		}
	}
	if done, _ := behind.carried(); done != 17 {
		t.Errorf("%d carried out, want 17", done)
	}
	var last time.Time // it was pressed 17 hours before
	const pressed = `SELECT pressed_at FROM bff_backoffice.operator_activity WHERE resource_id = $1`
	err = super.QueryRow(testkit.Context(t), pressed, entries[17].Command.ID.String()).Scan(&last)
	if want := now.Add(-17 * time.Hour); err != nil || !last.Equal(want) {
		t.Errorf("pressed at %s, want %s: %v", last, want, err)
	}
}
