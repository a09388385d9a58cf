package testkit

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"melmastoon.ghasi.io/bff"
)

// each visits every node of a tree with the pointer to it.
func each(node any, at pointer, visit func(at pointer, node any)) {
	visit(at, node)
	switch node := node.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(node)) {
			each(node[k], at.to(k), visit)
		}
	case []any:
		for i, child := range node {
			each(child, at.to(strconv.Itoa(i)), visit)
		}
	}
}

func TestDocumentReferencesResolve(t *testing.T) {
	t.Parallel()
	doc := Contract(t).doc
	used := map[string]bool{}
	each(doc.root, nil, func(at pointer, node any) {
		object, _ := node.(map[string]any)
		ref, ok := object["$ref"].(string)
		if !ok {
			return
		}
		used[ref] = true
		if _, _, err := doc.find(ref); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	})
	components, _ := doc.root["components"].(map[string]any)
	for kind, named := range components {
		if kind == "securitySchemes" {
			continue
		}
		for name := range named.(map[string]any) {
			if at := (pointer{"components", kind, name}); !used[at.String()] {
				t.Errorf("%s: nothing refers to it", at)
			}
		}
	}
}

// TestDocumentSchemas compiles every schema and looks for words that no schema
// knows: a misspelt rule rules nothing.
func TestDocumentSchemas(t *testing.T) {
	t.Parallel()
	known := strings.Fields(`$ref type enum const required properties additionalProperties unevaluatedProperties items minItems maxItems
		uniqueItems minLength maxLength pattern format minimum maximum minProperties maxProperties propertyNames dependentRequired allOf anyOf
		oneOf discriminator not if then default description`)
	doc := Contract(t).doc
	var rules func(at pointer, node any)
	rules = func(at pointer, node any) {
		object, ok := node.(map[string]any)
		if !ok {
			return // true, false
		}
		for word, child := range object {
			at := at.to(word)
			if !slices.Contains(known, word) {
				t.Errorf("%s: no word of a schema", at)
			}
			switch word {
			case "properties":
				for name, s := range child.(map[string]any) {
					rules(at.to(name), s)
				}
			case "allOf", "anyOf", "oneOf":
				for i, s := range child.([]any) {
					rules(at.to(strconv.Itoa(i)), s)
				}
			case "items", "additionalProperties", "unevaluatedProperties", "propertyNames", "not", "if", "then":
				rules(at, child)
			}
		}
	}
	each(doc.root, nil, func(at pointer, node any) {
		object, ok := node.(map[string]any)
		if !ok {
			return
		}
		inExample := slices.Contains(at, "examples") || slices.Contains(at, "example")
		if s, ok := object["schema"]; ok && !inExample {
			rules(at.to("schema"), s)
		}
		if at.String() == "#/components/schemas" {
			for name, s := range object {
				rules(at.to(name), s)
				if _, err := doc.schema(at.to(name)); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestDocumentAnswersAreClosed wants every object of ours in an answer to say
// that it has no other members: without that a new one goes unnoticed.
func TestDocumentAnswersAreClosed(t *testing.T) {
	t.Parallel()
	doc := Contract(t).doc
	var closed func(node any, at pointer, within bool)
	closed = func(node any, at pointer, within bool) {
		if _, ok := node.(map[string]any); !ok {
			return // true, false
		}
		schema, at, err := doc.object(node, at)
		if err != nil {
			t.Error(err)
			return
		}
		shut := within || schema["unevaluatedProperties"] == false
		members, _ := schema["properties"].(map[string]any)
		if schema["type"] == "object" && members != nil && !shut {
			t.Errorf("%s: is open", at)
		}
		for name, member := range members {
			closed(member, at.to("properties", name), false)
		}
		if items, ok := schema["items"]; ok {
			closed(items, at.to("items"), false)
		}
		for _, word := range []string{"allOf", "anyOf"} {
			parts, _ := schema[word].([]any)
			for i, part := range parts {
				closed(part, at.to(word, strconv.Itoa(i)), shut)
			}
		}
	}
	each(doc.root, nil, func(at pointer, node any) {
		content, _ := node.(map[string]any)
		if n := len(at); n < 2 || at[n-1] != "content" || slices.Contains(at, "requestBody") || slices.Contains(at, "examples") {
			return
		}
		for media, body := range content {
			closed(body.(map[string]any)["schema"], at.to(media, "schema"), false)
		}
	})
}

// TestDocumentExamples validates every example, and wants one of every body
// that an operation takes and of every answer that is good news.
func TestDocumentExamples(t *testing.T) {
	t.Parallel()
	doc := Contract(t).doc
	validate := func(at pointer, schema *jsonschema.Schema, example any) {
		if err := schema.Validate(example); err != nil {
			for _, why := range explained(at.String(), err) {
				t.Error(why)
			}
		}
	}
	each(doc.root, nil, func(at pointer, node any) {
		object, ok := node.(map[string]any)
		if !ok || object["schema"] == nil || slices.Contains(at, "examples") {
			return
		}
		schema, err := doc.schema(at.to("schema"))
		if err != nil {
			t.Fatal(err)
		}
		if example, ok := object["example"]; ok {
			validate(at.to("example"), schema, example)
		}
		examples, _ := object["examples"].(map[string]any)
		for name, e := range examples {
			validate(at.to("examples", name), schema, e.(map[string]any)["value"])
		}
		good := len(at) > 6 && at[0] == "paths" && (at[3] == "requestBody" || strings.HasPrefix(at[4], "2"))
		if good && len(examples) == 0 {
			t.Errorf("%s: no example", at)
		}
	})
}

// codes returns the error codes of a problem response.
func codes(response map[string]any) []string {
	var out []string
	each(response["content"], nil, func(at pointer, node any) {
		if n := len(at); n < 2 || at[n-2] != "code" || at[n-1] != "enum" {
			return
		}
		for _, code := range node.([]any) {
			out = append(out, code.(string))
		}
	})
	return out
}

// TestDocumentCodes holds the codes to the registry: each under its own status, and
// none left out that either surface has.
func TestDocumentCodes(t *testing.T) {
	t.Parallel()
	registry, described := readRegistry(t), map[string]bool{}
	for _, contract := range []*OpenAPI{Contract(t), StaffContract(t)} {
		doc := contract.doc
		each(doc.root, nil, func(at pointer, node any) {
			if n := len(at); n == 0 || (at[n-1] != "responses" && at[n-1] != "x-elsewhere") || at[0] == "components" {
				return
			}
			for status, node := range node.(map[string]any) {
				response, _, err := doc.object(node, at.to(status))
				if err != nil {
					t.Fatal(err)
				}
				found := codes(response)
				if (status[0] >= '4') != (len(found) > 0) {
					t.Errorf("%s: %d codes", at.to(status), len(found))
				}
				for _, code := range found {
					described[code] = true
					if want := registry[code]; strconv.Itoa(want) != status {
						t.Errorf("%s: %s has status %d in the registry", at.to(status), code, want)
					}
				}
			}
		})
	}
	for code := range registry {
		if !described[code] {
			t.Errorf("%s: no answer has it", code)
		}
	}
}

// readRegistry returns the status of every code.
func readRegistry(t *testing.T) map[string]int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "contracts", "errors", "registry.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Codes []bff.CodeInfo }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, c := range file.Codes {
		out[string(c.Code)] = c.Status
	}
	return out
}
