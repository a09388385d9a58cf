package backofficed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/doctor"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// careless is a deployment that says production and is none: each value is set, and none
// of them protects anything.
func careless(t *testing.T) map[string]string {
	t.Helper()
	testkit.SetNowhere(t)
	same := func(n int) string { return strings.Repeat("a", n) }
	set := map[string]string{
		"MELMASTOON_ENV":                   "production",
		"BFF_BACKOFFICE_PEPPER":            same(16),
		"BFF_BACKOFFICE_NONCE_KEYS":        same(16),
		"BFF_BACKOFFICE_SYNC_KEYS":         same(32),
		"BFF_BACKOFFICE_AUDIT_KEYS":        "k1:" + strings.Repeat("A", 43) + "=",
		"MELMASTOON_INTERNAL_HMAC_KEY":     same(40),
		"BFF_BACKOFFICE_LIMITS":            "session=60000000,read=60000000,auth=60000000,ip=1000000,fingerprint=1000000",
		"BFF_BACKOFFICE_POSTGRES_URL":      "postgres://bff_backoffice_app@db.example.org/bff?sslmode=disable",
		"BFF_BACKOFFICE_JOBS_POSTGRES_URL": "postgres://bff_backoffice_jobs@db.example.org/bff?sslmode=disable",
		"BFF_BACKOFFICE_REDIS_SESSION_URL": "redis://sessions.example.org:6379",
		"BFF_BACKOFFICE_REDIS_CACHE_URL":   "redis://cache.example.org:6379",
	}
	for name := range new(UpstreamSettings).urls() {
		set["BFF_BACKOFFICE_"+strings.ToUpper(string(name))+"_URL"] = "http://" + string(name) + "-service"
	}
	for name, value := range set {
		t.Setenv(name, value)
	}
	return set
}

// TestCarelessDeploymentIsRefused: every weak secret, every limit that limits nothing and
// every connection without TLS is named, by serve, check and doctor, and each once.
func TestCarelessDeploymentIsRefused(t *testing.T) {
	set := careless(t)
	delete(set, "MELMASTOON_ENV")
	delete(set, "BFF_BACKOFFICE_LIMITS")
	want := []string{
		"BFF_BACKOFFICE_LIMITS: session is above", "BFF_BACKOFFICE_LIMITS: read is above", "BFF_BACKOFFICE_LIMITS: auth is above",
		"BFF_BACKOFFICE_LIMITS: ip is above", "BFF_BACKOFFICE_LIMITS: fingerprint is above",
	}
	for name := range set {
		reason := ": can be guessed"
		switch {
		case strings.Contains(name, "POSTGRES_URL"):
			reason = ": may lead over the network without TLS"
		case strings.HasSuffix(name, "_URL"):
			reason = ": leads over the network without TLS"
		}
		want = append(want, name+reason)
	}
	_, err := service.Parse(Identity(), &commands{}, []string{"serve"})
	if err == nil {
		t.Fatal("serve starts")
	}
	for _, w := range want {
		if n := strings.Count("\n"+err.Error(), "\n"+w); n != 1 {
			t.Errorf("serve: %q is there %d times", w, n)
		}
	}
	for _, command := range []string{"check", "doctor"} {
		var cli commands
		parsed, err := service.Parse(Identity(), &cli, []string{command})
		if err != nil {
			t.Fatal(err)
		}
		wrong := cli.Check.subject().Wrong
		if command == "doctor" {
			wrong = cli.Doctor.subject().Wrong
		}
		named := map[string]int{}
		if _, err := parsed.Call(func(env *daemon.Environment) {
			for _, p := range env.Problems(wrong) {
				named[p.Variable]++
			}
		}); err != nil {
			t.Fatal(err)
		}
		for name := range set {
			if named[name] != 1 {
				t.Errorf("%s: %s is named %d times", command, name, named[name])
			}
		}
	}
}

// TestPlaintextIsNamed: TLS can be left to the network, and iam is not meant by the rest.
func TestPlaintextIsNamed(t *testing.T) {
	careless(t)
	t.Setenv("MELMASTOON_PLAINTEXT", "redis,postgres,upstreams")
	_, err := service.Parse(Identity(), &commands{}, []string{"serve"})
	if err == nil || strings.Count(err.Error(), "without TLS") != 1 || !strings.Contains(err.Error(), "BFF_BACKOFFICE_IAM_URL: leads") {
		t.Errorf("want only iam named: %v", err)
	}
	t.Setenv("MELMASTOON_PLAINTEXT", "redis,postgres,upstreams,iam")
	if _, err := service.Parse(Identity(), &commands{}, []string{"serve"}); err == nil || strings.Contains(err.Error(), "without TLS") {
		t.Errorf("all are opted out of: %v", err)
	}
}

// TestDoctorLooksAtAuditKeys: a file's keys are read, and one that can be guessed is found.
func TestDoctorLooksAtAuditKeys(t *testing.T) {
	t.Parallel()
	for want, line := range map[doctor.Verdict]string{
		doctor.OK:    "k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
		doctor.Wrong: "k1:" + strings.Repeat("A", 43) + "=",
	} {
		file := filepath.Join(t.TempDir(), "audit")
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Config{LakeSettings: LakeSettings{AuditKeysFile: file}}
		found, err := c.auditKeys(t.Context())
		if err != nil || len(found) != 1 || found[0].Verdict != want {
			t.Errorf("%+v, %v", found, err)
		}
	}
}
