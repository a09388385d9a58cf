// Package backofficelake seals what the staff service records into one hash chain per
// tenant, exports it to the audit lake as Parquet files and prunes what was exported.
// It works on rows of every tenant, under the role of jobs: no request gets here.
//
// # Sealing
//
// A sealer walks each table by (tx_id, tenant, id). Transactions that are running when
// it passes are remembered as holes, and their rows are read when they have ended, as
// the outbox does it: no row is missed, however late it is committed and whatever its
// moment, and no transaction of another database holds the sealer back. A row that
// changes later gets another tx_id and is found again. One sealer at a time adds entries, in one
// transaction with the cursor: two at once give one chain. A row that may still change
// is sealed as it stands, and its bytes are kept in the entry; it is sealed again, as
// the next version, when it has changed. A version behind a settled one is never
// legitimate, and [Verifier] says so.
//
// A row that can not be read in time, or that its tenant's chain does not take, is put off
// (audit_deferred) and tried again by each run: nothing else waits for it.
//
// # Exporting
//
// An export is a range of positions of the chain, which is written down before its
// files are. Entries never change and rows are checked against their hashes, so every
// attempt at a range writes the same rows. A row that is gone or is not as it was sealed is
// withheld: the manifest names it, it is not pruned, and every run says so. Files are written under temporary names,
// read back, copied to their own, and then named by a manifest, which is written only
// if there is none for the range yet. The range is confirmed in the database last. A
// process can die after any of these steps: the next one finds the manifest and
// confirms it, or writes the same files again. Only what lies in confirmed ranges is
// pruned, and only in the very version that was exported.
package backofficelake

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/service"
)

// Config is what the lake stands on.
type Config struct {
	Outbox *outbox.Table
	News   *backoffice.Envelopes
	Log    *slog.Logger
	// Keys reads the keys that sign.
	Keys func(ctx context.Context) (*audit.Keys, error)
	// Bucket opens where exports go.
	Bucket func(ctx context.Context) (Bucket, error)
	// Loader loads exported files elsewhere; nil = nowhere.
	Loader Loader
	// DropWait is how long the drop of a month may wait for running statements, and have all others wait for it; zero = 500 ms.
	DropWait time.Duration
}

// Lake has the jobs.
type Lake struct{ cfg Config }

// New returns the lake.
func New(cfg Config) *Lake {
	cfg.DropWait = cmp.Or(cfg.DropWait, 500*time.Millisecond)
	return &Lake{cfg}
}

const (
	sealEvery   = time.Hour
	exportEvery = 24 * time.Hour
	// ChainTable is the name under which the chain itself is exported.
	ChainTable = "audit_chain"
)

// Jobs are the sealer and one export per table.
func (l *Lake) Jobs() []service.Job {
	jobs := []service.Job{{Name: "audit-seal", Every: sealEvery, Run: l.runSeal, Count: countAllUnsealed}}
	for i, name := range []string{"activity-export", "alert-ack-export", "ai-decision-export", "lock-audit-export"} {
		t := audit.AuditTables()[i]
		jobs = append(jobs, service.Job{
			Name: name, Every: exportEvery,
			Run: func(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
				return l.runExport(ctx, db, t, now)
			},
			Count: func(ctx context.Context, db *pgxpool.Pool, _ time.Time) (int, error) {
				return countExport(ctx, db, t)
			},
			Pruned: func(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
				return countPruned(ctx, db, t, now)
			},
		})
	}
	return jobs
}

// runSeal seals, signs, exports the chain with its heads and prunes it. It comes round most often
// of all jobs, and so makes the months ahead as well.
func (l *Lake) runSeal(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
	unmade := makeMonths(ctx, db, now)
	n, left := l.Seal(ctx, db, now)
	if left != nil && !errors.Is(left, errPartial) {
		return n, errors.Join(unmade, left)
	}
	_, refused := l.export(ctx, db, chainTable())
	return n, errors.Join(unmade, left, refused, l.exportHeads(ctx, db), l.pruneEntries(ctx, db, now))
}

// runExport seals, exports one table and prunes what was exported and is old. It
// returns how many rows it exported. What could not be sealed is for audit-seal to report.
func (l *Lake) runExport(ctx context.Context, db *pgxpool.Pool, t audit.Table, now time.Time) (int, error) {
	if _, err := l.Seal(ctx, db, now); errors.Is(err, errPartial) {
		l.cfg.Log.WarnContext(ctx, "exporting what is sealed", "table", t.Name, "error", err.Error())
	} else if err != nil {
		return 0, err
	}
	n, refused := l.export(ctx, db, rowTable(t))
	if refused != nil && !errors.Is(refused, ErrRefused) && !errors.Is(refused, ErrWithheld) {
		return n, refused
	}
	pruned, err := l.prune(ctx, db, t, now)
	if pruned > 0 {
		l.cfg.Log.InfoContext(ctx, "exported rows pruned", "table", t.Name, "rows", pruned)
	}
	return n, errors.Join(refused, err)
}

const schema = "bff_backoffice."

// inTx is a transaction of the sealer, with the time that a batch may take.
func inTx(ctx context.Context, db *pgxpool.Pool, fn func(pgx.Tx) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return postgres.InTx(ctx, db, fn)
}

// errBusy says that another process holds the turn.
var errBusy = errors.New("another process is at it")
