package consumerguard

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/useragent"
	"melmastoon.ghasi.io/bff/internal/web"
)

// Clients says how clients are recognised. Addresses, user agents and
// fingerprints leave the guard only as peppered hashes.
type Clients struct {
	Pepper []byte
	// OldPeppers are read, not written: sessions that know a client under one of
	// them are moved to the current pepper.
	OldPeppers [][]byte
	// CountryHeader is the header in which the edge proxy reports the country of
	// the client's address; empty if it does not.
	CountryHeader string

	addresses *sync.Pool // of HMACs, keyed
}

// hash mixes the pepper and a domain into SHA-256, so that equal values of two
// kinds never share a hash, and addresses cannot be tried without the pepper.
func hash(pepper []byte, kind string, parts ...string) consumer.Hash {
	mac := hmac.New(sha256.New, pepper)
	for _, p := range append([]string{kind}, parts...) {
		mac.Write([]byte(p))
		mac.Write([]byte{0})
	}
	return consumer.Hash(mac.Sum(nil))
}

// Bounds of what is read of a header. One that is cut still has its own profile.
const (
	maxUserAgent = 1024
	maxBrands    = 256
	maxShort     = 64
	maxScreen    = 32
)

// readSent reads the headers that a profile follows from.
func readSent(h http.Header) bot.Headers {
	return bot.Headers{
		UserAgent: clip(web.Header(h, "User-Agent"), maxUserAgent), Accept: clip(web.Header(h, "Accept"), maxBrands),
		AcceptLanguage: clip(web.Header(h, "Accept-Language"), maxUserAgent),
		Brands:         clip(web.Header(h, "Sec-Ch-Ua"), maxBrands), Mobile: clip(web.Header(h, "Sec-Ch-Ua-Mobile"), maxShort),
		Platform:  clip(web.Header(h, "Sec-Ch-Ua-Platform"), maxShort),
		FetchMode: clip(web.Header(h, "Sec-Fetch-Mode"), maxShort), FetchSite: clip(web.Header(h, "Sec-Fetch-Site"), maxShort),
		Screen: clip(web.Header(h, "X-Client-Screen"), maxScreen), Timezone: clip(web.Header(h, "X-Client-Timezone"), maxShort),
	}
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// cloned keeps a few short texts from holding all of the request's headers.
func cloned(s bot.Headers) bot.Headers {
	for _, p := range []*string{
		&s.UserAgent, &s.Accept, &s.AcceptLanguage, &s.Brands, &s.Mobile, &s.Platform, &s.FetchMode, &s.FetchSite, &s.Screen, &s.Timezone,
	} {
		*p = strings.Clone(*p)
	}
	return s
}

// profile is what follows from the headers of a client. It is worked out once:
// the same headers come with every request of a visit, and with those of many
// other clients.
type profile struct {
	agent          useragent.Verdict
	signals        []bot.Signal
	weight, driven float64 // of the signals, and of those that a program drives the browser
	current        consumer.Prints
	older          []consumer.Prints
	userAgent      consumer.Hash
	locale         bff.Locale

	// subject is the fingerprint, as the limiter counts it. Every header of it is
	// free-form, so it holds no attacker; without the hints of scripts it would hold
	// all telephones of one model and language to one limit.
	subject string
	// number is the base fingerprint, for keys of clients on one network: there a new
	// hint with each request is no new client.
	number uint64

	// What the fingerprint's penalties weigh, and when that was read.
	penalty     atomic.Uint64
	penaltyRead atomic.Int64
}

// profileOf returns the profile of a request's headers.
func (g *Guard) profileOf(h http.Header) *profile {
	sent := readSent(h)
	p, known := g.profiles.Get(sent)
	if !known {
		sent = cloned(sent)
		p = g.newProfile(sent)
		g.profiles.Put(sent, p)
	}
	return p
}

func (g *Guard) newProfile(sent bot.Headers) *profile {
	c := &g.cfg.Clients
	screen, kind := screenOf(sent.Screen), unversioned(sent.UserAgent)
	prints := func(pepper []byte) consumer.Prints {
		return consumer.Prints{
			Fingerprint: hash(pepper, "fingerprint", kind, sent.AcceptLanguage, screen, sent.Timezone),
			Base:        hash(pepper, "fingerprint", kind, sent.AcceptLanguage, "", ""),
		}
	}
	p := &profile{
		agent: g.cfg.UserAgents.Judge(sent.UserAgent), current: prints(c.Pepper),
		userAgent: hash(c.Pepper, "user-agent", sent.UserAgent),
	}
	for _, old := range c.OldPeppers {
		p.older = append(p.older, prints(old))
	}
	p.locale, _ = bff.NegotiateLocale(sent.AcceptLanguage)
	p.signals, p.driven = g.policy.HeaderSigns(sent, bot.UserAgentKind(p.agent.Kind.String()), p.agent.Name)
	for _, s := range p.signals {
		p.weight += s.Weight
	}
	p.subject, p.number = string(p.current.Fingerprint[:]), binary.LittleEndian.Uint64(p.current.Base[:])
	return p
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

// penaltyAge is how old the weight of a fingerprint's penalties may be.
const penaltyAge = 20 * time.Second

// penalty returns what the penalties of a client's fingerprint weigh, as far as
// known, and has them read again when that was long ago.
func (g *Guard) penalty(ctx context.Context, s *sender) float64 {
	p, now := s.profile, s.At
	if read := p.penaltyRead.Load(); s.ms-read > penaltyAge.Milliseconds() && p.penaltyRead.CompareAndSwap(read, s.ms) {
		g.jobs.DoFor(ctx, func(ctx context.Context) {
			if weight, err := g.cfg.Memory.Penalty(ctx, p.current.Fingerprint, now); err == nil {
				p.penalty.Store(math.Float64bits(weight))
			}
		})
	}
	bits := p.penalty.Load()
	if bits == 0 {
		return 0
	}
	return g.policy.Penalty(math.Float64frombits(bits))
}
