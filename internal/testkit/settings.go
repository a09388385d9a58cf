package testkit

import (
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/local/platform"
)

// secret is what the name of a setting ends with that must not be seen. A site key is
// shown to every browser.
var secret = regexp.MustCompile(`(^|[^e]-)(keys?|pepper|password|token|postgres-url|migrate-url|redis-[a-z]+-url)$`)

// CheckSettings looks at every setting of a service's configuration: it can be given
// in the environment, its help says what it does, and a secret is a daemon.Secret.
func CheckSettings(t *testing.T, config any) {
	t.Helper()
	for _, f := range reflect.VisibleFields(reflect.TypeOf(config)) {
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name := f.Tag.Get("name")
		if name == "" || f.Tag.Get("env") == "" || f.Tag.Get("help") == "" {
			t.Errorf("%s: a setting needs name, env and help", f.Name)
		}
		kind := f.Type
		if kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		if secret.MatchString(name) && kind != reflect.TypeFor[daemon.Secret]() {
			t.Errorf("%s: is a %s, want a daemon.Secret", name, f.Type)
		}
	}
}

var writeDocs = flag.Bool("write-docs", false, "write pages and files that are made from the programs anew")

// CheckSection compares a service's section of a page in docs with what the service
// says of itself, as seen from a package two folders below internal.
func CheckSection(t *testing.T, page, want string) {
	t.Helper()
	name := "../../../docs/" + page
	all, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	heading, _, _ := strings.Cut(want, "\n")
	begin := strings.Index(string(all), heading+"\n")
	if begin < 0 {
		t.Fatalf("docs/%s has no section %q", page, heading)
	}
	end := len(all)
	if next := strings.Index(string(all[begin+1:]), "\n## "); next >= 0 {
		end = begin + 1 + next
	}
	CheckFile(t, name, string(all[:begin])+strings.TrimRight(want, "\n")+"\n"+string(all[end:]))
}

// CheckFile compares a file that is made from the programs with what they say.
func CheckFile(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err == nil && string(got) == want {
		return
	}
	if !*writeDocs {
		t.Errorf(
			"%s is stale: run go test -p 1 ./internal/consumer/consumerd ./internal/backoffice/backofficed -run 'Described$' -write-docs",
			strings.TrimPrefix(name, "../../../"),
		)
		return
	}
	if err := os.WriteFile(name, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}

// CheckMetricKinds compares the kinds of metrics in docs/metrics.md with those that a
// process reports.
func CheckMetricKinds(t *testing.T, reported string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(reported, -1) {
		if name, kind := m[1], m[2]; !regexp.MustCompile(`^(go|process)_`).MatchString(name) && !strings.Contains(string(page), "| `"+name+"` | "+kind+" |") {
			t.Errorf("docs/metrics.md has no %s %s", kind, name)
		}
	}
}

// nowhere is the environment of a service whose servers are all away.
func nowhere(t *testing.T) map[string]string {
	t.Helper()
	const away = "127.0.0.1:1"
	secrets, err := platform.NewSecrets(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	env, err := platform.Places{
		Name: "test", PostgresURL: "postgres://" + away + "/x", RedisURL: "redis://" + away, PubSubHost: away, PubSubProject: "test",
		SimURL: "http://" + away, Secrets: secrets,
	}.Environment()
	if err != nil {
		t.Fatal(err)
	}
	env["MELMASTOON_BACKOFFICE_URL"] = "http://" + away
	env["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://" + away
	return env
}

// SetNowhere sets the environment of a service whose servers are all away: enough to
// wire it up.
func SetNowhere(t *testing.T) {
	t.Helper()
	for name, value := range nowhere(t) {
		t.Setenv(name, value)
	}
}

// SetManifest sets the environment that a manifest in deploy gives a service, with
// secrets of its own.
func SetManifest(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open("../../../deploy/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	secrets := nowhere(t)
	set := 0
	for d := yaml.NewDecoder(f); ; {
		var o struct {
			Data map[string]string // of a ConfigMap
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Env []struct {
								Name, Value string
								ValueFrom   any `yaml:"valueFrom"`
							}
						}
					}
				}
			}
		}
		if err := d.Decode(&o); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for name, value := range o.Data {
			t.Setenv(name, value)
			set++
		}
		for _, c := range o.Spec.Template.Spec.Containers {
			for _, v := range c.Env {
				if v.ValueFrom != nil {
					v.Value = secrets[v.Name]
				}
				t.Setenv(v.Name, v.Value)
				set++
			}
		}
	}
	if set == 0 {
		t.Fatalf("%s sets nothing", name)
	}
}

// CheckAges holds the tables that migrations make to "What grows" of docs/operations.md: each is
// there, and the jobs that end its rows are jobs.
func CheckAges(t *testing.T, files fs.FS, jobs []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### What grows")
	section, _, _ = strings.Cut(section, "\n## ")
	word := regexp.MustCompile("`([a-z_.-]+)`")
	ages := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| (.+) \| .+ \| (.+) \|$`).FindAllStringSubmatch(section, -1) {
		for _, table := range word.FindAllStringSubmatch(row[1], -1) {
			ages[table[1]] = row[2]
		}
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range regexp.MustCompile(`(?m)^CREATE TABLE (\w+\.\w+) `).FindAllStringSubmatch(string(text), -1) {
			age, ok := ages[table[1]]
			if !ok {
				t.Errorf("docs/operations.md does not say what ends the rows of %s", table[1])
			}
			for _, job := range word.FindAllStringSubmatch(age, -1) {
				if !slices.Contains(jobs, job[1]) {
					t.Errorf("docs/operations.md: rows of %s end by %s, which is no job", table[1], job[1])
				}
			}
		}
	}
}

// CheckJobs compares a service's jobs with the table of docs/operations.md, as seen
// from a package two folders below internal.
func CheckJobs(t *testing.T, service string, jobs []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `"+service+" jobs ([a-z-]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = true
	}
	for _, job := range jobs {
		if !documented[job] {
			t.Errorf("docs/operations.md has no row for `%s jobs %s`", service, job)
		}
		delete(documented, job)
	}
	for job := range documented {
		t.Errorf("docs/operations.md has a row for `%s jobs %s`, which is no job", service, job)
	}
}
