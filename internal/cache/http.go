package cache

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// heading is what all answers of a cache have in common, as header values.
type heading struct {
	name         string // in Cache-Status
	contentType  []string
	cacheControl []string
	vary         []string
}

func newHeading(namespace string, cfg *Config) heading {
	h := heading{name: cfg.Name, contentType: []string{cfg.ContentType}}
	if namespace != "" {
		h.name = namespace + "/" + cfg.Name
	}
	if cfg.CacheControl != "" {
		h.cacheControl = []string{cfg.CacheControl}
	}
	switch {
	case cfg.Raw && cfg.Vary != "":
		h.vary = []string{cfg.Vary}
	case cfg.Vary != "":
		h.vary = []string{"Accept-Encoding, " + cfg.Vary}
	case !cfg.Raw:
		h.vary = []string{"Accept-Encoding"}
	}
	return h
}

// Header values that never change. Nobody may write into them.
var (
	xCache = [...][]string{
		Miss: {Miss.String()}, Hit: {Hit.String()}, Stale: {Stale.String()}, Bypass: {Bypass.String()},
	}
	contentEncoding = [encodings][]string{
		gzipped: {encodingName[gzipped]}, zstandard: {encodingName[zstandard]},
	}
)

// agedLines are the headers of a hit that change with the entry's age.
type agedLines struct {
	second int64
	age    []string
	status []string // Cache-Status of a hit in memory
}

// Serve answers a request with the entry. Headers that the caller has set before
// stay; Vary is added to.
//
// A hit costs assignments to the header map and one Write: the values were made
// at fill time, those that tell the age once per second.
func (e *Entry) Serve(w http.ResponseWriter, r *http.Request, st Status) {
	v := identity
	if !e.cache.raw {
		v = e.choose(r.Header["Accept-Encoding"])
	}
	out := &e.variant[v]
	c, h := e.cache, w.Header()

	// Answers to other methods are not for caches, and conditions on those
	// mean something else (RFC 9110 §13.1.2). Every header counts here: the
	// ninth has the map grow, which costs as much as all of this.
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	age := st.Age
	if safe && (st.Result == Hit || st.Result == Stale) {
		h["Age"] = e.aged(age).age
	}
	if st.Result == Hit && !st.Shared {
		h["Cache-Status"] = e.aged(age).status
	} else {
		h["Cache-Status"] = []string{e.cacheStatus(age, st)}
	}
	h["X-Cache"] = xCache[st.Result]
	if safe {
		h["Etag"] = out.etags
	}
	if safe && c.head.vary != nil {
		if old, ok := h["Vary"]; ok {
			h["Vary"] = append(slices.Clip(old), c.head.vary...)
		} else {
			h["Vary"] = c.head.vary
		}
	}
	if _, ok := h["Cache-Control"]; !ok && c.head.cacheControl != nil {
		h["Cache-Control"] = c.head.cacheControl
	}
	if tags, ok := r.Header["If-None-Match"]; ok && safe && matches(tags, out.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = e.kind
	}
	if v != identity {
		h["Content-Encoding"] = contentEncoding[v]
	}
	h["Content-Length"] = out.length
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return
	}
	_, _ = w.Write(out.body) // a client that is gone is not an error
}

// aged returns the lines of this second.
func (e *Entry) aged(age time.Duration) *agedLines {
	second := int64(age / time.Second)
	if l := e.aging.Load(); l != nil && l.second == second {
		return l
	}
	l := &agedLines{
		second: second,
		age:    []string{strconv.FormatInt(max(second, 0), 10)},
		status: []string{e.cacheStatus(age, Status{Result: Hit})},
	}
	e.aging.Store(l)
	return l
}

// cacheStatus is the header of RFC 9211.
func (e *Entry) cacheStatus(age time.Duration, st Status) string {
	b := make([]byte, 0, 64)
	b = append(b, e.cache.head.name...)
	switch st.Result {
	case Bypass:
		return string(append(b, "; fwd=bypass"...))
	case Miss:
		b = append(b, "; fwd=miss"...)
		if st.Collapsed {
			b = append(b, "; collapsed"...)
		}
		return string(b)
	}
	b = append(b, "; hit; ttl="...)
	b = strconv.AppendInt(b, int64((e.ttl.Fresh-age)/time.Second), 10)
	switch {
	case st.Err != nil:
		b = append(b, "; detail=error"...)
	case st.Result == Stale:
		b = append(b, "; detail=refreshing"...)
	case st.Shared:
		b = append(b, "; detail=redis"...)
	}
	return string(b)
}
