// Package deploy_test holds what a deployment is made of to the programs: images,
// manifests, Terraform and dashboards name only settings, ports and metrics that exist.
// What the services say of themselves is read from the pages that their own tests keep.
package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	return names
}

// serviceOf is the service that a file is about.
func serviceOf(file string) string {
	if strings.Contains(filepath.Base(file), "backoffice") {
		return "bff-backoffice"
	}
	return "bff-consumer"
}

// section is a service's part of a page.
func section(t *testing.T, page, service string) string {
	t.Helper()
	_, after, ok := strings.Cut(read(t, "../docs/"+page), "\n## "+service+"\n")
	if !ok {
		t.Fatalf("%s has no section %s", page, service)
	}
	before, _, _ := strings.Cut(after, "\n## ")
	return before
}

// TestContainerfile: images hold what tools/build makes, and run it as a user without
// rights.
func TestContainerfile(t *testing.T) {
	t.Parallel()
	text := read(t, "Containerfile")
	build := regexp.MustCompile(`(?m)^RUN (tools/build .*)$`).FindStringSubmatch(text)
	makefile := read(t, "../Makefile")
	if build == nil || !strings.Contains(makefile, "\t@"+build[1]+"\n") || strings.Contains(text, "go build") {
		t.Errorf("the image is not built as `make build` builds: %v", build)
	}
	programs := map[string]bool{}
	for _, name := range files(t, "../cmd/*") {
		programs[filepath.Base(name)] = true
	}
	for _, m := range regexp.MustCompile(`/src/bin/([a-z-]+)`).FindAllStringSubmatch(text, -1) {
		if !programs[m[1]] {
			t.Errorf("there is no program %s", m[1])
		}
	}
	for name := range programs {
		if !strings.Contains(text, " AS "+name+"\n") || !strings.Contains(text, `ENTRYPOINT ["/`+name+`"]`) {
			t.Errorf("%s has no image", name)
		}
	}
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))[1]
	if !strings.Contains(
		text, "ARG GO_IMAGE=golang:"+language+"\nFROM ${GO_IMAGE} AS build\n",
	) || !strings.Contains(text, "FROM scratch AS base\n") || !strings.Contains(text, "USER 65532:65532\n") {
		t.Errorf("want Go %s, nothing below the programs, and a user without rights", language)
	}
}

// TestPartsAreTried: each part that is not ours has a command in the Makefile that tries
// it, and says what it leaves untried.
func TestPartsAreTried(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(read(t, "../docs/operations.md"), "| Part | Tried | By | Not tried |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	targets := regexp.MustCompile("`make ([a-z-]+)`")
	rows, makefile := strings.Split(table, "\n")[1:], read(t, "../Makefile")
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 4 || !targets.MatchString(cells[2]) {
			t.Errorf("%q: want a part, how it is tried, by which command and what is not tried", row)
			continue
		}
		for _, m := range targets.FindAllStringSubmatch(cells[2], -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: there is no make %s", cells[0], m[1])
			}
		}
	}
	if len(rows) < 11 {
		t.Errorf("%d parts", len(rows))
	}
}

// TestDrillsAreRun: each script for an emergency is run by a drill, and a runbook names it.
func TestDrillsAreRun(t *testing.T) {
	t.Parallel()
	var runbooks strings.Builder
	for _, file := range files(t, "../docs/runbooks/*.md") {
		runbooks.WriteString(read(t, file))
	}
	drills := read(t, "drills/drills_test.go")
	for _, file := range files(t, "drills/*-*") {
		name := filepath.Base(file)
		if !strings.Contains(runbooks.String(), "`deploy/drills/"+name+"`") || !strings.Contains(drills, `"`+name+`"`) {
			t.Errorf("%s is in no runbook, or no drill runs it", name)
		}
	}
}
