package consumerguard

import (
	"encoding/binary"
	gohash "hash"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/web"
)

// sender is the client of one request, as the guard counts it.
type sender struct {
	consumer.Visit

	clients *Clients
	address netip.Addr
	ms      int64 // Visit.At
	profile *profile
	limited ratelimit.Client
	// key is what counts and challenges are about: the session, or else everyone
	// with this fingerprint on this network, which is also the crowd.
	key, crowd, networkKey uint64

	// uncarded: it brought a session's id that does not count without a card.
	uncarded  bool
	attempt   ratelimit.Attempt // at a change whose answer is kept
	overLimit bool
}

// Hash is the peppered hash of the address. No two clients need share one, so that
// keying the HMAC, which is half of the work, is done once for all.
func (s *sender) Hash() (h consumer.Hash) {
	mac, _ := s.clients.addresses.Get().(gohash.Hash)
	defer s.clients.addresses.Put(mac)
	mac.Reset()
	var buf [64]byte
	text := s.address.AppendTo(append(buf[:0], "ip\x00"...))
	_, _ = mac.Write(append(text, 0)) // never fails
	mac.Sum(h[:0])
	return h
}

func (s *sender) hasSession() bool { return s.limited.Session != "" }

// identify reads the client of a request.
func (g *Guard) identify(r *http.Request) *sender {
	req := web.From(r.Context())
	p, h := g.profileOf(r.Header), r.Header
	s := &sender{profile: p, clients: &g.cfg.Clients, address: req.ClientIP}
	s.Address = s
	if s.At = req.Start; s.At.IsZero() { // not through a web.Server
		s.At = g.cfg.Now()
	}
	s.ms = s.At.UnixMilli()
	s.Fingerprint, s.Base, s.Older = p.current.Fingerprint, p.current.Base, p.older
	s.UserAgent, s.UserAgentClass = p.userAgent, string(p.agent.Class)
	s.Locale, s.Currency = p.locale, currencyOf(h.Get(g.cfg.Clients.CountryHeader))
	s.Campaign, s.Referer = campaign(r, s.At), origin(web.Header(h, "Referer"))
	s.NoTracking = web.Header(h, "Dnt") == "1" || web.Header(h, "Sec-Gpc") == "1"
	s.limited = ratelimit.Client{Fingerprint: p.subject, Network: ratelimit.Network(req.ClientIP)}
	g.readCookies(s, h["Cookie"])

	addr := s.limited.Network.As16()
	s.networkKey = spread(addr)
	s.crowd = consumer.Spread(p.number ^ s.networkKey)
	s.key = s.crowd
	if s.hasSession() {
		s.key = spread(s.SessionID.Bytes())
	}
	return s
}

func spread(b [16]byte) uint64 {
	return consumer.Spread(binary.LittleEndian.Uint64(b[:8]) ^ consumer.Spread(binary.LittleEndian.Uint64(b[8:])))
}

// subject is whom a challenge is for.
func (s *sender) subject() string {
	if s.hasSession() {
		return s.SessionID.String()
	}
	return "visitor:" + bff.IDFromBytes(
		bff.PrefixGuestSession, [16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.crowd), s.profile.number)),
	).ULID()
}

// maxCards bounds how many cards of a request are verified. A browser sends one.
const maxCards = 3

// readCookies reads which session a request is of, and the text that limits count
// it by: in its canonical form, so that one session has one bucket.
//
// A card decides, whatever the cookies with a session's id say: any sibling site
// can plant those. Without a card none of them counts, but for those that Cardless
// excepts: then the id counts if there is but one, malformed ones are as absent,
// and of several that differ none counts.
func (g *Guard) readCookies(s *sender, lines []string) {
	s.Card = g.readCard(lines, s.At)
	var (
		first        bff.ID
		text         string // of the session
		own, several bool
	)
	for value := range cookiesNamed(lines, consumer.SessionCookie) {
		if len(value) != sessionIDLen {
			continue
		}
		id, err := bff.ParseID(bff.PrefixGuestSession, value)
		switch {
		case err != nil:
		case s.Card.IsZero() && first.IsZero():
			first, text = id, canonical(id, value)
		case s.Card.IsZero():
			several = several || id != first
		case id == s.Card.SessionID:
			own, text = true, canonical(id, value)
		}
	}
	switch {
	case !s.Card.IsZero():
		if s.CookieMismatch = !own; s.CookieMismatch {
			text = s.Card.SessionID.String()
		}
		s.SessionID, s.limited.Session = s.Card.SessionID, text
	case !several && !first.IsZero() && g.cfg.Cardless.Counts(first, s.At):
		s.SessionID, s.limited.Session = first, text
	default:
		s.uncarded = !first.IsZero()
	}
}

// readCard returns the card that counts: the newest that was made here, unless
// there are those of two sessions.
func (g *Guard) readCard(lines []string, now time.Time) (newest consumer.Card) {
	looked := 0
	for value := range cookiesNamed(lines, consumer.CardCookie) {
		if looked++; looked > maxCards {
			break
		}
		card, err := g.verifyCard(value, now)
		switch {
		case err != nil:
		case !newest.IsZero() && card.SessionID != newest.SessionID:
			return consumer.Card{}
		case newest.IsZero() || card.MadeAt.After(newest.MadeAt):
			newest = card
		}
	}
	return newest
}

// cardUnder is a card's text and the keys that it was verified with.
type cardUnder struct {
	keys *handoff.KeySet
	text string
}

// verifyCard is Cards.Verify, once per card and set of keys: a guest sends the same
// card with every request.
func (g *Guard) verifyCard(text string, now time.Time) (consumer.Card, error) {
	keys := g.cfg.Cards.Keys()
	if card, ok := g.cards.Get(cardUnder{keys, text}); ok && card.Usable(now) {
		return card, nil
	}
	card, err := g.cfg.Cards.Verify(text, now)
	if err == nil {
		g.cards.Put(cardUnder{keys, strings.Clone(text)}, card) // the text is a part of its whole request
	}
	return card, err
}

// sessionIDLen is the length of a session's id.
const sessionIDLen = len("gms_") + 26

// cookiesNamed yields the values of the cookies with a name.
func cookiesNamed(lines []string, name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, line := range lines {
			for rest := line; rest != ""; {
				var pair string
				pair, rest, _ = strings.Cut(rest, ";")
				pair = strings.TrimLeft(pair, " \t")
				if len(pair) > len(name) && pair[len(name)] == '=' && pair[:len(name)] == name && !yield(strings.Trim(pair[len(name)+1:], ` "`)) {
					return
				}
			}
		}
	}
}

// canonical returns the text of an id as we write it; mostly it is written so.
func canonical(id bff.ID, text string) string {
	for i := len("gms_"); i < len(text); i++ {
		if text[i] >= 'a' && text[i] <= 'z' {
			return id.String()
		}
	}
	return text
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
		s := web.Header(r.Header, name)
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
	kept := c // few have one: others cost no allocation
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
