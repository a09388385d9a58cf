package deploy_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestTerraformKeepsMessages: a week on topics, two for dead letters, and rights on single
// topics alone.
func TestTerraformKeepsMessages(t *testing.T) {
	t.Parallel()
	text := read(t, "terraform/main.tf")
	resource := func(kind, name string) string {
		_, after, _ := strings.Cut(text, `resource "`+kind+`" "`+name+`" {`)
		body, _, _ := strings.Cut(after, "\n}\n")
		return body
	}
	for _, want := range []struct{ kind, name, line string }{
		{"google_pubsub_topic", "own", `message_retention_duration = contains(local.dead_letters, each.key) ? "1209600s" : "604800s"`},
		{"google_pubsub_subscription", "dead_letters", `message_retention_duration = "1209600s"`},
	} {
		if !strings.Contains(resource(want.kind, want.name), want.line) {
			t.Errorf("%s.%s lacks %s", want.kind, want.name, want.line)
		}
	}
	if strings.Contains(text, "google_project_iam") {
		t.Error("a right on the whole project")
	}
}

// TestTerraform: every name is declared, and of the generated lists every member is
// used and every used one is there.
func TestTerraform(t *testing.T) {
	t.Parallel()
	text := read(t, "terraform/main.tf")
	if strings.Count(text, "{") != strings.Count(text, "}") || strings.Count(text, "[") != strings.Count(text, "]") ||
		strings.Count(text, "(") != strings.Count(text, ")") {
		t.Error("brackets do not match")
	}
	for _, m := range regexp.MustCompile(`\b(var|local)\.([a-z_]+)`).FindAllStringSubmatch(text, -1) {
		declared := `(?m)^variable "` + m[2] + `" \{$`
		if m[1] == "local" {
			declared = `(?m)^  ` + m[2] + ` += `
		}
		if !regexp.MustCompile(declared).MatchString(text) {
			t.Errorf("%s is not declared", m[0])
		}
	}
	for _, m := range regexp.MustCompile(`\b(google_[a-z_]+)\.([a-z_]+)`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(text, `"`+m[1]+`" "`+m[2]+`" {`) {
			t.Errorf("there is no %s", m[0])
		}
	}
	// A head that only its own database and bucket have proves nothing against their administrators.
	for _, want := range []string{`"melmastoon.bff.backoffice.audit.sealed.v1"`, "cloud_storage_config", "is_locked        = true"} {
		if !strings.Contains(text, want) {
			t.Errorf("the signed heads of the audit are not kept: there is no %s", want)
		}
	}
	members := map[string]bool{}
	for _, file := range files(t, "terraform/*.json") {
		var list struct {
			Topics, Sources []string
			Subscriptions   []map[string]any
		}
		if err := json.Unmarshal([]byte(read(t, file)), &list); err != nil || len(list.Topics) == 0 || len(list.Sources) == 0 {
			t.Fatalf("%s: %v", file, err)
		}
		for _, s := range list.Subscriptions {
			for name := range s {
				members[name] = true
			}
		}
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`(try\()?\bs\.([a-zA-Z]+)`).FindAllStringSubmatch(text, -1) {
		used[m[2]] = true
		if m[1] == "" && !members[m[2]] {
			t.Errorf("no subscription has %s", m[2])
		}
	}
	for name := range members {
		if !used[name] {
			t.Errorf("%s of subscriptions is not used", name)
		}
	}
}
