package web

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

// document is a body or a query in memory, with what is wrong with it: Input
// asks for members in any order. All nodes are in one slice, the outermost
// first.
type document struct {
	nodes []node
	bad   bff.FieldErrors
	asked Asked // nil outside of tests
}

// node is one value. The nodes of one object or array are linked. Names and
// texts are parts of what came, unless something was escaped.
type node struct {
	name      string
	text      string // of a string, a number, a truth value or a parameter
	self      int32  // its own index
	first     int32  // index of the first member or element; 0 if there is none
	next      int32  // index of the next one beside it; 0 if there is none
	count     int32  // number of members or elements
	kind      jsonscan.Kind
	parameter bool // a string of a query, which may mean a number
}

// isEmpty reports whether a node means the same as an absent member.
func (n *node) isEmpty() bool {
	return n.kind == jsonscan.Null || (n.parameter && n.text == "")
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

// value is a node as encoding/json would decode it, numbers as json.Number.
func (d *document) value(at int32) any {
	n := &d.nodes[at]
	switch n.kind {
	case jsonscan.Bool:
		return n.text == "true"
	case jsonscan.Number:
		return json.Number(n.text)
	case jsonscan.String:
		return n.text
	case jsonscan.Array:
		out := make([]any, 0, n.count)
		for i := n.first; i != 0; i = d.nodes[i].next {
			out = append(out, d.value(i))
		}
		return out
	case jsonscan.Object:
		out := make(map[string]any, n.count)
		for i := n.first; i != 0; i = d.nodes[i].next {
			out[d.nodes[i].name] = d.value(i)
		}
		return out
	default:
		return nil
	}
}

// fewMembers is how many names are compared each with all others: more are looked up.
const fewMembers = 16

// doubles are the names that an object has more than once, each once.
func (d *document) doubles(object int32) (names []string) {
	n := &d.nodes[object]
	var seen map[string]int
	if n.count > fewMembers {
		seen = make(map[string]int, n.count)
	}
	for i := n.first; i != 0; i = d.nodes[i].next {
		before := 0
		if seen != nil {
			before = seen[d.nodes[i].name]
			seen[d.nodes[i].name]++
		} else {
			for j := n.first; j != i; j = d.nodes[j].next {
				if d.nodes[j].name == d.nodes[i].name {
					before++
				}
			}
		}
		if before == 1 {
			names = append(names, d.nodes[i].name)
		}
	}
	return names
}

// refuseDoubles refuses every member that is there twice: another reader, such as a
// proxy in front of us, may believe the first.
func (d *document) refuseDoubles(at int32, path string) {
	n := &d.nodes[at]
	inside := func(name string, i int) string {
		switch {
		case n.kind == jsonscan.Array:
			return path + "[" + strconv.Itoa(i) + "]"
		case path == "":
			return name
		}
		return path + "." + name
	}
	if n.kind == jsonscan.Object {
		for _, name := range d.doubles(at) {
			d.bad.Add(inside(name, 0), bff.FieldConflict)
		}
	}
	i := 0
	for child := n.first; child != 0; child = d.nodes[child].next {
		d.refuseDoubles(child, inside(d.nodes[child].name, i))
		i++
	}
}

// root is a document with the Input of its outermost object.
type root struct {
	Input
	document
}

func newRoot(ctx context.Context, nodes []node) *root {
	r := &root{document: document{nodes: nodes, asked: askedOf(ctx)}}
	r.doc = &r.document
	return r
}

// maxDepth bounds how deep objects and arrays may be nested: no body of ours has
// more than a few levels, and reading them is recursive.
const maxDepth = 32

// parseJSON reads one value; the first node is it. It also reports whether an object
// has two members of one name.
func parseJSON(text string) (nodes []node, doubled, ok bool) {
	// Every value but the first follows a bracket or a comma. Some of those may
	// be part of strings, so the guess has a bound.
	guess := 1 + strings.Count(text, ",") + strings.Count(text, "{") + strings.Count(text, "[")
	p := parser{Reader: jsonscan.NewText(text), document: document{nodes: make([]node, 0, min(guess, 64))}}
	p.read("", none, 0, 0)
	return p.nodes, p.doubled, !p.tooDeep && p.Err() == nil
}

type parser struct {
	*jsonscan.Reader
	document
	tooDeep bool
	doubled bool
}

// read reads a value into its parent and returns its index.
func (p *parser) read(name string, parent, last int32, depth int) int32 {
	n := node{name: name, kind: p.Kind()}
	switch n.kind {
	case jsonscan.Object, jsonscan.Array:
		if depth == maxDepth {
			p.tooDeep = true // the caller skips the value
			return last
		}
		at, lastInside := p.add(n, parent, last), int32(0)
		if n.kind == jsonscan.Object {
			for name := range p.Object() {
				lastInside = p.read(name, at, lastInside, depth+1)
			}
			p.doubled = p.doubled || len(p.doubles(at)) > 0
		} else {
			for range p.Array() {
				lastInside = p.read("", at, lastInside, depth+1)
			}
		}
		return at
	case jsonscan.String:
		n.text = p.String()
	case jsonscan.Number:
		n.text = p.Number()
	case jsonscan.Bool:
		n.text = "false"
		if p.Bool() {
			n.text = "true"
		}
	default:
		p.Skip()
	}
	return p.add(n, parent, last)
}
