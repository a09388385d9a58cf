package consumerhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp/visits"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/consumer/telemetry"
	"melmastoon.ghasi.io/bff/internal/web"
)

// search serves a page of hotels. The body is the same bytes for every guest
// who asks the same; what is the guest's own travels in headers and behind the
// answer.
func (a *API) search(w http.ResponseWriter, r *http.Request) error {
	req, err := a.readRequest(w, r, readList)
	if err != nil {
		return err
	}
	asked, err := searchSession(r)
	if err != nil {
		return err
	}
	v, d := visitOf(r), a.guests.resolve(w, r, guest.Identify)
	q, key := a.ask(w, r, req, &d)
	now := v.At
	ss, before := a.repeated(asked, v, d.ID, q), consumer.Hash{}
	if ss != nil {
		before, _ = ss.Orders.Of(window(q))
		ss.Orders = nil // the newest order is shown, and pinned then
	} else {
		ss = a.resume(r.Context(), asked, d.ID, q, now)
	}
	searchHeaders(w, ss.ID)
	a.announceBrownout(w)
	lost := !asked.IsZero() && ss.ID != asked && q.Page.Offset > 0
	out, err := a.serveList(w, r, ss, lost, key)
	if err != nil {
		return err
	}
	ss.LastAt, ss.ResultCount = now, out.total
	if _, pinned := ss.Orders.Of(window(q)); !pinned {
		ss.Orders = consumer.Orders{{Window: window(q), Name: out.order}}
	}
	known := before == out.order && !before.IsZero()
	if !known && !v.Untracked { // untracked visits leave nothing behind
		a.guests.lastSearch.Put(d.ID.Bytes(), lastSearch{v.Fingerprint, ss})
	}
	a.searched(r, &d, ss, known, telemetry.SearchOutcome{Session: ss.ID, Kind: telemetry.SearchList, ResultCount: out.total, FromCache: out.fromCache})
	return nil
}

func window(q *consumer.Asked) int { return consumer.WindowOf(q.Page.Offset) }

// lastSearch is what a guest asked for last, and with which browser.
type lastSearch struct {
	fingerprint consumer.Hash
	session     *consumer.SearchSession
}

// repeated returns the search session of a guest who asks the same once more, so
// that there is nothing to write: pages are reloaded, and gone back to. It is nil
// for another question, or after a while.
func (a *API) repeated(asked bff.ID, v *consumer.Visit, guestID bff.ID, q *consumer.Asked) *consumer.SearchSession {
	if !asked.IsZero() || v.Untracked {
		return nil
	}
	last, ok := a.guests.lastSearch.Get(guestID.Bytes())
	if !ok || last.fingerprint != v.Fingerprint || last.session.Query.Answer != q.Answer || v.At.Sub(last.session.StartedAt) > consumer.TouchAfter {
		return nil
	}
	ss := *last.session
	return &ss
}

// searchSession reads which search the request continues.
func searchSession(r *http.Request) (bff.ID, error) {
	given := r.Header.Get("X-Search-Session")
	if given == "" {
		return bff.ID{}, nil
	}
	id, err := bff.ParseID(bff.PrefixSearchSession, given)
	if err != nil {
		return bff.ID{}, bff.FieldErrors{{Field: "X-Search-Session", Code: bff.FieldFormat}}.Err()
	}
	return id, nil
}

// resume returns the search session that a page belongs to: the one asked for,
// if it is this guest's, of this query and alive, else a new one. Another
// guest's session says nothing, not even that it is there.
func (a *API) resume(ctx context.Context, asked, guestID bff.ID, q *consumer.Asked, now time.Time) *consumer.SearchSession {
	if !asked.IsZero() {
		ss, found, err := a.cfg.Searches.FindSearch(ctx, asked, guestID, q)
		if err == nil && !found { // perhaps the first page's is still on its way
			a.recorder.Flush(ctx)
			ss, found, err = a.cfg.Searches.FindSearch(ctx, asked, guestID, q)
		}
		if err == nil && found && now.Sub(ss.StartedAt) < consumer.SearchSessionLifetime {
			return &ss
		}
	}
	return &consumer.SearchSession{ID: bff.NewID(bff.PrefixSearchSession, now), Guest: guestID, Query: q, StartedAt: now}
}

// serveList answers with the page of a search: in the newest order, or in the one
// that the guest saw first; lost says that nothing is known of what the guest saw.
func (a *API) serveList(w http.ResponseWriter, r *http.Request, ss *consumer.SearchSession, lost bool, key string) (outcome, error) {
	f, err := a.answers.find(r, shared{
		cache: a.cfg.Answers.list, key: key, blank: func() view { return new(discovery.SearchResult) },
		compose: func(ctx context.Context) (composed, error) {
			res, err := a.cfg.Finder.Find(ctx, ss.Query.SearchQuery, a.cfg.Now())
			if err != nil {
				return composed{}, err
			}
			return composed{
				view: &res, tags: res.Tags(), partial: len(res.Degraded) > 0, stale: res.Stale, shed: res.Shed, expires: res.PricesExpire(),
				total: res.Page.Total, order: res.Order,
			}, nil
		},
	})
	if err != nil {
		return outcome{}, err
	}
	pinned, ok := ss.Orders.Of(window(ss.Query))
	switch {
	case visitOf(r).CacheOnly:
	case lost:
		return f.outcome, a.serveUnpinned(w, f)
	case ok && pinned != f.order:
		return f.outcome, a.servePinned(w, r, ss, pinned, f)
	}
	return f.outcome, a.answers.write(w, r, f)
}

// servePinned answers with the order that the guest saw first.
func (a *API) servePinned(w http.ResponseWriter, r *http.Request, ss *consumer.SearchSession, pinned consumer.Hash, newest found) error {
	q := ss.Query.SearchQuery
	hotels, kept, err := a.cfg.Searches.FindOrder(r.Context(), pinned)
	if err != nil || !kept {
		return a.serveUnpinned(w, newest)
	}
	from := min(q.Page.Offset-window(ss.Query)*consumer.Window, len(hotels))
	res, err := a.cfg.Finder.FindPinned(r.Context(), q, hotels[from:min(from+q.Page.Limit, len(hotels))], a.cfg.Now())
	if err != nil {
		return err
	}
	return writeOwn(w, res)
}

// serveUnpinned answers with the newest order for want of the one that the guest saw
// first, and says that pages may overlap.
func (a *API) serveUnpinned(w http.ResponseWriter, newest found) error {
	var res discovery.SearchResult
	if err := json.Unmarshal(newest.entry.Body(), &res); err != nil {
		return err
	}
	if newest.status.Result == cache.Stale && !newest.status.OfStale {
		res.MarkStale(newest.entry.Age(), a.cfg.Now())
	}
	res.Degraded = append(res.Degraded, discovery.Degradation{Part: discovery.PartPaging, Reason: discovery.ReasonStale, Affected: len(res.Results)})
	return writeOwn(w, res)
}

// writeOwn answers with a page that was made for one guest.
func writeOwn(w http.ResponseWriter, res discovery.SearchResult) error {
	how := cache.Bypass
	if res.Stale {
		how = cache.Stale
	}
	announce(w.Header(), res.Shed)
	w.Header().Set("X-Cache", how.String())
	return web.WriteJSON(w, http.StatusOK, res)
}

// searchHeaders are the headers that belong to the guest and not to the body.
func searchHeaders(w http.ResponseWriter, srs bff.ID) {
	h := w.Header()
	h["X-Search-Session"] = []string{srs.String()}
	setVary(h)
}

// searchMap serves the pins of a map.
func (a *API) searchMap(w http.ResponseWriter, r *http.Request) error {
	req, err := a.readRequest(w, r, readMap)
	if err != nil {
		return err
	}
	d := a.guests.resolve(w, r, guest.Identify)
	q, key := a.ask(w, r, req, &d)
	now := visitOf(r).At
	ss := a.resume(r.Context(), bff.ID{}, d.ID, q, now)
	searchHeaders(w, ss.ID)
	a.announceBrownout(w)
	out, err := a.answers.serve(w, r, shared{
		cache: a.cfg.Answers.pins, key: key, blank: func() view { return new(discovery.MapResult) },
		compose: func(ctx context.Context) (composed, error) {
			res, err := a.cfg.Finder.Map(ctx, q.SearchQuery, req.cursor, a.cfg.Now())
			if err != nil {
				return composed{}, err
			}
			return composed{view: &res, tags: res.Tags(), partial: len(res.Degraded) > 0, shed: res.Shed, total: res.Total}, nil
		},
	})
	if err != nil {
		return err
	}
	ss.LastAt, ss.ResultCount = now, out.total
	a.searched(r, &d, ss, false, telemetry.SearchOutcome{Session: ss.ID, Kind: telemetry.SearchMap, ResultCount: out.total, FromCache: out.fromCache})
	return nil
}

// searched has a search recorded in the background; known says that its session is
// recorded already, as it is.
func (a *API) searched(r *http.Request, d *guest.Decision, ss *consumer.SearchSession, known bool, o telemetry.SearchOutcome) {
	v := visitOf(r)
	o.Took = a.cfg.Now().Sub(v.At)
	rec := visits.Record{Span: web.From(r.Context()).Span}
	if !known {
		rec.Search = ss
	}
	if a.cfg.Telemetry.Samples(d.ID, consumer.SubjectSearchExecuted) {
		rec.Occasion = occasion(r)
		rec.Fact = func(s consumer.GuestSession) consumer.Fact { return telemetry.NewSearchExecuted(ss.Query, s, o) }
	}
	a.guests.record(v, d, rec)
}

// announceBrownout says which rung of the ladder the service stands on.
func (a *API) announceBrownout(w http.ResponseWriter) {
	announce(w.Header(), a.cfg.Finder.Rung())
}
