package web

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

// Input reads the members of a request's body or query one by one and collects
// everything that is wrong with them, so that a client hears of all its
// mistakes at once. Members that no handler reads are ignored.
type Input struct {
	doc  *document
	at   int32 // the object in the document
	path string
}

// Err returns everything that was refused, or nil.
func (in *Input) Err() error { return in.doc.bad.Err() }

// Refuse records a member that the caller refuses.
func (in *Input) Refuse(name, code string) { in.doc.bad.Add(in.field(name), code) }

// Offer records a member whose value is none of the supported.
func (in *Input) Offer(name string, supported []string) {
	in.doc.bad.Offer(in.field(name), supported)
}

// RefuseAll records the refused members of a part that the caller validated.
func (in *Input) RefuseAll(part bff.FieldErrors) {
	for _, e := range part {
		e.Field = in.field(e.Field)
		in.doc.bad = append(in.doc.bad, e)
	}
}

func (in *Input) field(name string) string {
	if in.path == "" {
		return name
	}
	return in.path + "." + name
}

// find returns a member; nil if it is absent. Of two with one name it is the
// last, as encoding/json has it; in a change both are refused.
func (in *Input) find(name string) *node {
	nodes := in.doc.nodes
	if len(nodes) == 0 {
		return nil
	}
	var found *node
	for i := nodes[in.at].first; i != 0; i = nodes[i].next {
		if nodes[i].name == name {
			found = &nodes[i]
		}
	}
	return found
}

// given is find for a member that is read, if it is there and not null.
func (in *Input) given(name string) *node {
	in.ask(name)
	return in.present(name)
}

func (in *Input) ask(name string, words ...string) {
	if in.doc.asked != nil {
		in.doc.asked(in.field(name), words)
	}
}

func (in *Input) present(name string) *node {
	if n := in.find(name); n != nil && !n.isEmpty() {
		return n
	}
	return nil
}

// Members are the members as encoding/json would have them, for objects whose
// names are the client's own.
func (in *Input) Members() map[string]any {
	in.ask("*")
	out := map[string]any{}
	if nodes := in.doc.nodes; len(nodes) > 0 {
		for i := nodes[in.at].first; i != 0; i = nodes[i].next {
			out[nodes[i].name] = in.doc.value(i)
		}
	}
	return out
}

// Has reports whether a member is there and not null.
func (in *Input) Has(name string) bool { return in.present(name) != nil }

// Require refuses the named members that are missing. An empty text says as little as
// none.
func (in *Input) Require(names ...string) {
	for _, name := range names {
		if n := in.present(name); n == nil || n.kind == jsonscan.String && n.text == "" {
			in.Refuse(name, bff.FieldRequired)
		}
	}
}

// String reads a text of at most maxRunes characters without control
// characters; "" if absent or refused.
func (in *Input) String(name string, maxRunes int) string {
	n := in.given(name)
	if n == nil {
		return ""
	}
	fault := n.textFault(maxRunes)
	if fault != "" {
		in.Refuse(name, fault)
		return ""
	}
	return n.text
}

// textFault says what is wrong with a node that should be a text.
func (n *node) textFault(maxRunes int) string {
	if n.kind != jsonscan.String {
		return bff.FieldType
	}
	if !jsonscan.IsPlain(n.text) {
		return unicodeFault(n.text, maxRunes)
	}
	if len(n.text) > maxRunes {
		return bff.FieldLength
	}
	return ""
}

func unicodeFault(s string, maxRunes int) string {
	switch {
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return bff.FieldFormat
	case utf8.RuneCountInString(s) > maxRunes:
		return bff.FieldLength
	}
	return ""
}

// Enum reads one of a closed set of words.
func (in *Input) Enum(name string, allowed ...string) string {
	s := in.String(name, 64)
	in.ask(name, allowed...)
	if s == "" {
		return ""
	}
	if !slices.Contains(allowed, s) {
		in.Offer(name, allowed)
		return ""
	}
	return s
}

// Int reads a whole number within bounds; def if absent or refused.
func (in *Input) Int(name string, def, lo, hi int) int {
	n := in.given(name)
	if n == nil {
		return def
	}
	v, fault := n.whole(lo, hi)
	if fault != "" {
		in.Refuse(name, fault)
		return def
	}
	return v
}

// Float reads a number within bounds; 0 if absent or refused.
func (in *Input) Float(name string, lo, hi float64) float64 {
	n := in.given(name)
	if n == nil {
		return 0
	}
	v, fault := n.number()
	if fault == "" && (v < lo || v > hi) {
		fault = bff.FieldRange
	}
	if fault != "" {
		in.Refuse(name, fault)
		return 0
	}
	return v
}

// whole returns a whole number within bounds, or what is wrong with it.
func (n *node) whole(lo, hi int) (int, string) {
	v, fault := n.number()
	switch {
	case fault != "":
		return 0, fault
	case v != math.Trunc(v):
		return 0, bff.FieldType
	case v < float64(lo) || v > float64(hi):
		return 0, bff.FieldRange
	}
	return int(v), ""
}

func (n *node) number() (float64, string) {
	if n.kind != jsonscan.Number && !n.parameter {
		return 0, bff.FieldType
	}
	v, err := strconv.ParseFloat(n.text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, bff.FieldFormat
	}
	return v, ""
}

// Bool reads a truth value, in a query true or false; nil if absent or refused.
func (in *Input) Bool(name string) *bool {
	n := in.given(name)
	if n == nil {
		return nil
	}
	if n.kind != jsonscan.Bool && (!n.parameter || n.text != "true" && n.text != "false") {
		in.Refuse(name, bff.FieldType)
		return nil
	}
	b := n.text == "true"
	return &b
}

// Object reads a nested object; nil if absent or refused.
func (in *Input) Object(name string) *Input {
	n := in.given(name)
	if n == nil {
		return nil
	}
	if n.kind != jsonscan.Object {
		in.Refuse(name, bff.FieldType)
		return nil
	}
	return &Input{doc: in.doc, at: n.self, path: in.field(name)}
}

// Objects reads a list of objects; those that are none are refused and left out.
func (in *Input) Objects(name string, most int) []*Input {
	count, at := in.list(name, most)
	out := make([]*Input, 0, count)
	for i := range count {
		n := &in.doc.nodes[at]
		if n.kind == jsonscan.Object {
			out = append(out, &Input{doc: in.doc, at: n.self, path: in.field(entry(name, i))})
		} else {
			in.Refuse(entry(name, i), bff.FieldType)
		}
		at = n.next
	}
	return out
}

// Only refuses every member that is not named, where what a client adds must not be
// stored.
func (in *Input) Only(names ...string) {
	nodes := in.doc.nodes
	if len(nodes) == 0 {
		return
	}
	for i := nodes[in.at].first; i != 0; i = nodes[i].next {
		if !slices.Contains(names, nodes[i].name) {
			in.Refuse(nodes[i].name, bff.FieldUnsupported)
		}
	}
}

// list reads an array of at most most entries; a query parameter may hold
// entries between commas. It returns how many there are and the first.
func (in *Input) list(name string, most int) (count int, first int32) {
	n := in.given(name)
	if n == nil {
		return 0, 0
	}
	parameter := n.parameter
	switch {
	case parameter:
		count = strings.Count(n.text, ",") + 1
	case n.kind == jsonscan.Array:
		count, first = int(n.count), n.first
	default:
		in.Refuse(name, bff.FieldType)
		return 0, 0
	}
	if count > most {
		in.Refuse(name, bff.FieldCount)
		return 0, 0
	}
	if parameter {
		first = in.doc.addParts(n.text)
	}
	return count, first
}

func entry(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// Strings reads a list of texts.
func (in *Input) Strings(name string, most, maxRunes int) []string {
	count, at := in.list(name, most)
	if count == 0 {
		return nil
	}
	out := make([]string, 0, count)
	for i := range count {
		n := &in.doc.nodes[at]
		switch fault := n.textFault(maxRunes); fault {
		case "":
			out = append(out, n.text)
		case bff.FieldType:
			in.Refuse(entry(name, i), fault)
		default:
			in.Refuse(entry(name, i), fault)
			out = append(out, "")
		}
		at = n.next
	}
	return out
}

// Enums reads a list of words of a closed set; those that are none are refused
// and left empty.
func (in *Input) Enums(name string, most int, allowed ...string) []string {
	out := in.Strings(name, most, 64)
	in.ask(name, allowed...)
	for i, s := range out {
		if s != "" && !slices.Contains(allowed, s) {
			in.Offer(entry(name, i), allowed)
		}
	}
	return out
}

// Ints reads a list of whole numbers within bounds.
func (in *Input) Ints(name string, most, lo, hi int) []int {
	count, at := in.list(name, most)
	if count == 0 {
		return nil
	}
	out := make([]int, 0, count)
	for i := range count {
		n := &in.doc.nodes[at]
		at = n.next
		if n.isEmpty() {
			in.Refuse(entry(name, i), bff.FieldType)
			continue
		}
		v, fault := n.whole(lo, hi)
		if fault != "" {
			in.Refuse(entry(name, i), fault)
			v = lo
		}
		out = append(out, v)
	}
	return out
}

// ID reads an id of one kind; the zero ID if absent or refused.
func (in *Input) ID(name string, p bff.Prefix) bff.ID {
	s := in.String(name, 64)
	if s == "" {
		return bff.ID{}
	}
	id, err := bff.ParseID(p, s)
	if err != nil {
		in.Refuse(name, bff.FieldFormat)
		return bff.ID{}
	}
	return id
}

// Date reads a calendar day; the zero Date if absent or refused.
func (in *Input) Date(name string) (bff.Date, bool) {
	s := in.String(name, 32)
	if s == "" {
		return 0, false
	}
	d, err := bff.ParseDate(s)
	if err != nil {
		in.Refuse(name, bff.FieldFormat)
		return 0, false
	}
	return d, true
}

// Locale reads a supported locale; "" if absent or refused.
func (in *Input) Locale(name string) bff.Locale {
	s := in.String(name, 64)
	if s == "" {
		return ""
	}
	if l := bff.Locale(s); slices.Contains(bff.Locales(), l) { // spelled as we do: nothing to match
		return l
	}
	l, err := bff.ParseLocale(s)
	if err != nil {
		in.Offer(name, bff.Texts(bff.Locales()))
		return ""
	}
	return l
}
