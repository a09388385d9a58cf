// Package alerts_test holds the alert rules and the runbooks to the code: every
// rule is tested, has a runbook, and both name only metrics and log messages that
// exist.
package alerts_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

const (
	root     = "../.."
	runbooks = root + "/docs/runbooks"
	bookURL  = "https://docs.melmastoon.ghasi.io/runbooks/"
	testMark = ".test.yaml"
)

type rule struct {
	Alert, Record, Expr string
	Labels, Annotations map[string]string
}

// rules returns the rules of all files here.
func rules(t *testing.T) []rule {
	t.Helper()
	var all []rule
	for _, name := range files(t, false) {
		var f struct{ Groups []struct{ Rules []rule } }
		readYAML(t, name, &f)
		for _, g := range f.Groups {
			all = append(all, g.Rules...)
		}
	}
	if len(all) == 0 {
		t.Fatal("no rules")
	}
	return all
}

func files(t *testing.T, tests bool) []string {
	t.Helper()
	names, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(s string) bool { return strings.HasSuffix(s, testMark) != tests })
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	promtool := testkit.Promtool(t)
	for _, args := range [][]string{
		append([]string{"check", "rules"}, files(t, false)...),
		append([]string{"test", "rules"}, files(t, true)...),
	} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Env = append(os.Environ(), "GOGC=400") // a third of its time would go into garbage of little size
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// A rule that no test makes fire may never fire.
func TestEveryAlertFiresInATest(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, name := range files(t, true) {
		var f struct {
			Tests []struct {
				PromqlExprTest []struct {
					ExpSamples []struct{ Labels string } `yaml:"exp_samples"`
				} `yaml:"promql_expr_test"`
			}
		}
		readYAML(t, name, &f)
		for _, test := range f.Tests {
			for _, e := range test.PromqlExprTest {
				for _, s := range e.ExpSamples {
					text.WriteString(s.Labels)
				}
			}
		}
	}
	for _, r := range rules(t) {
		if r.Alert != "" && !strings.Contains(text.String(), strconv.Quote(r.Alert)) {
			t.Errorf("%s: no test makes it fire", r.Alert)
		}
	}
}

func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	books, err := filepath.Glob(runbooks + "/*.md")
	if err != nil || len(books) == 0 {
		t.Fatalf("no runbooks: %v", err)
	}
	for _, b := range books {
		known[filepath.Base(b)] = true
	}
	used := map[string]bool{}
	for _, r := range rules(t) {
		if r.Alert == "" {
			continue
		}
		book, ok := strings.CutPrefix(r.Annotations["runbook_url"], bookURL)
		if !ok || !known[book] {
			t.Errorf("%s: there is no runbook %q", r.Alert, r.Annotations["runbook_url"])
			continue
		}
		used[book] = true
		if r.Annotations["summary"] == "" || r.Labels["severity"] != "page" && r.Labels["severity"] != "ticket" {
			t.Errorf("%s: lacks a summary, or a severity of page or ticket", r.Alert)
		}
		text := read(t, filepath.Join(runbooks, book))
		if !strings.Contains(text, "`"+r.Alert+"`") {
			t.Errorf("%s: its runbook %s does not speak of it", r.Alert, book)
		}
	}
	// The others are reached from an error's code.
	var registry struct{ Codes []struct{ Runbook string } }
	raw := read(t, root+"/contracts/errors/registry.json")
	if err := json.Unmarshal([]byte(raw), &registry); err != nil {
		t.Fatal(err)
	}
	for _, e := range registry.Codes {
		used[filepath.Base(e.Runbook)] = true
	}
	for b := range known {
		if !used[b] {
			t.Errorf("%s: no alert and no error leads to it", b)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// sources are the string literals of the program: those of files that declare
// metrics, and all.
type sources struct{ metrics, all map[string]bool }

func literals(t *testing.T) sources {
	t.Helper()
	found := sources{map[string]bool{}, map[string]bool{}}
	set := token.NewFileSet()
	err := filepath.WalkDir(root+"/internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		declares := slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == `"github.com/prometheus/client_golang/prometheus"`
		})
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			if s, err := strconv.Unquote(lit.Value); err == nil {
				found.all[s] = true
				found.metrics[s] = found.metrics[s] || declares
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// exists reports whether the program declares a metric of this name.
func (s sources) exists(name string) bool {
	for _, series := range []string{"", "_bucket", "_count", "_sum"} {
		declared, ok := strings.CutSuffix(name, series)
		if !ok {
			continue
		}
		for _, namespace := range []string{"", "bff_consumer_", "bff_backoffice_"} {
			short, ok := strings.CutPrefix(declared, namespace)
			if ok && s.metrics[short] {
				return true
			}
			if part, isOutbox := strings.CutPrefix(short, "outbox_"); ok && isOutbox && s.metrics[part] {
				return true
			}
		}
	}
	return false
}

// ours are names of metrics that can only be the services' own.
var ours = regexp.MustCompile(`\b(bff_(?:consumer|backoffice)_[a-z0-9_]+|service_ready|listener_[a-z_]+)\b`)

// notBuilt marks runbooks of what is planned.
const notBuilt = "**Not built yet.**"

func TestRulesAndRunbooksNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	known := literals(t)
	recorded := map[string]bool{}
	for _, r := range rules(t) {
		recorded[r.Record] = true
	}
	check := func(where, text string) {
		t.Helper()
		for _, name := range ours.FindAllString(text, -1) {
			if !known.exists(name) {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
		for _, name := range regexp.MustCompile(`\bbff_(?:consumer|backoffice):[a-z0-9_:]+`).FindAllString(text, -1) {
			if !recorded[name] {
				t.Errorf("%s: there is no recorded series %s", where, name)
			}
		}
	}
	for _, r := range rules(t) {
		check(r.Alert+r.Record, r.Expr)
	}
	books, _ := filepath.Glob(runbooks + "/*.md")
	for _, b := range books {
		text := read(t, b)
		if strings.Contains(text, notBuilt) {
			continue
		}
		if strings.Contains(text, "bff_…") {
			t.Errorf("%s: names of metrics are written out, so that they can be pasted and checked", b)
		}
		check(b, text)
	}
	if known.exists("bff_consumer_nonsense_total") || !known.exists("bff_consumer_outbox_lag_seconds") ||
		!known.exists("bff_consumer_request_duration_seconds_bucket") {
		t.Error("the check itself is wrong")
	}
}

// Log messages stand in runbooks as one greps for them: "msg":"…".
func TestRunbooksNameLogMessagesThatExist(t *testing.T) {
	t.Parallel()
	known := literals(t)
	message := regexp.MustCompile(`"msg":"([^"]*)"`)
	books, _ := filepath.Glob(runbooks + "/*.md")
	seen := 0
	for _, b := range books {
		for _, m := range message.FindAllStringSubmatch(read(t, b), -1) {
			seen++
			if !known.all[m[1]] {
				t.Errorf("%s: nothing logs %q", b, m[1])
			}
		}
	}
	if seen < 5 {
		t.Errorf("only %d log messages in all runbooks", seen)
	}
}
