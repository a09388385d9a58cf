package archtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestDecisionsHaveOneForm: numbered without a gap, and all four parts in order.
func TestDecisionsHaveOneForm(t *testing.T) {
	t.Parallel()
	const dir = "../../docs/decisions"
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		if want := fmt.Sprintf("%04d-", i+1); !strings.HasPrefix(f.Name(), want) {
			t.Errorf("%s: want number %s", f.Name(), want)
		}
		b, err := os.ReadFile(path.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		rest := string(b)
		for _, part := range []string{fmt.Sprintf("# %d. ", i+1), "\n**Status:** ", "\n## Context\n", "\n## Decision\n", "\n## Consequences\n"} {
			_, after, ok := strings.Cut(rest, part)
			if !ok {
				t.Errorf("%s lacks %q, or has it in another order", f.Name(), part)
			}
			rest = after
		}
	}
}

// TestDocumentsNameTestsThatExist: a document that says "held by TestX" is true
// only while there is a TestX.
func TestDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	declared, named := regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+|Benchmark\w+)\(`), regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w+)`")
	have, want := map[string]bool{}, map[string]string{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if passOver(root, name) {
				return fs.SkipDir
			}
			return nil
		}
		test, doc := strings.HasSuffix(name, "_test.go"), path.Ext(name) == ".md" && name != "CHANGELOG.md"
		if !test && !doc {
			return nil
		}
		b, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if test {
			for line := range bytes.Lines(b) { // the expression alone would take seconds
				if !bytes.HasPrefix(line, []byte("func ")) {
					continue
				}
				if m := declared.FindSubmatch(line); m != nil {
					have[string(m[1])] = true
				}
			}
			return nil
		}
		for _, m := range named.FindAllSubmatch(b, -1) {
			want[string(m[1])] = name
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for test, doc := range want {
		if !have[test] {
			t.Errorf("%s names %s, which does not exist", doc, test)
		}
	}
}
