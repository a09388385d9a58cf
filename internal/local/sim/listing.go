package sim

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Listing is a house as search-aggregation knows it.
type Listing struct {
	PropertyID              string       `json:"propertyId"`
	TenantID                string       `json:"tenantId"`
	TenantSlug              string       `json:"tenantSlug"`
	Name                    Text         `json:"name"`
	City                    string       `json:"city"`
	CityNames               Text         `json:"cityNames"`
	Region                  string       `json:"region"`
	RegionNames             Text         `json:"regionNames"`
	Country                 string       `json:"country"`
	Neighbourhood           string       `json:"neighbourhood"`
	Geo                     Point        `json:"geo"`
	GeoCell                 string       `json:"geoCell"`
	Thumbnail               Thumbnail    `json:"thumbnail"`
	StarRating              int          `json:"starRating,omitempty"`
	GuestRating             *GuestRating `json:"guestRating,omitempty"`
	Amenities               []string     `json:"amenities"`
	PropertyType            string       `json:"propertyType"`
	CancellationFlexibility string       `json:"cancellationFlexibility"`
	ShariaCompliant         bool         `json:"shariaCompliant"`
	ListedAt                string       `json:"listedAt"`
	DistanceKm              *float64     `json:"distanceKm,omitempty"`
}

// Thumbnail is a picture with its description.
type Thumbnail struct {
	URL string `json:"url"`
	Alt Text   `json:"alt"`
}

// GuestRating is on a scale of ten.
type GuestRating struct {
	Value float64 `json:"value"`
	Count int     `json:"count"`
}

func (s *Sim) rating(p *property) *GuestRating {
	if p.ratingTenths == 0 {
		return nil
	}
	more := int(s.state.listings[p.index].indexed.Load())
	return &GuestRating{Value: float64(p.ratingTenths) / 10, Count: p.ratingCount + more}
}

func (s *Sim) amenityCodes(p *property) []string {
	codes := []string{}
	for i, a := range s.data.amenities {
		if p.amenities>>i&1 == 1 {
			codes = append(codes, a.code)
		}
	}
	return codes
}

func (p *property) photoAlt(n int) Text {
	views := [...]Names{
		{"front", "مخ", "نما"}, {"room", "خونه", "اتاق"}, {"lobby", "دهلېز", "دهلیز"}, {"courtyard", "انګړ", "حویلی"}, {"breakfast", "سهارنۍ", "صبحانه"},
	}
	return p.names.join(" — ", views[n%len(views)]).text()
}

func (s *Sim) listing(p *property, base string) Listing {
	return Listing{
		PropertyID: p.id, TenantID: p.tenant.id, TenantSlug: p.tenant.slug,
		Name: p.names.text(), City: p.city.names.En, CityNames: p.city.texts[0], Region: p.city.region.En, RegionNames: p.city.texts[1],
		Country: p.country.code, Neighbourhood: p.neighbourhood.En, Geo: p.geo, GeoCell: p.cell,
		Thumbnail:  Thumbnail{URL: photoURL(base, p, 0), Alt: p.photoAlt(0)},
		StarRating: p.stars, GuestRating: s.rating(p), Amenities: s.amenityCodes(p),
		PropertyType: s.data.types[p.kind].code, CancellationFlexibility: cancellationCodes[p.cancellation],
		ShariaCompliant: p.sharia, ListedAt: p.listedAt.Format(bff.TimestampFormat),
	}
}

func photoURL(base string, p *property, n int) string {
	return base + "/media/" + p.id + "/" + strconv.Itoa(n) + ".svg"
}

// listingJSON is a listing encoded once, cut where the media base goes. A
// search answers with dozens of listings; encoding them anew would be most of
// its cost.
type listingJSON struct{ before, after []byte }

// mediaMark stands for the media base while a listing is encoded. No name of
// the data set holds it.
const mediaMark = "@media@"

func (s *Sim) encoded(p *property) *listingJSON {
	l := &s.state.listings[p.index]
	if j := l.json.Load(); j != nil {
		return j
	}
	n := l.indexed.Load()
	b, err := json.Marshal(s.listing(p, mediaMark))
	if err != nil {
		panic(err) // strings and numbers always encode
	}
	before, after, _ := bytes.Cut(b, []byte(mediaMark))
	j := &listingJSON{before: before, after: after[:len(after)-1]} // without the closing brace
	if l.json.CompareAndSwap(nil, j) && l.indexed.Load() != n {
		l.json.CompareAndSwap(j, nil) // indexed meanwhile: what was encoded may be old
	}
	return j
}

// appendListing writes a listing; a negative distance is left out.
func (s *Sim) appendListing(b []byte, p *property, base string, km float64) []byte {
	j := s.encoded(p)
	b = append(b, j.before...)
	b = append(b, base...)
	b = append(b, j.after...)
	if km >= 0 {
		b = append(b, `,"distanceKm":`...)
		b = strconv.AppendFloat(b, km, 'f', 3, 64)
	}
	return append(b, '}')
}

// popularity is a function of house and day.
func (p *property) popularity(now time.Time) (bookedLast24h, viewedLast1h int) {
	h := mix(p.seed, kindPopularity, uint64(bff.DateOf(now))) //nolint:gosec // a date is not negative
	return int(h % 9), int(h >> 8 % 60)
}
