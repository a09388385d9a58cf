package reference

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is an OpenAPI document, whose order is kept.
type document struct {
	name string
	root *yaml.Node
}

func read(name string, source []byte) (document, error) {
	d := document{name: name, root: new(yaml.Node)}
	if err := yaml.Unmarshal(source, d.root); err != nil {
		return d, fmt.Errorf("OpenAPI of %s: %w", name, err)
	}
	d.root = d.root.Content[0]
	return d, nil
}

// operations visits every operation with its method and path.
func (d document) operations(visit func(method, path string, op *yaml.Node)) {
	each(at(d.root, "paths"), func(path string, item *yaml.Node) {
		each(item, func(method string, op *yaml.Node) {
			if slices.Contains([]string{"get", "post", "put", "patch", "delete"}, method) {
				visit(strings.ToUpper(method), path, op)
			}
		})
	})
}

// shown is the document with what the reference has beside the contract: at each
// operation its call with our client, at each refusal links to the pages of its codes.
// It says that it is of 3.0, whose references RapiDoc resolves in two seconds: those of
// 3.1 take it half a minute. In 3.0 nothing may stand beside a reference to a schema.
func (d document) shown() ([]byte, error) {
	at(d.root, "openapi").Value = "3.0.3"
	wrap(d.root)
	d.operations(func(_, path string, op *yaml.Node) {
		if call := d.call(op, at(d.root, "paths", path, "parameters")); call != "" {
			add(op, "x-codeSamples", []map[string]string{{"lang": "TypeScript", "source": call}})
		}
		each(at(op, "responses"), func(_ string, r *yaml.Node) {
			var links []string
			for _, code := range codes(at(d.resolve(r), "content")) {
				links = append(links, "["+code+"](/errors/"+code+")")
			}
			// A response that several operations share has its links once.
			if text := at(d.resolve(r), "description"); text != nil && links != nil && !strings.Contains(text.Value, "(/errors/") {
				text.Value += "\n\n" + strings.Join(links, "  \n")
				text.Style = yaml.DoubleQuotedStyle
			}
		})
	})
	return yaml.Marshal(d.root)
}

// wrap has references to schemas that have something beside them stand in a list.
func wrap(n *yaml.Node) {
	for i, c := range n.Content {
		wrap(c)
		if c.Value != "$ref" || n.Kind != yaml.MappingNode || len(n.Content) == 2 || !strings.Contains(n.Content[i+1].Value, "/schemas/") {
			continue
		}
		ref := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "$ref"}, n.Content[i+1]}}
		n.Content[i], n.Content[i+1] = &yaml.Node{Kind: yaml.ScalarNode, Value: "allOf"}, &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{ref}}
	}
}

func add(n *yaml.Node, name string, v any) {
	var key, value yaml.Node
	key.SetString(name)
	if err := value.Encode(v); err != nil {
		panic(err) // of our own strings
	}
	n.Content = append(n.Content, &key, &value)
}

// call is how the operation is called with the client; empty if no front end calls it.
func (d document) call(op, shared *yaml.Node) string {
	name := at(op, "operationId").Value
	switch name {
	case "consumeHandoff", "reauth": // of booking front ends; of the stream itself
		return ""
	case "refresh":
		return "await desk.refresh()"
	case "stream":
		return "await desk.stream({ onEvent, onGap }).follow(signal)"
	}
	required := map[string][]string{} // parameters by their place in a call
	for _, list := range []*yaml.Node{shared, at(op, "parameters")} {
		if list == nil {
			continue
		}
		for _, p := range list.Content {
			p = d.resolve(p)
			switch name, place := at(p, "name").Value, at(p, "in").Value; {
			case !isTrue(at(p, "required")) || strings.HasSuffix(name, "Idempotency-Key"): // the client makes keys
			case place == "header":
				required["headers"] = append(required["headers"], "'"+name+"': '…'")
			default:
				required[place] = append(required[place], name)
			}
		}
	}
	var arguments []string
	for _, place := range []string{"path", "query", "headers"} {
		if names := required[place]; len(names) > 0 {
			arguments = append(arguments, place+": { "+strings.Join(names, ", ")+" }")
		}
	}
	if isTrue(at(d.resolve(at(op, "requestBody")), "required")) {
		arguments = append(arguments, "body")
	}
	given := ""
	if len(arguments) > 0 {
		given = ", { " + strings.Join(arguments, ", ") + " }"
	}
	client := map[string]string{"consumer": "api", "backoffice": "desk"}[d.name]
	return fmt.Sprintf("await %s.call('%s'%s)", client, name, given)
}

func isTrue(n *yaml.Node) bool { return n != nil && n.Value == "true" }

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
