package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/local/metrics"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/trace"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// Config is what a Console tells of. What the services alone know, their command says.
type Config struct {
	Sim *platform.Upstreams
	// Environment says where everything is, as commands of the platform are told.
	Environment map[string]string
	Services    []Service
	// Trigger has the platform report something, and Events are what it can report.
	Trigger func(ctx context.Context, t Trigger) error
	Events  []Control
	// Rungs of the brownout ladder, and the flags that hold it and switch campaign mode.
	Rungs                  []string
	RungFlag, CampaignFlag Flag
	// Files are those of deploy/: grafana/*.json, alerts/*-slo.yaml.
	Files fs.FS
	// State looks at everything that runs.
	State func(ctx context.Context) (State, error)
	// Watch has figures and events be collected from the start, and not from the first look on.
	Watch bool
}

// Service is one of the two.
type Service struct {
	Name, Namespace     string // in logs, in metrics
	Metrics             string // where it shows them
	Flags               string // the key in Redis of its flags
	Streams             string // what the channels in Redis that open streams listen to begin with; empty = it has none
	Outbox              *outbox.Table
	Publishes, Receives []string // topics
}

// Console answers under /_up/.
type Console struct {
	Traces *trace.Store

	cfg      Config
	requests *feed[trace.Request]
	events   *feed[Event]
	heard    heard
	history  *metrics.History
	boards   []board
	mux      *http.ServeMux
	db       *pgxpool.Pool
	redis    rueidis.Client

	ctx               context.Context //nolint:containedctx // the life of background work
	stop              context.CancelFunc
	work              sync.WaitGroup
	listening, asking sync.Once
}

// New returns a console; its Traces are to be mounted where spans are sent to.
func New(ctx context.Context, cfg Config) (*Console, error) {
	c := &Console{cfg: cfg, requests: newFeed[trace.Request]("request"), events: newFeed[Event]("event"), mux: http.NewServeMux()}
	c.Traces = trace.New(trace.Config{Met: cfg.Sim.Met, Finished: func(s *trace.Story) {
		c.requests.add(s.Seq, s.Request)
		c.heard.add(s)
	}})
	c.ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := errors.Join(c.open(ctx), c.readBoards()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /_up/requests":          c.requests.serveList,
		"GET /_up/requests/stream":   c.requests.serveStream,
		"GET /_up/requests/{id}":     c.story,
		"GET /_up/events":            c.listened(c.events.serveList),
		"GET /_up/events/stream":     c.listened(c.events.serveStream),
		"GET /_up/outbox":            asked(c.outboxes),
		"GET /_up/world":             asked(c.world),
		"POST /_up/flags":            c.setFlag,
		"POST /_up/trigger":          c.trigger,
		"GET /_up/dashboards":        c.dashboards,
		"GET /_up/dashboards/{name}": c.figures,
		"GET /_up/state":             asked(c.cfg.State),
	} {
		c.mux.HandleFunc(pattern, h)
	}
	if cfg.Watch {
		c.collect()
		c.work.Go(func() { c.listening.Do(c.listen) })
	}
	return c, nil
}

func (c *Console) open(ctx context.Context) (err error) {
	if c.db, err = postgres.Open(ctx, postgres.Config{URL: c.cfg.Environment["MELMASTOON_POSTGRES_URL"], ApplicationName: "console", MaxConns: 2}); err != nil {
		return err
	}
	c.redis, err = redis.Open(redis.Config{URL: c.cfg.Environment["MELMASTOON_REDIS_URL"], Tier: "console", Timeout: askTimeout})
	return err
}

// Close ends what the console does in the background.
func (c *Console) Close() error {
	c.stop()
	c.work.Wait()
	if c.db != nil {
		c.db.Close()
	}
	if c.redis != nil {
		c.redis.Close()
	}
	return nil
}

// collect begins to ask the services for their figures.
func (c *Console) collect() {
	c.asking.Do(func() {
		c.scrape()
		c.work.Go(func() {
			for pause.For(c.ctx, metrics.Every) {
				c.scrape()
			}
		})
	})
}

func (c *Console) scrape() {
	for _, svc := range c.cfg.Services {
		_ = c.history.Scrape(c.ctx, svc.Metrics, svc.Name, time.Now()) // a service that is away leaves a gap
	}
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

func (c *Console) story(w http.ResponseWriter, r *http.Request) {
	story, known := c.Traces.Find(r.PathValue("id"))
	if !known {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "this request is not known, or no longer: the latest two thousand are kept")
		return
	}
	answer(w, http.StatusOK, story)
}

const (
	// askTimeout bounds what a look costs.
	askTimeout = 10 * time.Second
	// actTimeout bounds what a control does: one that is given up may still come about.
	actTimeout = time.Minute
	// maxAsked bounds what a control sends.
	maxAsked = 64 << 10
)

// asked answers with what a look found.
func asked[T any](look func(ctx context.Context) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
		defer cancel()
		found, err := look(ctx)
		if err != nil {
			refuse(w, http.StatusServiceUnavailable, "UNAVAILABLE", err.Error())
			return
		}
		answer(w, http.StatusOK, found)
	}
}

// answer writes an answer, which is never kept.
func answer(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "INTERNAL", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b) // a reader that left is its own affair
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	answer(w, status, map[string]map[string]string{"error": {"code": code, "message": message}})
}

// read reads what a control sends; it refuses members that it does not know.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(io.LimitReader(r.Body, maxAsked))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, "INVALID_ARGUMENT", err.Error())
		return false
	}
	return true
}
