package consumerhttp

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp/visits"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/consumer/telemetry"
	"melmastoon.ghasi.io/bff/internal/web"
)

// hotel serves a hotel's page. It is public: its bytes depend on the URL, the
// language and the currency, and on nothing else.
func (a *API) hotel(w http.ResponseWriter, r *http.Request) error {
	now := visitOf(r).At
	page, err := a.readPage(r, now)
	if err != nil {
		return err
	}
	out, err := a.answers.serve(w, r, shared{
		cache: a.cfg.Answers.detail, key: page.key, public: true, blank: func() view { return new(discovery.HotelDetail) },
		compose: func(ctx context.Context) (composed, error) {
			d, err := a.cfg.Finder.Detail(ctx, page.DetailRequest, a.cfg.Now())
			if err != nil {
				return composed{}, err
			}
			tags := []string{discovery.PropertyTag(page.PropertyID), discovery.TenantTag(d.Property.TenantID), discovery.BrandTag(d.Property.TenantID)}
			for _, s := range d.SimilarProperties {
				tags = append(tags, discovery.TenantTag(s.TenantID))
			}
			return composed{
				view: &d, tags: tags, partial: len(d.Degraded) > 0, stale: d.Stale, shed: d.Shed, expires: d.PricesExpire(), tenant: d.Property.TenantID,
			}, nil
		},
	})
	if err != nil {
		return err
	}
	a.viewed(r, page.DetailRequest, out)
	return nil
}

// page is a request for a hotel's page that was understood, and the key of its
// answer.
type page struct {
	discovery.DetailRequest
	key string
}

// pageAsked is all that a page follows from; without dates, also the day.
type pageAsked struct {
	id, query, currency string
	locale              bff.Locale
	today               bff.Date
}

// knownPages is how many pages need not be read again, and longQuery what is not
// worth remembering.
const (
	knownPages = 1 << 12
	longQuery  = 256
)

// readPage reads what page is asked for. The same few are, again and again.
func (a *API) readPage(r *http.Request, now time.Time) (*page, error) {
	asked := pageAsked{
		id: web.PathValue(r, "propertyId"), query: r.URL.RawQuery, currency: web.Header(r.Header, "X-Currency"), locale: visitOf(r).Locale, today: bff.DateOf(now),
	}
	if p, known := a.pages.Get(asked); known {
		return p, nil
	}
	in := web.ReadQuery(r)
	p := &page{DetailRequest: discovery.DetailRequest{PropertyID: pathID(r, in), Stay: discovery.DefaultStay(now)}}
	p.Locale, p.Currency = a.publicChoice(r, in)
	p.Stay.Occupancy = readOccupancy(in, false)
	if in.Has("checkIn") || in.Has("checkOut") {
		p.Stay.Dates = readStay(in)
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	p.key = a.cfg.Answers.detailKey(p.DetailRequest)
	if len(asked.id)+len(asked.query)+len(asked.currency) <= longQuery {
		asked.id, asked.query, asked.currency = strings.Clone(asked.id), strings.Clone(asked.query), strings.Clone(asked.currency)
		a.pages.Put(asked, p)
	}
	return p, nil
}

// viewed has it recorded, in the background, which hotel a guest looked at. The
// page itself is public and knows nothing of guests: a request without a cookie
// is given none.
func (a *API) viewed(r *http.Request, page discovery.DetailRequest, out outcome) {
	v := visitOf(r)
	id, now, property := v.SessionID, v.At, page.PropertyID
	if id.IsZero() || v.Untracked {
		return
	}
	source := web.Header(r.Header, "X-View-Source")
	if !slices.Contains(guest.ViewSources(), source) {
		source = guest.ViewSources()[0]
	}
	rec := visits.Record{Guest: id, Visit: v, Span: web.From(r.Context()).Span}
	last, ok := a.guests.lastView.Get(id.Bytes())
	// A page that is reloaded is where it was: in front.
	if !ok || last.fingerprint != v.Fingerprint || last.hotel != property || last.source != source || now.Sub(last.at) >= consumer.TouchAfter {
		rec.Viewed = &guest.RecentlyViewed{PropertyID: property, TenantID: out.tenant, ViewedAt: bff.At(now), Source: source}
		a.guests.lastView.Put(id.Bytes(), lastView{v.Fingerprint, property, source, now})
	}
	if a.cfg.Telemetry.Samples(id, consumer.SubjectDetailViewed) {
		rec.Occasion = occasion(r)
		took := a.cfg.Now().Sub(now)
		search, _ := searchSession(r) // one that does not read is none
		rec.Fact = func(consumer.GuestSession) consumer.Fact {
			return telemetry.DetailViewed{
				GuestSessionID: id, PropertyID: property, TenantID: out.tenant, SearchSessionID: search, Locale: page.Locale, Currency: page.Currency,
				FromCache: out.fromCache, CompositionMs: took.Milliseconds(), ViewedAt: bff.At(now),
			}
		}
	}
	a.recorder.Add(rec)
}

// lastView is the page that a guest saw last, and with which browser.
type lastView struct {
	fingerprint consumer.Hash
	hotel       bff.ID
	source      string
	at          time.Time
}

// stayKey names a stay in few characters.
func stayKey(s discovery.Stay) string {
	o, b := s.Occupancy, make([]byte, 0, 64)
	for _, n := range append([]int{int(s.Dates.CheckIn), int(s.Dates.CheckOut), o.Adults, o.Children, o.Rooms}, slices.Sorted(slices.Values(o.ChildrenAges))...) {
		b = append(strconv.AppendInt(b, int64(n), 36), '.')
	}
	return string(b[:len(b)-1])
}

// availability serves a hotel's calendar.
func (a *API) availability(w http.ResponseWriter, r *http.Request) error {
	in := web.ReadQuery(r)
	in.Require("from", "to")
	req := discovery.AvailabilityRequest{PropertyID: pathID(r, in), Occupancy: readOccupancy(in, false)}
	var ok1, ok2 bool
	req.From, ok1 = in.Date("from")
	req.To, ok2 = in.Date("to")
	if ok1 && ok2 {
		switch n := req.To - req.From; {
		case n <= 0:
			in.Refuse("to", bff.FieldOrder)
		case n > discovery.MaxAvailabilityNights:
			in.Refuse("to", bff.FieldRange)
		}
	}
	if req.Currency = headerCurrency(r, in); req.Currency == "" {
		req.Currency = a.guests.resolve(w, r, guest.Peek).Session.Currency
	}
	if err := in.Err(); err != nil {
		return err
	}
	occupancy := stayKey(discovery.Stay{Occupancy: req.Occupancy})
	key := a.cfg.Answers.keys.Key("cache", "availability", req.PropertyID.String(), req.From.String(), req.To.String(), occupancy+string(req.Currency))
	_, err := a.answers.serve(w, r, shared{
		cache: a.cfg.Answers.availability, key: key, blank: func() view { return new(discovery.Availability) },
		compose: func(ctx context.Context) (composed, error) {
			days, tenant, err := a.cfg.Finder.Availability(ctx, req)
			if err != nil {
				return composed{}, err
			}
			return composed{view: &days, tags: []string{discovery.PropertyTag(req.PropertyID), discovery.TenantTag(tenant)}}, nil
		},
	})
	return err
}

// facets serves what a region can be filtered by.
func (a *API) facets(w http.ResponseWriter, r *http.Request) error {
	in := web.ReadQuery(r)
	in.Require("country")
	country, region := in.String("country", 2), bff.FoldPlace(readPlace(in, "region", consumer.MaxPlaceRunes))
	if country != "" && !isCountry(country) {
		in.Refuse("country", bff.FieldFormat)
	}
	locale, _ := a.publicChoice(r, in)
	if err := in.Err(); err != nil {
		return err
	}
	country = upper(country)
	key := a.cfg.Answers.keys.Key("cache", "facets", country, region, string(locale))
	_, err := a.answers.serve(w, r, shared{
		cache: a.cfg.Answers.facets, key: key, public: true, blank: func() view { return new(hotel.FacetCatalog) },
		compose: func(ctx context.Context) (composed, error) {
			c, err := a.cfg.Finder.Facets(ctx, country, region, locale)
			return composed{view: &c}, err
		},
	})
	return err
}

const (
	maxTyped       = 64
	maxSuggestions = 20
)

// suggest completes a destination.
func (a *API) suggest(w http.ResponseWriter, r *http.Request) error {
	in := web.ReadQuery(r)
	in.Require("q")
	typed := bff.FoldPlace(readPlace(in, "q", maxTyped))
	limit := in.Int("limit", 8, 1, maxSuggestions)
	headerCurrency(r, in) // no price is shown; a bad one is refused as everywhere
	if err := in.Err(); err != nil {
		return err
	}
	locale := a.guests.resolve(w, r, guest.Peek).Session.Locale
	// Hashed: people type names and addresses where a city belongs.
	key := a.cfg.Answers.keys.Key("cache", "suggest", strconv.Itoa(limit), string(locale), hexOf(sha256.Sum256([]byte(typed))))
	_, err := a.answers.serve(w, r, shared{
		cache: a.cfg.Answers.suggest, key: key, blank: func() view { return new(hotel.Suggestions) },
		compose: func(ctx context.Context) (composed, error) {
			s, err := a.cfg.Finder.Suggest(ctx, typed, limit, locale)
			return composed{view: &s}, err
		},
	})
	return err
}

// publicChoice is the language and currency of a shared answer: what the
// request itself says, because that is all a CDN can see.
func (a *API) publicChoice(r *http.Request, in *web.Input) (bff.Locale, bff.Currency) {
	currency, locale := headerCurrency(r, in), in.Locale("locale")
	if currency == "" {
		currency = bff.DefaultCurrency
	}
	if locale == "" {
		locale = visitOf(r).Locale
	}
	return locale, currency
}

func pathID(r *http.Request, in *web.Input) bff.ID {
	id, err := bff.ParseID(bff.PrefixProperty, web.PathValue(r, "propertyId"))
	if err != nil {
		in.Refuse("propertyId", bff.FieldFormat)
	}
	return id
}
