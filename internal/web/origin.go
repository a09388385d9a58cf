package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"melmastoon.ghasi.io/bff"
)

// Origins are the origins, beside a service's own, whose pages may use it with their
// user's cookies. The zero value has none.
type Origins struct {
	listed   map[string]bool
	hosts    map[string]bool
	loopback bool
}

// For development a list of origins may hold every origin on the machine itself, and
// every origin on a host: host:192.168.1.5.
const (
	Loopback   = "loopback"
	hostPrefix = "host:"
)

// OriginsOfHost stands in a list of origins for every origin on a host.
func OriginsOfHost(host string) string { return hostPrefix + host }

// ForDevelopment reports whether an entry of a list of origins stands for more than
// one origin.
func ForDevelopment(entry string) bool {
	return entry == Loopback || strings.HasPrefix(entry, hostPrefix)
}

// ParseOrigins reads a list of origins, each exactly as browsers send it, or those for
// development. It reports everything that is wrong.
func ParseOrigins(list []string) (Origins, error) {
	o := Origins{listed: map[string]bool{}, hosts: map[string]bool{}}
	var errs []error
	for _, text := range list {
		host, isHost := strings.CutPrefix(text, hostPrefix)
		switch {
		case text == Loopback:
			o.loopback = true
		case isHost && isOrigin("http://"+host) && !strings.Contains(host, ":"):
			o.hosts[host] = true
		case isOrigin(text):
			o.listed[text] = true
		default:
			errs = append(
				errs, fmt.Errorf("%q: want scheme://host or scheme://host:port as browsers send it, in lower case, without a wildcard, default port or path", text),
			)
		}
	}
	return o, errors.Join(errs...)
}

// isOrigin reports whether text is an origin as browsers serialise it: one that they
// write in another way would be listed and never match.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || text != u.Scheme+"://"+u.Host || text != strings.ToLower(text) {
		return false
	}
	defaultPort := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	if defaultPort == "" || u.Port() == defaultPort || strings.HasSuffix(u.Host, ":") {
		return false
	}
	if strings.HasPrefix(u.Host, "[") {
		addr, err := netip.ParseAddr(u.Hostname())
		return err == nil && addr.String() == u.Hostname()
	}
	return !strings.ContainsFunc(u.Hostname(), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_'
	})
}

// Empty reports whether no other origin is allowed.
func (o Origins) Empty() bool { return len(o.listed) == 0 && len(o.hosts) == 0 && !o.loopback }

func (o Origins) has(origin string) bool {
	if o.listed[origin] {
		return true
	}
	if len(o.hosts) == 0 && !o.loopback || !isOrigin(origin) {
		return false
	}
	u, err := url.Parse(origin)
	return err == nil && (o.hosts[u.Hostname()] || o.loopback && isLoopback(u.Hostname()))
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// Headers are the headers of a service's own that pages of other origins need.
type Headers struct {
	Read    []string // of requests
	Written []string // of answers
}

// Headers that a Server reads and writes for every service.
var (
	readHeaders    = []string{"Content-Type", "X-Request-Id", "Traceparent"}
	writtenHeaders = []string{"X-Request-Id", "Traceparent", "Retry-After", "Allow"}
)

// sharing is how answers are shared with pages of other origins (CORS): the values
// of the headers, which answers have in common and must not write to.
type sharing struct {
	origins                         Origins
	vary, yes, allow, expose, stays []string
}

// preflightStays is how long a browser remembers a preflight, in seconds: Chromium
// remembers none for longer.
const preflightStays = "7200"

func newSharing(o Origins, h Headers) *sharing {
	list := func(lists ...[]string) []string { return []string{strings.Join(slices.Concat(lists...), ", ")} }
	return &sharing{
		origins: o, vary: []string{"Origin"}, yes: []string{"true"}, stays: []string{preflightStays},
		allow: list(readHeaders, h.Read), expose: list(writtenHeaders, h.Written),
	}
}

// answer has the page that sent a request read the answer, whatever it will be, if
// its origin is listed, and reports whether it is. Where some origins are listed,
// every answer differs by origin: a cache that did not know would give the answer
// for one origin's page, or for none, to another one's.
func (s *sharing) answer(h http.Header, r *http.Request) bool {
	if s.origins.Empty() {
		return false
	}
	h["Vary"] = s.vary
	origin := r.Header["Origin"]
	if len(origin) != 1 || !s.origins.has(origin[0]) {
		return false
	}
	h["Access-Control-Allow-Origin"] = []string{origin[0]}
	h["Access-Control-Allow-Credentials"] = s.yes
	h["Access-Control-Expose-Headers"] = s.expose
	return true
}

// isPreflight reports whether a browser asks what a page may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header["Origin"] != nil && r.Header["Access-Control-Request-Method"] != nil
}

// preflight answers a browser that asks for a page of a listed origin. The mux has
// put the methods of the path into Allow.
func (s *sharing) preflight(w *response) {
	h := w.Header()
	h["Access-Control-Allow-Methods"] = h["Allow"]
	h["Access-Control-Allow-Headers"] = s.allow
	h["Access-Control-Max-Age"] = s.stays
	w.WriteHeader(http.StatusNoContent)
}

func errOrigin() error {
	return bff.Errorf(
		bff.CodeOriginNotAllowed,
		"pages of this origin may not do this with their user's session: send the request from the service's own origin, or have the origin allowed",
	)
}

// checkSite refuses a change that a page of another site makes in its user's name,
// unless its origin is listed. Cookies do not tell the two apart: a browser sends
// those with SameSite=Lax along with every request of a sibling host, and a sibling
// host may be someone else's.
//
// A server's own origin is any whose host and port are those of the Host header,
// which no page can choose. Schemes are not compared: a proxy that ends TLS is
// the rule, and browsers themselves report http and https as different sites. Behind
// a proxy that replaces Host the public origin has to be listed. An origin that the
// browser keeps secret is null and never the server's own. Clients that send neither
// header are no browsers of today, and carry no one else's cookies.
func checkSite(r *http.Request) error {
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "same-origin" && site != "none" {
			return errOrigin()
		}
	}
	for _, origin := range r.Header["Origin"] {
		scheme, host, ok := strings.Cut(origin, "://")
		if !ok || host == "" || scheme != "https" && scheme != "http" || !strings.EqualFold(host, r.Host) {
			return errOrigin()
		}
	}
	return nil
}

// changes reports whether a method may change something.
func changes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}
