package testkit

import (
	"flag"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/daemon"
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

var writeDocs = flag.Bool("write-docs", false, "write docs/settings.md anew")

// CheckSettingsPage compares a service's section of docs/settings.md with what its
// settings say of themselves.
func CheckSettingsPage(t *testing.T, want string) {
	t.Helper()
	const page = "../../../docs/settings.md"
	all, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	heading, _, _ := strings.Cut(want, "\n")
	begin := strings.Index(string(all), heading+"\n")
	if begin < 0 {
		t.Fatalf("docs/settings.md has no section %q", heading)
	}
	end := len(all)
	if next := strings.Index(string(all[begin+1:]), "\n## "); next >= 0 {
		end = begin + 1 + next
	}
	if got := strings.TrimRight(string(all[begin:end]), "\n"); got == strings.TrimRight(want, "\n") {
		return
	}
	if !*writeDocs {
		t.Error("docs/settings.md is stale: run go test -p 1 ./internal/consumer/consumerd ./internal/backoffice/backofficed -run TestSettingsAreDescribed -write-docs")
		return
	}
	if err := os.WriteFile(page, []byte(string(all[:begin])+want+string(all[end:])), 0o600); err != nil {
		t.Fatal(err)
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
