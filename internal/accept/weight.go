// Package accept reads the weights of content negotiation, for every header that has them.
package accept

import "strings"

// Most is the weight of what a client wants most: weights are in thousandths.
const Most = 1000

// Weight reads the parameters of an element of Accept or Accept-Encoding, of which only q has a
// meaning (RFC 9110 §12.4.2). An element whose q cannot be read is to be skipped: it asks for
// nothing. A guess in either direction would send what the client may have refused.
func Weight(params string) (q int, ok bool) {
	q = Most
	for params != "" {
		var p string
		p, params, _ = strings.Cut(params, ";")
		name, value, _ := strings.Cut(p, "=")
		if name = strings.Trim(name, " \t"); name != "q" && name != "Q" {
			continue
		}
		if q, ok = parse(strings.Trim(value, " \t")); !ok {
			return 0, false
		}
	}
	return q, true
}

// parse reads 0, 1 and what lies between, with up to three digits.
func parse(s string) (int, bool) {
	if s == "" || len(s) > 5 || s[0] != '0' && s[0] != '1' || len(s) > 1 && s[1] != '.' {
		return 0, false
	}
	q, unit := int(s[0]-'0')*Most, Most/10
	for i := 2; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		q += int(s[i]-'0') * unit
		unit /= 10
	}
	return q, q <= Most
}
