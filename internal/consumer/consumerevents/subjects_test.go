package consumerevents_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
)

// TestSubjectsListsEverySubject compares Subjects with the constants of its type
// and with what the payloads' Subject methods return: a subject that is missing in
// the list has no topic, no schema test and no sampling.
func TestSubjectsListsEverySubject(t *testing.T) {
	t.Parallel()
	declared, returned := map[string]string{}, []string{}
	var files []string
	for _, pattern := range []string{"../*.go", "../*/*.go"} { // constants in the kernel, payloads in the rooms
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if typ, ok := n.Type.(*ast.Ident); !ok || typ.Name != "Subject" || len(n.Values) != 1 {
					return true
				}
				if lit, ok := n.Values[0].(*ast.BasicLit); ok {
					word, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					declared[n.Names[0].Name] = word
				}
			case *ast.FuncDecl:
				if n.Recv == nil || n.Name.Name != "Subject" || len(n.Body.List) != 1 {
					return true
				}
				if ret, ok := n.Body.List[0].(*ast.ReturnStmt); ok {
					if s, ok := ret.Results[0].(*ast.SelectorExpr); ok {
						returned = append(returned, s.Sel.Name)
					}
				}
			}
			return true
		})
	}
	var listed, constants, methods []string
	for _, s := range consumer.Subjects() {
		listed = append(listed, string(s))
	}
	for _, word := range declared {
		constants = append(constants, word)
	}
	for _, name := range returned {
		methods = append(methods, declared[name])
	}
	slices.Sort(listed)
	for what, have := range map[string][]string{"constants": constants, "Subject methods": methods} {
		slices.Sort(have)
		if diff := cmp.Diff(listed, have); diff != "" {
			t.Errorf("%s (-Subjects() +declared):\n%s", what, diff)
		}
	}
}

// TestDocumentedEvents holds the tables of docs/events.md to the code.
func TestDocumentedEvents(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	const prefix = "melmastoon.bff.consumer."
	var want, wantReceived, got, gotReceived []string
	for _, s := range consumer.Subjects() {
		share, kept := "all", "90 days"
		if rate := consumer.DefaultRate(s); rate != 1 {
			share = fmt.Sprint(rate)
		}
		if s.Retention() == bff.RetentionAudit {
			kept = "1 year, audit"
		}
		want = append(want, strings.Join([]string{strings.TrimPrefix(string(s), prefix), share, kept}, " | "))
	}
	for _, s := range consumerevents.Subscriptions() {
		wantReceived = append(wantReceived, strings.Join([]string{s.Name, s.Topic, strconv.Itoa(s.MaxAttempts)}, " | "))
	}
	own, _, _ := strings.Cut(string(b), "## What the staff service publishes")
	for line := range strings.Lines(own) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) < 4 || !strings.HasPrefix(cells[0], "`"):
		case strings.HasPrefix(cells[0], "`bff-consumer."):
			gotReceived = append(gotReceived, strings.ReplaceAll(strings.Join(cells[:3], " | "), "`", ""))
		default:
			for subject := range strings.SplitSeq(cells[0], " · ") {
				got = append(got, strings.Join([]string{strings.Trim(subject, "`"), cells[2], cells[3]}, " | "))
			}
		}
	}
	for _, list := range [][]string{want, wantReceived, got, gotReceived} {
		slices.Sort(list)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-code +docs/events.md):\n%s", diff)
	}
	if diff := cmp.Diff(wantReceived, gotReceived); diff != "" {
		t.Errorf("subscriptions (-code +docs/events.md):\n%s", diff)
	}
	if count := fmt.Sprintf("%d subjects under `%s*`", len(want), prefix); !strings.Contains(string(b), count) {
		t.Errorf("docs/events.md does not say %q", count)
	}
}
