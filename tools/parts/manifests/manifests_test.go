// Package manifests_test holds deploy/kubernetes and deploy/cloudrun to the types and rules of Kubernetes and Knative themselves.
package manifests_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	_ "knative.dev/serving/config/core/300-resources" // the schema of what Cloud Run is told
	"sigs.k8s.io/yaml"
)

const deploy = "../../../deploy/"

// documents are those of the files that a pattern names.
func documents(t *testing.T, pattern string) (all []string) {
	t.Helper()
	names, err := filepath.Glob(deploy + pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.Split(string(raw), "\n---\n")...)
	}
	return all
}

// decode reads a document as the API server does with strict validation: a field that there is not, one that stands twice, or a value of
// another type is an error.
func decode(document string) (any, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		return nil, err
	}
	object, ok := map[string]any{
		"apps/v1 Deployment": &appsv1.Deployment{}, "batch/v1 Job": &batchv1.Job{}, "v1 ConfigMap": &corev1.ConfigMap{}, "v1 Service": &corev1.Service{},
		"v1 ServiceAccount": &corev1.ServiceAccount{}, "autoscaling/v2 HorizontalPodAutoscaler": &autoscalingv2.HorizontalPodAutoscaler{},
		"policy/v1 PodDisruptionBudget": &policyv1.PodDisruptionBudget{}, "networking.k8s.io/v1 NetworkPolicy": &networkingv1.NetworkPolicy{},
	}[kind.APIVersion+" "+kind.Kind]
	if !ok {
		return nil, fmt.Errorf("unknown kind %s %s", kind.APIVersion, kind.Kind)
	}
	return object, yaml.UnmarshalStrict([]byte(document), object)
}

// podOf is the pod that an object makes, if it makes one.
func podOf(object any) *corev1.PodTemplateSpec {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	}
	return nil
}

// restricted lists what the pod security standard of that name has against a pod.
func restricted(t *testing.T, pod *corev1.PodTemplateSpec) (against []string) {
	t.Helper()
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range checks.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		if !r.Allowed {
			against = append(against, r.ForbiddenReason+": "+r.ForbiddenDetail)
		}
	}
	return against
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	pods := 0
	for _, document := range documents(t, "kubernetes/*/bff-*.yaml") {
		object, err := decode(document)
		if err != nil {
			t.Errorf("%.60s…: %v", document, err)
			continue
		}
		pod := podOf(object)
		if pod == nil {
			continue
		}
		pods++
		if against := restricted(t, pod); len(against) > 0 {
			t.Errorf("%s: %v", pod.Labels["app"], against)
		}
		for _, c := range pod.Spec.Containers {
			if ro := c.SecurityContext.ReadOnlyRootFilesystem; ro == nil || !*ro || pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
				t.Errorf("%s may write to its root, or call the API server", c.Name)
			}
			for what, value := range map[string]string{
				"memory": c.Resources.Limits.Memory().String(), "CPU": c.Resources.Requests.Cpu().String(),
			} {
				if value == "0" {
					t.Errorf("%s: says nothing of %s", c.Name, what)
				}
			}
		}
	}
	if pods != 5 { // two that serve, two that migrate, one that works
		t.Errorf("%d kinds of pods", pods)
	}
}

// TestRefused: each of these mistakes is found.
func TestRefused(t *testing.T) {
	t.Parallel()
	var deployment string
	for _, d := range documents(t, "kubernetes/serve/bff-consumer.yaml") {
		if strings.Contains(d, "\nkind: Deployment\n") {
			deployment = d
		}
	}
	for _, mistake := range [][2]string{
		{"readinessProbe:", "readynessProbe:"},
		{"spec:\n", "spec:\n  replicas: three\n"},
		{"runAsNonRoot: true", "runAsNonRoot: false"},
		{"drop: [ALL]", "drop: [NET_RAW]"},
		{"allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"},
		{"type: RuntimeDefault", "type: Unconfined"},
		{"automountServiceAccountToken: false", "hostNetwork: true"},
		{"memory: 512Mi", "memory: much"},
		{"apiVersion: apps/v1", "apiVersion: apps/v2"},
		{"automountServiceAccountToken: false", "automountServiceAccountToken: false\n      automountServiceAccountToken: false"},
	} {
		changed := strings.Replace(deployment, mistake[0], mistake[1], 1)
		if changed == deployment {
			t.Errorf("%s: not there", mistake[0])
			continue
		}
		object, err := decode(changed)
		if err == nil && len(restricted(t, podOf(object))) == 0 {
			t.Errorf("%q passes", mistake[1])
		}
	}
}

// node is a part of a schema.
type node struct {
	Type       string
	Properties map[string]*node
	Items      *node
	Additional json.RawMessage `json:"additionalProperties"`
	Required   []string
	Any        bool `json:"x-kubernetes-preserve-unknown-fields"`
	IntString  bool `json:"x-kubernetes-int-or-string"`
}

// check reports where a value is not as a schema says.
func check(at string, n *node, value any) (wrong []string) {
	ok := true
	switch v := value.(type) {
	case map[string]any:
		if n.Type != "object" && !n.Any {
			return []string{at + ": an object, want " + n.Type}
		}
		for _, name := range n.Required {
			if _, ok := v[name]; !ok {
				wrong = append(wrong, at+"."+name+": missing")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			child, known := n.Properties[name]
			var each node
			switch {
			case known:
				wrong = append(wrong, check(at+"."+name, child, v[name])...)
			case n.Any || len(n.Properties) == 0 && len(n.Additional) == 0:
			case len(n.Additional) > 0 && json.Unmarshal(n.Additional, &each) == nil:
				wrong = append(wrong, check(at+"."+name, &each, v[name])...)
			default:
				wrong = append(wrong, at+"."+name+": unknown")
			}
		}
	case []any:
		if n.Type != "array" || n.Items == nil {
			return []string{at + ": a list, want " + n.Type}
		}
		for i, item := range v {
			wrong = append(wrong, check(fmt.Sprintf("%s[%d]", at, i), n.Items, item)...)
		}
	case string:
		ok = n.Type == "string" || n.IntString
	case bool:
		ok = n.Type == "boolean"
	case float64:
		ok = n.Type == "integer" && v == float64(int64(v)) || n.Type == "number" || n.IntString
	}
	if !ok {
		wrong = append(wrong, fmt.Sprintf("%s: %v, want %s", at, value, n.Type))
	}
	return wrong
}

// TestCloudRun: the services are what Knative's schema says. Google's annotations and limits are not in it.
func TestCloudRun(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "knative.dev/serving").Output()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(out)), "config/core/300-resources/service.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct{ OpenAPIV3Schema *node }
			}
		}
	}
	if err := yaml.Unmarshal(raw, &crd); err != nil || crd.Spec.Versions[0].Name != "v1" {
		t.Fatalf("%v, %+v", err, crd)
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	wrong := func(document string) []string {
		var value map[string]any
		if err := yaml.UnmarshalStrict([]byte(document), &value); err != nil {
			return []string{err.Error()}
		}
		delete(value, "metadata") // of every object, and not in the schema
		return check("", schema, value)
	}
	all := append(documents(t, "cloudrun/*.yaml"), documents(t, "cloudrun/*/*.yaml")...)
	for _, document := range all {
		if w := wrong(document); len(w) > 0 || !strings.Contains(document, "apiVersion: serving.knative.dev/v1\nkind: Service\n") {
			t.Errorf("%.60s…: %v", document, w)
		}
		if images := regexp.MustCompile(`image: (\S+)`).FindAllStringSubmatch(document, -1); len(images) == 0 || slices.ContainsFunc(images, func(m []string) bool {
			return !strings.Contains(m[1], "@sha256:")
		}) {
			t.Errorf("%.60s…: images %v are not named by digest", document, images)
		}
	}
	for _, mistake := range [][2]string{
		{"containerConcurrency:", "containerConcurency:"}, {"timeoutSeconds: ", "timeoutSeconds: very "}, {"containers:", "containers: none\n      container:"},
	} {
		if changed := strings.Replace(all[0], mistake[0], mistake[1], 1); changed == all[0] || len(wrong(changed)) == 0 {
			t.Errorf("%s passes, or is not there", mistake[1])
		}
	}
}
