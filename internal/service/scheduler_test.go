package service

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Of any number of processes one runs a job that is due, as the role of jobs, and
// all of them report it.
func TestScheduler(t *testing.T) {
	t.Parallel()
	for name, s := range shapes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := s.open(t)
			var (
				runs, failures, busy atomic.Int32
				failing              atomic.Bool
			)
			s.Jobs = []Job{
				{Name: "prune", Run: func(context.Context, *pgxpool.Pool, time.Time) (int, error) {
					if busy.Add(1) > 1 {
						t.Error("two processes run jobs at once")
					}
					defer busy.Add(-1)
					runs.Add(1)
					return 3, nil
				}},
				{Name: "export", Run: func(context.Context, *pgxpool.Pool, time.Time) (int, error) {
					if failing.Load() {
						failures.Add(1)
						return 0, errors.New("away")
					}
					return 0, nil
				}},
			}
			var all []*scheduler
			for range 3 {
				all = append(all, newScheduler(s.Identity, db, slog.New(slog.DiscardHandler), "test"))
			}
			pass := func() {
				var wg sync.WaitGroup
				for _, sch := range all {
					wg.Go(func() { _ = sch.pass(testkit.Context(t)) }) // of a job that fails on purpose
				}
				wg.Wait()
			}
			pass()
			pass()
			if n := runs.Load(); n != 1 {
				t.Fatalf("%d runs, want 1", n)
			}
			age := func(by string) {
				exec(t, db, `UPDATE `+s.Schema.Schema+`.job_runs SET ended_at = ended_at - $1::interval`, by)
			}
			age("61 minutes")
			failing.Store(true)
			pass()
			if runs.Load() != 2 || failures.Load() != 1 {
				t.Errorf("after an hour: %d runs, %d failures; want 2, 1", runs.Load(), failures.Load())
			}
			age("6 minutes")
			pass()
			if runs.Load() != 2 || failures.Load() != 2 {
				t.Errorf("after a failure: %d runs, %d failures; want 2, 2", runs.Load(), failures.Load())
			}

			age("2 hours")
			off := newScheduler(s.Identity, db, slog.New(slog.DiscardHandler), "test")
			off.off = true
			if err := off.pass(testkit.Context(t)); err != nil || runs.Load() != 2 {
				t.Errorf("off: %v, %d runs, want 2", err, runs.Load())
			}
			for _, job := range []string{"prune", "export"} {
				if got := measured(t, off.succeeded.WithLabelValues(job)); time.Since(time.Unix(int64(got), 0)) > time.Hour {
					t.Errorf("last success of %s at %v", job, got)
				}
			}
			var ran, failed, rows float64
			for _, sch := range all {
				ran += measured(t, sch.runs.WithLabelValues("prune", "success"))
				failed += measured(t, sch.runs.WithLabelValues("export", "failure"))
				rows += measured(t, sch.rows.WithLabelValues("prune"))
			}
			if ran != 2 || failed != 2 || rows != 6 {
				t.Errorf("counted %v runs, %v failures, %v rows; want 2, 2, 6", ran, failed, rows)
			}
		})
	}
}

// Jobs of a process run at their own intervals, whether or not the others are
// scheduled elsewhere, and wait for none of them.
func TestOwnJobs(t *testing.T) {
	t.Parallel()
	s := shapes()["text ids"]
	db := s.open(t)
	retention := newScheduler(s.Identity, db, slog.New(slog.DiscardHandler), "test")
	retention.off = true
	var (
		runs          atomic.Int32
		failed        atomic.Bool
		first, second *scheduler
	)
	jobs := []Job{{Name: "status", Every: 4 * time.Minute, Run: func(ctx context.Context, _ *pgxpool.Pool, _ time.Time) (int, error) {
		if runs.Add(1) > 10 {
			t.Fatal("two processes run it at once")
		}
		if err := second.pass(ctx); err != nil {
			t.Error(err)
		}
		if failed.Load() {
			return 0, errors.New("away")
		}
		return 1, nil
	}}}
	first, second = retention.with(jobs), retention.with(jobs)
	retention.id.Jobs = []Job{{Name: "prune", Run: func(ctx context.Context, _ *pgxpool.Pool, _ time.Time) (int, error) {
		return 0, first.pass(ctx) // while the lock of the others is held
	}}}
	retention.off = false
	for _, step := range []struct {
		passed string // since the step before
		fails  bool
		want   int32
	}{
		{"0", false, 1},
		{"3 minutes", false, 1},
		{"2 minutes", true, 2},
		{"3 minutes", false, 2},
		{"2 minutes", false, 3},
	} {
		exec(t, db, `UPDATE bff_consumer.job_runs SET ended_at = ended_at - $1::interval`, step.passed)
		exec(t, db, `UPDATE bff_consumer.job_runs SET ended_at = ended_at - interval '2 hours' WHERE job = 'prune'`)
		failed.Store(step.fails)
		if err := retention.pass(testkit.Context(t)); err != nil && !step.fails {
			t.Fatal(err)
		}
		if got := runs.Load(); got != step.want {
			t.Errorf("after another %s: %d runs, want %d", step.passed, got, step.want)
		}
	}
}

// measured is the value of one metric.
func measured(t *testing.T, m prometheus.Collector) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(m)
	families, err := r.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("gathered %v, %v", families, err)
	}
	v := families[0].GetMetric()[0]
	return v.GetGauge().GetValue() + v.GetCounter().GetValue()
}
