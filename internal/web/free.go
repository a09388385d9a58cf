package web

import (
	"strconv"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

// maxFreeName bounds the characters of a name in free JSON.
const maxFreeName = 128

// Free says what free JSON may hold: an object whose names are the client's own. It is
// kept and handed on, and so it holds only what every reader takes, at about the size
// that it came with: plain numbers, and names and texts without control characters,
// of which Postgres stores no NUL. How many bytes it has is the route's to bound.
type Free struct {
	Depth  int // of objects and lists in each other, the outermost included
	Values int // at all depths
	Runes  int // of a text; 0 = as the body's limit has it
	// Name and Text are what else holds of names and texts; nil = nothing.
	Name, Text func(s string) bool
}

// Free reads an object by such a rule and refuses everything that breaks it, by its
// path; a name that breaks it is not repeated, and the object around it is refused. It
// returns nil if the object is absent.
func (in *Input) Free(name string, rule Free) map[string]any {
	o := in.Object(name)
	if o == nil {
		return nil
	}
	left := rule.Values
	if rule.check(in.doc, o.at, o.path, rule.Depth, &left); left < 0 {
		in.Refuse(name, bff.FieldCount)
	}
	return o.Members()
}

// check refuses what is wrong below a node. A value too many ends it.
func (f *Free) check(d *document, at int32, path string, depth int, left *int) {
	n := &d.nodes[at]
	fault := ""
	switch n.kind {
	case jsonscan.Object, jsonscan.Array:
		if depth == 0 {
			fault = bff.FieldRange
			break
		}
		f.checkInside(d, n, path, depth-1, left)
	case jsonscan.Number:
		if !bff.PlainNumber(n.text) {
			fault = bff.FieldRange
		}
	case jsonscan.String:
		runes := f.Runes
		if runes == 0 {
			runes = len(n.text)
		}
		if fault = n.textFault(runes); fault == "" && f.Text != nil && !f.Text(n.text) {
			fault = bff.FieldFormat
		}
	default:
	}
	if fault != "" {
		d.bad.Add(path, fault)
	}
}

func (f *Free) checkInside(d *document, n *node, path string, depth int, left *int) {
	badName, i := false, 0
	for at := n.first; at != 0; at = d.nodes[at].next {
		if *left--; *left < 0 {
			return
		}
		member := &d.nodes[at]
		inside := path + "[" + strconv.Itoa(i) + "]"
		if n.kind == jsonscan.Object {
			if unicodeFault(member.name, maxFreeName) != "" || f.Name != nil && !f.Name(member.name) {
				badName = true
				continue
			}
			inside = path + "." + member.name
		}
		f.check(d, at, inside, depth, left)
		i++
	}
	if badName {
		d.bad.Add(path, bff.FieldFormat)
	}
}
