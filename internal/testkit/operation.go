package testkit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Operation is what the description says that one operation takes.
type Operation struct {
	ID      string
	Pattern string // as a mux has it: POST /search
	// Members of a JSON body by path, such as dates.checkIn, each with the closed
	// set of its words, if it has one. An object whose names are the client's own
	// has the member "*"; those of a list's items are entries[].id.
	Members map[string][]string
	Query   []string // names of parameters
	Headers []string // that it reads
	Answers []string // headers of its answers, in canonical form, each once
}

// Operations lists what the description describes.
func (c *OpenAPI) Operations() []Operation {
	c.t.Helper()
	out := make([]Operation, 0, len(c.doc.operations))
	for _, op := range c.doc.operations {
		o := Operation{ID: op.id, Pattern: op.method + " /" + strings.Join(op.path, "/"), Members: map[string][]string{}}
		for _, p := range op.parameters {
			switch p.in {
			case "query":
				o.Query = append(o.Query, p.name)
			case "header":
				o.Headers = append(o.Headers, p.name)
			}
		}
		answers := map[string]bool{}
		for _, a := range op.answers {
			for name := range a.headers {
				answers[name] = true
			}
		}
		o.Answers = slices.Sorted(maps.Keys(answers))
		if op.request != nil {
			if err := c.doc.members(op.request, "", o.Members); err != nil {
				c.t.Fatalf("%s: %v", op.id, err)
			}
		}
		out = append(out, o)
	}
	return out
}

// members adds what a schema says of a body's members, through references and
// all of its parts.
func (d *document) members(node any, path string, out map[string][]string) error {
	schema, _, err := d.object(node, nil)
	if err != nil {
		return err
	}
	if items, ok := schema["items"]; ok {
		if item, _, err := d.object(items, nil); err == nil && item["properties"] != nil {
			path += "[]"
		}
		return d.members(items, path, out)
	}
	if words, ok := schema["enum"].([]any); ok {
		set := make([]string, 0, len(words))
		for _, w := range words {
			set = append(set, fmt.Sprint(w))
		}
		out[path] = slices.Sorted(slices.Values(set))
	}
	if word, ok := schema["const"].(string); ok { // of one of several shapes
		out[path] = slices.Compact(slices.Sorted(slices.Values(append(out[path], word))))
	}
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		parts, _ := schema[word].([]any)
		for _, part := range parts {
			if err := d.members(part, path, out); err != nil {
				return err
			}
		}
	}
	below := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	if _, open := schema["additionalProperties"].(map[string]any); open {
		out[below("*")] = nil
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if _, ok := out[below(name)]; !ok {
			out[below(name)] = nil
		}
		if properties[name] == true {
			continue
		}
		if err := d.members(properties[name], below(name), out); err != nil {
			return err
		}
	}
	return nil
}

// WrongBody has every member, and in place of each value one that no member takes.
func WrongBody(members map[string][]string) map[string]any {
	root := map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(members)) { // a parent before its members
		at, names := root, strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			below, ok := at[name].(map[string]any)
			list, isList := strings.CutSuffix(name, "[]")
			if items, there := at[list].([]any); isList && there {
				below, ok = items[0].(map[string]any)
			}
			if !ok || below["wrong"] != nil {
				below = map[string]any{}
				at[name] = below
				if isList {
					delete(at, name)
					at[list] = []any{below}
				}
			}
			at = below
		}
		switch last := names[len(names)-1]; last {
		case "*":
			at["any"] = []any{}
		default:
			at[last] = map[string]any{"wrong": true}
		}
	}
	return root
}
