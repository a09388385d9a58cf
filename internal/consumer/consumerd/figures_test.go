package consumerd_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestAlertsSpeakOfMetrics holds the rules to what a process reports before it has
// had a visitor: a metric that appears with its first failure makes a rule miss that
// failure. Those that depend on labels of a request or a fault are named here. After a
// visit the process reports all that the specification names.
func TestAlertsSpeakOfMetrics(t *testing.T) {
	t.Parallel()
	later := []string{"request_total", "request_duration_seconds_bucket", "request_duration_seconds_count", "errors_total", "outbox_topic_down"}
	w := testkit.NewWorld(t, nil)
	p := w.Start("bff-consumer", nil)
	figures := figuresOf(t, p)
	if !strings.Contains(figures, "\nbff_consumer_outbox_depth 0") || !strings.Contains(figures, "\nbff_consumer_outbox_leader 1") {
		t.Errorf("figures:\n%s", figures)
	}
	names := regexp.MustCompile(`\b(?:bff_consumer_[a-z0-9_]+|service_ready|listener_[a-z_]+)`)
	checked := map[string]bool{}
	for _, file := range []string{"consumer.yaml", "consumer-slo.yaml"} {
		raw, err := os.ReadFile("../../../deploy/alerts/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var rules struct {
			Groups []struct {
				Rules []struct{ Alert, Record, Expr string }
			}
		}
		if err := yaml.Unmarshal(raw, &rules); err != nil {
			t.Fatal(err)
		}
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				for _, name := range names.FindAllString(r.Expr, -1) {
					checked[name] = true
					if slices.Contains(later, strings.TrimPrefix(name, "bff_consumer_")) {
						continue
					}
					if !strings.Contains(figures, "\n"+name+" ") && !strings.Contains(figures, "\n"+name+"{") {
						t.Errorf("%s%s speaks of %s, which is not reported", r.Alert, r.Record, name)
					}
				}
			}
		}
	}
	if len(checked) < 20 {
		t.Errorf("only %d figures in the rules", len(checked))
	}
	checkSpecified(t, w, p)
}

// figuresOf reads the metrics of a process, once it leads the outbox.
func figuresOf(t *testing.T, p *platform.Process) (figures string) {
	t.Helper()
	ctx := testkit.Context(t)
	until(t, "the outbox is measured", func() bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Admin+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		figures = string(b)
		return strings.Contains(figures, "\nbff_consumer_outbox_lag_seconds ")
	})
	return figures
}

// checkSpecified: a process that a guest has visited reports all that the
// specification names.
func checkSpecified(t *testing.T, w *testkit.World, p *platform.Process) {
	t.Helper()
	ctx := testkit.Context(t)
	v := &visitor{base: "http://" + p.Public}
	for path, want := range map[string]int{
		"/hotels/" + w.Sim.Catalog().Properties[0].PropertyID: http.StatusOK, "/hotels/nonsense": http.StatusBadRequest,
	} {
		if a, err := v.try(ctx, http.MethodGet, path, nil, nil); err != nil || a.status != want {
			t.Fatalf("%s: %d %v", path, a.status, err)
		}
	}
	figures := figuresOf(t, p)
	testkit.CheckMetricKinds(t, figures)
	for name := range strings.FieldsSeq(`request_total request_duration_seconds_count request_inflight errors_total redis_pool_inuse postgres_pool_inuse postgres_connections
		outbox_depth outbox_lag_seconds circuit_breaker_state cache_hit_total cache_miss_total singleflight_followers_total
		handoff_mint_total handoff_consume_total bot_verdict_total rate_limited_total upstream_retries_total upstream_hedges_total build_info`) {
		if name = "\nbff_consumer_" + name; !strings.Contains(figures, name+" ") && !strings.Contains(figures, name+"{") {
			t.Errorf("%s is not reported", strings.TrimSpace(name))
		}
	}
	for _, tier := range []string{"session", "cache"} {
		line := regexp.MustCompile(`\nbff_consumer_redis_pool_inuse\{tier="` + tier + `"\} [1-9]`)
		if !line.MatchString(figures) {
			t.Errorf("no connections of the %s tier", tier)
		}
	}
}

// TestTail watches a click as a developer would, and leaves nothing behind.
func TestTail(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	w := testkit.NewWorld(t, nil)
	p := w.Start("bff-consumer", nil)
	cmd := exec.CommandContext(ctx, testkit.Binary(t, "bff-consumer"), "events", "tail", "--subject", "click", "--subject", "page")
	cmd.Env = append(os.Environ(), platform.Pairs(w.Env())...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	notes, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(notes).ReadString('\n'); err != nil || !strings.Contains(line, "listening to 2 topics") {
		t.Fatalf("%q %v", line, err)
	}
	v := &visitor{base: "http://" + p.Public}
	hotel := w.Sim.Catalog().Properties[0]
	v.ask(t, http.StatusOK, "GET", "/session", nil)
	v.ask(t, http.StatusAccepted, "POST", "/telemetry/click", map[string]any{"kind": "brand-peek", "tenantId": hotel.TenantID})
	lines := bufio.NewReader(out)
	head, err := lines.ReadString('\n')
	if err != nil || !strings.HasSuffix(head, fmt.Sprintf(" melmastoon.bff.consumer.click.recorded.v1 %s\n", v.cookie)) {
		t.Fatalf("%q %v", head, err)
	}
	var body bytes.Buffer
	for !strings.HasSuffix(body.String(), "\n  }\n") {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		body.WriteString(line)
	}
	if !strings.Contains(body.String(), `    "kind": "brand-peek"`) || strings.Contains(body.String(), "\x1b") {
		t.Errorf("%q", body.String())
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest := make(chan error, 1)
	go func() { rest <- cmd.Wait() }()
	select {
	case err := <-rest:
		if err != nil {
			t.Errorf("Ctrl-C: %v", err)
		}
	case <-testkit.Context(t).Done():
		t.Error("Ctrl-C did not end it")
	}
}
