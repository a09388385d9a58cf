package consumerhttp

import (
	"encoding/binary"
	"math"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/useragent"
	"melmastoon.ghasi.io/bff/internal/web"
)

// looks is what a set of headers says of whoever sends it. It is worked out
// once: the same headers come with every request of a visit, and with those of
// many others.
type looks struct {
	browser *browser
	agent   useragent.Verdict
	signals []bot.Signal
	score   float64

	fingerprint consumer.Hash
	subject     string // the same, as a limiter's subject
	number      uint64 // the same, for keys

	// What the fingerprint's misdeeds weigh, and when that was asked.
	penalty atomic.Uint64
	asked   atomic.Int64
}

// sentHeaders are the headers that looks follow from.
type sentHeaders struct {
	userAgent, accept, acceptLanguage, brands, mobile, platform, mode, site, screen, timezone string
}

// knownLooks is how many sets of headers are remembered.
const knownLooks = 1 << 12

// Bounds of what is read of a header. A cut one still looks like itself.
const (
	maxBrands = 256
	maxShort  = 64
)

func readSent(h http.Header) sentHeaders {
	return sentHeaders{
		userAgent: clip(header(h, "User-Agent"), maxUserAgent), accept: clip(header(h, "Accept"), maxBrands),
		acceptLanguage: clip(header(h, "Accept-Language"), maxUserAgent),
		brands:         clip(header(h, "Sec-Ch-Ua"), maxBrands), mobile: clip(header(h, "Sec-Ch-Ua-Mobile"), maxShort),
		platform: clip(header(h, "Sec-Ch-Ua-Platform"), maxShort),
		mode:     clip(header(h, "Sec-Fetch-Mode"), maxShort), site: clip(header(h, "Sec-Fetch-Site"), maxShort),
		screen: clip(header(h, "X-Client-Screen"), maxScreen), timezone: clip(header(h, "X-Client-Timezone"), maxTimezone),
	}
}

// clone keeps a few short texts from holding all of the request's headers.
func (s sentHeaders) clone() sentHeaders {
	for _, p := range []*string{
		&s.userAgent, &s.accept, &s.acceptLanguage, &s.brands, &s.mobile, &s.platform, &s.mode, &s.site, &s.screen, &s.timezone,
	} {
		*p = strings.Clone(*p)
	}
	return s
}

// look returns what the headers of a request say.
func (a *API) look(r *http.Request) *looks {
	d, sent := a.cfg.Defence, readSent(r.Header)
	l, known := d.looks.get(sent)
	if known {
		return l
	}
	sent = sent.clone()
	b := a.visitors.browser(r.Header)
	l = &looks{browser: b, agent: d.cfg.UserAgents.Judge(sent.userAgent), fingerprint: b.current.Fingerprint}
	l.signals = d.policy.HeaderSigns(bot.Headers{
		UserAgent: sent.userAgent, Accept: sent.accept, AcceptLanguage: sent.acceptLanguage,
		Brands: sent.brands, Mobile: sent.mobile, Platform: sent.platform, FetchMode: sent.mode, FetchSite: sent.site,
	}, bot.UserAgentKind(l.agent.Kind.String()), l.agent.Name)
	for _, s := range l.signals {
		l.score += s.Weight
	}
	l.subject, l.number = string(l.fingerprint[:]), binary.LittleEndian.Uint64(l.fingerprint[:])
	d.looks.put(sent, l)
	return l
}

// penaltyAge is how old the word on a fingerprint may be.
const penaltyAge = 20 * time.Second

// misdeeds returns what the fingerprint's penalties weigh, as far as known, and
// has somebody ask again when that was long ago.
func (a *API) misdeeds(l *looks, now time.Time, ms int64) float64 {
	d := a.cfg.Defence
	if asked := l.asked.Load(); ms-asked > penaltyAge.Milliseconds() && l.asked.CompareAndSwap(asked, ms) {
		d.later(func() {
			ctx, cancel := d.brief()
			defer cancel()
			if p, err := d.cfg.Memory.Penalty(ctx, l.fingerprint, now); err == nil {
				l.penalty.Store(math.Float64bits(p))
			}
		})
	}
	bits := l.penalty.Load()
	if bits == 0 {
		return 0
	}
	return d.policy.Penalty(math.Float64frombits(bits))
}

// caller is whoever sent a request, as the defence knows them.
type caller struct {
	now     time.Time
	ms      int64
	looks   *looks
	network netip.Addr
	// session is the id in the cookie, as the client wrote it; it may be made up.
	session    string
	id         bff.ID
	hasSession bool

	// visitor is whom counts and challenges are about: the session, or else
	// everybody with this fingerprint on this network.
	visitor  uint64
	crowd    uint64 // fingerprint and network
	networkN uint64

	attempt attempt // at a mutation
}

// caller reads who asks.
func (a *API) caller(r *http.Request) caller {
	v := a.visit(r)
	c := caller{now: v.now, looks: v.looks, network: ratelimit.Network(web.From(r.Context()).ClientIP)}
	c.ms = c.now.UnixMilli()
	addr := c.network.As16()
	c.networkN = consumer.Spread(binary.LittleEndian.Uint64(addr[:8]) ^ consumer.Spread(binary.LittleEndian.Uint64(addr[8:])))
	c.crowd = consumer.Spread(c.looks.number ^ c.networkN)
	c.visitor = c.crowd
	if c.id, c.session, c.hasSession = v.peeked.id, v.peeked.text, v.peeked.ok; c.hasSession {
		b := c.id.Bytes()
		c.visitor = consumer.Spread(binary.LittleEndian.Uint64(b[:8]) ^ consumer.Spread(binary.LittleEndian.Uint64(b[8:])))
	}
	return c
}

// subject is whom a challenge is for.
func (c *caller) subject() string {
	if c.hasSession {
		return c.id.String()
	}
	return "visitor:" + bff.IDFromBytes(bff.PrefixGuestSession, [16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, c.crowd), c.looks.number))).ULID()
}

// peekCookie reads the session id without judging the request: the handler
// refuses what is malformed. Only an id in its canonical form counts, so that
// one session has one bucket.
func peekCookie(h http.Header) (id bff.ID, text string, ok bool) {
	const name = cookieName + "="
	for _, line := range h["Cookie"] {
		for rest := line; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			pair = strings.TrimLeft(pair, " \t")
			if !strings.HasPrefix(pair, name) {
				continue
			}
			value := strings.Trim(pair[len(name):], ` "`)
			id, err := bff.ParseID(bff.PrefixGuestSession, value)
			if err != nil {
				return bff.ID{}, "", false
			}
			if !canonical(value) {
				value = id.String()
			}
			return id, value, true
		}
	}
	return bff.ID{}, "", false
}

// soleCookie reports whether there is no second session in the request.
func soleCookie(h http.Header) bool {
	n := 0
	for _, line := range h["Cookie"] {
		n += strings.Count(line, cookieName+"=")
	}
	return n == 1
}

// canonical reports whether an id is written as we write it.
func canonical(s string) bool {
	for i := len("gms_"); i < len(s); i++ {
		if s[i] >= 'a' && s[i] <= 'z' {
			return false
		}
	}
	return true
}
