package backofficehttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// The two forms of a dashboard.
const (
	mediaJSON  = "application/json"
	mediaLines = "application/x-ndjson"
)

const (
	// dashboardFresh is how long a complete snapshot is kept (DATA_MODEL §3.2), and
	// partialFresh one with something missing or old.
	dashboardFresh = 30 * time.Second
	partialFresh   = 5 * time.Second
	dashboardBytes = 64 << 20

	private = "private, no-store"
)

// Dashboards are the finished dashboards, and the lines of those in the making.
// Finished ones are bytes: a hit is a look-up and a write.
type Dashboards struct {
	composer        *board.Composer
	lines, document *cache.Cache
	keys            redis.Keys
	partial         prometheus.Counter
	first           prometheus.Histogram // seconds to the first byte

	mu     sync.Mutex
	making map[string]*making
}

// DashboardsConfig is what dashboards stand on.
type DashboardsConfig struct {
	Composer  *board.Composer
	Store     *cache.Store
	Keys      redis.Keys
	Metrics   prometheus.Registerer
	Namespace string
}

// NewDashboards opens the caches.
func NewDashboards(cfg DashboardsConfig) (*Dashboards, error) {
	open := func(name, media string) (*cache.Cache, error) {
		return cache.New(cfg.Store, cache.Config{
			Name: name, Shared: true, MaxBytes: dashboardBytes, ContentType: media, CacheControl: private, Vary: "Accept",
			TTL: func() cache.TTL { return cache.TTL{Fresh: dashboardFresh} },
		})
	}
	d := &Dashboards{composer: cfg.Composer, keys: cfg.Keys, making: map[string]*making{}, partial: prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: cfg.Namespace, Name: "dashboard_partial_total", Help: "Dashboards that were composed with a widget missing or old.",
	}), first: prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: cfg.Namespace, Name: "dashboard_first_byte_seconds", Help: "Time from a request for a dashboard to the first byte of its answer.", Buckets: firstBuckets(),
	})}
	var err1, err2 error
	d.lines, err1 = open("dashboard", mediaLines)
	d.document, err2 = open("dashboard-json", mediaJSON)
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(d.partial, d.first)
	}
	return d, errors.Join(err1, err2)
}

// line is one line of a dashboard.
type line struct {
	widget board.WidgetID
	text   []byte // with its line break
}

// making is a dashboard while it is composed: the lines so far.
type making struct {
	readers int // and the fill, if it has begun

	mu    sync.Mutex
	lines []line
	grown chan struct{} // closed with the next line
}

// join returns the dashboard in the making under a key.
func (d *Dashboards) join(key string) *making {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.making[key]
	if m == nil {
		m = &making{grown: make(chan struct{})}
		d.making[key] = m
	}
	m.readers++
	return m
}

// leave lets go of it. One that is finished is no longer in the making: a reader
// that comes later must not get its lines.
func (d *Dashboards) leave(key string, m *making, finished bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m.readers--
	if d.making[key] == m && (finished || m.readers == 0) {
		delete(d.making, key)
	}
}

func (m *making) add(l line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, l)
	close(m.grown)
	m.grown = make(chan struct{})
}

// after returns the lines from the n-th on, and what is closed when there are more.
func (m *making) after(n int) ([]line, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lines[n:], m.grown
}

// fillLines composes a dashboard in lines, which readers see as they are made.
func (d *Dashboards) fillLines(key string, at board.Place, roles []backoffice.Role) cache.FillFunc {
	return func(ctx context.Context) (cache.Fill, error) {
		m := d.join(key)
		defer d.leave(key, m, true)
		now := time.Now()
		body := d.shell(at, now)
		var failed error
		partial := d.composer.Compose(ctx, at, roles, now, func(a board.WidgetAnswer) {
			text, err := json.Marshal(a)
			if err != nil {
				failed = errors.Join(failed, err)
				return
			}
			text = append(text, '\n')
			body = append(body, text...)
			m.add(line{a.Widget, text})
		})
		return d.filled(append(body, endLine(partial)...), partial, at), failed
	}
}

// degradedWidget says of a widget that it is missing or old, as other answers say it of their parts.
type degradedWidget struct {
	Part     board.WidgetID     `json:"part"`
	Reason   board.WidgetStatus `json:"reason"`
	Affected int                `json:"affected"`
}

// fillDocument composes a dashboard as one document.
func (d *Dashboards) fillDocument(at board.Place, roles []backoffice.Role) cache.FillFunc {
	return func(ctx context.Context) (cache.Fill, error) {
		now := time.Now()
		answers := map[board.WidgetID]board.WidgetAnswer{}
		partial := d.composer.Compose(ctx, at, roles, now, func(a board.WidgetAnswer) { answers[a.Widget] = a })
		out := struct {
			PropertyID bff.ID               `json:"propertyId"`
			Day        board.Day            `json:"day"`
			AsOf       bff.Timestamp        `json:"asOf"`
			Partial    bool                 `json:"partial"`
			Widgets    []board.WidgetAnswer `json:"widgets"`
			Degraded   []degradedWidget     `json:"degraded"`
		}{at.Property, at.Day, bff.At(now), partial, nil, []degradedWidget{}}
		for _, w := range d.composer.Widgets() {
			a := answers[w.ID]
			if out.Widgets = append(out.Widgets, a); a.Partial() {
				out.Degraded = append(out.Degraded, degradedWidget{w.ID, a.Status, 1})
			}
		}
		body, err := json.Marshal(out)
		return d.filled(body, partial, at), err
	}
}

func (d *Dashboards) filled(body []byte, partial bool, at board.Place) cache.Fill {
	f := cache.Fill{Body: body, Tags: backoffice.PartDashboard.Tags(at.Tenant, at.Property)}
	if partial {
		d.partial.Inc()
		f.TTL = cache.TTL{Fresh: partialFresh}
	}
	return f
}

// shell is the first line: every widget, still empty.
func (d *Dashboards) shell(at board.Place, now time.Time) []byte {
	b := make([]byte, 0, 8<<10)
	b = append(b, `{"shell":true,"propertyId":"`...)
	b, _ = at.Property.AppendText(b) // never fails
	day, _ := json.Marshal(at.Day)   // never fails
	b = append(append(b, `","day":`...), day...)
	b = append(b, `,"asOf":"`...)
	b = append(b, bff.At(now).String()...)
	b = append(b, `","widgets":[`...)
	for i, w := range d.composer.Widgets() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"widgetId":"`...)
		b = append(b, w.ID...)
		b = append(b, `","status":"loading"}`...)
	}
	return append(b, "]}\n"...)
}

// endLine is the last line.
func endLine(partial bool) []byte {
	if partial {
		return []byte(`{"end":true,"partial":true}` + "\n")
	}
	return []byte(`{"end":true,"partial":false}` + "\n")
}

// widgetLines are the lines between the first and the last, and the last.
func widgetLines(body []byte) (lines [][]byte, end []byte) {
	lines = bytes.SplitAfter(body, []byte("\n")) // what follows the last break is empty
	n := len(lines) - 2
	return lines[1:n], lines[n]
}
