package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// service is an OpenAPI document as the page shows it.
type service struct {
	Name, Title, Text, Base string
	Tags                    []tag
	Schemas                 []part
}

type tag struct {
	Name, Text string
	Operations []operation
}

type operation struct {
	ID, Name, Method, Path, Summary, Text string
	Call                                  string // in TypeScript, with the client
	Parameters                            []part
	Body                                  *content
	Answers                               []answer
}

type answer struct {
	Status, Text string
	Headers      []part
	Content      *content
	Codes        []string // of errors
}

type content struct {
	Type     string
	Schema   part
	Examples []example
}

type example struct{ Name, JSON string }

// part is one member of something: its name, what it may be, and its own members.
type part struct {
	Anchor, Name, Type, Link, Rules, Text string
	Required                              bool
	Parts                                 []part
}

type object = map[string]any

// document keeps the order of the source beside its values.
type document struct {
	name string
	root *yaml.Node
}

func read(name string, source []byte) (service, error) {
	d := document{name: name, root: new(yaml.Node)}
	if err := yaml.Unmarshal(source, d.root); err != nil {
		return service{}, fmt.Errorf("OpenAPI of %s: %w", name, err)
	}
	d.root = d.root.Content[0]
	info := value(at(d.root, "info"))
	s := service{Name: name, Title: text(info, "title"), Text: text(info, "description")}
	if servers := at(d.root, "servers"); servers != nil && len(servers.Content) > 0 {
		s.Base = text(value(servers.Content[0]), "url")
	}
	if tags := at(d.root, "tags"); tags != nil {
		for _, t := range tags.Content {
			s.Tags = append(s.Tags, tag{Name: text(value(t), "name"), Text: text(value(t), "description")})
		}
	}
	each(at(d.root, "paths"), func(path string, item *yaml.Node) {
		each(item, func(method string, op *yaml.Node) {
			if !slices.Contains([]string{"get", "post", "put", "patch", "delete"}, method) {
				return
			}
			o := d.operation(method, path, op, at(item, "parameters"))
			in := ""
			if tags := at(op, "tags"); tags != nil && len(tags.Content) > 0 {
				in = tags.Content[0].Value
			}
			for i := range s.Tags {
				if s.Tags[i].Name == in {
					s.Tags[i].Operations = append(s.Tags[i].Operations, o)
				}
			}
		})
	})
	each(at(d.root, "components", "schemas"), func(name string, schema *yaml.Node) {
		p := d.part(name, schema, false)
		p.Anchor = d.anchor(name)
		s.Schemas = append(s.Schemas, p)
	})
	return s, nil
}

func (d document) operation(method, path string, op, shared *yaml.Node) operation {
	v := value(op)
	o := operation{Method: strings.ToUpper(method), Path: path, Summary: text(v, "summary"), Text: text(v, "description")}
	o.Name = text(v, "operationId")
	o.ID = d.name + "-" + o.Name
	required := map[string][]string{} // parameters by their place in a call
	for _, list := range []*yaml.Node{shared, at(op, "parameters")} {
		if list == nil {
			continue
		}
		for _, p := range list.Content {
			p = d.resolve(p)
			w := value(p)
			one := d.part(text(w, "name"), at(p, "schema"), w["required"] == true)
			one.Type = strings.TrimSpace(one.Type + " in " + text(w, "in"))
			if t := text(w, "description"); t != "" {
				one.Text = t
			}
			o.Parameters = append(o.Parameters, one)
			switch place := text(w, "in"); {
			case !one.Required || strings.HasSuffix(one.Name, "Idempotency-Key"): // the client makes keys
			case place == "header":
				required["headers"] = append(required["headers"], "'"+one.Name+"': '…'")
			default:
				required[place] = append(required[place], one.Name)
			}
		}
	}
	body := d.resolve(at(op, "requestBody"))
	if body != nil {
		o.Body = d.content(at(body, "content"))
	}
	o.Call = d.call(o.Name, required, value(body)["required"] == true)
	each(at(op, "responses"), func(status string, r *yaml.Node) {
		r = d.resolve(r)
		a := answer{Status: status, Text: text(value(r), "description"), Content: d.content(at(r, "content"))}
		if a.Content != nil && strings.Contains(a.Content.Type, "problem") {
			a.Codes = codes(at(r, "content"))
			a.Content = nil // all have the same form
		}
		o.Answers = append(o.Answers, a)
	})
	return o
}

// call is how the operation is called with the client; empty if no front end calls it.
func (d document) call(name string, required map[string][]string, body bool) string {
	switch name {
	case "consumeHandoff", "reauth": // of booking front ends; of the stream itself
		return ""
	case "refresh":
		return "await desk.refresh()"
	case "stream":
		return "await desk.stream({ onEvent, onGap }).follow(signal)"
	}
	var arguments []string
	for _, place := range []string{"path", "query", "headers"} {
		if names := required[place]; len(names) > 0 {
			arguments = append(arguments, place+": { "+strings.Join(names, ", ")+" }")
		}
	}
	if body {
		arguments = append(arguments, "body")
	}
	given := ""
	if len(arguments) > 0 {
		given = ", { " + strings.Join(arguments, ", ") + " }"
	}
	client := map[string]string{"consumer": "api", "backoffice": "desk"}[d.name]
	return fmt.Sprintf("await %s.call('%s'%s)", client, name, given)
}

var code = regexp.MustCompile(`MELMASTOON(\.[A-Z_]+)+`)

// codes are the errors that a problem document may name.
func codes(n *yaml.Node) []string {
	var out []string
	each(n, func(_ string, media *yaml.Node) {
		b, _ := yaml.Marshal(at(media, "schema")) // a tree that was read
		for _, c := range code.FindAllString(string(b), -1) {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	})
	return out
}

func (d document) content(n *yaml.Node) *content {
	var c *content
	each(n, func(media string, m *yaml.Node) {
		if c != nil {
			return
		}
		c = &content{Type: media, Schema: d.part("", at(m, "schema"), false)}
		if e := at(m, "example"); e != nil {
			c.Examples = append(c.Examples, shown("Example", e))
		}
		each(at(m, "examples"), func(name string, e *yaml.Node) {
			e = d.resolve(e)
			if v := at(e, "value"); v != nil {
				title := text(value(e), "summary")
				if title == "" {
					title = name
				}
				c.Examples = append(c.Examples, shown(title, v))
			}
		})
	})
	return c
}

func shown(name string, n *yaml.Node) example {
	var v any
	if err := n.Decode(&v); err != nil {
		return example{Name: name}
	}
	if s, ok := v.(string); ok {
		return example{name, s}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // examples are JSON
	return example{name, strings.TrimSpace(b.String())}
}

// part describes a schema. What it refers to is linked and not repeated.
func (d document) part(name string, n *yaml.Node, required bool) part {
	p := part{Name: name, Required: required}
	if n == nil {
		return p
	}
	v := value(n)
	p.Text, p.Rules = text(v, "description"), rules(v)
	if ref := text(v, "$ref"); ref != "" {
		p.Type = ref[strings.LastIndexByte(ref, '/')+1:]
		p.Link = d.anchor(p.Type)
		return p
	}
	p.Type = kind(v)
	if items := at(n, "items"); items != nil {
		item := d.part("each", items, false)
		if item.Link != "" {
			p.Type, p.Link = "list of "+item.Type, item.Link
		} else if item.Type != "" {
			p.Type = "list of " + item.Type
		}
		p.Parts = append(p.Parts, item.Parts...)
		if p.Rules == "" {
			p.Rules = item.Rules
		}
	}
	need, _ := v["required"].([]any)
	each(at(n, "properties"), func(member string, schema *yaml.Node) {
		if schema.Kind != yaml.ScalarNode { // true or false narrows elsewhere
			p.Parts = append(p.Parts, d.part(member, schema, slices.Contains(need, any(member))))
		}
	})
	if more := at(n, "additionalProperties"); more != nil && more.Kind == yaml.MappingNode {
		p.Parts = append(p.Parts, d.part("(any name)", more, false))
	}
	for _, several := range []struct{ word, title string }{{"oneOf", "one of"}, {"anyOf", "any of"}, {"allOf", "all of"}} {
		list := at(n, several.word)
		if list == nil {
			continue
		}
		for _, alternative := range list.Content {
			if a := d.part(several.title, alternative, false); a.Type != "" || len(a.Parts) > 0 {
				p.Parts = append(p.Parts, a)
			}
		}
	}
	return p
}

func (d document) anchor(schema string) string { return d.name + "-schema-" + schema }

func kind(v object) string {
	switch t := v["type"].(type) {
	case string:
		return t
	case []any:
		var words []string
		for _, w := range t {
			words = append(words, fmt.Sprint(w))
		}
		return strings.Join(words, " or ")
	}
	return ""
}

// rules are a schema's bounds in few words.
func rules(v object) string {
	var out []string
	add := func(format string, key string) {
		if x, ok := v[key]; ok {
			out = append(out, fmt.Sprintf(format, literal(x)))
		}
	}
	if list, ok := v["enum"].([]any); ok {
		words := make([]string, len(list))
		for i, w := range list {
			words[i] = literal(w)
		}
		out = append(out, strings.Join(words, " | "))
	}
	add("always %s", "const")
	add("%s", "format")
	add("≥ %s", "minimum")
	add("≤ %s", "maximum")
	add("at least %s characters", "minLength")
	add("at most %s characters", "maxLength")
	add("at least %s", "minItems")
	add("at most %s", "maxItems")
	add("matches %s", "pattern")
	add("default %s", "default")
	return strings.Join(out, ", ")
}

func literal(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// resolve follows a reference within the document.
func (d document) resolve(n *yaml.Node) *yaml.Node {
	if n == nil {
		return nil
	}
	ref := at(n, "$ref")
	if ref == nil {
		return n
	}
	return d.resolve(at(d.root, strings.Split(strings.TrimPrefix(ref.Value, "#/"), "/")...))
}

// at walks down by names; nil if one is not there.
func at(n *yaml.Node, names ...string) *yaml.Node {
	for _, name := range names {
		var found *yaml.Node
		each(n, func(key string, v *yaml.Node) {
			if key == name && found == nil {
				found = v
			}
		})
		if n = found; n == nil {
			return nil
		}
	}
	return n
}

// each visits the members of a mapping in their order.
func each(n *yaml.Node, visit func(string, *yaml.Node)) {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "<<" {
			each(n.Content[i+1], visit)
			continue
		}
		v := n.Content[i+1]
		for v.Kind == yaml.AliasNode {
			v = v.Alias
		}
		visit(n.Content[i].Value, v)
	}
}

func value(n *yaml.Node) object {
	v := object{}
	if n != nil && n.Kind == yaml.MappingNode {
		_ = n.Decode(&v) // a tree that was read
	}
	return v
}

func text(v object, key string) string {
	s, _ := v[key].(string)
	return strings.TrimSpace(s)
}
