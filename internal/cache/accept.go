package cache

import (
	"strings"

	"melmastoon.ghasi.io/bff/internal/accept"
)

// quality is the weight of an encoding in Accept-Encoding, in thousandths.
type quality int

const unnamed quality = -1 // the header does not name the encoding

// qualities are the weights of a client's Accept-Encoding.
type qualities struct {
	of    [encodings]quality
	other quality // "*"
}

// parseAcceptEncoding reads the header without allocating. An element that
// cannot be read is skipped: it asks for nothing that we have.
func parseAcceptEncoding(lines []string) qualities {
	w := qualities{of: [encodings]quality{unnamed, unnamed, unnamed}, other: unnamed}
	for _, line := range lines {
		for line != "" {
			var element string
			element, line, _ = strings.Cut(line, ",")
			name, params, _ := strings.Cut(element, ";")
			weight, ok := accept.Weight(params)
			if !ok {
				continue
			}
			q := quality(weight)
			switch name = strings.Trim(name, " \t"); {
			case strings.EqualFold(name, "gzip") || strings.EqualFold(name, "x-gzip"):
				w.of[gzipped] = q
			case strings.EqualFold(name, "zstd"):
				w.of[zstandard] = q
			case strings.EqualFold(name, "identity"):
				w.of[identity] = q
			case name == "*":
				w.other = q
			}
		}
	}
	return w
}

// choose picks the encoding to send: that with the highest weight, among equals the
// shortest. If the header names neither identity nor "*", identity weighs as much
// as the best encoding (RFC 9110 §12.5.3). If the client accepts nothing that we
// have, identity is sent: a server may disregard the header.
func (e *Entry) choose(lines []string) encoding {
	if len(lines) == 0 {
		return identity
	}
	w := parseAcceptEncoding(lines)
	best, bestQuality := identity, quality(0)
	for i := gzipped; i < encodings; i++ {
		q := w.of[i]
		if q == unnamed {
			q = w.other
		}
		if e.variant[i].body == nil || q <= 0 {
			continue
		}
		if q > bestQuality || q == bestQuality && len(e.variant[i].body) < len(e.variant[best].body) {
			best, bestQuality = i, q
		}
	}
	plain := w.of[identity]
	if plain == unnamed {
		plain = w.other
	}
	if plain == unnamed {
		plain = bestQuality
	}
	if plain > bestQuality || plain == bestQuality && plain > 0 && len(e.variant[identity].body) <= len(e.variant[best].body) {
		return identity
	}
	return best
}

// matches says whether If-None-Match names the validator. Comparison is weak,
// as caches on the way may have weakened it.
func matches(lines []string, etag string) bool {
	for _, line := range lines {
		for line != "" {
			line = strings.TrimLeft(line, " \t,")
			if line == "" {
				break
			}
			if line[0] == '*' {
				return true
			}
			line = strings.TrimPrefix(line, "W/")
			if line == "" || line[0] != '"' {
				break // cannot be read on
			}
			end := strings.IndexByte(line[1:], '"')
			if end < 0 {
				break
			}
			if line[:end+2] == etag {
				return true
			}
			line = line[end+2:]
		}
	}
	return false
}
