package consumerhttp

import (
	"crypto/hmac"
	"crypto/sha256"
	gohash "hash"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// Visitors reads who is asking. Addresses, user agents and fingerprints leave
// it only as peppered hashes.
type Visitors struct {
	Pepper []byte
	// OldPeppers are read, not written: sessions that know a visitor under one
	// of them are moved to the pepper of today.
	OldPeppers [][]byte
	// CountryHeader is the header in which the edge proxy reports the country of
	// the client's address; empty if nobody does.
	CountryHeader string
	// Classify names the class of a user agent, such as browser-desktop.
	Classify func(userAgent string) string
}

// Bounds of what is read of a header.
const (
	maxUserAgent = 1024
	maxScreen    = 32
	maxTimezone  = 64
)

// Most requests come with headers that were there a moment ago: what follows
// from them is remembered for so many.
const knownBrowsers = 1 << 14

// reader reads visitors.
type reader struct {
	Visitors
	browsers *memo[browserHeaders, *browser]
	ips      *sync.Pool // of HMACs, keyed
}

func newReader(v Visitors) reader {
	return reader{v, newMemo[browserHeaders, *browser](knownBrowsers), &sync.Pool{New: func() any { return hmac.New(sha256.New, v.Pepper) }}}
}

// browserHeaders are the headers that a browser sends with every request.
type browserHeaders struct{ userAgent, acceptLanguage, screen, timezone string }

// browser is what follows from them.
type browser struct {
	current        consumer.Prints
	older          []consumer.Prints
	userAgent      consumer.Hash
	userAgentClass string
	locale         bff.Locale
}

// read returns the visitor of a request, but for the hash of the address.
func (v reader) read(r *http.Request, b *browser, now time.Time) consumer.Visitor {
	h := r.Header
	return consumer.Visitor{
		Fingerprint: b.current.Fingerprint, Base: b.current.Base, Older: b.older,
		UserAgent: b.userAgent, UserAgentClass: b.userAgentClass,
		Locale: b.locale, Currency: currencyOf(h.Get(v.CountryHeader)),
		Campaign: campaign(r, now), Referer: origin(header(h, "Referer")),
		NoTracking: header(h, "Dnt") == "1" || header(h, "Sec-Gpc") == "1",
	}
}

// header is Header.Get for a name in its canonical form.
func header(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// browser returns what is known of whoever sends these headers.
func (v reader) browser(h http.Header) *browser {
	sent := browserHeaders{
		userAgent:      clip(header(h, "User-Agent"), maxUserAgent),
		acceptLanguage: clip(header(h, "Accept-Language"), maxUserAgent),
		screen:         clip(header(h, "X-Client-Screen"), maxScreen),
		timezone:       clip(header(h, "X-Client-Timezone"), maxTimezone),
	}
	b, known := v.browsers.get(sent)
	if !known {
		b = v.recognise(sent)
		v.browsers.put(sent.clone(), b)
	}
	return b
}

// clone keeps a few short texts from holding all of the request's headers.
func (h browserHeaders) clone() browserHeaders {
	return browserHeaders{
		strings.Clone(h.userAgent), strings.Clone(h.acceptLanguage), strings.Clone(h.screen), strings.Clone(h.timezone),
	}
}

func (v reader) recognise(h browserHeaders) *browser {
	screen, kind := screenOf(h.screen), unversioned(h.userAgent)
	prints := func(pepper []byte) consumer.Prints {
		return consumer.Prints{
			Fingerprint: hash(pepper, "fingerprint", kind, h.acceptLanguage, screen, h.timezone),
			Base:        hash(pepper, "fingerprint", kind, h.acceptLanguage, "", ""),
		}
	}
	b := &browser{
		current: prints(v.Pepper), userAgent: hash(v.Pepper, "user-agent", h.userAgent), userAgentClass: v.Classify(h.userAgent),
	}
	for _, p := range v.OldPeppers {
		b.older = append(b.older, prints(p))
	}
	b.locale, _ = bff.NegotiateLocale(h.acceptLanguage)
	return b
}

// hashIP is hash for an address, which no two requests need share.
func (v reader) hashIP(addr netip.Addr) (h consumer.Hash) {
	mac, _ := v.ips.Get().(gohash.Hash)
	defer v.ips.Put(mac)
	mac.Reset()
	var buf [64]byte
	text := addr.AppendTo(append(buf[:0], "ip\x00"...))
	_, _ = mac.Write(append(text, 0)) // never fails
	mac.Sum(h[:0])
	return h
}

// hash mixes the pepper and a domain into SHA-256, so that equal values of two
// kinds never share a hash and nobody without the pepper can try addresses.
func hash(pepper []byte, kind string, parts ...string) consumer.Hash {
	mac := hmac.New(sha256.New, pepper)
	for _, p := range append([]string{kind}, parts...) {
		mac.Write([]byte(p))
		mac.Write([]byte{0})
	}
	return consumer.Hash(mac.Sum(nil))
}

// unversioned drops the numbers of a user agent: browsers update themselves
// every few weeks, and their guests are still the same.
func unversioned(ua string) string {
	return strings.Map(func(r rune) rune {
		if (r >= '0' && r <= '9') || r == '.' || r == '_' {
			return -1
		}
		return r
	}, ua)
}

// screenOf writes WxH with the longer side first: a phone that is turned is the
// same phone.
func screenOf(s string) string {
	a, b, ok := strings.Cut(s, "x")
	w, errW := strconv.Atoi(a)
	h, errH := strconv.Atoi(b)
	if !ok || errW != nil || errH != nil {
		return s
	}
	return strconv.Itoa(max(w, h)) + "x" + strconv.Itoa(min(w, h))
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// currencyOf is the currency that guests of a country expect.
func currencyOf(country string) bff.Currency {
	switch strings.ToUpper(country) {
	case "IR":
		return bff.IRR
	case "PK":
		return bff.PKR
	case "AE":
		return bff.AED
	case "GB":
		return bff.GBP
	case "US":
		return bff.USD
	case "DE", "AT", "FR", "IT", "ES", "NL", "BE", "IE", "PT", "GR", "FI":
		return bff.EUR
	}
	return bff.DefaultCurrency
}

const maxCampaign = 100

// campaign reads the attribution from headers or the query. It is a
// marketer's label, so what does not look like one is dropped, not refused.
func campaign(r *http.Request, now time.Time) *consumer.Campaign {
	var q url.Values
	if strings.Contains(r.URL.RawQuery, "utm_") {
		q = r.URL.Query()
	}
	pick := func(name, param string) string {
		s := header(r.Header, name)
		if s == "" {
			s = q.Get(param)
		}
		if utf8.RuneCountInString(s) > maxCampaign || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			return ""
		}
		return s
	}
	c := consumer.Campaign{
		Source:   pick("X-Campaign-Source", "utm_source"),
		Medium:   pick("X-Campaign-Medium", "utm_medium"),
		Campaign: pick("X-Campaign-Name", "utm_campaign"),
	}
	if c == (consumer.Campaign{}) {
		return nil
	}
	kept := c // few have one: the others cost no allocation
	kept.CapturedAt = bff.At(now)
	return &kept
}

// origin keeps scheme, host and path of a referer. The query may hold what a
// guest typed or another site's secrets.
func origin(referer string) string {
	if referer == "" || len(referer) > 2048 {
		return ""
	}
	u, err := url.Parse(referer)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
