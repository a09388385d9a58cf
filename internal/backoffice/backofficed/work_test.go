package backofficed

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// A process that serves has neither the role of jobs nor the keys and the lake of the audit; another has these, and nothing
// that requests need. Events are published and every job is run by the second.
func TestJobsInAProcessOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := &staff{t: t, World: testkit.NewWorld(t, func(p *platform.Places) { p.LakeURL = "file://" + t.TempDir() })}
	s.run("migrate")
	requests, jobs := s.as(migrations.BackofficeApp), s.as(migrations.BackofficeJobs)
	p := s.Start("bff-backoffice", map[string]string{
		"BFF_BACKOFFICE_JOBS": "off", "BFF_BACKOFFICE_NO_RELAY": "true", "BFF_BACKOFFICE_POSTGRES_POOLER": "transaction",
		"BFF_BACKOFFICE_JOBS_POSTGRES_URL": "", "BFF_BACKOFFICE_LAKE_URL": "", "BFF_BACKOFFICE_AUDIT_KEYS": "",
	})
	if got := status(t, "http://"+p.Public+"/nothing"); got != http.StatusNotFound {
		t.Errorf("an unknown route: %d", got)
	}
	svc, err := platform.NewService("bff-backoffice", false)
	if err != nil {
		t.Fatal(err)
	}
	env := s.Env()
	for _, name := range []string{"POSTGRES_URL", "PEPPER", "NONCE_KEYS", "SYNC_KEYS", "REDIS_CACHE_URL", "IAM_URL", "RESERVATION_URL", "PUBLIC_URLS"} {
		env["BFF_BACKOFFICE_"+name] = ""
	}
	env["MELMASTOON_INTERNAL_HMAC_KEY"], env["MELMASTOON_INTERNAL_TOKEN"] = "", ""
	lines := s.tail()
	worker, err := svc.Start([]string{testkit.Binary(t, "bff-backoffice"), "work"}, platform.Pairs(env), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(worker.Kill)
	if err := worker.AwaitReady(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	s.arrives(lines, s.add(requests))
	want := len(Identity().Jobs) + 1 // that of lock actions
	ctx := testkit.Context(t)
	testkit.Until(t, "every job was run", func() bool {
		var ran int
		if err := jobs.QueryRow(ctx, `SELECT count(*) FROM bff_backoffice.job_runs WHERE error = ''`).Scan(&ran); err != nil {
			t.Fatal(err)
		}
		return ran >= want
	})
}

// What a process may leave out depends on what it leaves to others.
func TestWorkOfOthersNeedsNoSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		want string // part of the error; empty = it is accepted
	}{
		"all of it":     {map[string]string{"BFF_BACKOFFICE_JOBS": "off", "BFF_BACKOFFICE_NO_RELAY": "true"}, ""},
		"jobs alone":    {map[string]string{"BFF_BACKOFFICE_JOBS": "off"}, "BFF_BACKOFFICE_JOBS_POSTGRES_URL: is required"},
		"relaying":      {map[string]string{"BFF_BACKOFFICE_NO_RELAY": "true"}, "BFF_BACKOFFICE_JOBS_POSTGRES_URL: is required"},
		"nothing of it": {nil, "BFF_BACKOFFICE_LAKE_URL: is required"},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.SetManifest(t, "kubernetes/serve/bff-backoffice")
			for _, name := range []string{"BFF_BACKOFFICE_JOBS", "BFF_BACKOFFICE_NO_RELAY"} {
				value := tc.env[name]
				if value == "" {
					value = map[string]string{"BFF_BACKOFFICE_JOBS": "on", "BFF_BACKOFFICE_NO_RELAY": "false"}[name]
				}
				t.Setenv(name, value)
			}
			_, err := service.Parse(Identity(), &commands{}, []string{"serve"})
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// A lake is not written without credentials, wherever its address says.
func TestLakeAtAnEndpoint(t *testing.T) {
	testkit.SetManifest(t, "kubernetes/work/bff-backoffice")
	t.Setenv("BFF_BACKOFFICE_LAKE_URL", "gs://lake?endpoint=http://127.0.0.1:4443")
	if _, err := service.Parse(
		Identity(), &commands{}, []string{"work"},
	); err == nil || !strings.Contains(err.Error(), "BFF_BACKOFFICE_LAKE_URL: endpoint is for tests") {
		t.Errorf("a lake at an endpoint: %v", err)
	}
}
