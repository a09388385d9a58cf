package backofficehttp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/web"
)

// dashboard answers with all widgets of a property: as lines while they come, or as
// one document. The guard has found the property in the caller's scope, and the key
// names the caller's roles: what is kept for others is never seen.
func (a *API) dashboard(w http.ResponseWriter, r *http.Request) error {
	form, err := web.Negotiate(r, mediaJSON, mediaLines)
	if err != nil {
		return err
	}
	v, d := visitOf(r), a.cfg.Dashboards
	at, _, err := a.today(r)
	if err != nil {
		return err
	}
	keys, err := d.keys.Tenant(at.Tenant)
	if err != nil {
		return err
	}
	if form == mediaJSON {
		e, st, err := d.document.Get(r.Context(), dashboardKey(keys, at, v.Member.Roles, ":json"), d.fillDocument(at, v.Member.Roles))
		if err != nil {
			return unfilled(err)
		}
		e.Serve(w, r, st)
		d.begun(r)
		a.viewed(r, board.DashboardViewed{ViewedAt: bff.At(now(r)), Format: board.FormatDocument, Roles: v.Member.Roles})
		return nil
	}
	fact := board.DashboardViewed{ViewedAt: bff.At(now(r)), Format: board.FormatLines, Roles: v.Member.Roles}
	key := dashboardKey(keys, at, v.Member.Roles, "")
	fill := d.fillLines(key, at, v.Member.Roles)
	if e, st, ok := d.lines.Ready(r.Context(), key, fill); ok {
		e.Serve(w, r, st)
		d.begun(r)
		a.viewed(r, fact)
		return nil
	}
	s := lineStream{d: d, w: w, begun: func() { d.begun(r) }, flush: http.NewResponseController(w).Flush, written: map[board.WidgetID][]byte{}}
	s.run(r.Context(), key, at, fill)
	a.viewed(r, fact)
	return nil
}

// begun measures the time to the first byte.
func (d *Dashboards) begun(r *http.Request) { d.first.Observe(time.Since(now(r)).Seconds()) }

// unfilled gives a failure of the cache itself its code.
func unfilled(err error) error {
	if bff.CodeOf(err) != bff.CodeInternal {
		return err
	}
	return &bff.Error{Code: bff.CodeServiceUnavailable, Detail: "this cannot be composed right now: try again shortly", RetryAfter: time.Second, Err: err}
}

// lineStream writes the lines of a dashboard in the making.
type lineStream struct {
	d       *Dashboards
	w       http.ResponseWriter
	flush   func() error
	begun   func() // the first line is on its way
	written map[board.WidgetID][]byte
}

// run writes the shell before anything is asked for, then each line as it is made, by
// this request's fill or by another's.
func (s *lineStream) run(ctx context.Context, key string, at board.Place, fill cache.FillFunc) {
	began := time.Now()
	h := s.w.Header()
	h["Content-Type"] = []string{mediaLines}
	h["Cache-Control"] = []string{private}
	h["Vary"] = append(h["Vary"], "Accept")
	h["X-Cache"] = []string{cache.Miss.String()}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	s.w.WriteHeader(http.StatusOK)
	if !s.send(s.d.shell(at, began)) {
		return
	}
	s.begun()
	m := s.d.join(key)
	defer s.d.leave(key, m, false)
	type outcome struct {
		entry *cache.Entry
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		e, _, err := s.d.lines.Get(ctx, key, fill)
		done <- outcome{e, err}
	}()
	for seen := 0; ; {
		lines, grown := m.after(seen)
		seen += len(lines)
		if !s.send(s.news(lines)) {
			return
		}
		select {
		case <-grown:
		case out := <-done:
			if out.err != nil {
				s.send(s.failed(unfilled(out.err), began))
				return
			}
			s.send(s.rest(out.entry.Body()))
			return
		}
	}
}

// send writes and flushes; false says that the peer has gone.
func (s *lineStream) send(text []byte) bool {
	if len(text) == 0 {
		return true
	}
	if _, err := s.w.Write(text); err != nil { //nolint:gosec // JSON lines of our own encoding, with nosniff
		return false
	}
	return s.flush() == nil
}

// news are lines that have not been written.
func (s *lineStream) news(lines []line) []byte {
	var b []byte
	for _, l := range lines {
		if !bytes.Equal(s.written[l.widget], l.text) {
			s.written[l.widget] = l.text
			b = append(b, l.text...)
		}
	}
	return b
}

// rest is what a finished dashboard has beyond what was written: all of it, if it was
// made elsewhere. A widget that was written with other data is written again, and the
// later line counts: what was written before may be older than this request.
func (s *lineStream) rest(body []byte) []byte {
	lines, end := widgetLines(body)
	var b []byte
	for _, text := range lines {
		var l struct {
			Widget board.WidgetID `json:"widgetId"`
		}
		if json.Unmarshal(text, &l) == nil {
			b = append(b, s.news([]line{{l.Widget, text}})...)
		}
	}
	return append(b, end...)
}

// failed ends a dashboard that could not be composed.
func (s *lineStream) failed(err error, now time.Time) []byte {
	var b []byte
	for _, w := range s.d.composer.Widgets() {
		if s.written[w.ID] != nil {
			continue
		}
		text, _ := json.Marshal(board.WidgetAnswer{ // strings and a time: never fails
			Widget: w.ID, Status: board.WidgetError, AsOf: bff.At(now), ErrorCode: bff.CodeOf(err),
		})
		b = append(append(b, text...), '\n')
	}
	return append(b, endLine(true)...)
}
