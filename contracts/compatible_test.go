package contracts_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/contracts"
)

var publish = flag.Bool("publish", false, "record schemas that are new or have grown as published")

const published = "events/published"

// TestPublishedSchemas compares every schema with the form in which it was last
// published: a version may gain optional members and otherwise stays as it is
// (EVENT_SCHEMAS §6). Record a new version, or a new member, with
//
//	go test ./contracts -run TestPublishedSchemas -publish
func TestPublishedSchemas(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	err := fs.WalkDir(contracts.Events(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		seen[path] = true
		now, err := fs.ReadFile(contracts.Events(), path)
		if err != nil {
			return err
		}
		frozen := filepath.Join(published, filepath.FromSlash(path))
		before, err := os.ReadFile(frozen)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		for _, breach := range breaches(t, before, now) {
			t.Errorf("%s: %s: publish a new version instead", path, breach)
		}
		switch {
		case bytes.Equal(before, now) || t.Failed():
		case !*publish:
			t.Errorf("%s is not published in this form: run go test ./contracts -run TestPublishedSchemas -publish", path)
		default:
			if err := os.MkdirAll(filepath.Dir(frozen), 0o750); err != nil {
				return err
			}
			return os.WriteFile(frozen, now, 0o644)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(published, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(published, path)
		if err == nil && !seen[filepath.ToSlash(rel)] {
			t.Errorf("%s was published and is gone", rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// breaches lists what a change takes away from those who read the old form.
func breaches(t *testing.T, before, now []byte) []string {
	t.Helper()
	if len(before) == 0 {
		return nil
	}
	var a, b any
	if err := json.Unmarshal(before, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(now, &b); err != nil {
		t.Fatal(err)
	}
	var found []string
	compare("#", a, b, &found)
	return found
}

// words are for people; nothing depends on them.
var words = []string{"title", "description", "examples", "$comment", "deprecatedSince"}

func compare(at string, a, b any, found *[]string) {
	before, ok1 := a.(map[string]any)
	now, ok2 := b.(map[string]any)
	if !ok1 || !ok2 {
		if !reflect.DeepEqual(a, b) {
			*found = append(*found, at+" changed")
		}
		return
	}
	// Under these keywords the names are members and definitions, to which new
	// ones may be added; everywhere else they are rules.
	named := strings.HasSuffix(at, "/properties") || strings.HasSuffix(at, "/$defs")
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if !named && slices.Contains(words, k) {
			continue
		}
		if v, ok := now[k]; ok {
			compare(at+"/"+k, before[k], v, found)
		} else {
			*found = append(*found, at+"/"+k+" is gone")
		}
	}
	for k := range now {
		if _, ok := before[k]; !ok && !named && !slices.Contains(words, k) {
			*found = append(*found, at+"/"+k+" is new")
		}
	}
}

func TestBreaches(t *testing.T) {
	t.Parallel()
	const base = `{"title":"a","type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"enum":["x","y"]}},"$defs":{"c":{"type":"object","required":[],"properties":{"d":{"type":"integer"}}}}}`
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
		"new rule":           {replace(`{"type":"string"}`, `{"type":"string","maxLength":3}`), 1},
		"closed":             {replace(`"type":"object"`, `"type":"object","additionalProperties":false`), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := breaches(t, []byte(base), []byte(tc.now)); len(got) != tc.want {
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
