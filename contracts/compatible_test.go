package contracts_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/contracts"
)

var publish = flag.Bool("publish", false, "record members that are new as published")

// published has one line per member of every published schema: where it is, and
// a digest of its rules. Words for people and the members below it do not count. The
// first line is a digest of the others: the file is written by this test alone, which
// only adds lines, so that one that was changed or taken away by hand is noticed.
const published = "events/published.txt"

// TestPublishedSchemas compares every schema with the form in which it was last
// published: a version may gain optional members, and words where it says that these may
// grow (docs/events.md), and otherwise stays as it is (specification, EVENT_SCHEMAS §6).
// Record a new version, or a new member, with
//
//	go test ./contracts -run TestPublishedSchemas -publish
//
// Where two branches have added lines, take the file of one and record anew.
func TestPublishedSchemas(t *testing.T) {
	t.Parallel()
	before, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	now := map[string]string{}
	err = fs.WalkDir(contracts.Events(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(contracts.Events(), path)
		if err == nil {
			maps.Copy(now, shape(t, path, b))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	old, err := unsealed(string(before))
	if err != nil {
		t.Fatalf("%s: %v", published, err)
	}
	found := breaches(old, now)
	for _, breach := range found {
		t.Errorf("%s: publish a new version instead", breach)
	}
	switch {
	case len(found) > 0:
	case *publish:
		if err := os.WriteFile(published, []byte(sealed(now)), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		for at := range now {
			if _, ok := old[at]; !ok {
				t.Errorf("%s is not recorded as published: run go test ./contracts -run TestPublishedSchemas -publish", at)
			}
		}
	}
}

// sealed writes the lines of members, below their digest.
func sealed(members map[string]string) string {
	var lines strings.Builder
	for _, at := range slices.Sorted(maps.Keys(members)) {
		lines.WriteString(at + " " + members[at] + "\n")
	}
	return fmt.Sprintf("sha256 %x\n%s", sha256.Sum256([]byte(lines.String())), lines.String())
}

// unsealed reads the lines, if they are as they were written.
func unsealed(file string) (map[string]string, error) {
	members := map[string]string{}
	_, lines, _ := strings.Cut(file, "\n")
	for line := range strings.Lines(lines) {
		at, digest, _ := strings.Cut(strings.TrimSpace(line), " ")
		members[at] = digest
	}
	if sealed(members) != file {
		return nil, errors.New("was changed by hand: restore it, or of two branches take the file of one")
	}
	return members, nil
}

// A line that is changed or taken away breaks the seal, the last one, too.
func TestSeal(t *testing.T) {
	t.Parallel()
	whole := sealed(map[string]string{"a#": "1", "b#": "2", "c#": "3"})
	if got, err := unsealed(whole); err != nil || len(got) != 3 {
		t.Errorf("%v, %v", got, err)
	}
	for _, line := range []string{"a# 1\n", "b# 2\n", "c# 3\n"} {
		for _, with := range []string{"", strings.Replace(line, " ", " 1", 1)} {
			if got, err := unsealed(strings.Replace(whole, line, with, 1)); err == nil {
				t.Errorf("%q in the place of %q: %v", with, line, got)
			}
		}
	}
}

// breaches lists what a change takes away from readers of the old form.
func breaches(before, now map[string]string) []string {
	var found []string
	for _, at := range slices.Sorted(maps.Keys(before)) {
		switch digest, ok := now[at]; {
		case !ok:
			found = append(found, at+" was published and is gone")
		case digest != before[at]:
			found = append(found, at+" has other rules (type, enum, required, bounds, …)")
		}
	}
	return found
}

// shape returns a digest of the rules of each member and definition of a schema.
func shape(t *testing.T, path string, schema []byte) map[string]string {
	t.Helper()
	var doc any
	if err := json.Unmarshal(schema, &doc); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	out := map[string]string{}
	member(path+"#", doc, out)
	return out
}

func member(at string, schema any, out map[string]string) {
	b, err := json.Marshal(rules(at, schema, out)) // sorts the names
	if err != nil {
		panic(err) // it was read from JSON
	}
	out[at] = fmt.Sprintf("%x", sha256.Sum256(b))[:16]
}

// words are for people; nothing depends on them.
var words = []string{"title", "description", "examples", "$comment", "deprecatedSince"}

// rules returns a schema without words and without its members, to which new
// ones may be added: those become lines of their own.
func rules(at string, schema any, out map[string]string) any {
	switch v := schema.(type) {
	case map[string]any:
		kept := map[string]any{}
		for k, below := range oneForm(at, v) {
			names, ok := below.(map[string]any)
			switch {
			case slices.Contains(words, k):
			case ok && (k == "properties" || k == "$defs"):
				for name, m := range names {
					member(at+"/"+k+"/"+name, m, out)
				}
			default:
				kept[k] = rules(at+"/"+k, below, out)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i, below := range v {
			kept[i] = rules(fmt.Sprintf("%s/%d", at, i), below, out)
		}
		return kept
	}
	return schema
}

// oneForm returns rules that can be written in several ways as they were first
// published: references whole, no type beside a reference to a document that has it,
// and one list of types for alternatives that differ in nothing else.
func oneForm(at string, schema map[string]any) map[string]any {
	form := maps.Clone(schema)
	if ref, ok := form["$ref"].(string); ok && !strings.HasPrefix(ref, "#") {
		file, fragment, _ := strings.Cut(ref, "#")
		if !strings.HasPrefix(file, contracts.SchemaBase) {
			document, _, _ := strings.Cut(at, "#")
			file = contracts.SchemaBase + path.Join(path.Dir(document), file)
		}
		form["$ref"] = file
		if fragment != "" {
			form["$ref"] = file + "#" + fragment
		} else if form["type"] == "object" && file == contracts.SchemaBase+"envelope/v1.json" {
			delete(form, "type")
		}
	}
	alternatives, ok := form["anyOf"].([]any)
	if !ok {
		return form
	}
	var types []any
	merged := maps.Clone(form)
	delete(merged, "anyOf")
	for _, a := range alternatives {
		one, _ := a.(map[string]any)
		if _, single := one["type"].(string); !single {
			return form
		}
		for k, v := range one {
			if k == "type" {
				types = append(types, v)
			} else if _, twice := merged[k]; twice || k != "maxLength" { // which is about strings alone
				return form
			} else {
				merged[k] = v
			}
		}
	}
	merged["type"] = types
	return merged
}

func TestBreaches(t *testing.T) {
	t.Parallel()
	const base = `{"title":"a","type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"enum":["x","y"]},"g":{"pattern":"^[a-z]+$","examples":["v"]}},"$defs":{"c":{"type":"object","required":[],"properties":{"d":{"type":"integer"}}}}}`
	replace := func(old, with string) string {
		if !strings.Contains(base, old) {
			t.Fatalf("%s is not in the base", old)
		}
		return strings.Replace(base, old, with, 1)
	}
	for name, tc := range map[string]struct {
		now  string
		want int
	}{
		"same":               {base, 0},
		"other words":        {replace(`"title":"a"`, `"title":"b","description":"c"`), 0},
		"deprecated":         {replace(`"title":"a"`, `"title":"a","deprecatedSince":"2027-01-01"`), 0},
		"new optional":       {replace(`"properties":{`, `"properties":{"new":{"type":"string"},`), 0},
		"new optional below": {replace(`"properties":{"d"`, `"properties":{"title":{"type":"string"},"d"`), 0},
		"new definition":     {replace(`"$defs":{`, `"$defs":{"e":{},`), 0},
		"new required":       {replace(`"required":["a"]`, `"required":["a","b"]`), 1},
		"no longer required": {replace(`"required":["a"]`, `"required":[]`), 1},
		"member gone":        {replace(`"a":{"type":"string"},`, ``), 1},
		"renamed":            {replace(`"a":{"type":"string"}`, `"z":{"type":"string"}`), 1},
		"other type":         {replace(`"type":"string"`, `"type":"number"`), 1},
		"other type below":   {replace(`"type":"integer"`, `"type":"number"`), 1},
		"value gone":         {replace(`["x","y"]`, `["x"]`), 1},
		"value added":        {replace(`["x","y"]`, `["x","y","z"]`), 1},
		"word added":         {replace(`"examples":["v"]`, `"examples":["v","w"]`), 0},
		"other words form":   {replace(`"^[a-z]+$"`, `"^[a-z0-9]+$"`), 1},
		"new rule":           {replace(`{"type":"string"}`, `{"type":"string","maxLength":3}`), 1},
		"closed":             {replace(`"type":"object"`, `"type":"object","additionalProperties":false`), 1},
		"alternatives":       {replace(`{"type":"string"}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := breaches(shape(t, "", []byte(base)), shape(t, "", []byte(tc.now))); len(got) != tc.want {
				t.Errorf("breaches %v, want %d", got, tc.want)
			}
		})
	}
}

func TestIDsFollowPaths(t *testing.T) {
	t.Parallel()
	err := fs.WalkDir(contracts.Events(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(contracts.Events(), path)
		if err != nil {
			return err
		}
		var doc struct {
			ID     string `json:"$id"`
			Schema string `json:"$schema"`
		}
		if err := json.Unmarshal(b, &doc); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if doc.ID != contracts.SchemaBase+path || doc.Schema != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s: $id %s, $schema %s", path, doc.ID, doc.Schema)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
