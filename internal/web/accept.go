package web

import (
	"net/http"
	"strconv"
	"strings"

	"melmastoon.ghasi.io/bff"
)

// Negotiate returns the one of the offered media types that the client prefers
// (RFC 9110 §12.5.1), the earlier one of equals; without an Accept header the first.
// If it accepts none, that is an error.
func Negotiate(r *http.Request, offers ...string) (string, error) {
	accept := r.Header["Accept"]
	if len(accept) == 0 {
		return offers[0], nil
	}
	best, most := "", 0.0
	for _, offer := range offers {
		if len(accept) == 1 && accept[0] == offer {
			return offer, nil
		}
		if q := quality(accept, offer); q > most {
			best, most = offer, q
		}
	}
	if best == "" {
		return "", bff.Errorf(bff.CodeNotAcceptable, "this is answered as %s", strings.Join(offers, " or "))
	}
	return best, nil
}

// quality is how much a client wants a media type: what its most specific range says.
func quality(accept []string, offer string) float64 {
	kind, _, _ := strings.Cut(offer, "/")
	q, specific := 0.0, 0
	for _, line := range accept {
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
			if rank > specific {
				q, specific = weight(params), rank
			}
		}
	}
	return q
}

// weight reads the q of a range; an unreadable one counts as absent.
func weight(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if strings.EqualFold(name, "q") {
			if q, err := strconv.ParseFloat(value, 64); err == nil && q >= 0 && q <= 1 {
				return q
			}
		}
	}
	return 1
}
