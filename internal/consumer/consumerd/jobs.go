package consumerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/outbox"
)

// jobs are what a scheduler runs every night. Each works in small batches that
// skip what another run holds: two at once do no harm.
type jobs struct {
	database
	Name string `arg:"" name:"job" help:"One of outbox, inbox, bot-scores, handoffs, idempotency, wishlists; prune or all for every one."`
}

const day = 24 * time.Hour

// pruneBatch is how many rows one statement deletes: below the statement
// timeout on a slow disk, and no long lock.
const pruneBatch = 1000

// prune deletes rows that are older than their retention (DATA_MODEL §3).
type prune struct {
	name string
	keep time.Duration
	// batch deletes at most limit rows from before the moment.
	batch func(ctx context.Context, db *pgxpool.Pool, before time.Time, limit int) (int, error)
}

func prunes() []prune {
	return []prune{
		{"outbox", 30 * day, outbox.Consumer().Prune},
		// The marks of the newest event per tenant stay.
		{"inbox", 7 * day, deleting("inbox", "event_id", "received_at < $1", "received_at")},
		{"bot-scores", 7 * day, deleting("bot_score_log", "id", "evaluated_at < $1", "evaluated_at")},
		{"handoffs", day, deleting("handoff_replay_log", "id", "minted_at < $1", "minted_at")},
		{"idempotency", 0, deleting("idempotency_keys", "composite_key", "expires_at < $1", "expires_at")},
		{"wishlists", 30 * day, deleting("wishlist_anonymous", "id", "removed_at < $1", "removed_at")},
	}
}

// deleting returns a batch of a plain table. The names are constants of this file.
func deleting(table, key, old, order string) func(context.Context, *pgxpool.Pool, time.Time, int) (int, error) {
	table = "bff_consumer." + table
	sql := fmt.Sprintf(`DELETE FROM %s WHERE %s IN (SELECT %s FROM %s WHERE %s ORDER BY %s LIMIT $2 FOR UPDATE SKIP LOCKED)`,
		table, key, key, table, old, order)
	return func(ctx context.Context, db *pgxpool.Pool, before time.Time, limit int) (int, error) {
		tag, err := db.Exec(ctx, sql, before, limit)
		if err != nil {
			return 0, fmt.Errorf("prune %s: %w", table, err)
		}
		return int(tag.RowsAffected()), nil
	}
}

// Run runs the named job. One that fails does not keep the others from running.
func (j *jobs) Run(ctx context.Context) error {
	chosen, err := choose(j.Name)
	if err != nil {
		return err
	}
	log := daemon.NewLogger(os.Stderr, j.Settings, name)
	return j.with(ctx, func(db *pgxpool.Pool) error {
		return runPrunes(ctx, db, chosen, time.Now(), log)
	})
}

func choose(name string) ([]prune, error) {
	all := prunes()
	if name == "all" || name == "prune" {
		return all, nil
	}
	i := slices.IndexFunc(all, func(p prune) bool { return p.name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, p := range all {
			names[i] = p.name
		}
		return nil, fmt.Errorf("there is no job %q: want %s, prune or all", name, strings.Join(names, ", "))
	}
	return all[i : i+1], nil
}

func runPrunes(ctx context.Context, db *pgxpool.Pool, jobs []prune, now time.Time, log *slog.Logger) error {
	var errs []error
	for _, p := range jobs {
		began := time.Now()
		rows, err := p.run(ctx, db, now)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		log.InfoContext(ctx, "pruned", "job", p.name, "rows", rows, "took", time.Since(began).Round(time.Millisecond).String())
	}
	return errors.Join(errs...)
}

func (p prune) run(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
	for rows := 0; ; {
		n, err := p.batch(ctx, db, now.Add(-p.keep), pruneBatch)
		rows += n
		if err != nil || n < pruneBatch {
			return rows, err
		}
	}
}
