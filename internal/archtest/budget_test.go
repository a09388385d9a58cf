package archtest

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// budgets are the most lines that each wing may have (decisions/0017). They are
// lowered when a wing has shrunk, and raised by a decision alone.
var budgets = map[string]int{
	"product":                    44_850, // both services, the language, the hand-off
	"machinery":                  30_180, // the other packages of internal/
	"one machine and test tools": 23_800,
	"tests":                      86_850,
	"web/storefront":             1_800, // lines of TypeScript from here on
	"web/desk":                   2_000,
	"web/console":                1_300,
	"web/kit":                    620,
}

// wing is the part of the house that a file belongs to; empty = none that has a budget.
func wing(name string) string {
	within := func(dirs ...string) bool {
		for _, d := range dirs {
			if strings.HasPrefix(name, d+"/") {
				return true
			}
		}
		return false
	}
	switch {
	case within("web") && strings.HasPrefix(path.Ext(name), ".ts"):
		return path.Dir(name)
	case path.Ext(name) != ".go" || within("tools"):
		return ""
	case strings.HasSuffix(name, "_test.go"):
		return "tests"
	case within("internal/local", "internal/testkit", "internal/desk", "internal/archtest", "internal/world", "cmd/melmastoon"):
		return "one machine and test tools"
	case within("internal/consumer", "internal/backoffice", "handoff", "cmd/bff-consumer", "cmd/bff-backoffice") || !strings.Contains(name, "/"):
		return "product"
	case within("internal"):
		return "machinery"
	}
	return ""
}

// Lines are a cost: a wing that has outgrown its budget first looks for what can go.
func TestLinesStayWithinTheirBudgets(t *testing.T) {
	t.Parallel()
	lines := map[string]int{}
	goFiles(t, func(name string, src []byte) { lines[wing(name)] += bytes.Count(src, []byte("\n")) })
	for name, most := range budgets {
		t.Logf("%s: %d of %d", name, lines[name], most)
		if got := lines[name]; got > most || got < most*9/10 {
			t.Errorf("%s: %d lines, the budget is %d; one that has shrunk by a tenth takes its budget along", name, got, most)
		}
	}
}

// goFiles hands out every Go file of a wing.
func goFiles(t *testing.T, each func(name string, src []byte)) {
	t.Helper()
	root, files := os.DirFS("../.."), 0
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && passOver(root, name):
			return fs.SkipDir
		case d.IsDir() || wing(name) == "":
			return nil
		}
		src, err := fs.ReadFile(root, name)
		files++
		each(name, src)
		return err
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files: %v", files, err)
	}
}
