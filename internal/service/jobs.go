package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/outbox"
)

// Job is what a scheduler runs. Two runs at once must do no harm.
type Job struct {
	Name string
	// Every is the time between two runs; an hour when it is zero. A process looks for
	// what is due every 90 seconds at the latest.
	Every time.Duration
	// Run does all that is due and returns how many rows it dealt with.
	Run func(ctx context.Context, db *pgxpool.Pool, now time.Time) (rows int, err error)
	// Count is the dry run: how many rows Run would deal with now. It writes nothing.
	Count func(ctx context.Context, db *pgxpool.Pool, now time.Time) (rows int, err error)
	// Pruned is how many rows Run would remove besides; nil = it removes none but those that it deals with.
	Pruned func(ctx context.Context, db *pgxpool.Pool, now time.Time) (rows int, err error)
}

// Per returns the job with another time between two runs.
func (j Job) Per(every time.Duration) Job {
	j.Every = every
	return j
}

// Batch removes at most limit rows from before the moment and returns how many;
// less than limit means that nothing is left, or that another run is at it.
type Batch func(ctx context.Context, db *pgxpool.Pool, before time.Time, limit int) (int, error)

// Aged are rows that are removed when they are old.
type Aged struct {
	Remove Batch
	// Count counts what Remove would remove if it were called until nothing is left.
	Count func(ctx context.Context, db *pgxpool.Pool, before time.Time) (int, error)
}

// Published are an outbox's published events; where it has an archive they move there.
func Published(t *outbox.Table) Aged { return Aged{Remove: t.Prune, Count: t.CountPublished} }

// DeadLetters are an outbox's events that were given up.
func DeadLetters(t *outbox.Table) Aged { return Aged{Remove: t.PruneDLQ, Count: t.CountDLQ} }

// ArchivedLetters are DeadLetters that move to the archive instead of being deleted.
func ArchivedLetters(t *outbox.Table) Aged { return Aged{Remove: t.CompactDLQ, Count: t.CountDLQ} }

// pruneBatch is how many rows one statement removes: below the statement
// timeout on a slow disk, and no long lock.
const pruneBatch = 1000

// Prune returns a job that removes what is older than its retention.
func Prune(name string, keep time.Duration, rows Aged) Job {
	return Job{
		Name: name,
		Run: func(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
			for total := 0; ; {
				n, err := rows.Remove(ctx, db, now.Add(-keep), pruneBatch)
				total += n
				if err != nil || n < pruneBatch {
					return total, err
				}
			}
		},
		Count: func(ctx context.Context, db *pgxpool.Pool, now time.Time) (int, error) {
			return rows.Count(ctx, db, now.Add(-keep))
		},
	}
}

// DeleteBefore returns the rows of a plain table with a key and a moment. All
// names, and further conditions, are constants of the caller. Of two runs at once one has the turn
// and the other ends: a lock on the rows would need the right to update them,
// which a log that is only added to and pruned grants to no role. A row that was chosen
// and then renewed, such as an expired key that is claimed again, is no longer old when
// it is deleted, and stays.
func DeleteBefore(table, key, moment string, only ...string) Aged {
	when := strings.Join(append([]string{moment + " < $1"}, only...), " AND ")
	remove := fmt.Sprintf(`DELETE FROM %[1]s WHERE (SELECT pg_try_advisory_xact_lock(hashtextextended('prune %[1]s', 0)))
		AND %[4]s AND (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE %[4]s ORDER BY %[3]s LIMIT $2)`, table, key, moment, when)
	count := fmt.Sprintf(`SELECT count(*) FROM (SELECT FROM %s WHERE %s LIMIT 1000000) AS o`, table, when)
	return Aged{
		Remove: func(ctx context.Context, db *pgxpool.Pool, before time.Time, limit int) (int, error) {
			tag, err := db.Exec(ctx, remove, before, limit)
			if err != nil {
				return 0, fmt.Errorf("prune %s: %w", table, err)
			}
			return int(tag.RowsAffected()), nil
		},
		Count: func(ctx context.Context, db *pgxpool.Pool, before time.Time) (n int, err error) {
			if err := db.QueryRow(ctx, count, before).Scan(&n); err != nil {
				return 0, fmt.Errorf("count in %s: %w", table, err)
			}
			return n, nil
		},
	}
}

// Jobs is the command that runs one job, or all.
type Jobs struct {
	Database
	Name   string `arg:"" name:"job" help:"One of ${jobs}; prune or all for every one."`
	DryRun bool   `name:"dry-run" help:"Show how many rows each job would deal with, and change nothing."`

	service Identity
}

// BeforeApply is called with the command line's service before settings are read.
func (j *Jobs) BeforeApply(id Identity) error {
	j.service = id
	return nil
}

// Validate accepts a job that there is, and a configuration that reaches the database.
func (j *Jobs) Validate() error {
	if _, err := j.service.choose(j.Name); err != nil {
		return err
	}
	return j.Database.Validate()
}

// Run runs the named job.
func (j *Jobs) Run(ctx context.Context, id Identity) error {
	jobs, err := id.choose(j.Name)
	if err != nil {
		return err
	}
	db, err := j.Open(ctx, id)
	if err != nil {
		return err
	}
	defer db.Close()
	if j.DryRun {
		return countJobs(ctx, db, jobs, os.Stdout)
	}
	return id.RunJobs(ctx, db, jobs, daemon.NewLogger(os.Stderr, daemon.Settings{LogSettings: j.LogSettings}, id.Name))
}

// countJobs shows what the jobs would do.
func countJobs(ctx context.Context, db *pgxpool.Pool, jobs []Job, w io.Writer) error {
	var errs []error
	for _, j := range jobs {
		n, pruned, err := j.counted(ctx, db)
		text := fmt.Sprintf("%d rows", n)
		if j.Pruned != nil {
			text += fmt.Sprintf(", %d pruned", pruned)
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "%s: %s\n", j.Name, text)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// counted is the dry run.
func (j Job) counted(ctx context.Context, db *pgxpool.Pool) (rows, pruned int, err error) {
	if j.Count == nil {
		return 0, 0, fmt.Errorf("job %s: has no dry run", j.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, jobBudget)
	defer cancel()
	now := time.Now()
	rows, err = j.Count(ctx, db, now)
	if err == nil && j.Pruned != nil {
		pruned, err = j.Pruned(ctx, db, now)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("job %s: %w", j.Name, err)
	}
	return rows, pruned, nil
}

func (id Identity) choose(name string) ([]Job, error) {
	if name == "all" || name == "prune" {
		return id.Jobs, nil
	}
	if i := slices.IndexFunc(id.Jobs, func(j Job) bool { return j.Name == name }); i >= 0 {
		return id.Jobs[i : i+1], nil
	}
	names := make([]string, len(id.Jobs))
	for i, j := range id.Jobs {
		names[i] = j.Name
	}
	return nil, fmt.Errorf("no such job %q: want %s, prune or all", name, strings.Join(names, ", "))
}

// RunJobs runs the jobs one after the other. One that fails does not keep the
// others from running.
func (id Identity) RunJobs(ctx context.Context, db *pgxpool.Pool, jobs []Job, log *slog.Logger) error {
	return id.runJobs(ctx, db, jobs, "command", func(j Job, rows int, err error) {
		if err == nil {
			log.InfoContext(ctx, "job done", "job", j.Name, "rows", rows)
		}
	})
}

// runJobs runs jobs, records how each went and reports it.
func (id Identity) runJobs(ctx context.Context, db *pgxpool.Pool, jobs []Job, by string, report func(Job, int, error)) error {
	var errs []error
	for _, j := range jobs {
		rows, err := j.within(ctx, db)
		if err != nil {
			err = fmt.Errorf("job %s: %w", j.Name, err)
		}
		if ctx.Err() != nil { // the process ends: the next one runs it
			return errors.Join(append(errs, err)...)
		}
		report(j, rows, err)
		errs = append(errs, err, id.keepRun(ctx, db, j.Name, by, rows, err))
	}
	return errors.Join(errs...)
}

func (j Job) within(ctx context.Context, db *pgxpool.Pool) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, jobBudget)
	defer cancel()
	return j.Run(ctx, db, time.Now())
}
