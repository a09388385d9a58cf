package consumerhttp

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/web"
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

// maxUserAgent bounds what is hashed and classified.
const maxUserAgent = 1024

func (v Visitors) read(r *http.Request, now time.Time) consumer.Visitor {
	h := r.Header
	ua := clip(h.Get("User-Agent"), maxUserAgent)
	al := clip(h.Get("Accept-Language"), maxUserAgent)
	screen, zone := screenOf(clip(h.Get("X-Client-Screen"), 32)), clip(h.Get("X-Client-Timezone"), 64)
	locale, _ := bff.NegotiateLocale(al)
	prints := func(pepper []byte) consumer.Prints {
		browser := unversioned(ua)
		return consumer.Prints{
			Fingerprint: hash(pepper, "fingerprint", browser, al, screen, zone),
			Base:        hash(pepper, "fingerprint", browser, al, "", ""),
		}
	}
	var older []consumer.Prints
	for _, p := range v.OldPeppers {
		older = append(older, prints(p))
	}
	current := prints(v.Pepper)
	return consumer.Visitor{
		Fingerprint: current.Fingerprint, Base: current.Base, Older: older,
		IP:        hash(v.Pepper, "ip", web.From(r.Context()).ClientIP.String()),
		UserAgent: hash(v.Pepper, "user-agent", ua), UserAgentClass: v.Classify(ua),
		Locale: locale, Currency: currencyOf(h.Get(v.CountryHeader)),
		Campaign: campaign(r, now), Referer: origin(h.Get("Referer")),
		NoTracking: h.Get("DNT") == "1" || h.Get("Sec-GPC") == "1",
	}
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
	pick := func(header, param string) string {
		s := r.Header.Get(header)
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
	c.CapturedAt = bff.At(now)
	return &c
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
