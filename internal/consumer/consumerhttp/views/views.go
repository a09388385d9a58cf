// Package views writes the answers that cost most to write, as JSON: by hand where
// that is worth it, and then with the bytes of encoding/json. It knows the shapes
// of the domain's views and nothing of requests.
package views

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

// Encode writes an answer. A page of results and a hotel's page, which cost most,
// are written by hand: with encoding/json a hotel's page takes a quarter longer to
// compose. The bytes are those of encoding/json; a test compares them.
func Encode(view any) ([]byte, error) {
	switch v := view.(type) {
	case *discovery.SearchResult:
		return appendSearchResult(nil, v)
	case *discovery.HotelDetail:
		return appendHotelDetail(nil, v)
	}
	return json.Marshal(view)
}

func appendSearchResult(b []byte, r *discovery.SearchResult) ([]byte, error) {
	w := writer{b: slices.Grow(b, 512+1280*len(r.Results))}
	w.raw(`{"results":`)
	list(&w, r.Results, (*writer).card)
	w.raw(`,"page":{"limit":`).int(r.Page.Limit).raw(`,"offset":`).int(r.Page.Offset).raw(`,"total":`).int(r.Page.Total)
	w.raw(`},"degraded":`)
	list(&w, r.Degraded, (*writer).degradation)
	w.raw(`,"stale":`).bool(r.Stale)
	w.message(`,"aiProvenance":`, r.AIProvenance)
	w.message(`,"queryRewriteHint":`, r.QueryRewriteHint)
	w.raw(`}`)
	return w.b, w.err
}

func appendHotelDetail(b []byte, d *discovery.HotelDetail) ([]byte, error) {
	w := writer{b: slices.Grow(b, detailSize(d))}
	w.raw(`{"property":`)
	w.summary(&d.Property)
	w.raw(`,"rooms":`)
	list(&w, d.Rooms, (*writer).room)
	w.raw(`,"amenities":`)
	list(&w, d.Amenities, (*writer).amenity)
	w.raw(`,"photos":`)
	list(&w, d.Photos, (*writer).photo)
	w.raw(`,"policies":`)
	w.policies(&d.Policies)
	w.raw(`,"brandPeek":`).brand(&d.BrandPeek)
	w.raw(`,"cheapestRateSnapshot":`).rate(d.CheapestRateSnapshot)
	w.raw(`,"rateState":`).string(string(d.RateState))
	if len(d.PriceCalendarPreview) > 0 {
		w.raw(`,"priceCalendarPreview":`)
		list(&w, d.PriceCalendarPreview, (*writer).night)
	}
	if len(d.SimilarProperties) > 0 {
		w.raw(`,"similarProperties":`)
		list(&w, d.SimilarProperties, (*writer).card)
	}
	if p := d.PopularitySignals; p != nil {
		w.raw(`,"popularitySignals":`)
		w.popularity(p)
	}
	w.raw(`,"handoffHint":{"url":`).string(d.HandoffHint.URL).raw(`,"ttlSeconds":`).int(d.HandoffHint.TTLSeconds)
	w.raw(`},"degraded":`)
	list(&w, d.Degraded, (*writer).degradation)
	w.raw(`,"stale":`).bool(d.Stale).raw(`}`)
	return w.b, w.err
}

// detailSize estimates the length of the page: growing it piece by piece would
// cost more than writing it.
func detailSize(d *discovery.HotelDetail) int {
	n := 2048 + 100*len(d.Amenities) + 200*len(d.Photos) + 1024*len(d.SimilarProperties) + len(d.Property.TranslationProvenance)
	for i := range d.Rooms {
		n += 300 + 32*len(d.Rooms[i].Amenities) + 120*len(d.Rooms[i].PhotoURLs)
	}
	return n
}

func (w *writer) popularity(p *hotel.Popularity) {
	w.raw(`{"bookedLast24h":`).int(p.BookedLast24h).raw(`,"viewedLast1h":`).int(p.ViewedLast1h).raw(`}`)
}

func (w *writer) card(c *discovery.ListingCard) {
	w.raw(`{"propertyId":`).id(c.PropertyID).raw(`,"tenantId":`).id(c.TenantID).raw(`,"tenantSlug":`).string(c.TenantSlug)
	w.raw(`,"name":`).localized(&c.Name).raw(`,"city":`).string(c.City).raw(`,"cityLabel":`).string(c.CityLabel).raw(`,"country":`).string(c.Country)
	w.raw(`,"geo":`).geo(c.Geo)
	w.raw(`,"thumbnail":{"url":`).string(c.Thumbnail.URL).raw(`,"alt":`).string(c.Thumbnail.Alt).raw(`}`)
	w.maybeFloat(`,"starRating":`, c.StarRating)
	w.rating(c.GuestRating)
	w.raw(`,"amenityHighlights":`)
	list(w, c.AmenityHighlights, (*writer).element)
	w.raw(`,"brandPeek":`).brand(&c.BrandPeek)
	w.raw(`,"rateSnapshot":`).rate(c.RateSnapshot)
	if c.RateState != "" {
		w.raw(`,"rateState":`).string(string(c.RateState))
	}
	w.raw(`,"badges":`)
	list(w, c.Badges, (*writer).badge)
	w.maybeFloat(`,"distanceKm":`, c.DistanceKm)
	w.raw(`}`)
}

func (w *writer) rating(g *hotel.GuestRating) {
	if g != nil {
		w.raw(`,"guestRating":{"value":`).float(g.Value).raw(`,"count":`).int(g.Count).raw(`}`)
	}
}

func (w *writer) geo(at hotel.LatLng) {
	w.raw(`{"lat":`).float(at.Lat).raw(`,"lng":`).float(at.Lng).raw(`}`)
}

func (w *writer) brand(p *hotel.BrandPeek) {
	w.raw(`{"primaryColor":`).string(p.PrimaryColor).raw(`,"logoUrl":`).string(p.LogoURL)
	w.raw(`,"brandName":`).localized(&p.BrandName).raw(`}`)
}

func (w *writer) rate(r *hotel.RateSnapshot) {
	if r == nil {
		w.raw(`null`)
		return
	}
	w.raw(`{"cheapestNightlyMinor":`).string(r.CheapestNightlyMinor).raw(`,"totalForStayMinor":`).string(r.TotalForStayMinor)
	w.raw(`,"currency":`).string(string(r.Currency)).raw(`,"currencyDisplayPolicy":`).string(r.CurrencyDisplayPolicy)
	if r.FxSnapshotID != "" {
		w.raw(`,"fxSnapshotId":`).string(r.FxSnapshotID)
	}
	w.raw(`,"capturedAt":`).moment(r.CapturedAt).raw(`,"ttlExpiresAt":`).moment(r.TTLExpiresAt).raw(`,"isStale":`).bool(r.IsStale)
	if len(r.Taxes) > 0 {
		w.raw(`,"taxes":`)
		list(w, r.Taxes, (*writer).tax)
	}
	w.raw(`,"nightly":`).amount(r.Nightly()).raw(`,"total":`).amount(r.Total()).raw(`}`)
}

func (w *writer) amount(a hotel.Amount) *writer {
	return w.raw(`{"minor":`).string(a.Minor).raw(`,"currency":`).string(string(a.Currency)).raw(`}`)
}

func (w *writer) tax(t *hotel.Tax) {
	w.raw(`{"code":`).string(t.Code).raw(`,"minor":`).string(t.Minor).raw(`,"currency":`).string(string(t.Currency))
	w.raw(`,"included":`).bool(t.Included).raw(`}`)
}

func (w *writer) degradation(d *discovery.Degradation) {
	w.raw(`{"part":`).string(string(d.Part)).raw(`,"reason":`).string(string(d.Reason))
	if d.AgeMs != 0 {
		w.raw(`,"ageMs":`).int(int(d.AgeMs))
	}
	w.raw(`,"affected":`).int(d.Affected).raw(`}`)
}

func (w *writer) element(s *string)    { w.string(*s) }
func (w *writer) badge(b *hotel.Badge) { w.string(string(*b)) }

func (w *writer) policies(p *hotel.Policies) {
	w.raw(`{"cancellation":`).string(p.Cancellation).raw(`,"checkIn":`).string(p.CheckIn).raw(`,"checkOut":`).string(p.CheckOut).raw(`}`)
}

func (w *writer) address(a *hotel.Address) {
	w.raw(`{"line":`).string(a.Line).raw(`,"city":`).string(a.City).raw(`,"cityLabel":`).string(a.CityLabel)
	w.raw(`,"region":`).string(a.Region).raw(`,"regionLabel":`).string(a.RegionLabel).raw(`,"country":`).string(a.Country).raw(`}`)
}

func (w *writer) summary(p *discovery.PropertySummary) {
	w.raw(`{"propertyId":`).id(p.PropertyID).raw(`,"tenantId":`).id(p.TenantID)
	w.raw(`,"tenantSlug":`).string(p.TenantSlug)
	w.raw(`,"name":`).localized(&p.Name)
	if p.Description != nil {
		w.raw(`,"description":`).localized(p.Description)
	}
	w.raw(`,"propertyType":`).string(p.PropertyType)
	w.maybeFloat(`,"starRating":`, p.StarRating)
	w.rating(p.GuestRating)
	w.raw(`,"address":`)
	w.address(&p.Address)
	w.raw(`,"geo":`).geo(p.Geo)
	w.raw(`,"badges":`)
	list(w, p.Badges, (*writer).badge)
	w.message(`,"translationProvenance":`, p.TranslationProvenance)
	w.raw(`}`)
}

func (w *writer) room(r *hotel.RoomTypeSummary) {
	w.raw(`{"roomTypeId":`).string(r.RoomTypeID).raw(`,"name":`).localized(&r.Name)
	w.raw(`,"maxOccupancy":{"adults":`).int(r.MaxOccupancy.Adults).raw(`,"children":`).int(r.MaxOccupancy.Children)
	w.raw(`},"beds":`)
	list(w, r.Beds, (*writer).bed)
	w.maybeFloat(`,"sizeSqm":`, r.SizeSqm)
	w.raw(`,"amenities":`)
	list(w, r.Amenities, (*writer).element)
	w.raw(`,"photoUrls":`)
	list(w, r.PhotoURLs, (*writer).element)
	w.raw(`}`)
}

func (w *writer) bed(b *hotel.Bed) {
	w.raw(`{"type":`).string(b.Type).raw(`,"count":`).int(b.Count).raw(`}`)
}

func (w *writer) amenity(a *hotel.Amenity) {
	w.raw(`{"code":`).string(a.Code).raw(`,"label":`).string(a.Label).raw(`,"category":`).string(a.Category).raw(`}`)
}

func (w *writer) photo(p *hotel.Photo) {
	w.raw(`{"url":`).string(p.URL).raw(`,"alt":`).string(p.Alt).raw(`,"isHero":`).bool(p.IsHero).raw(`}`)
}

func (w *writer) night(d *hotel.CalendarDay) {
	w.raw(`{"date":`).date(d.Date).raw(`,"cheapestMinor":`).string(d.CheapestMinor).raw(`,"currency":`).string(string(d.Currency))
	w.raw(`,"cheapest":`).amount(d.Cheapest()).raw(`}`)
}

// writer appends JSON. Its methods return it, so that a line can read like what
// it writes.
type writer struct {
	b   []byte
	err error
}

// list writes a list, or null where there is none.
func list[T any](w *writer, items []T, write func(*writer, *T)) {
	if items == nil {
		w.raw(`null`)
		return
	}
	w.raw(`[`)
	for i := range items {
		if i > 0 {
			w.raw(`,`)
		}
		write(w, &items[i])
	}
	w.raw(`]`)
}

func (w *writer) raw(s string) *writer {
	w.b = append(w.b, s...)
	return w
}

func (w *writer) int(n int) *writer {
	w.b = strconv.AppendInt(w.b, int64(n), 10)
	return w
}

func (w *writer) bool(v bool) *writer {
	w.b = strconv.AppendBool(w.b, v)
	return w
}

func (w *writer) id(id bff.ID) *writer {
	w.b, _ = id.AppendText(append(w.b, '"')) // never fails
	w.b = append(w.b, '"')
	return w
}

func (w *writer) moment(t bff.Timestamp) *writer {
	w.b = append(t.UTC().AppendFormat(append(w.b, '"'), bff.TimestampFormat), '"')
	return w
}

func (w *writer) date(d bff.Date) *writer {
	w.b = append(d.Time().AppendFormat(append(w.b, '"'), time.DateOnly), '"')
	return w
}

func (w *writer) float(f float64) *writer {
	b, err := jsonscan.AppendFloat(w.b, f)
	if err != nil {
		w.err = err
	}
	w.b = b
	return w
}

func (w *writer) string(s string) *writer {
	w.b = jsonscan.AppendString(w.b, s)
	return w
}

func (w *writer) maybeFloat(member string, f *float64) {
	if f != nil {
		w.raw(member).float(*f)
	}
}

// message writes a member that is passed on as it came, if it came.
func (w *writer) message(member string, m json.RawMessage) {
	if len(m) == 0 {
		return
	}
	checked, err := json.Marshal(m)
	if err != nil {
		w.err = err
		return
	}
	w.raw(member)
	w.b = append(w.b, checked...)
}

func (w *writer) localized(s *bff.LocalizedString) *writer {
	w.raw(`{"default":`).string(s.Default)
	if len(s.Localized) > 0 {
		var room [8]string
		locales := room[:0]
		for l := range s.Localized {
			locales = append(locales, l)
		}
		slices.Sort(locales)
		for i, l := range locales {
			if i == 0 {
				w.raw(`,"localized":{`)
			} else {
				w.raw(`,`)
			}
			w.string(l).raw(`:`).string(s.Localized[l])
		}
		w.raw(`}`)
	}
	return w.raw(`}`)
}
