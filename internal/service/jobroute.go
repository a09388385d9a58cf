package service

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/callers"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	jobRouteBudget = 20 * time.Second
	// jobRouteWait is how long an answer waits for the job: below the budget, and below
	// what schedulers wait by default.
	jobRouteWait = 15 * time.Second
	maxJobBody   = 1 << 10
)

// JobRoutes is POST /internal/jobs/{job} for a scheduler outside. Only the given accounts
// may call it, with their ID token alone: a scheduler can not sign bodies, and a run
// that is started too often does no harm.
func (p *Process) JobRoutes(ctx context.Context, s *Settings, requests *pgxpool.Pool, accounts []string) ([]web.Route, error) {
	db, err := p.JobsPostgres(ctx, &s.DatabaseSettings, requests)
	if err != nil {
		return nil, err
	}
	r := &jobRoute{id: p.Identity, db: db, caller: s.Callers().Only(accounts), by: p.Instance(), jobs: p.Jobs, running: map[string]*jobRun{}}
	p.Add("jobs on demand", nil, r.stop)
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return []web.Route{{Pattern: "POST /internal/jobs/{job}", Handle: r.handle, Kind: web.Internal, Budget: jobRouteBudget, Body: maxJobBody}}, nil
}

// jobRoute runs jobs that a scheduler asks for.
type jobRoute struct {
	id     Identity
	db     *pgxpool.Pool
	caller callers.Auth
	by     string
	jobs   []Job

	ctx    context.Context //nolint:containedctx // runs outlive the requests that start them, and end with the process
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	// running has the runs under way: a second request for one waits with the first.
	running map[string]*jobRun
}

// jobRun is a run under way. Its fields may be read once done is closed.
type jobRun struct {
	done chan struct{}
	rows int
	err  error
}

// jobAnswer tells how a run ended, or that it goes on.
type jobAnswer struct {
	Job    string `json:"job"`
	State  string `json:"state"` // done, running
	Rows   *int   `json:"rows,omitempty"`
	DryRun bool   `json:"dryRun,omitempty"`
}

func (j *jobRoute) handle(w http.ResponseWriter, r *http.Request) error {
	if err := j.caller.CheckBearer(r, time.Now()); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, web.From(r.Context()).MaxBody))
	if err != nil {
		return err
	}
	dryRun := false
	if len(body) > 0 {
		in, err := web.ParseBody(r.Context(), body)
		if err != nil {
			return err
		}
		in.Only("dryRun")
		if given := in.Bool("dryRun"); given != nil {
			dryRun = *given
		}
		if err := in.Err(); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(j.jobs, func(job Job) bool { return job.Name == web.PathValue(r, "job") })
	if i < 0 {
		return bff.Errorf(bff.CodeResourceNotFound, "there is no such job")
	}
	chosen := j.jobs[i]
	if dryRun {
		n, _, err := chosen.counted(r.Context(), j.db)
		if err != nil {
			return err
		}
		return web.WriteJSON(w, http.StatusOK, jobAnswer{Job: chosen.Name, State: "done", Rows: &n, DryRun: true})
	}
	run := j.start(chosen)
	wait := time.NewTimer(jobRouteWait)
	defer wait.Stop()
	select {
	case <-run.done:
		if run.err != nil {
			return run.err
		}
		return web.WriteJSON(w, http.StatusOK, jobAnswer{Job: chosen.Name, State: "done", Rows: &run.rows})
	case <-wait.C:
	case <-r.Context().Done():
	}
	return web.WriteJSON(w, http.StatusAccepted, jobAnswer{Job: chosen.Name, State: "running"})
}

// start runs a job, or returns the run of it that is under way in this process. In
// another process a run may be under way as well, which does no harm.
func (j *jobRoute) start(job Job) *jobRun {
	j.mu.Lock()
	defer j.mu.Unlock()
	if run := j.running[job.Name]; run != nil {
		return run
	}
	run := &jobRun{done: make(chan struct{})}
	j.running[job.Name] = run
	j.wg.Go(func() {
		run.err = j.id.runJobs(j.ctx, j.db, []Job{job}, j.by, func(_ Job, rows int, _ error) { run.rows = rows })
		if run.err == nil {
			run.err = j.ctx.Err() // the process ends
		}
		j.mu.Lock()
		delete(j.running, job.Name)
		j.mu.Unlock()
		close(run.done)
	})
	return run
}

// stop ends the runs under way; the next run does the rest.
func (j *jobRoute) stop(context.Context) error {
	j.cancel()
	j.wg.Wait()
	return nil
}
