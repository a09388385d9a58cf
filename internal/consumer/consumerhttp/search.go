package consumerhttp

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/web"
)

// search serves a page of hotels. The body is the same bytes for every guest
// who asks the same; what is the guest's own travels in headers and behind the
// answer.
func (a *API) search(w http.ResponseWriter, r *http.Request) error {
	in, err := web.ReadBody(w, r, searchBody)
	if err != nil {
		return err
	}
	q := readSearch(r, in)
	if err := in.Err(); err != nil {
		return err
	}
	asked, err := searchSession(r)
	if err != nil {
		return err
	}
	g, err := a.guestOf(w, r)
	if err != nil {
		return err
	}
	if q, err = chosen(r.Context(), q, g); err != nil {
		return err
	}
	q = q.Normalise()
	now := a.cfg.Now()
	ss := a.resume(r.Context(), asked, g.ID(), q, now)
	searchHeaders(w, ss.ID)
	a.announceBrownout(w)
	key := a.cfg.Answers.keys.Key("cache", "search", "list", hexOf(q.CacheKey()))
	out, err := a.serve(w, r, a.cfg.Answers.list, key, func() view { return new(consumer.SearchResult) },
		func(ctx context.Context) (composed, error) {
			res, err := a.cfg.Finder.Find(ctx, q, a.cfg.Now())
			if err != nil {
				return composed{}, err
			}
			return composed{
				view: &res, tags: listTags(res), partial: len(res.Degraded) > 0, expires: res.PricesExpire(),
				total: res.Page.Total, order: res.Order,
			}, nil
		},
		func(out outcome, e *cache.Entry) (bool, error) { return a.servePinned(w, r, ss, q, out, e) })
	if err != nil {
		return err
	}
	if _, pinned := ss.Orders[consumer.WindowOf(q.Page.Offset)]; !pinned {
		ss.Orders = map[int]consumer.Hash{consumer.WindowOf(q.Page.Offset): out.order}
	}
	a.searched(r, g, ss, consumer.SearchOutcome{Session: ss.ID, Kind: consumer.SearchList, ResultCount: out.total, FromCache: out.fromCache}, now)
	return nil
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
func (a *API) resume(ctx context.Context, asked, guest bff.ID, q consumer.SearchQuery, now time.Time) consumer.SearchSession {
	if !asked.IsZero() {
		ss, found, err := a.cfg.Searches.FindSearch(ctx, asked)
		if err == nil && found && ss.Guest == guest && ss.QueryHash == q.ListKey() && now.Sub(ss.StartedAt) < consumer.SearchSessionLifetime {
			return ss
		}
	}
	return consumer.SearchSession{
		ID: bff.NewID(bff.PrefixSearchSession, now), Guest: guest, QueryHash: q.ListKey(), Query: q, StartedAt: now,
	}
}

// servePinned answers with the order that the guest saw first, when the newest
// differs. When the old order is lost, the newest is shown and the answer says
// that pages may overlap.
func (a *API) servePinned(w http.ResponseWriter, r *http.Request, ss consumer.SearchSession, q consumer.SearchQuery, now outcome, e *cache.Entry) (bool, error) {
	window := consumer.WindowOf(q.Page.Offset)
	pinned, ok := ss.Orders[window]
	if !ok || pinned == now.order {
		return false, nil
	}
	hotels, found, err := a.cfg.Searches.FindOrder(r.Context(), pinned)
	if err != nil || !found {
		var res consumer.SearchResult
		if err := json.Unmarshal(e.Body(), &res); err != nil {
			return true, err
		}
		res.Degraded = append(res.Degraded, consumer.Degradation{Part: consumer.PartPaging, Reason: consumer.ReasonStale, Affected: len(res.Results)})
		w.Header().Set("X-Cache", cache.Bypass.String())
		return true, web.WriteJSON(w, http.StatusOK, res)
	}
	from := min(q.Page.Offset-window*consumer.Window, len(hotels))
	res, err := a.cfg.Finder.FindPinned(r.Context(), q, hotels[from:min(from+q.Page.Limit, len(hotels))], a.cfg.Now())
	if err != nil {
		return true, err
	}
	w.Header().Set("X-Cache", cache.Bypass.String())
	return true, web.WriteJSON(w, http.StatusOK, res)
}

// searchHeaders are the headers that belong to the guest and not to the body.
func searchHeaders(w http.ResponseWriter, srs bff.ID) {
	h := w.Header()
	h["X-Search-Session"] = []string{srs.String()}
	h["Vary"] = varySearch
}

var varySearch = []string{"Accept-Language, X-Currency, Accept-Encoding"}

// searchMap serves the pins of a map.
func (a *API) searchMap(w http.ResponseWriter, r *http.Request) error {
	in, err := web.ReadBody(w, r, searchBody)
	if err != nil {
		return err
	}
	q := readSearch(r, in)
	if q.Geo.Mode == consumer.GeoRegion {
		in.Refuse("geo.mode", bff.FieldUnsupported)
	}
	var cursor bff.ID
	if c := in.Object("cursor"); c != nil {
		cursor = c.ID("propertyId", bff.PrefixProperty)
	}
	if err := in.Err(); err != nil {
		return err
	}
	g, err := a.guestOf(w, r)
	if err != nil {
		return err
	}
	if q, err = chosen(r.Context(), q, g); err != nil {
		return err
	}
	q.Sort, q.Page = "", consumer.Page{}
	q = q.Normalise()
	now := a.cfg.Now()
	ss := a.resume(r.Context(), bff.ID{}, g.ID(), q, now)
	searchHeaders(w, ss.ID)
	a.announceBrownout(w)
	key := a.cfg.Answers.keys.Key("cache", "search", "map", hexOf(q.CacheKey()))
	if !cursor.IsZero() {
		key += ":" + cursor.String()
	}
	out, err := a.serve(w, r, a.cfg.Answers.pins, key, func() view { return new(consumer.MapResult) },
		func(ctx context.Context) (composed, error) {
			res, err := a.cfg.Finder.Map(ctx, q, cursor)
			if err != nil {
				return composed{}, err
			}
			return composed{view: &res, tags: mapTags(res), partial: len(res.Degraded) > 0, total: res.Total}, nil
		}, nil)
	if err != nil {
		return err
	}
	a.searched(r, g, ss, consumer.SearchOutcome{Session: ss.ID, Kind: consumer.SearchMap, ResultCount: out.total, FromCache: out.fromCache}, now)
	return nil
}

// searched does the bookkeeping of a search behind its answer.
func (a *API) searched(r *http.Request, g *Guest, ss consumer.SearchSession, o consumer.SearchOutcome, began time.Time) {
	now := a.cfg.Now()
	o.Took = now.Sub(began)
	req, session := web.From(r.Context()), g.later()
	a.behind(func(ctx context.Context) {
		if err := a.cfg.Searches.SaveSearch(ctx, ss); err != nil {
			return // the guest's next page starts a new session
		}
		s, known := session()
		if !known {
			return
		}
		e, leaves, err := a.telemetry.Event(s, ss.Query.Executed(s, o), consumer.Occasion{RequestID: req.ID, TraceParent: req.TraceParent}, now)
		if err == nil && leaves {
			_ = a.cfg.Journal.Record(ctx, e) // counted by the journal
		}
	})
}

// chosen fills in what the request left to the session; only then is the
// session asked for.
func chosen(ctx context.Context, q consumer.SearchQuery, g *Guest) (consumer.SearchQuery, error) {
	if q.Locale != "" && q.Currency != "" {
		return q, nil
	}
	s, err := g.Session(ctx)
	if err != nil {
		return q, err
	}
	if q.Locale == "" {
		q.Locale = s.Locale
	}
	if q.Currency == "" {
		q.Currency = s.Currency
	}
	return q, nil
}

// announceBrownout says which rung of the ladder the service stands on.
func (a *API) announceBrownout(w http.ResponseWriter) {
	if a.cfg.Finder.Brownout == nil {
		return
	}
	if rung := a.cfg.Finder.Brownout(); rung > consumer.RungNone {
		w.Header().Set("X-Brownout", rung.String())
	}
}

func listTags(res consumer.SearchResult) []string {
	seen := map[string]bool{}
	var tags []string
	add := func(tag string) {
		if !seen[tag] {
			seen[tag] = true
			tags = append(tags, tag)
		}
	}
	for i, card := range res.Results {
		add(consumer.TenantTag(card.TenantID))
		add(consumer.BrandTag(card.TenantID))
		if res.Cells[i] != "" {
			add(consumer.CellTag(res.Cells[i]))
		}
	}
	for _, id := range res.Omitted {
		add(consumer.WithoutTag(id))
	}
	return tags
}

func mapTags(res consumer.MapResult) []string {
	seen := map[bff.ID]bool{}
	var tags []string
	for _, p := range res.Pins {
		if !seen[p.TenantID] {
			seen[p.TenantID] = true
			tags = append(tags, consumer.TenantTag(p.TenantID), consumer.BrandTag(p.TenantID))
		}
	}
	for _, id := range res.Omitted {
		if !seen[id] {
			seen[id] = true
			tags = append(tags, consumer.WithoutTag(id))
		}
	}
	return tags
}

// readSearch reads a query and reports everything that is wrong with it.
func readSearch(r *http.Request, in *web.Input) consumer.SearchQuery {
	var q consumer.SearchQuery
	in.Require("geo", "dates", "occupancy")
	if geo := in.Object("geo"); geo != nil {
		q.Geo = readGeo(geo)
	}
	if dates := in.Object("dates"); dates != nil {
		q.Dates = dates.Stay()
	}
	if o := in.Object("occupancy"); o != nil {
		q.Occupancy = o.Occupancy(true)
	}
	if f := in.Object("filters"); f != nil {
		q.Filters = readFilters(f)
	}
	q.Sort = consumer.SortKey(in.Enum("sortKey", string(consumer.SortRecommended), string(consumer.SortPriceAsc),
		string(consumer.SortPriceDesc), string(consumer.SortRatingDesc), string(consumer.SortDistanceAsc)))
	if q.Sort == consumer.SortDistanceAsc && q.Geo.Mode != "" && q.Geo.Mode != consumer.GeoPoint {
		in.Refuse("sortKey", bff.FieldConflict) // distance from what?
	}
	if p := in.Object("page"); p != nil {
		q.Page = consumer.Page{
			Limit:  p.Int("limit", consumer.DefaultPageLimit, 1, consumer.MaxPageLimit),
			Offset: p.Int("offset", 0, 0, consumer.MaxPageOffset),
		}
	}
	q.Locale = in.Locale("locale")
	q.Currency = in.Currency("currency")
	if q.Currency == "" {
		q.Currency = headerCurrency(r, in)
	}
	return q
}

func upper(s string) string { return strings.ToUpper(s) }

// headerCurrency is an explicit choice for this one request.
func headerCurrency(r *http.Request, in *web.Input) bff.Currency {
	given := r.Header.Get("X-Currency")
	if given == "" {
		return ""
	}
	c, err := bff.ParseCurrency(given)
	if err != nil {
		in.Refuse("X-Currency", bff.FieldUnsupported)
	}
	return c
}

func readGeo(in *web.Input) consumer.GeoQuery {
	in.Require("mode")
	g := consumer.GeoQuery{Mode: consumer.GeoMode(in.Enum("mode", string(consumer.GeoPoint),
		string(consumer.GeoBoundingBox), string(consumer.GeoCity), string(consumer.GeoRegion)))}
	// Exactly one way to say where: a member of another mode contradicts.
	members := map[consumer.GeoMode]string{
		consumer.GeoPoint: "point", consumer.GeoBoundingBox: "boundingBox", consumer.GeoCity: "city", consumer.GeoRegion: "region",
	}
	for mode, name := range members {
		switch {
		case g.Mode == "":
		case mode == g.Mode:
			in.Require(name)
		case in.Has(name):
			in.Refuse(name, bff.FieldConflict)
		}
	}
	if p := in.Object("point"); p != nil {
		p.Require("lat", "lng", "radiusKm")
		g.Point = &consumer.Point{
			Lat: p.Float("lat", -90, 90), Lng: p.Float("lng", -180, 180),
			RadiusKm: p.Float("radiusKm", 0.1, consumer.MaxRadiusKm),
		}
	}
	if b := in.Object("boundingBox"); b != nil {
		b.Require("swLat", "swLng", "neLat", "neLng")
		g.BoundingBox = &consumer.BoundingBox{
			SwLat: b.Float("swLat", -90, 90), SwLng: b.Float("swLng", -180, 180),
			NeLat: b.Float("neLat", -90, 90), NeLng: b.Float("neLng", -180, 180),
		}
		if g.BoundingBox.NeLat < g.BoundingBox.SwLat {
			b.Refuse("neLat", bff.FieldOrder)
		}
	}
	g.City = in.String("city", consumer.MaxPlaceRunes)
	g.Region = in.String("region", consumer.MaxPlaceRunes)
	if g.Country = in.String("country", 2); g.Country != "" && !isCountry(g.Country) {
		in.Refuse("country", bff.FieldFormat)
	}
	return g
}

func readFilters(in *web.Input) consumer.Filters {
	f := consumer.Filters{
		Amenities:               in.Strings("amenities", consumer.MaxFilterValues, 64),
		StarRating:              in.Ints("starRating", 5, 1, 5),
		GuestRatingMin:          in.Float("guestRatingMin", 0, 10),
		PropertyType:            in.Strings("propertyType", consumer.MaxFilterValues, 64),
		CancellationFlexibility: in.Enum("cancellationFlexibility", "free", "partial", "any"),
		Neighbourhoods:          in.Strings("neighbourhoods", consumer.MaxFilterValues, consumer.MaxPlaceRunes),
	}
	for i, t := range f.PropertyType {
		switch t {
		case "hotel", "guesthouse", "hostel", "apartment", "":
		default:
			in.Refuse("propertyType["+strconv.Itoa(i)+"]", bff.FieldUnsupported)
		}
	}
	if p := in.Object("priceRange"); p != nil {
		p.Require("min", "max", "currency")
		f.PriceRange = &consumer.PriceRange{
			Min: p.Float("min", 0, 1e12), Max: p.Float("max", 0, 1e12), Currency: p.Currency("currency"),
		}
		if f.PriceRange.Max < f.PriceRange.Min {
			p.Refuse("max", bff.FieldOrder)
		}
	}
	return f
}
