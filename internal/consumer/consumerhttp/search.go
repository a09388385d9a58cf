package consumerhttp

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
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
	s, _, err := a.guest(w, r)
	if err != nil {
		return err
	}
	q = chosen(q, s).Normalise()
	now := a.cfg.Now()
	srs := bff.NewID(bff.PrefixSearchSession, now)
	w.Header().Set("X-Search-Session", srs.String())
	a.announceBrownout(w)
	key := a.cfg.Answers.keys.Key("cache", "search", "list", hexOf(q.CacheKey()))
	out, err := a.serve(w, r, a.cfg.Answers.list, key, func() view { return new(consumer.SearchResult) },
		func(ctx context.Context) (composed, error) {
			res, err := a.cfg.Finder.Find(ctx, q, a.cfg.Now())
			if err != nil {
				return composed{}, err
			}
			return composed{view: &res, tags: listTags(res), partial: len(res.Degraded) > 0, expires: res.PricesExpire(), total: res.Page.Total}, nil
		})
	if err != nil {
		return err
	}
	a.searched(r, s, q, consumer.SearchOutcome{Session: srs, Kind: consumer.SearchList, ResultCount: out.total, FromCache: out.fromCache}, now)
	return nil
}

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
	s, _, err := a.guest(w, r)
	if err != nil {
		return err
	}
	q.Sort, q.Page = "", consumer.Page{}
	q = chosen(q, s).Normalise()
	now := a.cfg.Now()
	srs := bff.NewID(bff.PrefixSearchSession, now)
	w.Header().Set("X-Search-Session", srs.String())
	a.announceBrownout(w)
	key := a.cfg.Answers.keys.Key("cache", "search", "map", hexOf(q.CacheKey()))
	if !cursor.IsZero() {
		key += ":" + cursor.String()
	}
	out, err := a.serve(w, r, a.cfg.Answers.pins, key, func() view { return new(consumer.MapResult) },
		func(ctx context.Context) (composed, error) {
			res, err := a.cfg.Finder.Map(ctx, q, cursor, a.cfg.Now())
			if err != nil {
				return composed{}, err
			}
			return composed{view: &res, tags: mapTags(res), partial: len(res.Degraded) > 0, total: res.Total}, nil
		})
	if err != nil {
		return err
	}
	a.searched(r, s, q, consumer.SearchOutcome{Session: srs, Kind: consumer.SearchMap, ResultCount: out.total, FromCache: out.fromCache}, now)
	return nil
}

// searched tells of an answered search.
func (a *API) searched(r *http.Request, s consumer.GuestSession, q consumer.SearchQuery, o consumer.SearchOutcome, began time.Time) {
	now := a.cfg.Now()
	o.Took = now.Sub(began)
	a.tell(r, s, q.Executed(s, o), now)
}

// chosen fills in what the request left to the session.
func chosen(q consumer.SearchQuery, s consumer.GuestSession) consumer.SearchQuery {
	if q.Locale == "" {
		q.Locale = s.Locale
	}
	if q.Currency == "" {
		q.Currency = s.Currency
	}
	return q
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
		add(tenantTag(card.TenantID))
		add(brandTag(card.TenantID))
		if res.Cells[i] != "" {
			add(cellTag(res.Cells[i]))
		}
	}
	return tags
}

func mapTags(res consumer.MapResult) []string {
	seen := map[bff.ID]bool{}
	var tags []string
	for _, p := range res.Pins {
		if !seen[p.TenantID] {
			seen[p.TenantID] = true
			tags = append(tags, tenantTag(p.TenantID), brandTag(p.TenantID))
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
