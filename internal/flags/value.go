package flags

import (
	"math"
	"strconv"
	"strings"
)

// Limits of what a source may bring.
const (
	maxFlags = 1000
	maxValue = 4 << 10
)

// value is a flag's text, read as every type it can be when it is loaded, not
// when it is asked for.
type value struct {
	text    string
	boolean bool
	integer int64
	float   float64
	is      kind
}

type kind uint8

const (
	isBool kind = 1 << iota
	isInt
	isFloat
)

// parse reads text. Booleans have the spellings that operators type and that
// other flag stores accept, whatever their case.
func parse(text string) value {
	v := value{text: text}
	switch strings.ToLower(text) {
	case "1", "true", "t", "yes", "y", "on":
		v.boolean, v.is = true, isBool
	case "0", "false", "f", "no", "n", "off":
		v.is = isBool
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
		v.float = f
		v.is |= isFloat
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			v.integer = int64(f)
			v.is |= isInt
		}
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		v.integer = i
		v.is |= isInt
	}
	return v
}
