package jsonscan

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"unicode/utf8"
)

// errNumber is the error of a number that JSON has no form for.
var errNumber = errors.New("not a finite number")

// delicate are the bytes of a string that may not stand as they are: what JSON
// forbids, what HTML would read, and what U+2028 and U+2029 begin with, which
// end lines in JavaScript.
var delicate = func() (d [256]bool) {
	for c := range d {
		d[c] = c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' || c == 0xE2
	}
	return d
}()

// notPlain are the bytes that a plain text has none of.
var notPlain = func() (n [256]bool) {
	for c := range n {
		n[c] = delicate[c] || c > '~'
	}
	return n
}()

// IsPlain reports whether a text is printable ASCII with nothing in it that JSON
// or HTML would escape, as nearly all are.
func IsPlain(s string) bool {
	for i := range len(s) {
		if notPlain[s[i]] {
			return false
		}
	}
	return true
}

// AppendString appends a string as encoding/json writes it.
func AppendString(b []byte, s string) []byte {
	if IsPlain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	if !utf8.ValidString(s) {
		mended, _ := json.Marshal(s) // a string always encodes
		return append(b, mended...)
	}
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !delicate[c] {
			continue
		}
		if c == 0xE2 {
			if s[i+1] == 0x80 && s[i+2]&^1 == 0xA8 {
				b = append(append(b, s[start:i]...), `\u202`...)
				b = append(b, "89"[s[i+2]&1])
				start = i + 3
			}
			i += 2
			continue
		}
		b = append(b, s[start:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}

// AppendFloat appends a number as encoding/json writes it.
func AppendFloat(b []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return b, errNumber
	}
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		// As ECMAScript writes it: no zero in front of the exponent.
		b = strconv.AppendFloat(b, f, 'e', -1, 64)
		if n := len(b); n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
			b[n-2] = b[n-1]
			b = b[:n-1]
		}
		return b, nil
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64), nil
}
