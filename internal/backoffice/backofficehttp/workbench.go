package backofficehttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	viewFresh = 15 * time.Second // DATA_MODEL §3.2
	viewStale = 5 * time.Minute  // of views that name no guest
	viewBytes = 64 << 20
)

// Views are the finished views of the workbench.
type Views struct {
	workbench   *board.Workbench
	kept, packs *cache.Cache
	keys        redis.Keys
}

// NewViews opens the cache.
func NewViews(b *board.Workbench, store *cache.Store, keys redis.Keys) (*Views, error) {
	c, err := cache.New(store, cache.Config{
		Name: "workbench", Shared: true, MaxBytes: viewBytes, CacheControl: private,
		TTL: func() cache.TTL { return cache.TTL{Fresh: viewFresh, Stale: viewStale} },
	})
	packs, err2 := cache.New(store, cache.Config{
		Name: "blackout", Shared: true, MaxBytes: viewBytes, CacheControl: private, Weak: true,
		TTL: func() cache.TTL { return cache.TTL{Fresh: viewFresh} },
	})
	return &Views{workbench: b, kept: c, packs: packs, keys: keys}, errors.Join(err, err2)
}

func (v *Views) fill(part backoffice.Part, at board.Place, may board.Steps) cache.FillFunc {
	return func(ctx context.Context) (cache.Fill, error) {
		view, err := v.workbench.View(ctx, part, at, may, time.Now())
		if err != nil {
			return cache.Fill{}, err
		}
		body, err := json.Marshal(&view)
		f := cache.Fill{Body: body, Tags: part.Tags(at.Tenant, at.Property), Stale: view.Stale, TTL: cache.TTL{Fresh: viewFresh, Stale: viewStale}}
		if !view.Whole() {
			f.TTL.Fresh = partialFresh
		}
		if board.NamesGuests(part) { // readings without names stand in for it
			f.TTL = cache.TTL{Fresh: min(f.TTL.Fresh, board.NamesKept)}
		}
		return f, err
	}
}

// view answers with one view of the workbench.
func (a *API) view(part backoffice.Part) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		v, views := visitOf(r), a.cfg.Views
		at, zone, err := a.today(r)
		if err != nil {
			return err
		}
		may := board.StepsFor(part, v.Member.Roles, at.Date)
		in := web.ReadQuery(r)
		if date, ok := in.Date("date"); ok {
			if !board.Shows(part, date, at.Date) {
				in.Refuse("date", bff.FieldRange)
			}
			at.Day = zone.On(date)
		}
		narrow := readFilter(in, part)
		if err := in.Err(); err != nil {
			return err
		}
		keys, err := views.keys.Tenant(at.Tenant)
		if err != nil {
			return err
		}
		e, st, err := views.kept.Get(r.Context(), viewKey(keys, part, at, may), views.fill(part, at, may))
		if err != nil {
			return unfilled(err)
		}
		if part == backoffice.PartHousekeeping || part == backoffice.PartMaintenance {
			if e, err = a.withAssignees(r, e); err != nil {
				return err
			}
		}
		fact := board.WorkbenchViewed{ViewedAt: bff.At(now(r)), View: part, Filtered: len(narrow) > 0, Roles: v.Member.Roles}
		if board.Dated(part) {
			fact.Date = at.Date.String()
		}
		old := st.Result == cache.Stale && !st.OfStale
		if !old && len(narrow) == 0 {
			e.Serve(w, r, st)
			a.viewed(r, fact)
			return nil
		}
		doc, err := readView(e)
		if err != nil {
			return err
		}
		out := viewDocument{viewFrame: doc.viewFrame, Items: narrow.apply(doc)}
		if old {
			out.Stale, out.Degraded = true, board.Aged(doc.Degraded, part, e.Age())
		}
		err = web.WriteJSON(w, http.StatusOK, &out)
		a.viewed(r, fact)
		return err
	}
}

// filter is what a view is narrowed to: the words allowed for members of its items.
type filter map[string][]string

// maxWords is how many words one filter may name.
const maxWords = 8

// readFilter reads the filters of a view.
func readFilter(in *web.Input, part backoffice.Part) filter {
	f := filter{}
	for _, name := range board.FilterNames(part) {
		if words := in.Enums(name, maxWords, board.FilterWords(part, name)...); len(words) > 0 {
			f[name] = words
		}
	}
	return f
}

// viewFrame is a view without its items.
type viewFrame struct {
	View       backoffice.Part     `json:"view"`
	PropertyID string              `json:"propertyId"`
	Date       string              `json:"date,omitempty"`
	Day        board.Day           `json:"day"`
	AsOf       string              `json:"asOf"`
	Stale      bool                `json:"stale"`
	Missing    []board.Source      `json:"missing,omitempty"`
	Degraded   []board.Degradation `json:"degraded,omitempty"`
	Counts     map[string]int      `json:"counts"`
}

// viewDocument is a view as it is kept: its items are written as they were.
type viewDocument struct {
	viewFrame

	Items []json.RawMessage `json:"items"`

	members []map[string]string // of each item, those that filters look at and whom it is assigned to
	named   atomic.Pointer[namedView]
}

// namedView is a view with the names of its assignees.
type namedView struct {
	names string
	entry *cache.Entry
}

// withAssignees names the operators to whom a view's items are assigned. Names of operators
// are asked for and not kept (DATA_MODEL §11): this process alone has the view with them.
func (a *API) withAssignees(r *http.Request, e *cache.Entry) (*cache.Entry, error) {
	doc, err := readView(e)
	if err != nil || !slices.ContainsFunc(doc.members, func(m map[string]string) bool { return m[assignee] != "" }) {
		return e, err
	}
	var (
		known = a.names(r)
		names = make([]string, len(doc.Items))
		out   = viewDocument{viewFrame: doc.viewFrame, Items: slices.Clone(doc.Items)}
	)
	for i, m := range doc.members {
		names[i] = known[m[assignee]]
	}
	all := strings.Join(names, "\n")
	if had := doc.named.Load(); had != nil && had.names == all {
		return had.entry, nil
	}
	for i, name := range names {
		if name == "" {
			continue
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		item := out.Items[i]
		out.Items[i] = slices.Concat(item[:len(item)-1], []byte(`,"assigneeName":`), quoted, []byte("}"))
	}
	body, err := json.Marshal(&out)
	if err != nil {
		return nil, err
	}
	made := &namedView{all, e.With(body)}
	doc.named.Store(made)
	return made.entry, nil
}

// assignee is the member of an item that says to whom it is assigned.
const assignee = "assignedTo"

// readView reads a kept view, once for all readers of the entry.
func readView(e *cache.Entry) (*viewDocument, error) {
	v, err := e.Value(func(body []byte) (any, error) {
		var d viewDocument
		if err := json.Unmarshal(body, &d); err != nil {
			return nil, err
		}
		d.members = make([]map[string]string, len(d.Items))
		for i, item := range d.Items {
			var m struct {
				Status   string `json:"status"`
				Kind     string `json:"kind"`
				Priority string `json:"priority"`
				Severity string `json:"severity"`
				VIP      bool   `json:"vip"`
				Assignee string `json:"assignedTo"`
			}
			if err := json.Unmarshal(item, &m); err != nil {
				return nil, err
			}
			d.members[i] = map[string]string{
				"status": m.Status, "kind": m.Kind, "priority": m.Priority, "severity": m.Severity, "vip": strconv.FormatBool(m.VIP),
				assignee: m.Assignee,
			}
		}
		return &d, nil
	})
	if err != nil {
		return nil, err
	}
	d, _ := v.(*viewDocument) // only this function makes them
	return d, nil
}

// apply returns the items that pass.
func (f filter) apply(d *viewDocument) []json.RawMessage {
	out := []json.RawMessage{}
	for i, item := range d.Items {
		pass := true
		for name, words := range f {
			pass = pass && slices.Contains(words, d.members[i][name])
		}
		if pass {
			out = append(out, item)
		}
	}
	return out
}
