// Package deploy_test holds what a deployment is made of to the programs: images,
// manifests, Terraform and dashboards name only settings, ports and metrics that exist.
// What the services say of themselves is read from the pages that their own tests keep.
package deploy_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
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

// metric is what docs/metrics.md says of one.
type metric struct {
	kind   string
	labels []string
}

func metricsOf(t *testing.T, service string) map[string]metric {
	t.Helper()
	all := map[string]metric{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([^|]*) \\|").FindAllStringSubmatch(section(t, "metrics.md", service), -1) {
		labels := regexp.MustCompile("[a-z_]+").FindAllString(m[3], -1)
		all[m[1]] = metric{m[2], append(labels, "job", "instance")} // those of every scrape
		if m[2] == "histogram" {
			all[m[1]+"_bucket"] = metric{"bucket", append(slices.Clone(labels), "le")}
			all[m[1]+"_count"], all[m[1]+"_sum"] = metric{"counter", labels}, metric{"counter", labels}
		}
	}
	return all
}

var (
	series   = regexp.MustCompile(`\b(?:bff_(?:consumer|backoffice)_[a-z0-9_]+|service_ready|listener_[a-z_]+|trace_[a-z_]+)\b(?:\{([^}]*)\})?`)
	recorded = regexp.MustCompile(`\bbff_(?:consumer|backoffice):[a-z0-9_:]+`)
	grouping = regexp.MustCompile(`\bby \(([^)]*)\)`)
	matcher  = regexp.MustCompile(`([a-z_]+)(?:=~|!=|!~|=)"`)
)

// checkQuery reports what a query names that there is not.
func checkQuery(t *testing.T, where, expr string, known map[string]metric, rules string) {
	t.Helper()
	labels := map[string]bool{}
	for _, m := range series.FindAllStringSubmatch(expr, -1) {
		name, _, _ := strings.Cut(m[0], "{")
		found, ok := known[name]
		if !ok || found.kind == "histogram" {
			t.Errorf("%s: there is no series %s", where, name)
		}
		if rated := strings.Contains(expr, "rate("+name); rated != (found.kind == "counter" || found.kind == "bucket") {
			t.Errorf("%s: %s is a %s", where, name, found.kind)
		}
		for _, l := range found.labels {
			labels[l] = true
		}
		for _, l := range matcher.FindAllStringSubmatch(m[1], -1) {
			if !slices.Contains(found.labels, l[1]) {
				t.Errorf("%s: %s has no label %s", where, name, l[1])
			}
		}
	}
	for _, name := range recorded.FindAllString(expr, -1) {
		if !strings.Contains(rules, "record: "+name+"\n") {
			t.Errorf("%s: no rule records %s", where, name)
		}
	}
	for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(by[1], ", ") {
			if !labels[l] {
				t.Errorf("%s: nothing in it has a label %s", where, l)
			}
		}
	}
}

func TestDashboards(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	for _, f := range files(t, "alerts/*-slo.yaml") {
		rules.WriteString(read(t, f))
	}
	for _, file := range files(t, "grafana/*.json") {
		type query struct{ Expr string }
		var board struct {
			UID         string
			Annotations struct{ List []query }
			Panels      []struct {
				ID      int
				Type    string
				Title   string
				Targets []query
			}
		}
		if err := json.Unmarshal([]byte(read(t, file)), &board); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		known := metricsOf(t, serviceOf(file))
		if board.UID != serviceOf(file) || len(board.Panels) < 30 || len(known) < 50 {
			t.Errorf("%s: uid %s, %d panels, %d metrics", file, board.UID, len(board.Panels), len(known))
		}
		seen := map[int]bool{}
		for _, p := range board.Panels {
			where := filepath.Base(file) + ": " + p.Title
			if seen[p.ID] || p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: has no query, or the id of another", where)
			}
			seen[p.ID] = true
			for _, q := range p.Targets {
				checkQuery(t, where, q.Expr, known, rules.String())
			}
		}
		for _, q := range board.Annotations.List {
			checkQuery(t, "annotations", q.Expr, known, rules.String())
		}
	}
}

// variable is an environment variable of a container.
type variable struct {
	Name, Value string
	ValueFrom   struct {
		SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
	} `yaml:"valueFrom"`
}

type probe struct {
	HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds    int                         `yaml:"periodSeconds"`
	FailureThreshold int                         `yaml:"failureThreshold"`
}

type container struct {
	Name, Image string
	Args        []string
	Env         []variable
	EnvFrom     []struct {
		SecretRef struct{ Name string } `yaml:"secretRef"`
	} `yaml:"envFrom"`
	Ports []struct {
		Name          string
		ContainerPort string `yaml:"containerPort"`
	}
	StartupProbe   probe `yaml:"startupProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
	Resources      struct{ Limits map[string]string }
}

// object is a document of Kubernetes or of Cloud Run.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		PodSelector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ingress     []struct {
			Ports []struct{ Port string }
			From  []map[string]any
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace           int `yaml:"terminationGracePeriodSeconds"`
				SecurityContext struct {
					NonRoot bool `yaml:"runAsNonRoot"`
				} `yaml:"securityContext"`
				ServiceAccountName string `yaml:"serviceAccountName"`
				Volumes            []struct {
					Secret struct {
						SecretName string `yaml:"secretName"`
					}
				}
				Containers []container
			}
		}
	}
}

func objects(t *testing.T, file string) []object {
	t.Helper()
	var all []object
	for d := yaml.NewDecoder(strings.NewReader(read(t, file))); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, o)
	}
}

// environment is what a file sets: literals, and the names of secrets.
func environment(all []object) (literals map[string]string, secrets []string) {
	literals = map[string]string{}
	for _, o := range all {
		maps.Copy(literals, o.Data)
		for _, c := range o.Spec.Template.Spec.Containers {
			for _, v := range c.Env {
				if v.ValueFrom.SecretKeyRef.Name != "" {
					secrets = append(secrets, v.Name)
				} else {
					literals[v.Name] = v.Value
				}
			}
		}
	}
	return literals, secrets
}

// TestManifestsNameSettings: what no service reads would be ignored without a word, and
// a secret must not stand in a manifest.
func TestManifestsNameSettings(t *testing.T) {
	t.Parallel()
	for _, file := range slices.Concat(files(t, "kubernetes/*/bff-*.yaml"), files(t, "cloudrun/*.yaml"), files(t, "cloudrun/*/*.yaml")) {
		settings := section(t, "settings.md", serviceOf(file))
		check := func(name string, secret bool) {
			row := regexp.MustCompile("(?m)^\\| `" + name + "`.*").FindString(settings)
			if row == "" {
				t.Errorf("%s: %s is no setting of %s", file, name, serviceOf(file))
			} else if strings.Contains(row, "**Secret.**") != secret {
				t.Errorf("%s: %s: secrets are referred to, and nothing else is", file, name)
			}
		}
		literals, secrets := environment(objects(t, file))
		for name := range literals {
			check(name, false)
		}
		for _, name := range secrets {
			check(name, true)
		}
		if len(secrets) < 2 {
			t.Errorf("%s: %d secrets", file, len(secrets))
		}
	}
}

// image is named by its digest, by the manifest or its kustomization.
var image = regexp.MustCompile(`^(registry\.example\.org/bff-[a-z]+@sha256:DIGEST|bff-[a-z]+)$`)

func port(address string) string { return address[strings.LastIndexByte(address, ':')+1:] }

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestManifestsServe: ports are those of the listeners, probes ask the admin listener,
// and a stop has the time that it needs.
func TestManifestsServe(t *testing.T) {
	t.Parallel()
	for _, file := range append(files(t, "kubernetes/serve/bff-*.yaml"), files(t, "cloudrun/*.yaml")...) {
		cloudRun := strings.HasPrefix(file, "cloudrun/")
		all := objects(t, file)
		env, _ := environment(all)
		prefix := strings.ToUpper(strings.ReplaceAll(serviceOf(file), "-", "_"))
		admin := port(env[prefix+"_ADMIN_LISTEN"])
		served := 0
		for _, o := range all {
			for _, c := range o.Spec.Template.Spec.Containers {
				served++
				if !slices.Equal(c.Args, []string{"serve"}) || !image.MatchString(c.Image) || !strings.Contains(c.Image, serviceOf(file)) || c.Resources.Limits["memory"] == "" {
					t.Errorf("%s: %s %v, limits %v", file, c.Image, c.Args, c.Resources.Limits)
				}
				ports := map[string]string{}
				for _, p := range c.Ports {
					ports[p.Name] = p.ContainerPort
				}
				ready, delay, budget, grace := c.ReadinessProbe, duration(t, env["MELMASTOON_DRAIN_DELAY"]), duration(t, env["MELMASTOON_DRAIN_BUDGET"]), o.Spec.Template.Spec.Grace
				if cloudRun {
					ready, grace = c.StartupProbe, 10 // it has no other time
					if open, internal := env[prefix+"_LISTEN"], port(env[prefix+"_INTERNAL_LISTEN"]); ports["http1"] != internal && open != "" ||
						ports["http1"] == internal && port(open) == internal {
						t.Errorf("%s: requests come to %s, and it listens at %s", file, ports["http1"], open)
					}
					ports["admin"] = admin
				} else {
					if ports["public"] != port(env[prefix+"_LISTEN"]) || ports["internal"] != port(env[prefix+"_INTERNAL_LISTEN"]) || ports["admin"] != admin {
						t.Errorf("%s: ports %v are not those of the listeners", file, ports)
					}
					if !o.Spec.Template.Spec.SecurityContext.NonRoot {
						t.Errorf("%s: may run as root", file)
					}
					if notices := time.Duration(ready.PeriodSeconds*ready.FailureThreshold) * time.Second; notices >= delay {
						t.Errorf("%s: the probe notices after %s, the listeners close after %s", file, notices, delay)
					}
				}
				if time.Duration(grace)*time.Second <= budget {
					t.Errorf("%s: a stop may take %s, and is given %d s", file, budget, grace)
				}
				for name, want := range map[string]probe{"/ready": ready, "/health": c.LivenessProbe} {
					if at := want.HTTPGet.Port; want.HTTPGet.Path != name || at != admin && ports[at] != admin {
						t.Errorf("%s: a probe asks %s at %s, want %s at %s", file, want.HTTPGet.Path, at, name, admin)
					}
				}
			}
		}
		if served != 1 {
			t.Errorf("%s: %d containers serve", file, served)
		}
	}
}

// TestNetworkPolicies: each port of each pod is reached by those that are named, and the
// admin port from one namespace.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "kubernetes/*/bff-*.yaml") {
		all := objects(t, file)
		for _, pod := range all {
			if len(pod.Spec.Template.Spec.Containers) == 0 {
				continue
			}
			i := slices.IndexFunc(all, func(o object) bool {
				return o.Kind == "NetworkPolicy" && o.Spec.PodSelector.MatchLabels["app"] != "" &&
					o.Spec.PodSelector.MatchLabels["app"] == pod.Spec.Template.Metadata.Labels["app"]
			})
			if i < 0 || !slices.Contains(all[i].Spec.PolicyTypes, "Ingress") {
				t.Errorf("%s: no policy for the pods of %s %s", file, pod.Kind, pod.Metadata.Name)
				continue
			}
			var open, ports []string
			for _, rule := range all[i].Spec.Ingress {
				if len(rule.From) == 0 || len(rule.Ports) == 0 {
					t.Errorf("%s: a rule lets everything in", file)
				}
				for _, p := range rule.Ports {
					open = append(open, p.Port)
					for _, from := range rule.From {
						if _, namespaced := from["namespaceSelector"]; namespaced != (p.Port == "admin") {
							t.Errorf("%s: %s is reached from %v", file, p.Port, from)
						}
					}
				}
			}
			for _, c := range pod.Spec.Template.Spec.Containers {
				for _, p := range c.Ports {
					ports = append(ports, p.Name)
				}
			}
			slices.Sort(open)
			slices.Sort(ports)
			if !slices.Equal(open, ports) {
				t.Errorf("%s: the pods listen at %v, and %v are open", file, ports, open)
			}
		}
	}
}

// TestManifestsTrustLittle: a trusted proxy chooses the address that limits see, and a tag
// can be moved.
func TestManifestsTrustLittle(t *testing.T) {
	t.Parallel()
	for _, file := range append(files(t, "kubernetes/serve/bff-*.yaml"), files(t, "cloudrun/*.yaml")...) {
		env, _ := environment(objects(t, file))
		prefix := strings.ToUpper(strings.ReplaceAll(serviceOf(file), "-", "_"))
		for proxies := range strings.SplitSeq(env[prefix+"_TRUSTED_PROXIES"], ",") {
			p, err := netip.ParsePrefix(proxies)
			if err != nil || p.Bits() < 16 || p.Addr().IsPrivate() {
				t.Errorf("%s: trusts the proxies %q, %v", file, proxies, err)
			}
		}
		if env["MELMASTOON_PROFILES"] != "" {
			t.Errorf("%s: shows profiles", file)
		}
	}
	for _, file := range files(t, "kubernetes/*/kustomization.yaml") {
		if text := read(t, file); strings.Contains(text, "newTag") || strings.Count(text, "digest:") != strings.Count(text, "newName:") {
			t.Errorf("%s: names an image by its tag", file)
		}
	}
}

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

// privileged is what only the process that publishes and runs jobs may have: with it, whoever breaks into a pod that serves
// requests could rewrite the audit and sign it.
var privileged = regexp.MustCompile(`JOBS_POSTGRES_URL|MIGRATE_URL|AUDIT_KEYS|LAKE_URL|WAREHOUSE_URL`)

// TestServingPodsCanNotSign: what serves the staff's requests has none of the secrets and accounts of the process that
// seals the audit, and leaves its work to it; that process is there, for each platform.
func TestServingPodsCanNotSign(t *testing.T) {
	t.Parallel()
	for serves, works := range map[string]string{
		"kubernetes/serve/bff-backoffice.yaml": "kubernetes/work/bff-backoffice.yaml",
		"cloudrun/bff-backoffice.yaml":         "cloudrun/work/bff-backoffice.yaml",
	} {
		serving, working := objects(t, serves), objects(t, works)
		env, secrets := environment(serving)
		for _, name := range append(slices.Collect(maps.Keys(env)), secrets...) {
			if privileged.MatchString(name) {
				t.Errorf("%s: what serves has %s", serves, name)
			}
		}
		if env["BFF_BACKOFFICE_JOBS"] != "off" || env["BFF_BACKOFFICE_NO_RELAY"] != "true" {
			t.Errorf("%s: jobs %q, no relay %q", serves, env["BFF_BACKOFFICE_JOBS"], env["BFF_BACKOFFICE_NO_RELAY"])
		}
		given, own := held(serving), held(working)
		for name := range own.secrets {
			if strings.Contains(name, "keys") || strings.Contains(name, "work") || strings.Contains(name, "jobs") {
				if given.secrets[name] {
					t.Errorf("%s: what serves has the secret %s", serves, name)
				}
				own.only++
			}
		}
		if own.only == 0 || len(given.accounts) != 1 || len(own.accounts) != 1 || given.accounts[0] == own.accounts[0] {
			t.Errorf("%s and %s: %d secrets of its own, accounts %v and %v", serves, works, own.only, given.accounts, own.accounts)
		}
		for _, c := range own.containers {
			if !slices.Equal(c.Args, []string{"work"}) || c.Resources.Limits["memory"] == "" || c.LivenessProbe.HTTPGet.Path != "/health" {
				t.Errorf("%s: %v, limits %v, probe %s", works, c.Args, c.Resources.Limits, c.LivenessProbe.HTTPGet.Path)
			}
		}
		env, secrets = environment(working)
		for _, name := range []string{"BFF_BACKOFFICE_NONCE_KEYS", "BFF_BACKOFFICE_PEPPER", "BFF_BACKOFFICE_SYNC_KEYS", "BFF_BACKOFFICE_POSTGRES_URL"} {
			if _, ok := env[name]; ok || slices.Contains(secrets, name) {
				t.Errorf("%s: what works has %s of what serves", works, name)
			}
		}
	}
}

// holdings are what the pods of a file get.
type holdings struct {
	secrets    map[string]bool
	accounts   []string
	containers []container
	only       int
}

func held(all []object) holdings {
	h := holdings{secrets: map[string]bool{}}
	for _, o := range all {
		pod := o.Spec.Template.Spec
		if len(pod.Containers) > 0 {
			h.accounts = append(h.accounts, pod.ServiceAccountName)
		}
		for _, v := range pod.Volumes {
			h.secrets[v.Secret.SecretName] = true
		}
		for _, c := range pod.Containers {
			h.containers = append(h.containers, c)
			for _, v := range c.Env {
				h.secrets[v.ValueFrom.SecretKeyRef.Name] = true
			}
			for _, from := range c.EnvFrom {
				h.secrets[from.SecretRef.Name] = true
			}
		}
	}
	delete(h.secrets, "")
	return h
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
