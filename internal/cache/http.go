package cache

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// heading holds the header values that all answers of a cache share.
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

// Header values that all answers share; they must not be written to.
var (
	xCache = [...][]string{
		Miss: {Miss.String()}, Hit: {Hit.String()}, Stale: {Stale.String()}, Bypass: {Bypass.String()},
	}
	contentEncoding = [encodings][]string{
		gzipped: {encodingName[gzipped]}, zstandard: {encodingName[zstandard]},
	}
)

// nosniff is on every answer.
var nosniff = []string{"nosniff"}

// agedLines are the headers of a hit in memory that change with the entry's age:
// as header values and as lines, those of a safe method first.
type agedLines struct {
	second      int64
	age, status []string
	lines       [2]string
}

// Serve answers a request with the entry. A Content-Type and a Cache-Control that
// the caller has set before stay and Vary is added to; the others are the cache's.
//
// A hit in memory costs one Write: its head was formatted before, the lines that
// tell the age once per second. Where the server takes no finished lines, it costs
// assignments to the header map.
func (e *Entry) Serve(w http.ResponseWriter, r *http.Request, st Status) {
	e.noteServed(r.Context(), st)
	v := e.encoding(r)
	out, h := &e.variant[v], w.Header()
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	if e.Had(r) {
		e.describe(h, safe, v, st)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if st.Result != Hit || st.Shared || !untouched(h) || !e.finish(w, safe, v, st) {
		e.describe(h, safe, v, st)
		e.describeBody(h, v)
		h["Content-Length"] = out.length
	}
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return
	}
	_, _ = w.Write(out.body) // a client that is gone is not an error
}

// encoding is the one in which a client is answered.
func (e *Entry) encoding(r *http.Request) encoding {
	if e.cache.raw {
		return identity
	}
	return e.choose(r.Header["Accept-Encoding"])
}

// Had reports whether the client has the entry already, and is answered without it.
// Answers to other methods are not for caches, and conditions on those mean something else
// (RFC 9110 §13.1.2).
func (e *Entry) Had(r *http.Request) bool {
	tags, ok := r.Header["If-None-Match"]
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	return ok && safe && matches(tags, strings.TrimPrefix(e.variant[e.encoding(r)].etag, e.cache.etagMark))
}

// untouched reports whether the caller has set nothing that stands for what the
// cache would say. A Vary of the caller's is a line of its own.
func untouched(h http.Header) bool {
	_, kind := h["Content-Type"]
	_, control := h["Cache-Control"]
	return !kind && !control
}

// describe sets the headers that belong to the answer, with or without its body.
func (e *Entry) describe(h http.Header, safe bool, v encoding, st Status) {
	c := e.cache
	if safe && (st.Result == Hit || st.Result == Stale) {
		h["Age"] = e.aged(st.Age).age
	}
	if st.Result == Hit && !st.Shared {
		h["Cache-Status"] = e.aged(st.Age).status
	} else {
		h["Cache-Status"] = []string{e.cacheStatus(st.Age, st)}
	}
	h["X-Cache"] = xCache[st.Result]
	h["X-Content-Type-Options"] = nosniff
	if safe {
		h["Etag"] = e.variant[v].etags
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
}

// describeBody sets the headers of the body, but for its length.
func (e *Entry) describeBody(h http.Header, v encoding) {
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = e.kind
	}
	if v != identity {
		h["Content-Encoding"] = contentEncoding[v]
	}
}

// finish gives the answer the headers of a hit in memory, if it takes them as lines.
func (e *Entry) finish(w http.ResponseWriter, safe bool, v encoding, st Status) bool {
	which := 1
	if safe {
		which = 0
	}
	kept := &e.variant[v].heads[which]
	fixed := kept.Load()
	if fixed == nil {
		h := http.Header{}
		e.describe(h, safe, v, st)
		e.describeBody(h, v)
		h.Del("Age")
		h.Del("Cache-Status")
		var b strings.Builder
		_ = h.Write(&b) // a builder takes everything
		text := b.String()
		fixed = &text
		kept.Store(fixed)
	}
	return finishHead(w, len(e.variant[v].body), *fixed, e.aged(st.Age).lines[which])
}

// headFinisher is an optional interface of ResponseWriters. FinishHead gives an
// answer the length of its body and two blocks of header lines, formatted as
// http.Header.Write does it and with the content type among them, which the writer
// sends beside its header map. It reports false, and does nothing, once the answer
// has begun.
type headFinisher interface {
	FinishHead(length int, lines, more string) bool
}

// finishHead calls the FinishHead of w or of a writer that w wraps.
func finishHead(w http.ResponseWriter, length int, lines, more string) bool {
	for {
		switch under := w.(type) {
		case headFinisher:
			return under.FinishHead(length, lines, more)
		case interface{ Unwrap() http.ResponseWriter }:
			w = under.Unwrap()
		default:
			return false
		}
	}
}

// aged returns the lines of this second.
func (e *Entry) aged(age time.Duration) *agedLines {
	second := int64(age / time.Second)
	if l := e.aging.Load(); l != nil && l.second == second {
		return l
	}
	seconds, status := strconv.FormatInt(max(second, 0), 10), e.cacheStatus(age, Status{Result: Hit})
	first := "Age: " + seconds + "\r\n"
	text := first + "Cache-Status: " + status + "\r\n"
	l := &agedLines{second: second, age: []string{seconds}, status: []string{status}, lines: [2]string{text, text[len(first):]}}
	e.aging.Store(l)
	return l
}

// CacheStatus is the Cache-Status of an answer that the caller makes of the entry.
func (e *Entry) CacheStatus(st Status) string { return e.cacheStatus(st.Age, st) }

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
	case st.OfStale:
		b = append(b, "; detail=of-stale"...)
	case st.Result == Stale:
		b = append(b, "; detail=refreshing"...)
	case st.Shared:
		b = append(b, "; detail=redis"...)
	}
	return string(b)
}
