package contracts_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"melmastoon.ghasi.io/bff/contracts"
)

// TestPublishedOperations compares each service's description with the form in which
// it was last published: clients of then must keep working. What may be sent is never
// narrowed, what is answered never loses a member, a status or a guarantee. New things,
// among them new words of an answer's enum, pass. Record them, at a release, with
//
//	go test ./contracts -run TestPublishedOperations -publish
func TestPublishedOperations(t *testing.T) {
	t.Parallel()
	for _, service := range []string{"consumer", "backoffice"} {
		t.Run(service, func(t *testing.T) {
			t.Parallel()
			file := "openapi/published/" + service + ".yaml"
			before, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			now := contracts.OpenAPI(service)
			for _, f := range lost(parse(t, before), parse(t, now)) {
				t.Error(f)
			}
			if *publish && !t.Failed() {
				if err := os.WriteFile(file, now, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

type object = map[string]any

func parse(t *testing.T, text []byte) object {
	t.Helper()
	var doc object
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// at returns an object, or nil where there is none.
func at(node any) object { o, _ := node.(object); return o }

// comparison collects what clients of a description lose in another.
type comparison struct {
	old, now object
	lost     []string
	seen     map[string]bool // pairs of references, which may lead in circles
}

func lost(old, now object) []string {
	c := &comparison{old: old, now: now, seen: map[string]bool{}}
	for _, path := range slices.Sorted(maps.Keys(at(old["paths"]))) {
		before, after := at(at(old["paths"])[path]), at(at(now["paths"])[path])
		for _, method := range []string{"get", "put", "post", "delete", "patch"} {
			if op := at(before[method]); op != nil {
				c.operation(strings.ToUpper(method)+" "+path, before, after, op, at(after[method]))
			}
		}
	}
	slices.Sort(c.lost)
	return slices.Compact(c.lost)
}

func (c *comparison) lose(where, format string, args ...any) {
	c.lost = append(c.lost, where+": "+fmt.Sprintf(format, args...))
}

func (c *comparison) operation(name string, oldPath, nowPath, old, now object) {
	if now == nil || old["operationId"] != now["operationId"] {
		c.lose(name, "operation %v is gone", old["operationId"])
		return
	}
	oldParameters, nowParameters := parameters(c.old, oldPath, old), parameters(c.now, nowPath, now)
	for key, p := range oldParameters {
		if nowParameters[key] == nil {
			c.lose(name, "parameter %s is gone", key)
			continue
		}
		c.compare(name+" "+key, []any{p["schema"]}, []any{nowParameters[key]["schema"]}, true)
	}
	for key, p := range nowParameters {
		if was := oldParameters[key]; p["required"] == true && (was == nil || was["required"] != true) {
			c.lose(name, "parameter %s is required now", key)
		}
	}
	before, after := resolve(c.old, old["requestBody"]), resolve(c.now, now["requestBody"])
	if after["required"] == true && before["required"] != true {
		c.lose(name, "a body is required now")
	}
	c.content(name+" request", before, after, true)
	for status, answer := range at(old["responses"]) {
		there := resolve(c.now, at(now["responses"])[status])
		if there == nil {
			c.lose(name, "answer %s is gone", status)
			continue
		}
		was := resolve(c.old, answer)
		c.content(name+" "+status, was, there, false)
		for header := range at(was["headers"]) {
			if at(there["headers"])[header] == nil {
				c.lose(name+" "+status, "header %s is gone", header)
			}
		}
	}
}

func parameters(doc object, holders ...object) map[string]object {
	out := map[string]object{}
	for _, h := range holders {
		list, _ := h["parameters"].([]any)
		for _, p := range list {
			p := resolve(doc, p)
			out[fmt.Sprint(p["in"], " ", p["name"])] = p
		}
	}
	return out
}

func (c *comparison) content(where string, old, now object, request bool) {
	for media, m := range at(old["content"]) {
		there := at(at(now["content"])[media])
		if there == nil {
			c.lose(where, "%s is gone", media)
			continue
		}
		c.compare(where, []any{at(m)["schema"]}, []any{there["schema"]}, request)
	}
}

// resolve follows references.
func resolve(doc object, node any) object {
	for o := at(node); ; o = at(node) {
		ref, ok := o["$ref"].(string)
		if !ok {
			return o
		}
		node = doc
		for token := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			node = at(node)[token]
		}
	}
}

// rule is what a schema allows, its alternatives taken together: of all that they
// allow any may come, and only what all demand is sure to be there.
type rule struct {
	types    []string // nil = any
	values   []string // of enum and const; nil = any
	required []string
	members  map[string][]any // by name, "[]" for items and "*" for other members; of several, all hold
	closed   bool
	bounds   object
}

var boundNames = []string{"maxLength", "minLength", "maximum", "minimum", "maxItems", "minItems", "maxProperties", "pattern", "format"}

// ruleOf reads a list of schemas that hold at once.
func ruleOf(doc object, schemas []any) rule {
	r := rule{members: map[string][]any{}, bounds: object{}}
	for _, node := range schemas {
		s := at(node)
		if s["$ref"] != nil {
			r.and(ruleOf(doc, []any{resolve(doc, s)}))
		}
		own := rule{members: map[string][]any{}, bounds: object{}, required: texts(s["required"])}
		switch t := s["type"].(type) {
		case string:
			own.types = []string{t}
		case []any:
			own.types = texts(t)
		}
		list, _ := s["enum"].([]any)
		if v, ok := s["const"]; ok {
			list = []any{v}
		}
		for _, v := range list {
			own.values = append(own.values, fmt.Sprint(v))
			if _, word := v.(string); word && s["type"] == nil {
				own.types = []string{"string"}
			}
		}
		for name, m := range at(s["properties"]) {
			own.members[name] = []any{m}
		}
		for keyword, name := range map[string]string{"items": "[]", "additionalProperties": "*"} {
			if o := at(s[keyword]); o != nil {
				own.members[name] = []any{o}
			}
		}
		own.closed = s["unevaluatedProperties"] == false || s["additionalProperties"] == false
		for _, b := range boundNames {
			if v, ok := s[b]; ok {
				own.bounds[b] = v
			}
		}
		r.and(own)
		all, _ := s["allOf"].([]any)
		r.and(ruleOf(doc, all))
		for _, keyword := range []string{"oneOf", "anyOf"} {
			alternatives, _ := s[keyword].([]any)
			var union *rule
			for _, a := range alternatives {
				one := ruleOf(doc, []any{a})
				if union == nil {
					union = &one
				} else {
					union.or(one)
				}
			}
			if union != nil {
				r.and(*union)
			}
		}
	}
	return r
}

func texts(node any) (out []string) {
	list, _ := node.([]any)
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func both(a, b []string) []string {
	if a == nil || b == nil {
		return append(a, b...)
	}
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}

func (r *rule) and(o rule) {
	r.types, r.values = both(r.types, o.types), both(r.values, o.values)
	r.required = append(r.required, o.required...)
	for name, m := range o.members {
		r.members[name] = append(r.members[name], m...)
	}
	r.closed = r.closed || o.closed
	maps.Copy(r.bounds, o.bounds)
}

func (r *rule) or(o rule) {
	either := func(a, b []string) []string {
		if a == nil || b == nil {
			return nil
		}
		return append(slices.Clone(a), b...)
	}
	objects := func(types []string) bool { return types == nil || slices.Contains(types, "object") }
	switch { // null has no members
	case !objects(o.types):
	case !objects(r.types):
		r.required = o.required
	default:
		r.required = slices.DeleteFunc(r.required, func(s string) bool { return !slices.Contains(o.required, s) })
	}
	r.types, r.values = either(r.types, o.types), either(r.values, o.values)
	for name, m := range o.members {
		if have := r.members[name]; have != nil {
			m = []any{object{"anyOf": []any{object{"allOf": have}, object{"allOf": m}}}}
		}
		r.members[name] = m
	}
	r.closed = r.closed && o.closed
	maps.DeleteFunc(r.bounds, func(k string, v any) bool { return o.bounds[k] != v })
}

func (c *comparison) compare(where string, old, now []any, request bool) {
	pair := fmt.Sprint(old, now, request)
	if c.seen[pair] {
		return
	}
	c.seen[pair] = true
	before, after := ruleOf(c.old, old), ruleOf(c.now, now)
	wide, narrow := before, after // of a request: all that was taken is taken
	if !request {
		wide, narrow = after, before
	}
	if narrow.types != nil {
		integers := slices.Contains(narrow.types, "number") // whole numbers are numbers
		for _, t := range wide.types {
			if !slices.Contains(narrow.types, t) && !(integers && t == "integer") {
				c.lose(where, "%s stands against %v", t, narrow.types)
			}
		}
		if wide.types == nil {
			c.lose(where, "any type stands against %v", narrow.types)
		}
	}
	for name, m := range before.members {
		if after.members[name] == nil {
			c.lose(where, "member %s is gone", name)
			continue
		}
		c.compare(where+"."+name, m, after.members[name], request)
	}
	if !request {
		for _, name := range before.required {
			if !slices.Contains(after.required, name) {
				c.lose(where, "member %s need not be there", name)
			}
		}
		return
	}
	for _, name := range after.required {
		if !slices.Contains(before.required, name) {
			c.lose(where, "member %s is required now", name)
		}
	}
	for _, v := range before.values {
		if after.values != nil && !slices.Contains(after.values, v) {
			c.lose(where, "%q is refused now", v)
		}
	}
	if before.values == nil && after.values != nil || after.closed && !before.closed {
		c.lose(where, "it is closed now")
	}
	for b, limit := range after.bounds {
		if was, ok := before.bounds[b]; !ok || was != limit && !looser(b, was, limit) {
			c.lose(where, "%s is %v, was %v", b, limit, was)
		}
	}
}

func looser(bound string, was, limit any) bool {
	number := func(v any) (f float64) { _, _ = fmt.Sscan(fmt.Sprint(v), &f); return f }
	switch bound[:3] {
	case "max":
		return number(limit) > number(was)
	case "min":
		return number(limit) < number(was)
	}
	return false
}

func TestLost(t *testing.T) {
	t.Parallel()
	const base = `{paths: {/a: {post: {operationId: a, parameters: [{name: q, in: query, schema: {type: string, maxLength: 5}}],
  requestBody: {content: {application/json: {schema: {$ref: '#/s/In'}}}},
  responses: {'200': {headers: {ETag: {}}, content: {application/json: {schema: {$ref: '#/s/Out'}}}}, '404': {}}}}},
s: {In: {type: object, required: [x], properties: {x: {type: [string, 'null']}, y: {enum: [b, c]}, z: {type: integer, maximum: 9}}},
  Out: {type: object, required: [k], properties: {k: {type: string}, l: {type: [string, 'null']}, m: {type: array, items: {$ref: '#/s/Out'}},
    n: {oneOf: [{type: object, required: [o, p], properties: {o: {type: string}, p: {const: r}}}, {type: 'null'}]}}}}}`
	for _, tc := range []struct {
		old, with string
		want      int
	}{
		{"/a:", "/a: ", 0},
		{"paths: {", "paths: {/b: {get: {}}, ", 0},
		{"operationId: a", "operationId: b", 1},
		{"/a:", "/c:", 1},
		{"name: q,", "name: q, required: true,", 1},
		{"name: q,", "name: r,", 1},
		{"maxLength: 5", "maxLength: 4", 1},
		{"maxLength: 5", "maxLength: 6", 0},
		{"requestBody: {", "requestBody: {required: true, ", 1},
		{"In: {type: object, required: [x]", "In: {type: object", 0},
		{"required: [x]", "required: [x, y]", 1},
		{"x: {type: [string, 'null']}", "x: {type: string}", 1},
		{"[b, c]", "[b]", 1},
		{"[b, c]", "[b, c, d]", 0},
		{", maximum: 9", ", maximum: 9, minimum: 1", 1},
		{"z: {type: integer, maximum: 9}", "z: {type: number}", 0},
		{"z: {type: integer", "w: {type: integer", 1},
		{"'404': {}", "'404': {}, '409': {}", 0},
		{", '404': {}", "", 1},
		{"ETag: {}", "", 1},
		{"required: [k]", "required: []", 1},
		{"required: [k]", "required: [k, l]", 0},
		{"k: {type: string}", "k: {type: [string, 'null']}", 1},
		{"l: {type: [string, 'null']}", "l: {type: string}", 0},
		{"l: {type: [string, 'null']}, ", "", 1},
		{"{const: r}", "{enum: [r, s]}", 0},
		{"{type: 'null'}]", "{type: 'null'}, {type: object, required: [o], properties: {o: {type: string}}}]", 1}, // p
		{"{type: 'null'}]", "{type: string}]", 1},
	} {
		if !strings.Contains(base, tc.old) {
			t.Fatalf("%s is not in the base", tc.old)
		}
		if got := lost(parse(t, []byte(base)), parse(t, []byte(strings.Replace(base, tc.old, tc.with, 1)))); len(got) != tc.want {
			t.Errorf("%q for %q: %v, want %d", tc.with, tc.old, got, tc.want)
		}
	}
}
