package consumerhttp

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/web"
)

// searchRequest is the body of a search, understood. What the body leaves to
// the guest's session is missing in it.
type searchRequest struct {
	kind   readKind
	query  consumer.SearchQuery
	asked  *askedFor // nil while the query lacks something
	cursor bff.ID    // of a map
	kept   bool      // it may come again
}

// askedFor is a complete question and the key of its answer.
type askedFor struct {
	*consumer.Asked
	key string
}

// question is a body with what the guest's session adds to it: for all guests of
// one language and currency it is the same.
type question struct {
	req      *searchRequest
	locale   bff.Locale
	currency bff.Currency
}

// bodyKey is all that a search is read from: what was understood once is not
// read again. The day decides which dates are past.
type bodyKey struct {
	kind           readKind
	day            bff.Date
	currency, body string
}

type readKind uint8

const (
	readList readKind = iota
	readMap
)

const (
	// knownBodies bounds how many bodies are remembered, and knownBody their size.
	knownBodies = 1 << 11
	knownBody   = 2 << 10
)

// readRequest reads the body of a search and reports everything that is wrong
// with it.
func (a *API) readRequest(w http.ResponseWriter, r *http.Request, kind readKind) (*searchRequest, error) {
	body, err := web.ReadText(w, r)
	if err != nil {
		return nil, err
	}
	key := bodyKey{kind, bff.DateOf(visitOf(r).At), web.Header(r.Header, "X-Currency"), body}
	if req, ok := a.bodies.Get(key); ok {
		return req, nil
	}
	in, err := web.ParseText(r.Context(), body)
	if err != nil {
		return nil, err
	}
	req := &searchRequest{kind: kind, query: readSearch(r, in)}
	if kind == readMap {
		if req.query.Geo.Mode == consumer.GeoRegion {
			in.Offer("geo.mode", bff.Texts([]consumer.GeoMode{consumer.GeoPoint, consumer.GeoBoundingBox, consumer.GeoCity}))
		}
		if c := in.Object("cursor"); c != nil {
			req.cursor = c.ID("propertyId", bff.PrefixProperty)
		}
		req.query.Sort, req.query.Page = "", consumer.Page{}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if req.query.Locale != "" && req.query.Currency != "" {
		req.asked = a.askedFor(req, &req.query)
	}
	if req.kept = len(body) <= knownBody; req.kept {
		key.currency = strings.Clone(key.currency)
		a.bodies.Put(key, req)
	}
	return req, nil
}

// askedFor names the answer to a complete query in the cache.
func (a *API) askedFor(req *searchRequest, q *consumer.SearchQuery) *askedFor {
	asked := q.Ask()
	key := a.cfg.Answers.keys.Key("cache", "search", [...]string{readList: "list", readMap: "map"}[req.kind], hexOf(asked.Answer))
	if !req.cursor.IsZero() {
		key += ":" + req.cursor.String()
	}
	return &askedFor{asked, key}
}

// ask fills in what the request left to the guest, and names the answer; only then
// is the guest's choice asked for.
func (a *API) ask(w http.ResponseWriter, r *http.Request, req *searchRequest, d *guest.Decision) (q *consumer.Asked, answer string) {
	if req.asked != nil {
		return req.asked.Asked, req.asked.key
	}
	locale, currency := a.guests.choice(w, r, d)
	complete := req.query
	if complete.Locale == "" {
		complete.Locale = locale
	}
	if complete.Currency == "" {
		complete.Currency = currency
	}
	key := question{req, complete.Locale, complete.Currency}
	asked, known := a.questions.Get(key)
	if !known {
		asked = a.askedFor(req, &complete)
		if req.kept {
			a.questions.Put(key, asked)
		}
	}
	return asked.Asked, asked.key
}

// readSearch reads a query and reports everything that is wrong with it.
func readSearch(r *http.Request, in *web.Input) consumer.SearchQuery {
	var q consumer.SearchQuery
	in.Require("geo", "dates", "occupancy")
	if geo := in.Object("geo"); geo != nil {
		q.Geo = readGeo(geo)
	}
	if dates := in.Object("dates"); dates != nil {
		q.Dates = readStayAhead(dates, visitOf(r).At)
	}
	if o := in.Object("occupancy"); o != nil {
		q.Occupancy = readOccupancy(o, true)
	}
	if f := in.Object("filters"); f != nil {
		q.Filters = readFilters(f)
	}
	q.Sort = consumer.SortKey(in.Enum("sortKey", string(consumer.SortRecommended), string(consumer.SortPriceAsc),
		string(consumer.SortPriceDesc), string(consumer.SortRatingDesc), string(consumer.SortDistanceAsc)))
	if p := in.Object("page"); p != nil {
		q.Page = consumer.Page{
			Limit:  p.Int("limit", consumer.DefaultPageLimit, 1, consumer.MaxPageLimit),
			Offset: p.Int("offset", 0, 0, consumer.MaxPageOffset),
		}
	}
	q.Locale = in.Locale("locale")
	q.Currency = readCurrency(in)
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
		in.Offer("X-Currency", bff.Texts(bff.Currencies()))
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
	g.City = readPlace(in, "city", consumer.MaxPlaceRunes)
	g.Region = readPlace(in, "region", consumer.MaxPlaceRunes)
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
		PropertyType:            in.Enums("propertyType", consumer.MaxFilterValues, "hotel", "guesthouse", "hostel", "apartment"),
		CancellationFlexibility: in.Enum("cancellationFlexibility", "free", "partial", "any"),
		Neighbourhoods:          in.Strings("neighbourhoods", consumer.MaxFilterValues, consumer.MaxPlaceRunes),
	}
	for i, n := range f.Neighbourhoods {
		name := "neighbourhoods[" + strconv.Itoa(i) + "]"
		if n != "" && !isPlace(n) {
			in.Refuse(name, bff.FieldFormat)
		} else if utf8.RuneCountInString(bff.FoldPlace(n)) > consumer.MaxPlaceRunes {
			in.Refuse(name, bff.FieldLength)
		}
	}
	if p := in.Object("priceRange"); p != nil {
		p.Require("min", "max", "currency")
		f.PriceRange = &consumer.PriceRange{
			Min: p.Float("min", 0, 1e12), Max: p.Float("max", 0, 1e12), Currency: readCurrency(p),
		}
		if p.Has("max") && f.PriceRange.Max < f.PriceRange.Min {
			p.Refuse("max", bff.FieldOrder)
		}
	}
	return f
}
