package web

import (
	"net/http"
	"net/url"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

// maxParameters bounds the parameters of a query: each is compared with all
// before it.
const maxParameters = 256

// ReadQuery reads the parameters of a URL. A parameter given twice is refused:
// two readers could believe two different values.
func ReadQuery(r *http.Request) *Input {
	doc := newRoot(r.Context(), nil)
	rest := r.URL.RawQuery
	if rest == "" {
		return &doc.Input
	}
	doc.nodes = append(make([]node, 0, 2+min(strings.Count(rest, "&"), maxParameters)), node{kind: jsonscan.Object})
	unreadable, last := false, int32(0)
	for rest != "" {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if pair == "" {
			continue
		}
		name, value, ok := parameter(pair)
		switch n := doc.find(name); {
		case !ok:
			unreadable = true
		case n != nil:
			if n.count++; n.count == 1 {
				doc.bad.Add(name, bff.FieldConflict)
			}
		case len(doc.nodes) > maxParameters:
			doc.bad.Add("query", bff.FieldCount)
			return &doc.Input
		default:
			last = doc.add(node{kind: jsonscan.String, parameter: true, name: name, text: value}, 0, last)
		}
	}
	if unreadable {
		doc.bad.Add("query", bff.FieldFormat)
	}
	return &doc.Input
}

// parameter reads name=value as url.ParseQuery does.
func parameter(pair string) (name, value string, ok bool) {
	if strings.Contains(pair, ";") { // some take it for a separator
		return "", "", false
	}
	name, value, _ = strings.Cut(pair, "=")
	name, err1 := unescape(name)
	value, err2 := unescape(value)
	return name, value, err1 == nil && err2 == nil
}

func unescape(s string) (string, error) {
	if !strings.ContainsAny(s, "%+") {
		return s, nil
	}
	return url.QueryUnescape(s)
}

// addParts adds the entries of a parameter and returns the first.
func (d *document) addParts(text string) int32 {
	list := d.add(node{kind: jsonscan.Array}, none, 0)
	last := int32(0)
	for part := range strings.SplitSeq(text, ",") {
		last = d.add(node{kind: jsonscan.String, parameter: true, text: part}, list, last)
	}
	return d.nodes[list].first
}
