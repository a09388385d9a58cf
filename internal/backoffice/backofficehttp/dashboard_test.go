package backofficehttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/web"
)

// slowHouse answers each source after its time: an empty value of its type.
type slowHouse struct {
	takes map[board.Source]time.Duration

	mu    sync.Mutex
	calls map[board.Source]int
}

func (h *slowHouse) Read(ctx context.Context, from board.Source, _ board.Place) (board.Reading, error) {
	h.mu.Lock()
	h.calls[from]++
	h.mu.Unlock()
	select {
	case <-time.After(h.takes[from]):
	case <-ctx.Done():
		return board.Reading{}, context.Cause(ctx)
	}
	values := map[board.Source]any{
		board.SourceArrivals: []board.Stay{}, board.SourceDepartures: []board.Stay{}, board.SourceInHouse: []board.Stay{},
		board.SourceOccupancy: []board.Night{}, board.SourceRooms: []board.Room{}, board.SourceRates: []board.Rate{},
		board.SourceFigures: board.Figures{}, board.SourceProgress: board.Progress{}, board.SourceLinen: board.Linen{},
		board.SourceWorkOrders: []board.WorkOrder{}, board.SourceFolios: board.Folios{}, board.SourceCashDrawer: board.CashDrawer{},
		board.SourceAlerts: board.Counts{}, board.SourceSuggestions: board.Counts{}, board.SourceAcceptance: board.Acceptance{},
		board.SourceDevices: []board.SyncDevice{}, board.SourceShiftGaps: []board.Shift{},
		board.SourceLockFailures: []board.LockFailure{}, board.SourceNotes: []board.Note{},
	}
	return board.Reading{Value: values[from], AsOf: time.Now()}, nil
}

// desk is the API in a bubble, asked by an owner.
type desk struct {
	t      *testing.T
	house  *slowHouse
	dash   *Dashboards
	store  *cache.Store
	server *web.Server
	// metrics of the dashboards alone
	metrics *prometheus.Registry
	at      board.Place
}

// noJournal forgets.
type noJournal struct{}

func (noJournal) Record(context.Context, []backoffice.Activity, ...bff.Event) error { return nil }

// kabul is where every property stands.
type kabul struct{}

func (kabul) FindProperty(context.Context, bff.ID, bff.ID) (board.Property, error) {
	zone, err := board.ReadZone("Asia/Kabul", "")
	return board.Property{Zone: zone}, err
}

func newDesk(t *testing.T, takes map[board.Source]time.Duration) *desk {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d := &desk{t: t, metrics: prometheus.NewRegistry(), house: &slowHouse{takes: takes, calls: map[board.Source]int{}}}
	d.at = board.Place{Tenant: bff.NewID(bff.PrefixTenant, time.Now()), Property: bff.NewID(bff.PrefixProperty, time.Now())}
	var err error
	d.store, err = cache.NewStore(cache.StoreConfig{Prefix: "test:"})
	must(err)
	t.Cleanup(func() { must(d.store.Close(context.Background())) })
	d.dash, err = NewDashboards(DashboardsConfig{
		Composer: board.NewComposer(d.house, board.Deadlines{Widget: 450 * time.Millisecond, Whole: 550 * time.Millisecond}),
		Store:    d.store, Keys: redis.NewKeys("test", "staff"), Metrics: d.metrics,
	})
	must(err)
	log, metrics := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	background := web.NewBackground(web.BackgroundConfig{})
	t.Cleanup(func() { must(background.Close(context.Background())) })
	api := New(Config{
		Dashboards: d.dash, Log: log, Metrics: metrics, Background: background,
		Calendar: board.NewCalendar(kabul{}, 0), Turns: board.NewTurns(nil, nil),
		Viewings: board.NewViewings(noJournal{}, backoffice.NewEnvelopes("test")),
	})
	d.server = web.NewServer(web.Config{Log: log, Metrics: metrics, Budget: time.Minute})
	must(d.server.Mount(web.Route{
		Pattern: "GET /dashboard", Kind: web.PrivateRead, Budget: readBudget, Limit: LimitRead, Gate: gateRead,
		Handle: func(w http.ResponseWriter, r *http.Request) error {
			web.From(r.Context()).Local = &backoffice.Visit{
				Caller: backoffice.Caller{Tenant: d.at.Tenant}, Property: d.at.Property, Member: &backoffice.Member{Roles: []backoffice.Role{backoffice.Owner}},
			}
			return api.dashboard(w, r)
		},
	}))
	return d
}

// wire is what a client has seen, and when.
type wire struct {
	header http.Header
	began  time.Time

	mu      sync.Mutex
	pending []byte
	seen    []seenLine // what was flushed
}

type seenLine struct {
	widgetLine

	after time.Duration
}

type widgetLine struct {
	Widget  board.WidgetID     `json:"widgetId"`
	Status  board.WidgetStatus `json:"status"`
	Shell   bool               `json:"shell"`
	End     bool               `json:"end"`
	Partial bool               `json:"partial"`
}

func (w *wire) Header() http.Header { return w.header }
func (w *wire) WriteHeader(int)     {}
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, b...)
	return len(b), nil
}

// FlushError sends what was written.
func (w *wire) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line := range bytes.Lines(w.pending) {
		var l widgetLine
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		w.seen = append(w.seen, seenLine{l, time.Since(w.began)})
	}
	w.pending = nil
	return nil
}

// open asks for the lines of a dashboard; the function waits for their end.
func (d *desk) open() (ended func() []seenLine) {
	w := &wire{header: http.Header{}, began: time.Now()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequestWithContext(d.t.Context(), http.MethodGet, "/dashboard", nil)
		r.Header.Set("Accept", mediaLines)
		d.server.ServeHTTP(w, r)
		_ = w.FlushError() // as a server does at the end
	}()
	return func() []seenLine {
		<-done
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.seen
	}
}

// The shell is on the wire before any upstream has answered, and each line when its
// own upstream has: one that hangs delays its own widgets.
func TestLinesComeAsTheyAreMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ms = time.Millisecond
		takes := map[board.Source]time.Duration{
			board.SourceArrivals: 300 * ms, board.SourceAlerts: 50 * ms, board.SourceNotes: 150 * ms, board.SourceLockFailures: time.Hour,
		}
		for _, w := range board.Widgets() {
			if _, ok := takes[w.From]; !ok {
				takes[w.From] = 10 * ms
			}
		}
		d := newDesk(t, takes)
		ended := d.open()
		seen := ended()
		if first := seen[0]; !first.Shell || first.after != 0 {
			t.Errorf("the first line: %+v", first)
		}
		if last := seen[len(seen)-1]; !last.End || !last.Partial || last.after != 450*ms {
			t.Errorf("the last line: %+v", last)
		}
		if len(seen) != len(board.Widgets())+2 {
			t.Errorf("%d lines", len(seen))
		}
		for _, w := range board.Widgets() {
			want, status := takes[w.From], board.WidgetOK
			if w.From == board.SourceLockFailures {
				want, status = 450*ms, board.WidgetTimeout
			}
			i := slices.IndexFunc(seen, func(l seenLine) bool { return l.Widget == w.ID })
			if i < 0 || seen[i].after != want || seen[i].Status != status {
				t.Errorf("%s: %+v, want %s after %v", w.ID, seen[i], status, want)
			}
		}
		families, err := d.metrics.Gather()
		partial := 0.0
		for _, f := range families {
			if f.GetName() == "dashboard_partial_total" {
				partial = f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		if err != nil || partial != 1 {
			t.Errorf("%v partial dashboards, %v", partial, err)
		}
		// The partial one is kept for five seconds, and no longer.
		asked := d.house.calls[board.SourceNotes]
		time.Sleep(4 * time.Second) //nolint:forbidigo // the bubble's clock
		ended = d.open()
		if ended(); d.house.calls[board.SourceNotes] != asked {
			t.Error("a partial dashboard was not kept at all")
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // the bubble's clock
		ended = d.open()
		if ended(); d.house.calls[board.SourceNotes] == asked {
			t.Error("a partial dashboard was kept for longer than five seconds")
		}
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock: calls that were given up end
	})
}

// Requests for the same dashboard share its calls: those that come while it is made
// get the lines so far at once, and the others with everybody else.
func TestOneCallForAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		takes := map[board.Source]time.Duration{board.SourceArrivals: 200 * time.Millisecond, board.SourceNotes: 100 * time.Millisecond}
		d := newDesk(t, takes)
		ends := []func() []seenLine{}
		for range 10 {
			ended := d.open()
			ends = append(ends, ended)
		}
		time.Sleep(150 * time.Millisecond) //nolint:forbidigo // the bubble's clock
		late := d.open()
		for i, ended := range append(ends, late) {
			seen := ended()
			if last := seen[len(seen)-1]; !last.End || last.Partial || len(seen) != len(board.Widgets())+2 {
				t.Errorf("client %d: %d lines, the last %+v", i, len(seen), last)
			}
			for _, l := range seen {
				want := takes[sourceOf(l.Widget)]
				if i == len(ends) { // it came 150 ms late
					want = max(want-150*time.Millisecond, 0)
				}
				if l.Widget != "" && l.after != want {
					t.Errorf("client %d: %s after %v, want %v", i, l.Widget, l.after, want)
				}
			}
		}
		for from, n := range d.house.calls {
			if n != 1 {
				t.Errorf("%s was asked %d times", from, n)
			}
		}
		if len(d.dash.making) != 0 {
			t.Errorf("%d dashboards are still in the making", len(d.dash.making))
		}
		time.Sleep(20 * time.Second) //nolint:forbidigo // the bubble's clock: a complete one is kept for half a minute
		ended := d.open()
		if seen := ended(); len(seen) != len(board.Widgets())+2 || seen[len(seen)-1].after != 0 || d.house.calls[board.SourceNotes] != 1 {
			t.Errorf("from the cache: %d lines, %d calls", len(seen), d.house.calls[board.SourceNotes])
		}
	})
}

func sourceOf(id board.WidgetID) board.Source {
	for _, w := range board.Widgets() {
		if w.ID == id {
			return w.From
		}
	}
	return ""
}

// A client that goes away leaves the others their dashboard.
func TestAClientGoesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, map[board.Source]time.Duration{board.SourceNotes: 100 * time.Millisecond})
		gone := &goneWriter{header: http.Header{}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/dashboard", nil)
		r.Header.Set("Accept", mediaLines)
		d.server.ServeHTTP(gone, r)
		ended := d.open()
		if seen := ended(); len(seen) != len(board.Widgets())+2 {
			t.Errorf("%d lines", len(seen))
		}
		synctest.Wait()
		if len(d.dash.making) != 0 {
			t.Errorf("%d dashboards are still in the making", len(d.dash.making))
		}
	})
}

type goneWriter struct{ header http.Header }

func (w *goneWriter) Header() http.Header       { return w.header }
func (w *goneWriter) WriteHeader(int)           {}
func (w *goneWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// The key of a role set does not depend on its order, and no two sets share one.
func TestRoleHash(t *testing.T) {
	t.Parallel()
	seen := map[string][]backoffice.Role{}
	all := backoffice.Roles()
	for set := range 1 << len(all) {
		var roles []backoffice.Role
		for i, r := range all {
			if set&(1<<i) != 0 {
				roles = append(roles, r)
			}
		}
		hash := roleHash(roles)
		if twin, ok := seen[hash]; ok {
			t.Errorf("%v and %v share a key", twin, roles)
		}
		seen[hash] = roles
		slices.Reverse(roles)
		if roleHash(roles) != hash {
			t.Errorf("%v: the order counts", roles)
		}
	}
}
