package backofficelake

import (
	"encoding/binary"
	"fmt"
)

// textLists turns arrays of texts into the text of their jsonb, as they are hashed. Asked
// for that text of every row, Postgres takes half as long again to read a table. Few
// lists differ: roles are of a closed set.
type textLists struct{ known map[string][]byte }

const maxLists = 10_000

// json returns the text of an array in its binary form; nil = it is malformed, which no
// hash fits.
func (l *textLists) json(raw []byte) []byte {
	if text, ok := l.known[string(raw)]; ok {
		return text
	}
	text := arrayJSON(raw)
	if l.known == nil || len(l.known) >= maxLists {
		l.known = map[string][]byte{}
	}
	l.known[string(raw)] = text
	return text
}

// array is what is left to read of an array's binary form.
type array struct {
	left []byte
	bad  bool
}

// arrayJSON writes an array of texts as jsonb is written; nil = it is malformed.
func arrayJSON(raw []byte) []byte {
	a := &array{left: raw}
	dimensions := a.int()
	a.int() // whether there are nulls
	a.int() // the type of elements
	if dimensions == 0 {
		return []byte("[]")
	}
	var sizes []int
	for range min(dimensions, 6) { // Postgres has no more
		sizes = append(sizes, a.int())
		a.int() // where it begins to count
	}
	text := a.json(nil, sizes)
	if a.bad || len(a.left) > 0 {
		return nil
	}
	return text
}

func (a *array) json(dst []byte, sizes []int) []byte {
	dst = append(dst, '[')
	for i := 0; i < sizes[0] && !a.bad; i++ {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if len(sizes) > 1 {
			dst = a.json(dst, sizes[1:])
			continue
		}
		dst = a.element(dst)
	}
	return append(dst, ']')
}

func (a *array) element(dst []byte) []byte {
	n := a.int()
	if n < 0 {
		return append(dst, "null"...)
	}
	if n > len(a.left) {
		a.bad = true
		return dst
	}
	dst = append(dst, '"')
	for _, c := range a.left[:n] {
		switch short := shortEscapes[c]; {
		case short != 0:
			dst = append(dst, '\\', short)
		case c < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	a.left = a.left[n:]
	return append(dst, '"')
}

var shortEscapes = [256]byte{'\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't', '"': '"', '\\': '\\'}

func (a *array) int() int {
	if len(a.left) < 4 {
		a.bad, a.left = true, nil
		return 0
	}
	n := int(int32(binary.BigEndian.Uint32(a.left))) //nolint:gosec // the bits: -1 is null
	a.left = a.left[4:]
	return n
}
