package testkit

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/contracts"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
)

// growing is the pattern of a member of an event whose set of words may grow: the known ones
// are its examples.
const growing = "^[a-z][a-z0-9._-]{0,63}$"

// TestClosedSets walks every closed set of words in OpenAPI and in the schemas of
// the events, and those that may grow, and wants the same set in the code: a word that
// was added or taken away in one place only is found, wherever it is.
func TestClosedSets(t *testing.T) {
	t.Parallel()
	// What is only a part of a set in the code, or none of ours, and why.
	foreign := map[string]string{
		"openapi #/components/headers/PublicAnswer/schema/enum":                                                    "values of Cache-Control, which TestContract meets",
		"openapi #/components/schemas/Suggestions/properties/suggestions/items/properties/kind/enum":               "search-aggregation's words",
		"staff openapi #/components/schemas/Problem/properties/error/properties/errors/items/properties/code/enum": "two sets: codes of fields, and reasons of dpop",
		"staff openapi #/components/schemas/KnownMutation/properties/outcome/enum":                                 "outcomes of activities, and that there was none",
		"staff openapi #/components/schemas/Alert/properties/can/items/enum":                                       "the one step, which contract tests meet",
		"staff openapi #/components/schemas/Suggestion/properties/can/items/enum":                                  "the one step, which contract tests meet",
	}
	parts := map[string]string{
		"openapi #/components/headers/Brownout/schema/enum":                                             "no brownout is not announced",
		"openapi #/components/schemas/MapRequest/allOf/1/properties/geo/properties/mode/enum":           "a map has no regions",
		"staff openapi #/components/headers/XCache/schema/enum":                                         "no answer bypasses the cache",
		"staff openapi #/components/schemas/LockAnswer/properties/state/enum":                           "an unknown or refused action is an error",
		"staff openapi #/components/schemas/BlackoutPack/properties/keysDue/items/properties/step/enum": "keys are made and taken back",
		"staff openapi #/components/schemas/Stay/properties/can/items/enum":                             "the steps of a stay",
		"bff-backoffice/lock-action-proxied/v1.json #/properties/payload/properties/outcome/enum":       "it is told when it has an outcome",
		"bff-backoffice/lock-action-proxied/v1.json #/properties/payload/properties/state/enum":         "it is told when it has a final state",
		"bff-consumer/bot-suspected/v1.json #/properties/payload/properties/verdict/enum":               "a person is not suspected",
		"bff-consumer/currency-changed/v1.json #/properties/payload/properties/trigger":                 "no browser states a currency",
		"bff-consumer/locale-changed/v1.json #/properties/payload/properties/trigger":                   "no tenant states a language",
		"bff-consumer/session-started/v1.json #/properties/payload/properties/userAgentClass":           "all bots are one class",
	}
	code := codeSets(t)
	described := map[string][]any{}
	for name, contract := range map[string]*OpenAPI{"openapi": Contract(t), "staff openapi": StaffContract(t)} {
		each(contract.doc.root, nil, func(at pointer, node any) {
			if words, ok := node.([]any); ok && at[len(at)-1] == "enum" {
				described[name+" "+at.String()] = words
			}
		})
	}
	err := fs.WalkDir(contracts.Events(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(contracts.Events(), path)
		if err != nil {
			return err
		}
		var schema any
		if err := json.Unmarshal(b, &schema); err != nil {
			return err
		}
		each(schema, nil, func(at pointer, node any) {
			if set, ok := node.([]any); ok && at[len(at)-1] == "enum" {
				described[path+" "+at.String()] = set
			}
			if member, ok := node.(map[string]any); ok && member["pattern"] == growing {
				described[path+" "+at.String()], _ = member["examples"].([]any)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for at, words := range described {
		switch set := keyOf(words); {
		case strings.Contains(at, "openapi #/components/responses/"): // error codes: TestDocumentCodes
		case strings.HasSuffix(at, "/propertyNames/enum"): // names of members
		case foreign[at] != "":
			delete(foreign, at)
		case parts[at] != "":
			if !within(set, code) {
				t.Errorf("%s: no set in the code has all of its words; %s", at, nearest(set, code))
			}
			delete(parts, at)
		case code[set] == nil:
			t.Errorf("%s: no set in the code has these words and no others; %s", at, nearest(set, code))
		}
	}
	maps.Copy(parts, foreign)
	for at := range parts {
		t.Errorf("%s: there is no such set", at)
	}
}

// within reports whether one of the sets has all words of set.
func within(set string, all map[string][]string) bool {
	for other := range all {
		have := strings.Fields(other)
		if !slices.ContainsFunc(strings.Fields(set), func(w string) bool { return !slices.Contains(have, w) }) {
			return true
		}
	}
	return false
}

// nearest says by which words a set differs from the one in the code that is most like it.
func nearest(set string, all map[string][]string) string {
	words, best, least := strings.Fields(set), "none is like "+set, 0
	for _, other := range slices.Sorted(maps.Keys(all)) {
		have := strings.Fields(other)
		more, less := without(words, have), without(have, words)
		if n := len(more) + len(less); len(more) < len(words) && (least == 0 || n < least) {
			least, best = n, fmt.Sprintf("the nearest is %s: only described %v, only in the code %v", all[other][0], more, less)
		}
	}
	return best
}

// without returns the words that the other list does not have.
func without(words, other []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(other, w) })
}

func keyOf[T any](words []T) string {
	var out []string
	for _, w := range words {
		if text := fmt.Sprint(w); text != "" { // the zero value is no word
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

// sources are the packages that write or read the words of the contracts.
var sources = []string{
	".", "internal/consumer", "internal/consumer/booking", "internal/consumer/bot", "internal/consumer/discovery", "internal/consumer/guest",
	"internal/consumer/hotel", "internal/consumer/telemetry", "internal/consumer/consumerguard", "internal/consumer/consumerhttp",
	"internal/consumer/consumerupstream", "internal/useragent", "internal/cache", "internal/backoffice", "internal/backoffice/action", "internal/backoffice/audit",
	"internal/backoffice/board", "internal/backoffice/device", "internal/backoffice/identity", "internal/backoffice/inbox", "internal/backoffice/lock",
	"internal/backoffice/stream", "internal/backoffice/backofficeguard", "internal/backoffice/backofficehttp", "internal/backoffice/backofficehttp",
}

// codeSets returns the sets of words in the code, each with the places that have
// it: the string constants of one type or one block, lists of strings, and the
// words that web.Input is asked for.
func codeSets(t *testing.T) map[string][]string {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	for _, dir := range sources {
		names, err := filepath.Glob(filepath.Join("..", "..", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
	}
	c := collector{fset: fset, constants: map[string]string{}, sets: map[string][]string{}}
	for _, f := range files {
		c.readConstants(f)
	}
	for _, f := range files {
		ast.Inspect(f, c.readLists)
	}
	c.readTables()
	return c.sets
}

type collector struct {
	fset      *token.FileSet
	constants map[string]string   // by name; consumer.SortPriceAsc is SortPriceAsc
	sets      map[string][]string // places by set
}

func (c *collector) add(at ast.Node, words []string) {
	if len(words) > 1 {
		c.sets[keyOf(words)] = append(c.sets[keyOf(words)], c.fset.Position(at.Pos()).String())
	}
}

// readTables adds what is named by the rows of a table: widgets, and the transitions of
// each resource.
func (c *collector) readTables() {
	tables := map[string][]string{}
	for _, w := range board.Widgets() {
		tables["board.Widgets"] = append(tables["board.Widgets"], string(w.ID))
	}
	for _, a := range backoffice.Actions() {
		if a.Transition {
			tables["backoffice.Actions, "+a.Pattern()] = append(tables["backoffice.Actions, "+a.Pattern()], a.Verb())
		}
	}
	for name, words := range tables {
		c.sets[keyOf(words)] = append(c.sets[keyOf(words)], name)
	}
}

// readConstants adds the strings of each constant block, all of them and those of
// one type.
func (c *collector) readConstants(f *ast.File) {
	for _, decl := range f.Decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		byType := map[string][]string{}
		var all []string
		for _, spec := range block.Specs {
			spec := spec.(*ast.ValueSpec)
			for i, name := range spec.Names {
				if i >= len(spec.Values) {
					continue
				}
				word, ok := c.word(spec.Values[i])
				if !ok {
					continue
				}
				c.constants[name.Name] = word
				all = append(all, word)
				if typ, ok := spec.Type.(*ast.Ident); ok {
					byType[typ.Name] = append(byType[typ.Name], word)
				}
			}
		}
		c.add(block, all)
		for _, words := range byType {
			c.add(block, words)
		}
	}
}

// readLists adds lists of strings, and what Enum and Enums are called with.
func (c *collector) readLists(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CompositeLit:
		if _, list := n.Type.(*ast.ArrayType); list {
			c.add(n, c.words(n.Elts))
		}
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(f.Sel.Name, "Enum") && len(n.Args) > 2 {
			c.add(n, c.words(n.Args[1:]))
		}
	}
	return true
}

// words returns the strings among the expressions.
func (c *collector) words(in []ast.Expr) []string {
	var out []string
	for _, e := range in {
		if w, ok := c.word(e); ok {
			out = append(out, w)
		}
	}
	return out
}

func (c *collector) word(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		w, err := strconv.Unquote(e.Value)
		return w, e.Kind == token.STRING && err == nil
	case *ast.Ident:
		w, ok := c.constants[e.Name]
		return w, ok
	case *ast.SelectorExpr:
		return c.word(e.Sel)
	case *ast.KeyValueExpr:
		return c.word(e.Value)
	case *ast.CallExpr: // string(SortPriceAsc)
		if f, ok := e.Fun.(*ast.Ident); ok && f.Name == "string" {
			return c.word(e.Args[0])
		}
	}
	return "", false
}
