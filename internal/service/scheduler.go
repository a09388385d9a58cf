package service

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/tracing"
)

// Times of the jobs.
const (
	jobsEvery = time.Hour       // between two runs of a job that says nothing else
	jobsRetry = 5 * time.Minute // after a failure
	jobBudget = 10 * time.Minute
	// jobsPoll is how often a process looks for jobs that are due, give or take
	// half; jobsFirst is the longest wait for the first look.
	jobsPoll  = time.Minute
	jobsFirst = 5 * time.Second
)

// scheduler runs the jobs that are due. Of all processes one at a time does, by a
// lock that Postgres gives back when the process dies.
type scheduler struct {
	id  Identity
	db  *pgxpool.Pool
	log *slog.Logger
	by  string // this process
	off bool   // jobs are scheduled elsewhere: only metrics
	// tracer records runs; nil records nothing.
	tracer *tracing.Tracer
	// lock is what one process at a time holds.
	lock  string
	locks *locks
	jobMetrics
}

// locks are those of a process, on one connection for all: there are few of those. They
// go with it, and a process that has lost one early does no harm.
type locks struct {
	db   *pgxpool.Pool
	mu   sync.Mutex
	conn *pgxpool.Conn // while one is held
	held map[string]bool
}

// try takes a lock and returns what gives it back, or nil if it is taken: by another
// process, or by this one, which Postgres would give it to again.
func (l *locks) try(ctx context.Context, name string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[name] {
		return nil, nil
	}
	if l.conn == nil {
		if l.conn, err = l.db.Acquire(ctx); err != nil {
			return nil, fmt.Errorf("jobs: %w", err)
		}
	}
	l.held[name] = true
	var mine bool
	err = l.conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended($1, 0))`, name).Scan(&mine)
	if err != nil || !mine {
		l.leave(name)
		return nil, err
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, err := l.conn.Exec(ctx, `SELECT pg_advisory_unlock(hashtextextended($1, 0))`, name); err != nil {
			_ = l.conn.Conn().Close(ctx) // gives the locks back, too
		}
		l.leave(name)
	}, nil
}

// leave gives the connection back after the last lock.
func (l *locks) leave(name string) {
	if delete(l.held, name); len(l.held) == 0 {
		l.conn.Release()
		l.conn = nil
	}
}

type jobMetrics struct {
	succeeded *prometheus.GaugeVec
	runs      *prometheus.CounterVec
	rows      *prometheus.CounterVec
}

// Schedule runs the service's jobs from this process whenever they are due and no
// other process does; with the setting off it only reports when they last
// succeeded. Own are jobs that need parts of a running process: no command can run
// them, so they run whatever the setting, under a lock of their own that no job of
// retention holds for minutes.
func (p *Process) Schedule(ctx context.Context, s *Settings, requests *pgxpool.Pool, own ...Job) error {
	db, err := p.JobsPostgres(ctx, &s.DatabaseSettings, requests)
	if err != nil {
		return err
	}
	p.schedule(db, s.Scheduler == "off", own)
	return nil
}

// ScheduleAll runs the service's jobs and its own from this process, as Schedule does.
func (p *Process) ScheduleAll(db *pgxpool.Pool, own ...Job) { p.schedule(db, false, own) }

func (p *Process) schedule(db *pgxpool.Pool, off bool, own []Job) {
	sch := newScheduler(p.Identity, db, p.Log, p.Instance())
	sch.off, sch.tracer = off, p.tracer
	p.Metrics.MustRegister(sch.succeeded, sch.runs, sch.rows)
	p.AddLoop("jobs", func(ctx context.Context) error { sch.loop(ctx); return nil })
	if len(own) > 0 {
		live := sch.with(own)
		p.AddLoop("own jobs", func(ctx context.Context) error { live.loop(ctx); return nil })
	}
}

func newScheduler(id Identity, db *pgxpool.Pool, log *slog.Logger, by string) *scheduler {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: id.Namespace, Name: name, Help: help}
	}
	// The label is not job: scrapes have one of that name.
	s := &scheduler{id: id, db: db, log: log, by: by, lock: "jobs of " + id.Schema.Schema, locks: &locks{db: db, held: map[string]bool{}}, jobMetrics: jobMetrics{
		succeeded: prometheus.NewGaugeVec(
			prometheus.GaugeOpts(opts("job_last_success_timestamp_seconds", "When a job last succeeded, in any process; 0 = never.")), []string{"name"},
		),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts(opts("job_runs_total", "Runs of jobs in this process.")), []string{"name", "result"}),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts(opts("job_rows_total", "Rows that jobs dealt with in this process.")), []string{"name"}),
	}}
	s.expose()
	return s
}

// with returns a scheduler of other jobs, with a lock of their own.
func (s *scheduler) with(jobs []Job) *scheduler {
	out := *s
	out.id.Jobs, out.off, out.lock = jobs, false, "own "+s.lock
	out.expose()
	return &out
}

// expose shows metrics of jobs that have not run.
func (s *scheduler) expose() {
	for _, j := range s.id.Jobs {
		s.rows.WithLabelValues(j.Name)
		for _, result := range []string{"success", "failure"} {
			s.runs.WithLabelValues(j.Name, result)
		}
	}
}

func (s *scheduler) loop(ctx context.Context) {
	failing := false
	for next := rand.N(jobsFirst); pause.For(ctx, next); next = jobsPoll/2 + rand.N(jobsPoll) { //nolint:gosec // jitter
		err := s.pass(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			s.log.WarnContext(ctx, "reading or running due jobs failed, retrying", "error", err.Error())
		}
		failing = err != nil
	}
}

// pass runs what is due, if no other process is at it, and reads the metrics.
func (s *scheduler) pass(ctx context.Context) error {
	var err error
	if !s.off {
		err = s.runDue(ctx)
	}
	last, readErr := s.id.lastRuns(ctx, s.db)
	if readErr != nil {
		return readErr
	}
	for _, j := range s.id.Jobs {
		s.succeeded.WithLabelValues(j.Name).Set(last[j.Name].SucceededAt)
	}
	return err
}

// runDue takes the lock, or returns at once.
func (s *scheduler) runDue(ctx context.Context) error {
	release, err := s.locks.try(ctx, s.lock)
	if err != nil || release == nil {
		return err
	}
	defer release()
	last, err := s.id.lastRuns(ctx, s.db)
	if err != nil {
		return err
	}
	var due []Job
	for _, j := range s.id.Jobs {
		if run, ran := last[j.Name]; !ran || run.due(j) {
			due = append(due, j.recorded(s.tracer))
		}
	}
	return s.id.runJobs(ctx, s.db, due, s.by, func(j Job, rows int, err error) {
		result := "success"
		if err != nil {
			result = "failure"
		}
		s.runs.WithLabelValues(j.Name, result).Inc()
		s.rows.WithLabelValues(j.Name).Add(float64(rows))
		s.log.InfoContext(ctx, "job done", "job", j.Name, "rows", rows, "result", result)
	})
}

// lastRun is how a job last ran. Moments are the database's: no clock of a process
// decides what is due.
type lastRun struct {
	Job         string
	Ago         float64 // seconds since it ended
	Failed      bool
	SucceededAt float64 // seconds since 1970; 0 = never
}

func (r lastRun) due(j Job) bool {
	every := cmp.Or(j.Every, jobsEvery)
	if r.Failed {
		every = min(every, jobsRetry)
	}
	return r.Ago >= every.Seconds()
}

func (id Identity) lastRuns(ctx context.Context, db *pgxpool.Pool) (map[string]lastRun, error) {
	rows, err := db.Query(ctx, `SELECT job, extract(epoch FROM now() - ended_at)::float8, error <> '', coalesce(extract(epoch FROM succeeded_at), 0)::float8
		FROM `+id.Schema.Schema+`.job_runs`)
	if err != nil {
		return nil, fmt.Errorf("read job runs: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[lastRun])
	if err != nil {
		return nil, fmt.Errorf("read job runs: %w", err)
	}
	last := make(map[string]lastRun, len(all))
	for _, r := range all {
		last[r.Job] = r
	}
	return last, nil
}

// keepRun records how a job ran.
func (id Identity) keepRun(ctx context.Context, db *pgxpool.Pool, job, by string, rows int, failure error) error {
	text := ""
	if failure != nil {
		text = failure.Error()
	}
	if _, err := db.Exec(ctx, `INSERT INTO `+id.Schema.Schema+`.job_runs AS r (job, ended_at, succeeded_at, rows, error, instance)
		VALUES ($1, now(), CASE WHEN $2 = '' THEN now() END, $3, $2, $4)
		ON CONFLICT (job) DO UPDATE SET ended_at = excluded.ended_at, succeeded_at = coalesce(excluded.succeeded_at, r.succeeded_at),
			rows = excluded.rows, error = excluded.error, instance = excluded.instance`, job, text, rows, by); err != nil {
		return fmt.Errorf("record job %s: %w", job, err)
	}
	return nil
}
