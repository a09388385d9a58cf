package cache

import "strings"

// wish is what a client says about one encoding, in thousandths.
type wish int

const unsaid wish = -1

// wishes are what a client says in Accept-Encoding.
type wishes struct {
	of    [encodings]wish
	other wish // "*"
}

// parseAcceptEncoding reads the header without allocating. An element that
// cannot be read is skipped: it asks for nothing that we have.
func parseAcceptEncoding(lines []string) wishes {
	w := wishes{of: [encodings]wish{unsaid, unsaid, unsaid}, other: unsaid}
	for _, line := range lines {
		for line != "" {
			var element string
			element, line, _ = strings.Cut(line, ",")
			name, params, _ := strings.Cut(element, ";")
			q, ok := weight(params)
			if !ok {
				continue
			}
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

// weight reads parameters, of which only q has a meaning (RFC 9110 §12.4.2).
func weight(params string) (wish, bool) {
	q := wish(1000)
	for params != "" {
		var p string
		p, params, _ = strings.Cut(params, ";")
		name, value, ok := strings.Cut(p, "=")
		if name = strings.Trim(name, " \t"); name != "q" && name != "Q" {
			continue
		}
		if !ok {
			return 0, false
		}
		if q, ok = qvalue(strings.Trim(value, " \t")); !ok {
			return 0, false
		}
	}
	return q, true
}

// qvalue reads 0, 1 and what lies between, with up to three digits.
func qvalue(s string) (wish, bool) {
	if s == "" || len(s) > 5 || s[0] != '0' && s[0] != '1' || len(s) > 1 && s[1] != '.' {
		return 0, false
	}
	q := wish(s[0]-'0') * 1000
	unit := wish(100)
	for i := 2; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		q += wish(s[i]-'0') * unit
		unit /= 10
	}
	return q, q <= 1000
}

// choose picks the encoding to send: what the client likes best, among equals
// the shortest. A client that named neither identity nor "*" takes identity as
// gladly as its best encoding (RFC 9110 §12.5.3). If nothing we have suits it,
// identity is sent after all: a server may disregard the header, and a body
// that a client did not ask for helps it more than none.
func (e *Entry) choose(lines []string) encoding {
	if len(lines) == 0 {
		return identity
	}
	w := parseAcceptEncoding(lines)
	best, liked := identity, wish(0)
	for i := gzipped; i < encodings; i++ {
		q := w.of[i]
		if q == unsaid {
			q = w.other
		}
		if e.variant[i].body == nil || q <= 0 {
			continue
		}
		if q > liked || q == liked && len(e.variant[i].body) < len(e.variant[best].body) {
			best, liked = i, q
		}
	}
	plain := w.of[identity]
	if plain == unsaid {
		plain = w.other
	}
	if plain == unsaid {
		plain = liked
	}
	if plain > liked || plain == liked && plain > 0 && len(e.variant[identity].body) <= len(e.variant[best].body) {
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
