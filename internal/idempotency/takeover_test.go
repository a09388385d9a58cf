package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

const takeOver = time.Minute

// tenants is a table with row level security, whose claims are committed before
// the mutation: another service carries that out.
type tenants struct {
	*idempotency.Store
	db     *pgxpool.Pool
	tenant bff.ID
}

func openTenants(t *testing.T, copies idempotency.Copies) *tenants {
	t.Helper()
	u, err := url.Parse(testkit.PostgresTemplate(t, "backoffice", func(dsn string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return postgres.Migrate(ctx, dsn, migrations.Backoffice(), postgres.MigrateOptions{})
	}))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("role", migrations.BackofficeApp)
	u.RawQuery = q.Encode()
	db, err := postgres.Open(testkit.Context(t), postgres.Config{URL: u.String(), RequireIsolation: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	w := &tenants{db: db, tenant: bff.NewID(bff.PrefixTenant, time.Now())}
	w.Store = idempotency.New(idempotency.Config{
		DB: db, Copies: copies, Wait: time.Second, Begin: w.begin,
		Table: idempotency.Table{
			Name: "bff_backoffice.idempotency", Key: "idem_key", Unique: []string{"tenant_id", "idem_key"},
			Owners: []string{"tenant_id"}, By: []string{"device_id", "operator_id"},
			Digest: "request_hash", Hex: true, Status: "status_code", Body: "response", TakeOver: takeOver,
		},
		Codes: idempotency.Codes{Reused: bff.CodeStaffIdempotencyReused, InFlight: bff.CodeStaffIdempotencyInFlight},
	})
	return w
}

// begin starts the transaction of the tenant whose request it is.
func (w *tenants) begin(ctx context.Context, r idempotency.Request, work func(pgx.Tx) error) error {
	tenant, err := bff.IDFromUUID(bff.PrefixTenant, r.Owner[0])
	if err != nil {
		return err
	}
	return postgres.NewTenants(w.db).InTx(ctx, tenant, work)
}

func (w *tenants) request() idempotency.Request {
	return idempotency.Request{Owner: []string{w.tenant.UUID()}, By: []string{"dev_1", "opr_1"}, Key: "k", Digest: [32]byte{1}}
}

// finish commits an answer as the mutation's last step.
func (w *tenants) finish(t *testing.T, c *idempotency.Claim, r idempotency.Request) (idempotency.Answer, bool, error) {
	t.Helper()
	answer, err := idempotency.NewAnswer(http.StatusOK, map[string]string{"id": "x"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Context(t)
	err = w.begin(ctx, r, func(tx pgx.Tx) error { return c.Record(ctx, tx, answer) })
	return c.Settle(ctx, answer, err)
}

func TestClaimIsCommittedFirst(t *testing.T) {
	t.Parallel()
	w := openTenants(t, nil)
	var (
		wg      sync.WaitGroup
		claimed atomic.Int32
		winner  atomic.Pointer[idempotency.Claim]
	)
	for range 20 {
		wg.Go(func() {
			c, earlier, err := w.Begin(testkit.Context(t), w.request(), time.Now())
			switch {
			case c != nil:
				claimed.Add(1)
				winner.Store(c)
			case earlier != nil || bff.CodeOf(err) != bff.CodeStaffIdempotencyInFlight:
				t.Errorf("a duplicate got %v, %v; want in flight", earlier, err)
			}
		})
	}
	wg.Wait()
	if claimed.Load() != 1 {
		t.Fatalf("%d claims, want 1", claimed.Load())
	}
	if _, replayed, err := w.finish(t, winner.Load(), w.request()); err != nil || replayed {
		t.Fatalf("finish: %v %v", replayed, err)
	}
	winner.Load().Release()
	_, earlier, err := w.Begin(testkit.Context(t), w.request(), time.Now())
	if err != nil || earlier == nil || string(earlier.Body) != `{"id":"x"}` || earlier.Status != http.StatusOK {
		t.Errorf("afterwards: %v %v", earlier, err)
	}
	other := w.request()
	other.Digest = [32]byte{2}
	if _, _, err := w.Begin(testkit.Context(t), other, time.Now()); bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
		t.Errorf("another body: %v", err)
	}
	stranger := w.request()
	stranger.Owner = []string{bff.NewID(bff.PrefixTenant, time.Now()).UUID()}
	c, earlier, err := w.Begin(testkit.Context(t), stranger, time.Now())
	if err != nil || earlier != nil {
		t.Fatalf("another tenant's same key: %v %v", earlier, err)
	}
	c.Release()
}

// A claim whose process died is taken over at its age, by the same request alone;
// the old holder can no longer answer.
func TestClaimIsTakenOver(t *testing.T) {
	t.Parallel()
	w := openTenants(t, nil)
	ctx, now := testkit.Context(t), time.Now()
	dead, _, err := w.Begin(ctx, w.request(), now)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Begin(ctx, w.request(), now.Add(takeOver-time.Second)); bff.CodeOf(err) != bff.CodeStaffIdempotencyInFlight {
		t.Errorf("a young claim: %v, want in flight", err)
	}
	other := w.request()
	other.Digest = [32]byte{2}
	if _, _, err := w.Begin(ctx, other, now.Add(takeOver)); bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
		t.Errorf("another body: %v, want reused", err)
	}
	heir, _, err := w.Begin(ctx, w.request(), now.Add(takeOver))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.finish(t, dead, w.request()); bff.CodeOf(err) != bff.CodeStaffIdempotencyInFlight {
		t.Errorf("the old holder's answer: %v, want in flight", err)
	}
	dead.Release() // must not free what is no longer its own
	if _, replayed, err := w.finish(t, heir, w.request()); err != nil || replayed {
		t.Errorf("the heir's answer: %v %v", replayed, err)
	}
	if a, replayed, err := w.finish(t, dead, w.request()); err != nil || !replayed || a.Status != http.StatusOK {
		t.Errorf("the old holder afterwards: %v %v %v, want the heir's answer", a, replayed, err)
	}
}

// A released claim leaves the key to the same request at once, also to one of
// another operator at another device, and to no other request: the first may have
// reached the service behind.
func TestCommittedClaimIsReleased(t *testing.T) {
	t.Parallel()
	w := openTenants(t, &memory{})
	now := time.Now()
	for i := range 3 {
		r := w.request()
		r.By = []string{"dev_1", fmt.Sprintf("opr_%d", i)}
		c, earlier, err := w.Begin(testkit.Context(t), r, now)
		if err != nil || earlier != nil {
			t.Fatal(earlier, err)
		}
		if other := w.request(); i > 0 {
			other.Digest = [32]byte{2}
			if _, _, err := w.Begin(testkit.Context(t), other, now); bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
				t.Errorf("another body while it runs: %v, want reused", err)
			}
		}
		c.Release()
		c.Release()
	}
	other := w.request()
	other.Digest = [32]byte{2}
	if _, _, err := w.Begin(testkit.Context(t), other, now); bff.CodeOf(err) != bff.CodeStaffIdempotencyReused {
		t.Errorf("another body after a release: %v, want reused", err)
	}
}

// What is written with a claim stands with it or not at all.
func TestClaimWritesAlso(t *testing.T) {
	t.Parallel()
	w := openTenants(t, nil)
	ctx := testkit.Context(t)
	broken := errors.New("broken")
	_, _, err := w.BeginWith(ctx, w.request(), time.Now(), func(context.Context, pgx.Tx, *pgx.Batch) error { return broken })
	if !errors.Is(err, broken) {
		t.Fatalf("%v, want %v", err, broken)
	}
	also := func(ctx context.Context, tx pgx.Tx, claim *pgx.Batch) error {
		claim.Queue(`INSERT INTO bff_backoffice.operator_activity (tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome)
			VALUES ($1, 'o', 'd', 's', now(), 'c', 'a', 'unknown')`, w.tenant.UUID())
		return tx.SendBatch(ctx, claim).Close()
	}
	c, earlier, err := w.BeginWith(ctx, w.request(), time.Now(), also)
	if err != nil || earlier != nil {
		t.Fatalf("the claim stood without what was to be written: %v %v", earlier, err)
	}
	if _, _, err := w.BeginWith(ctx, w.request(), time.Now(), also); bff.CodeOf(err) != bff.CodeStaffIdempotencyInFlight {
		t.Errorf("a duplicate: %v", err)
	}
	c.Release()
	wrote := 0
	err = w.begin(ctx, w.request(), func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FROM bff_backoffice.operator_activity`).Scan(&wrote)
	})
	if err != nil || wrote != 1 {
		t.Errorf("wrote %d rows, want 1: %v", wrote, err)
	}
}
