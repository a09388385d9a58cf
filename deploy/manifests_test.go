package deploy_test

import (
	"errors"
	"io"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

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

// privileged is what only the process that publishes and runs jobs may have: with it, an attacker in a pod that serves
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
