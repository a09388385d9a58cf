package web

import (
	"net/http"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/accept"
)

// Negotiate returns the one of the offered media types that the client prefers
// (RFC 9110 §12.5.1), the earlier one of equals; without an Accept header the first.
// If it accepts none, that is an error.
func Negotiate(r *http.Request, offers ...string) (string, error) {
	lines := r.Header["Accept"]
	if len(lines) == 0 {
		return offers[0], nil
	}
	best, most := "", 0
	for _, offer := range offers {
		if len(lines) == 1 && lines[0] == offer {
			return offer, nil
		}
		if q := quality(lines, offer); q > most {
			best, most = offer, q
		}
	}
	if best == "" {
		return "", bff.Errorf(bff.CodeNotAcceptable, "this is answered as %s", strings.Join(offers, " or "))
	}
	return best, nil
}

// quality is how much a client wants a media type: what its most specific range says.
func quality(lines []string, offer string) int {
	kind, _, _ := strings.Cut(offer, "/")
	q, specific := 0, 0
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			rank := 0
			switch strings.ToLower(strings.TrimSpace(name)) {
			case offer:
				rank = 3
			case kind + "/*":
				rank = 2
			case "*/*":
				rank = 1
			}
			if weight, ok := accept.Weight(params); ok && rank > specific {
				q, specific = weight, rank
			}
		}
	}
	return q
}
