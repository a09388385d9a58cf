package web

import (
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds how deep objects and arrays may stand in one another: nothing
// of ours is deeper than a few, and the parser goes down by calling itself.
const maxDepth = 32

type kind uint8

const (
	kindNull kind = iota
	kindFalse
	kindTrue
	kindNumber
	kindString
	kindArray
	kindObject
	kindParameter // a text of a query, which may stand for a number
)

// node is one value. All nodes of a document stand in one slice; those of one
// object or array are linked. Names and texts are parts of what came, unless
// something was escaped.
type node struct {
	name  string
	text  string // of a string, a number or a parameter
	self  int32  // where it stands
	first int32  // of its own nodes; 0 if there is none
	next  int32  // beside it; 0 if there is none
	count int32  // how many of its own
	kind  kind
}

// isEmpty reports whether a node stands for nothing.
func (n *node) isEmpty() bool {
	return n.kind == kindNull || (n.kind == kindParameter && n.text == "")
}

// none is the parent of what has none.
const none = -1

// add puts a node into a parent, after the one added there last.
func (d *document) add(n node, parent, last int32) int32 {
	n.self = int32(len(d.nodes)) //nolint:gosec // a body has at most some ten thousand values
	d.nodes = append(d.nodes, n)
	switch {
	case parent == none:
		return n.self
	case last == 0:
		d.nodes[parent].first = n.self
	default:
		d.nodes[last].next = n.self
	}
	d.nodes[parent].count++
	return n.self
}

// value is a node as encoding/json would have it, numbers as json.Number.
func (d *document) value(at int32) any {
	n := &d.nodes[at]
	switch n.kind {
	case kindFalse, kindTrue:
		return n.kind == kindTrue
	case kindNumber:
		return json.Number(n.text)
	case kindString, kindParameter:
		return n.text
	case kindArray:
		out := make([]any, 0, n.count)
		for i := n.first; i != 0; i = d.nodes[i].next {
			out = append(out, d.value(i))
		}
		return out
	case kindObject:
		out := make(map[string]any, n.count)
		for i := n.first; i != 0; i = d.nodes[i].next {
			out[d.nodes[i].name] = d.value(i)
		}
		return out
	default:
		return nil
	}
}

// parser reads JSON once, from left to right. It takes and refuses what
// encoding/json does, except for what is nested too deep.
type parser struct {
	document
	text string // valid UTF-8
	at   int
}

// parseJSON reads one value; the first node is it.
func parseJSON(text string) ([]node, bool) {
	// Every value but the first follows a bracket or a comma. Some of those may
	// stand in texts, so the guess has a bound.
	guess := 1 + strings.Count(text, ",") + strings.Count(text, "{") + strings.Count(text, "[")
	p := parser{text: text, document: document{nodes: make([]node, 0, min(guess, 64))}}
	_, ok := p.value("", none, 0, 0)
	p.space()
	return p.nodes, ok && p.at == len(text)
}

func (p *parser) space() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\r', '\n':
			p.at++
		default:
			return
		}
	}
}

// take goes past a character if it is the next.
func (p *parser) take(c byte) bool {
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) word(w string) bool {
	if strings.HasPrefix(p.text[p.at:], w) {
		p.at += len(w)
		return true
	}
	return false
}

// value reads a value into its parent and returns where it stands.
func (p *parser) value(name string, parent, last int32, depth int) (at int32, ok bool) {
	p.space()
	if p.at == len(p.text) {
		return 0, false
	}
	n := node{name: name}
	switch c := p.text[p.at]; c {
	case '{', '[':
		if depth == maxDepth {
			return 0, false
		}
		p.at++
		n.kind = kindObject
		if c == '[' {
			n.kind = kindArray
		}
		at = p.add(n, parent, last)
		return at, p.members(at, n.kind, depth+1)
	case '"':
		p.at++
		n.kind = kindString
		n.text, ok = p.string()
	case 't':
		n.kind, ok = kindTrue, p.word("true")
	case 'f':
		n.kind, ok = kindFalse, p.word("false")
	case 'n':
		n.kind, ok = kindNull, p.word("null")
	default:
		n.kind = kindNumber
		n.text, ok = p.number()
	}
	return p.add(n, parent, last), ok
}

// members reads what stands in an object or an array.
func (p *parser) members(parent int32, k kind, depth int) bool {
	end := byte(']')
	if k == kindObject {
		end = '}'
	}
	p.space()
	if p.take(end) {
		return true
	}
	for last := int32(0); ; {
		var (
			name string
			ok   bool
		)
		if k == kindObject {
			p.space()
			if !p.take('"') {
				return false
			}
			if name, ok = p.string(); !ok {
				return false
			}
			p.space()
			if !p.take(':') {
				return false
			}
		}
		if last, ok = p.value(name, parent, last, depth); !ok {
			return false
		}
		p.space()
		if p.take(end) {
			return true
		}
		if !p.take(',') {
			return false
		}
	}
}

// number reads a number and keeps it as it is written.
func (p *parser) number() (string, bool) {
	from := p.at
	p.take('-')
	if !p.take('0') && !p.digits() {
		return "", false
	}
	if p.take('.') && !p.digits() {
		return "", false
	}
	if p.take('e') || p.take('E') {
		if !p.take('+') {
			p.take('-')
		}
		if !p.digits() {
			return "", false
		}
	}
	return p.text[from:p.at], true
}

func (p *parser) digits() bool {
	from := p.at
	for p.at < len(p.text) && p.text[p.at]-'0' <= 9 {
		p.at++
	}
	return p.at > from
}

// string reads on after a quotation mark.
func (p *parser) string() (string, bool) {
	from := p.at
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '"':
			s := p.text[from:p.at]
			p.at++
			return s, true
		case c == '\\':
			return p.escaped(from)
		case c < ' ':
			return "", false
		}
	}
	return "", false
}

// escaped reads on in a string at its first backslash.
func (p *parser) escaped(from int) (string, bool) {
	out := make([]byte, 0, 2*(p.at-from)+16)
	out = append(out, p.text[from:p.at]...)
	for p.at < len(p.text) {
		c := p.text[p.at]
		p.at++
		switch {
		case c == '"':
			return string(out), true
		case c < ' ':
			return "", false
		case c != '\\':
			out = append(out, c)
			continue
		}
		if p.at == len(p.text) {
			return "", false
		}
		c = p.text[p.at]
		p.at++
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, ok := p.hex4()
			if !ok {
				return "", false
			}
			out = utf8.AppendRune(out, p.pair(r))
		default:
			return "", false
		}
	}
	return "", false
}

// pair completes a surrogate with the one that follows. One that stands alone
// becomes U+FFFD, and what follows it is read on its own.
func (p *parser) pair(r rune) rune {
	if !utf16.IsSurrogate(r) {
		return r
	}
	before := p.at
	if p.word(`\u`) {
		if low, ok := p.hex4(); ok {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				return both
			}
		}
	}
	p.at = before
	return utf8.RuneError
}

func (p *parser) hex4() (r rune, ok bool) {
	if len(p.text)-p.at < 4 {
		return 0, false
	}
	for _, c := range []byte(p.text[p.at : p.at+4]) {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	p.at += 4
	return r, true
}
