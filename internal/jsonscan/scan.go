// Package jsonscan reads JSON documents in one pass, without reflection and
// without copying. Upstreams' answers and requests' bodies are read with it. It
// knows neither: what a member means is the caller's business.
//
// It reads what encoding/json reads, and refuses what that refuses, with three
// exceptions. Names of members are compared as they are, letter case included.
// Numbers are read where numbers are asked for and nowhere else. Nesting ends
// at 1,000.
package jsonscan

import (
	"encoding/json"
	"errors"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// maxDepth bounds the recursion that a document can cause.
const maxDepth = 1000

// The two faults that a document can have. Neither quotes it: it may hold
// personal data.
var (
	errSyntax = errors.New("not JSON")
	errKind   = errors.New("unexpected kind of value")
)

// Reader is at one place of a document. The first fault ends the document:
// everything after it reads as absent, and Err tells.
type Reader struct {
	data    string
	pos     int
	depth   int
	err     error
	missing []string
}

// New returns a reader at the start of a document. The strings that it returns
// are pieces of data, which must not change any more.
func New(data []byte) *Reader { return NewText(Text(data)) }

// Text is data as a text, without a copy. The data must not change any more.
func Text(data []byte) string {
	return unsafe.String(unsafe.SliceData(data), len(data)) //nolint:gosec // the caller promises
}

// NewText is New for a text.
func NewText(data string) *Reader { return &Reader{data: data} }

// Kind is what a value is.
type Kind uint8

// The kinds of values, and None where there is no value.
const (
	None Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Kind tells what the next value is by its first character, without reading it.
func (r *Reader) Kind() Kind {
	switch c := r.peek(); c {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return Number
		}
		return None
	}
}

// Err returns the document's first fault. After the last value it also checks
// that nothing follows.
func (r *Reader) Err() error {
	if r.err == nil && r.depth == 0 {
		if r.space(); r.pos < len(r.data) {
			r.fail(errSyntax)
		}
	}
	return r.err
}

// Require notes that a member is missing, unless it is there. A document lacks
// a member once, however many elements of a list do.
func (r *Reader) Require(there bool, name string) {
	if !there && !slices.Contains(r.missing, name) {
		r.missing = append(r.missing, name)
	}
}

// Missing are the members that Require did not find.
func (r *Reader) Missing() []string { return r.missing }

// Object ranges over the names of the object's members. What the loop's body
// does not read of a value is skipped. A null has no members.
func (r *Reader) Object() iter.Seq[string] {
	return func(yield func(name string) bool) {
		if !r.open('{') {
			return
		}
		for more := r.first('}'); more; more = r.next('}') {
			name, ok := r.text()
			if !ok || !r.take(':') {
				return
			}
			if at := r.pos; !yield(name) {
				r.fail(errKind) // a loop that is left early has lost its place
			} else if r.pos == at && r.err == nil {
				r.Skip()
			}
		}
	}
}

// Array ranges over the places of a list's elements; what the loop's body does
// not read is skipped. A null has no elements.
func (r *Reader) Array() iter.Seq[int] {
	return func(yield func(i int) bool) {
		if !r.open('[') {
			return
		}
		i := 0
		for more := r.first(']'); more; more = r.next(']') {
			if at := r.pos; !yield(i) {
				r.fail(errKind)
			} else if r.pos == at && r.err == nil {
				r.Skip()
			}
			i++
		}
	}
}

// Null reports whether the value is null, and reads it if it is.
func (r *Reader) Null() bool {
	if r.peek() != 'n' {
		return false
	}
	return r.literal("null")
}

// String reads a string; null is the empty one.
func (r *Reader) String() string {
	switch r.peek() {
	case '"':
		s, _ := r.text()
		return s
	case 'n':
		r.literal("null")
	default:
		r.mismatch()
	}
	return ""
}

// Bool reads a truth value; null is false.
func (r *Reader) Bool() bool {
	switch r.peek() {
	case 't':
		return r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.mismatch()
	}
	return false
}

// Int reads an integer, which encoding/json wants written as one; null is 0.
func (r *Reader) Int() int {
	if r.Null() {
		return 0
	}
	n, err := strconv.Atoi(r.number())
	if err != nil {
		r.fail(errKind)
		return 0
	}
	return n
}

// Float reads a number; null is 0.
func (r *Reader) Float() float64 {
	if r.Null() {
		return 0
	}
	f, err := strconv.ParseFloat(r.number(), 64)
	if err != nil {
		r.fail(errKind)
		return 0
	}
	return f
}

// Number reads a number as it is written; null is refused.
func (r *Reader) Number() string { return r.number() }

// MaybeInt is Int with nil for null.
func (r *Reader) MaybeInt() *int {
	if r.Null() {
		return nil
	}
	n := r.Int()
	return &n
}

// MaybeFloat is Float with nil for null.
func (r *Reader) MaybeFloat() *float64 {
	if r.Null() {
		return nil
	}
	f := r.Float()
	return &f
}

// Strings reads a list of strings; nil for null, and never nil for a list.
func (r *Reader) Strings() []string {
	if r.Null() {
		return nil
	}
	var room [32]string
	out := room[:0]
	for range r.Array() {
		out = append(out, r.String())
	}
	return append(make([]string, 0, len(out)), out...)
}

// Text reads a string into what makes sense of it; null leaves it alone.
func (r *Reader) Text(into func(s string) error) {
	if r.Null() {
		return
	}
	if s := r.String(); r.err == nil && into(s) != nil {
		r.fail(errKind)
	}
}

// Raw reads any value as it is written; nil for null.
func (r *Reader) Raw() []byte {
	if r.Null() {
		return nil
	}
	start := r.pos
	r.Skip()
	if r.err != nil {
		return nil
	}
	return []byte(r.data[start:r.pos])
}

// Skip reads a value of any kind.
func (r *Reader) Skip() {
	switch r.peek() {
	case '{':
		for range r.Object() { //nolint:revive // the loop itself skips
		}
	case '[':
		for range r.Array() { //nolint:revive // the loop itself skips
		}
	case '"':
		r.pos++
		if end, _, _ := r.quoted(); end >= 0 {
			r.pos = end + 1
		}
	case 't':
		r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.number()
	}
}

// fail ends the document.
func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.pos = len(r.data)
}

// mismatch ends the document at a value of another kind, or at none at all.
func (r *Reader) mismatch() {
	r.Skip() // is it a value?
	r.fail(errKind)
}

func (r *Reader) space() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			return
		}
	}
}

// peek returns the byte that a value begins with; 0 at the end.
func (r *Reader) peek() byte {
	if r.pos < len(r.data) && r.data[r.pos] > ' ' {
		return r.data[r.pos]
	}
	r.space()
	if r.pos < len(r.data) {
		return r.data[r.pos]
	}
	return 0
}

// take reads one byte of punctuation.
func (r *Reader) take(c byte) bool {
	if r.peek() != c {
		r.fail(errSyntax)
		return false
	}
	r.pos++
	return true
}

// open enters an object or a list; false for null.
func (r *Reader) open(c byte) bool {
	if r.err != nil || r.Null() {
		return false
	}
	if r.peek() != c {
		r.mismatch()
		return false
	}
	if r.depth == maxDepth {
		r.fail(errSyntax)
		return false
	}
	r.depth++
	r.pos++
	return true
}

// first reports whether there is a first member or element.
func (r *Reader) first(end byte) bool {
	if r.peek() == end {
		r.pos++
		r.depth--
		return false
	}
	return true
}

// next reports whether there is another one.
func (r *Reader) next(end byte) bool {
	switch c := r.peek(); {
	case r.err != nil:
	case c == ',':
		r.pos++
		return true
	case c == end:
		r.pos++
		r.depth--
	default:
		r.fail(errSyntax)
	}
	return false
}

func (r *Reader) literal(word string) bool {
	if end := r.pos + len(word); end <= len(r.data) && r.data[r.pos:end] == word {
		r.pos = end
		return true
	}
	r.fail(errSyntax)
	return false
}

// text reads a string literal.
func (r *Reader) text() (string, bool) {
	if !r.take('"') {
		return "", false
	}
	start := r.pos
	end, beyond, escaped := r.quoted()
	if end < 0 {
		return "", false
	}
	r.pos = end + 1
	if s := r.data[start:end]; !escaped && (!beyond || utf8.ValidString(s)) {
		return s, true
	}
	var whole string
	if err := json.Unmarshal([]byte(r.data[start-1:end+1]), &whole); err != nil {
		r.fail(errSyntax)
		return "", false
	}
	return whole, true
}

// What a byte means inside of a string.
const (
	inner   = iota
	high    // of a character beyond ASCII
	special // a quote, a backslash, a control character
)

var meaning = func() (m [256]byte) {
	for c := range m {
		switch {
		case c < ' ', c == '"', c == '\\':
			m[c] = special
		case c >= utf8.RuneSelf:
			m[c] = high
		}
	}
	return m
}()

// quoted finds the end of a string whose opening quote has been read, and
// reports whether it goes beyond ASCII and whether anything in it is escaped.
// The end is negative if there is none.
func (r *Reader) quoted() (end int, beyond, escaped bool) {
	data := r.data
	for i := plainWords(data, r.pos); i < len(data); i++ {
		switch meaning[data[i]] {
		case inner:
		case high:
			beyond = true
		default:
			switch data[i] {
			case '"':
				return i, beyond, escaped
			case '\\':
				n := escape(data[i+1:])
				if n == 0 {
					r.fail(errSyntax)
					return -1, false, false
				}
				escaped = true
				i += n
			default:
				r.fail(errSyntax)
				return -1, false, false
			}
		}
	}
	r.fail(errSyntax)
	return -1, false, false
}

// plainWords skips what is inner, eight bytes at a time, as far as there are
// eight.
func plainWords(s string, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		quote, slash := x^'"'*ones, x^'\\'*ones
		// The top bit of a byte is set where x is beyond ASCII, or where taking
		// away borrows: from a zero, or from less than a space. What a borrow
		// does to the bytes above it does not matter.
		if found := (x | (quote-ones)&^quote | (slash-ones)&^slash | (x-' '*ones)&^x) & tops; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	return i
}

// escape returns the length of what follows a backslash; 0 if nothing may.
func escape(s string) int {
	if s == "" {
		return 0
	}
	switch s[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 1
	case 'u':
		if len(s) < 5 {
			return 0
		}
		for _, c := range []byte(s[1:5]) {
			if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
				return 0
			}
		}
		return 5
	}
	return 0
}

// number reads a number as it is written.
func (r *Reader) number() string {
	if c := r.peek(); c != '-' && (c < '0' || c > '9') {
		if r.err != nil {
			return ""
		}
		switch c {
		case '{', '[', '"', 't', 'f':
			r.mismatch()
		default:
			r.fail(errSyntax)
		}
		return ""
	}
	start := r.pos
	if r.data[r.pos] == '-' {
		r.pos++
	}
	switch {
	case r.at('0'):
		r.pos++
	case r.digits() == 0:
		r.fail(errSyntax)
		return ""
	}
	if r.at('.') {
		r.pos++
		if r.digits() == 0 {
			r.fail(errSyntax)
			return ""
		}
	}
	if r.at('e') || r.at('E') {
		r.pos++
		if r.at('+') || r.at('-') {
			r.pos++
		}
		if r.digits() == 0 {
			r.fail(errSyntax)
			return ""
		}
	}
	return r.data[start:r.pos]
}

func (r *Reader) at(c byte) bool { return r.pos < len(r.data) && r.data[r.pos] == c }

func (r *Reader) digits() int {
	start := r.pos
	for r.pos < len(r.data) && r.data[r.pos] >= '0' && r.data[r.pos] <= '9' {
		r.pos++
	}
	return r.pos - start
}
