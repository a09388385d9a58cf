package consumer

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"melmastoon.ghasi.io/bff"
)

// The answers that cost most are written by hand: reflection takes several times
// as long as composing them. What is written is, to the byte, what encoding/json
// would write of the same value; a test holds the two against each other.

// errNumber is the error of a number that JSON has no form for.
var errNumber = errors.New("encode answer: not a finite number")

// AppendJSON appends the page to b.
func (r *SearchResult) AppendJSON(b []byte) ([]byte, error) {
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

// AppendJSON appends the listings, as a cache keeps them, to b.
func (l *Listings) AppendJSON(b []byte) ([]byte, error) {
	w := writer{b: slices.Grow(b, 512+1024*len(l.Items))}
	w.raw(`{"Items":`)
	list(&w, l.Items, (*writer).listing)
	w.raw(`,"Total":`).int(l.Total)
	w.message(`,"AIProvenance":`, l.AIProvenance)
	w.message(`,"QueryRewriteHint":`, l.QueryRewriteHint)
	w.raw(`,"Order":`).string(l.Order.String()).raw(`}`)
	return w.b, w.err
}

// AppendJSON appends what the projection knows, as a cache keeps it, to b.
func (p *Projected) AppendJSON(b []byte) ([]byte, error) {
	w := writer{b: slices.Grow(b, 1536)}
	w.raw(`{"Listing":`)
	w.listing(&p.Listing)
	w.raw(`,"Popularity":`)
	if p.Popularity == nil {
		w.raw(`null`)
	} else {
		w.popularity(p.Popularity)
	}
	w.raw(`}`)
	return w.b, w.err
}

// AppendJSON appends the brand to b.
func (p *BrandPeek) AppendJSON(b []byte) ([]byte, error) {
	w := writer{b: slices.Grow(b, 256)}
	w.brand(p)
	return w.b, w.err
}

func (w *writer) listing(l *Listing) {
	w.raw(`{"PropertyID":`).id(l.PropertyID).raw(`,"TenantID":`).id(l.TenantID).raw(`,"TenantSlug":`).string(l.TenantSlug)
	w.raw(`,"Name":`).localized(&l.Name).raw(`,"City":`).string(l.City).raw(`,"Region":`).string(l.Region)
	w.raw(`,"Country":`).string(l.Country).raw(`,"PropertyType":`).string(l.PropertyType)
	w.raw(`,"Geo":`).geo(l.Geo)
	w.raw(`,"GeoCell":`).string(l.GeoCell)
	w.raw(`,"Thumbnail":{"url":`).string(l.Thumbnail.URL).raw(`,"alt":`).string(l.Thumbnail.Alt)
	w.raw(`},"StarRating":`).floatOrNull(l.StarRating).raw(`,"GuestRating":`)
	if g := l.GuestRating; g == nil {
		w.raw(`null`)
	} else {
		w.raw(`{"value":`).float(g.Value).raw(`,"count":`).int(g.Count).raw(`}`)
	}
	w.raw(`,"Amenities":`)
	list(w, l.Amenities, (*writer).element)
	w.raw(`,"Sharia":`).bool(l.Sharia).raw(`,"ListedAt":`)
	listed, err := l.ListedAt.MarshalJSON()
	if err != nil {
		w.err = err
	}
	w.b = append(w.b, listed...)
	w.raw(`,"DistanceKm":`).floatOrNull(l.DistanceKm).raw(`}`)
}

func (w *writer) popularity(p *Popularity) {
	w.raw(`{"bookedLast24h":`).int(p.BookedLast24h).raw(`,"viewedLast1h":`).int(p.ViewedLast1h).raw(`}`)
}

func (w *writer) card(c *ListingCard) {
	w.raw(`{"propertyId":`).id(c.PropertyID).raw(`,"tenantId":`).id(c.TenantID).raw(`,"tenantSlug":`).string(c.TenantSlug)
	w.raw(`,"name":`).localized(&c.Name).raw(`,"city":`).string(c.City).raw(`,"country":`).string(c.Country)
	w.raw(`,"geo":`).geo(c.Geo)
	w.raw(`,"thumbnail":{"url":`).string(c.Thumbnail.URL).raw(`,"alt":`).string(c.Thumbnail.Alt).raw(`}`)
	w.maybeFloat(`,"starRating":`, c.StarRating)
	w.rating(c.GuestRating)
	w.raw(`,"amenityHighlights":`)
	list(w, c.AmenityHighlights, (*writer).element)
	w.raw(`,"brandPeek":`).brand(&c.BrandPeek)
	w.raw(`,"rateSnapshot":`).rate(c.RateSnapshot)
	w.raw(`,"badges":`)
	list(w, c.Badges, (*writer).badge)
	w.maybeFloat(`,"distanceKm":`, c.DistanceKm)
	w.raw(`}`)
}

func (w *writer) rating(g *GuestRating) {
	if g != nil {
		w.raw(`,"guestRating":{"value":`).float(g.Value).raw(`,"count":`).int(g.Count).raw(`}`)
	}
}

func (w *writer) geo(at LatLng) {
	w.raw(`{"lat":`).float(at.Lat).raw(`,"lng":`).float(at.Lng).raw(`}`)
}

func (w *writer) brand(p *BrandPeek) {
	w.raw(`{"primaryColor":`).string(p.PrimaryColor).raw(`,"logoUrl":`).string(p.LogoURL)
	w.raw(`,"brandName":`).localized(&p.BrandName).raw(`}`)
}

func (w *writer) rate(r *RateSnapshot) {
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
	w.raw(`}`)
}

func (w *writer) tax(t *Tax) {
	w.raw(`{"code":`).string(t.Code).raw(`,"minor":`).string(t.Minor).raw(`,"currency":`).string(string(t.Currency))
	w.raw(`,"included":`).bool(t.Included).raw(`}`)
}

func (w *writer) degradation(d *Degradation) {
	w.raw(`{"part":`).string(string(d.Part)).raw(`,"reason":`).string(string(d.Reason))
	if d.AgeMs != 0 {
		w.raw(`,"ageMs":`).int(int(d.AgeMs))
	}
	w.raw(`,"affected":`).int(d.Affected).raw(`}`)
}

func (w *writer) element(s *string) { w.string(*s) }
func (w *writer) badge(b *Badge)    { w.string(string(*b)) }

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
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.err = errNumber
		return w
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		// As ECMAScript writes it: no zero in front of the exponent.
		w.b = strconv.AppendFloat(w.b, f, 'e', -1, 64)
		if n := len(w.b); n >= 4 && w.b[n-4] == 'e' && w.b[n-3] == '-' && w.b[n-2] == '0' {
			w.b[n-2] = w.b[n-1]
			w.b = w.b[:n-1]
		}
		return w
	}
	w.b = strconv.AppendFloat(w.b, f, 'f', -1, 64)
	return w
}

func (w *writer) maybeFloat(member string, f *float64) {
	if f != nil {
		w.raw(member).float(*f)
	}
}

func (w *writer) floatOrNull(f *float64) *writer {
	if f == nil {
		return w.raw(`null`)
	}
	return w.float(*f)
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

// delicate are the bytes of a string that may not stand as they are: what JSON
// forbids, what HTML would read, and what U+2028 and U+2029 begin with, which
// end lines in JavaScript.
var delicate = func() (d [256]bool) {
	for c := range d {
		d[c] = c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0xE2
	}
	return d
}()

// plain reports whether a string is ASCII with nothing delicate in it, as nearly
// all are. It looks at eight bytes at a time: a top bit is set where a byte has
// it, or where taking away borrows, from a zero or from less than a space.
func plain(s string) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; len(s) >= 8; s = s[8:] {
		x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
			uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
		quote, slash, amp, angle := x^'"'*ones, x^'\\'*ones, x^'&'*ones, x&^(2*ones)^'<'*ones // < and > differ in one bit
		if (x|(quote-ones)&^quote|(slash-ones)&^slash|(amp-ones)&^amp|(angle-ones)&^angle|(x-' '*ones)&^x)&tops != 0 {
			return false
		}
	}
	for i := range len(s) {
		if delicate[s[i]] || s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (w *writer) string(s string) *writer {
	if plain(s) {
		w.b = append(append(append(w.b, '"'), s...), '"')
		return w
	}
	if !utf8.ValidString(s) {
		return w.mended(s)
	}
	w.b = append(w.b, '"')
	b, start := w.b, 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !delicate[c] {
			continue
		}
		if c == 0xE2 {
			if s[i+1] == 0x80 && s[i+2]&^1 == 0xA8 {
				b = append(append(b, s[start:i]...), `\u202`...)
				b = append(b, "89"[s[i+2]&1])
				start = i + 3
			}
			i += 2
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		start = i + 1
	}
	w.b = append(append(b, s[start:]...), '"')
	return w
}

// mended writes a string that is not UTF-8, which no upstream's reader lets
// through.
func (w *writer) mended(s string) *writer {
	written, err := json.Marshal(s)
	if err != nil {
		w.err = err
	}
	w.b = append(w.b, written...)
	return w
}
