package testkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// document is an OpenAPI 3.1 document, its schemas compiled where they stand.
type document struct {
	root       map[string]any
	compiler   *jsonschema.Compiler
	operations []*operation
	// elsewhere is what is answered where no operation is, by status.
	elsewhere map[string]*answer
}

type operation struct {
	id         string
	request    any // the schema of a JSON body as it stands in the document; nil without one
	method     string
	path       []string // segments, those in braces are parameters
	parameters []*value
	body       map[string]*jsonschema.Schema // by media type
	mustBody   bool
	answers    map[string]*answer // by status
}

type answer struct {
	headers map[string]*value             // by canonical name
	content map[string]*jsonschema.Schema // by media type
}

// value is a parameter or a header: text that stands for something typed.
type value struct {
	name, in string
	required bool
	schema   *jsonschema.Schema
}

// documentURL is the document's name towards the schema compiler.
const documentURL = "https://melmastoon.ghasi.io/openapi"

// parseDocument reads a document and compiles all of its schemas.
func parseDocument(file []byte) (*document, error) {
	root, err := parseYAML(file)
	if err != nil {
		return nil, err
	}
	d := &document{root: root, compiler: jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(documentURL, root); err != nil {
		return nil, err
	}
	paths, at, err := d.object(root["paths"], pointer{"paths"})
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if err := d.addPath(path, paths[path], at.to(path)); err != nil {
			return nil, err
		}
	}
	if d.elsewhere, err = d.answers(root["x-elsewhere"], pointer{"x-elsewhere"}); err != nil {
		return nil, err
	}
	return d, nil
}

// parseYAML reads YAML as the JSON that it stands for.
func parseYAML(file []byte) (map[string]any, error) {
	var tree any
	if err := yaml.Unmarshal(file, &tree); err != nil {
		return nil, err
	}
	if err := onlyJSON(tree, nil); err != nil {
		return nil, err
	}
	b, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	root, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the document is not an object")
	}
	return root, nil
}

// onlyJSON refuses what YAML readers understand differently: a bare date is a
// moment to some and a string to others, a bare 200 is no name of a member.
func onlyJSON(v any, at pointer) error {
	switch v := v.(type) {
	case time.Time:
		return fmt.Errorf("%s: a bare date: quote it", at)
	case map[string]any:
		for k, child := range v {
			if err := onlyJSON(child, at.to(k)); err != nil {
				return err
			}
		}
	case map[any]any:
		return fmt.Errorf("%s: a name that is no string: quote it", at)
	case []any:
		for i, child := range v {
			if err := onlyJSON(child, at.to(strconv.Itoa(i))); err != nil {
				return err
			}
		}
	}
	return nil
}

// pointer is a JSON pointer, token by token.
type pointer []string

func (p pointer) to(tokens ...string) pointer { return slices.Concat(p, tokens) }

func (p pointer) String() string {
	var b strings.Builder
	for _, token := range p {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	return "#" + b.String()
}

// find follows a local reference.
func (d *document) find(ref string) (any, pointer, error) {
	rest, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, nil, fmt.Errorf("reference %s leaves the document", ref)
	}
	var at pointer
	var node any = d.root
	for token := range strings.SplitSeq(rest, "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		object, ok := node.(map[string]any)
		if !ok || object[token] == nil {
			return nil, nil, fmt.Errorf("reference %s leads nowhere", ref)
		}
		node, at = object[token], at.to(token)
	}
	return node, at, nil
}

// object returns the object at a node, behind references.
func (d *document) object(node any, at pointer) (map[string]any, pointer, error) {
	for range 8 { // a longer chain is a circle
		object, ok := node.(map[string]any)
		if !ok {
			return nil, nil, fmt.Errorf("%s: want an object", at)
		}
		ref, ok := object["$ref"].(string)
		if !ok {
			return object, at, nil
		}
		var err error
		if node, at, err = d.find(ref); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("%s: references in a circle", at)
}

func (d *document) schema(at pointer) (*jsonschema.Schema, error) {
	fragment := url.URL{Fragment: at.String()[1:]} // braces of paths must be escaped
	s, err := d.compiler.Compile(documentURL + "#" + fragment.EscapedFragment())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	return s, nil
}

var methods = []string{
	http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete, http.MethodOptions,
	http.MethodHead, http.MethodPatch, http.MethodTrace,
}

func (d *document) addPath(path string, node any, at pointer) error {
	item, at, err := d.object(node, at)
	if err != nil {
		return err
	}
	base, err := serverPath(item, d.root)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	shared, err := d.parameters(item["parameters"], at.to("parameters"))
	if err != nil {
		return err
	}
	for _, method := range methods {
		node, ok := item[strings.ToLower(method)]
		if !ok {
			continue
		}
		op, err := d.operation(node, at.to(strings.ToLower(method)))
		if err != nil {
			return err
		}
		op.method, op.path = method, segments(base+path)
		op.parameters = append(op.parameters, shared...)
		d.operations = append(d.operations, op)
	}
	return nil
}

// serverPath is the path of the first server that is said for a path.
func serverPath(holders ...map[string]any) (string, error) {
	for _, h := range holders {
		servers, _ := h["servers"].([]any)
		if len(servers) == 0 {
			continue
		}
		server, _ := servers[0].(map[string]any)
		raw, _ := server["url"].(string)
		variables, _ := server["variables"].(map[string]any)
		for name, v := range variables {
			variable, _ := v.(map[string]any)
			def, _ := variable["default"].(string)
			raw = strings.ReplaceAll(raw, "{"+name+"}", def)
		}
		u, err := url.Parse(raw)
		if err != nil {
			return "", err
		}
		return strings.TrimSuffix(u.Path, "/"), nil
	}
	return "", nil
}

func segments(path string) []string { return strings.Split(strings.Trim(path, "/"), "/") }

func (d *document) operation(node any, at pointer) (*operation, error) {
	object, at, err := d.object(node, at)
	if err != nil {
		return nil, err
	}
	op := &operation{}
	if op.id, _ = object["operationId"].(string); op.id == "" {
		return nil, fmt.Errorf("%s: no operationId", at)
	}
	if op.parameters, err = d.parameters(object["parameters"], at.to("parameters")); err != nil {
		return nil, err
	}
	if body, ok := object["requestBody"]; ok {
		body, bodyAt, err := d.object(body, at.to("requestBody"))
		if err != nil {
			return nil, err
		}
		op.mustBody, _ = body["required"].(bool)
		if op.body, err = d.content(body["content"], bodyAt.to("content")); err != nil {
			return nil, err
		}
		content, _ := body["content"].(map[string]any)
		media, _ := content["application/json"].(map[string]any)
		op.request = media["schema"]
	}
	op.answers, err = d.answers(object["responses"], at.to("responses"))
	return op, err
}

func (d *document) parameters(node any, at pointer) ([]*value, error) {
	list, _ := node.([]any)
	out := make([]*value, 0, len(list))
	for i, item := range list {
		object, itemAt, err := d.object(item, at.to(strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		v, err := d.value(object, itemAt)
		if err != nil {
			return nil, err
		}
		v.name, _ = object["name"].(string)
		v.in, _ = object["in"].(string)
		out = append(out, v)
	}
	return out, nil
}

func (d *document) value(object map[string]any, at pointer) (*value, error) {
	v := &value{}
	v.required, _ = object["required"].(bool)
	var err error
	v.schema, err = d.schema(at.to("schema"))
	return v, err
}

func (d *document) content(node any, at pointer) (map[string]*jsonschema.Schema, error) {
	object, _ := node.(map[string]any)
	out := make(map[string]*jsonschema.Schema, len(object))
	for media := range object {
		s, err := d.schema(at.to(media, "schema"))
		if err != nil {
			return nil, err
		}
		out[media] = s
	}
	return out, nil
}

func (d *document) answers(node any, at pointer) (map[string]*answer, error) {
	object, _ := node.(map[string]any)
	out := make(map[string]*answer, len(object))
	for status, node := range object {
		response, at, err := d.object(node, at.to(status))
		if err != nil {
			return nil, err
		}
		a := &answer{headers: map[string]*value{}}
		headers, _ := response["headers"].(map[string]any)
		for name, node := range headers {
			object, headerAt, err := d.object(node, at.to("headers", name))
			if err != nil {
				return nil, err
			}
			v, err := d.value(object, headerAt)
			if err != nil {
				return nil, err
			}
			v.name, v.in = textproto.CanonicalMIMEHeaderKey(name), "header"
			a.headers[v.name] = v
		}
		if a.content, err = d.content(response["content"], at.to("content")); err != nil {
			return nil, err
		}
		out[status] = a
	}
	return out, nil
}

// match finds the operation of a request. Without one it says whether the path
// takes other methods.
func (d *document) match(method, path string) (op *operation, arguments map[string]string, other bool) {
	have := segments(path)
	for _, candidate := range d.operations {
		args, ok := candidate.arguments(have)
		switch {
		case !ok:
		case candidate.method != method:
			other = true
		case op == nil || len(args) < len(arguments): // the more literal path wins
			op, arguments = candidate, args
		}
	}
	return op, arguments, other
}

func (op *operation) arguments(have []string) (map[string]string, bool) {
	if len(have) != len(op.path) {
		return nil, false
	}
	args := map[string]string{}
	for i, want := range op.path {
		name, parameter := strings.CutPrefix(want, "{")
		if !parameter {
			if want != have[i] {
				return nil, false
			}
			continue
		}
		arg, err := url.PathUnescape(have[i])
		if err != nil || arg == "" {
			return nil, false
		}
		args[strings.TrimSuffix(name, "}")] = arg
	}
	return args, true
}

// check holds a text to the schema of what it stands for.
func (v *value) check(text string) error { return v.schema.Validate(typed(text, v.schema)) }

// typed reads a text as the type that a schema wants; what does not read stays
// a text, for the schema to refuse.
func typed(text string, schema *jsonschema.Schema) any {
	for schema != nil && schema.Ref != nil {
		schema = schema.Ref
	}
	if schema == nil || schema.Types == nil {
		return text
	}
	for _, t := range schema.Types.ToStrings() {
		switch t {
		case "integer", "number":
			if _, err := strconv.ParseFloat(text, 64); err == nil {
				return json.Number(text)
			}
		case "boolean":
			if b, err := strconv.ParseBool(text); err == nil {
				return b
			}
		case "array":
			var list []any
			for part := range strings.SplitSeq(text, ",") {
				list = append(list, typed(part, schema.Items2020))
			}
			return list
		}
	}
	return text
}
