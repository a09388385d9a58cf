package bff

import (
	"math"
	"strconv"
	"strings"
)

const (
	// A PlainNumber has at most maxNumberDigits significant digits, as many as a double
	// needs, and is at most maxNumber in size, which every reader of JSON holds exactly.
	maxNumberDigits = 17
	maxNumber       = 1e15
	// maxWritten bounds the same number without exponent.
	maxWritten = 40
	// maxLiteral bounds a number and its exponent in WrittenSize: beyond what a double can
	// be, and far below what Postgres refuses.
	maxLiteral = 1000
)

// PlainNumber reports whether a number, as JSON writes it, costs about what it weighs,
// wherever it goes. 1e131071 is eight characters in a request and 131,072 whenever
// Postgres writes it.
func PlainNumber(literal string) bool {
	v, err := strconv.ParseFloat(literal, 64)
	if err != nil || math.Abs(v) > maxNumber || WrittenSize(literal) > maxWritten {
		return false
	}
	mantissa, _, _ := strings.Cut(strings.ToLower(literal), "e")
	digits := strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(mantissa), "0")
	return len(digits) <= maxNumberDigits
}

// WrittenSize is about how many bytes Postgres writes for a JSON text, which must be
// valid: numbers are written without exponents. It is math.MaxInt if a number is beyond
// all reason, which Postgres might not even take.
func WrittenSize[T ~string | ~[]byte](json T) int {
	size, digits, quoted := len(json), 0, false
	for i := 0; i < len(json); i++ {
		switch c := json[i]; {
		case quoted:
			if c == '\\' {
				i++
			}
			quoted = c != '"'
		case c == '"':
			quoted, digits = true, 0
		case c >= '0' && c <= '9', c == '.':
			if digits++; digits > maxLiteral {
				return math.MaxInt
			}
		case digits > 0 && c|0x20 == 'e':
			exponent := 0
			for i++; i < len(json) && (json[i] == '+' || json[i] == '-' || json[i] >= '0' && json[i] <= '9'); i++ {
				if json[i] >= '0' {
					exponent = exponent*10 + int(json[i]-'0')
				}
				if exponent > maxLiteral {
					return math.MaxInt
				}
			}
			size, digits = size+exponent, 0
			i--
		default:
			digits = 0
		}
	}
	return size
}
