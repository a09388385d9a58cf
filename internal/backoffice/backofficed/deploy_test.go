package backofficed

import (
	"bytes"
	"testing"

	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestMetricsAreDescribed wires the service up as serve does and starts nothing: a
// metric is registered before its first series is reported.
func TestMetricsAreDescribed(t *testing.T) {
	testkit.SetNowhere(t)
	var cli commands
	if _, err := service.Parse(Identity(), &cli, []string{"serve"}); err != nil {
		t.Fatal(err)
	}
	p := service.NewProcess(Identity(), cli.Serve.Settings.Settings, cli.Serve.AdminSettings)
	if err := cli.Serve.assemble(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	testkit.CheckMetrics(t, p.Name, p.Metrics)
}

func TestTopicsAreDescribed(t *testing.T) {
	t.Parallel()
	var list bytes.Buffer
	if err := service.WriteTopics(&list, Identity()); err != nil {
		t.Fatal(err)
	}
	testkit.CheckFile(t, "../../../deploy/terraform/"+Identity().Name+".json", list.String())
}

// TestManifestsAreComplete: the service's own rules accept what each manifest sets.
func TestManifestsAreComplete(t *testing.T) {
	for manifest, command := range map[string]string{
		"kubernetes/serve/bff-backoffice": "serve", "kubernetes/migrate/bff-backoffice": "migrate", "cloudrun/bff-backoffice": "serve",
		"kubernetes/work/bff-backoffice": "work", "cloudrun/work/bff-backoffice": "work",
	} {
		t.Run(manifest, func(t *testing.T) {
			testkit.SetManifest(t, manifest)
			if _, err := service.Parse(Identity(), &commands{}, []string{command}); err != nil {
				t.Error(err)
			}
		})
	}
}
