package web

import (
	"net/http"
	"strings"
)

// table finds the routes of the usual paths: those that a pattern states in full, or
// up to a wildcard that is its last segment. http.ServeMux cleans every path, splits
// it and descends a tree, which is 3 % of a warm answer; it still finds the routes of
// all other requests, redirects, and says which methods a path takes.
type table struct {
	plain map[string]*route // by method and path
	tails map[string]*route // by method and the path up to the wildcard
}

func newTable() table {
	return table{plain: make(map[string]*route), tails: make(map[string]*route)}
}

// add takes a pattern with at most one wildcard, at its end. For the requests that
// find answers no other pattern is more specific but one that is stated in full.
func (t table) add(pattern string, rt *route) {
	before, wildcard, found := strings.Cut(pattern, "{")
	switch name, closed := strings.CutSuffix(wildcard, "}"); {
	case strings.HasSuffix(before, "/") != found: // a subtree, or a wildcard within a segment
	case !found:
		t.plain[pattern] = rt
	case closed && isPlain(name):
		rt.tail = name
		t.tails[before] = rt
	}
}

// find returns the request's route, or nil, and the segment at its wildcard. An
// escaped path, and a segment that the mux would clean, are left to the mux.
func (t table) find(r *http.Request) (rt *route, tail string) {
	if r.URL.RawPath != "" {
		return nil, ""
	}
	var buf [128]byte
	key := append(append(append(buf[:0], r.Method...), ' '), r.URL.Path...)
	if rt := t.plain[string(key)]; rt != nil {
		r.Pattern = rt.name
		return rt, ""
	}
	at := strings.LastIndexByte(r.URL.Path, '/') + 1
	segment := r.URL.Path[at:]
	rt = t.tails[string(key[:len(key)-len(segment)])]
	if rt == nil || !isPlain(segment) {
		return nil, ""
	}
	r.Pattern = rt.name
	return rt, segment
}

// PathValue returns the segment of a request's path at a wildcard of its route's
// pattern. Of requests that the mux has found, http.Request knows it; for others it
// would make a map.
func PathValue(r *http.Request, name string) string {
	if req := From(r.Context()); req.tail != "" && req.tailName == name {
		return req.tail
	}
	return r.PathValue(name)
}

// isPlain reports whether a segment is the same escaped and cleaned.
func isPlain(segment string) bool {
	for _, c := range []byte(segment) {
		if c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return segment != ""
}
