package backofficed

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.yaml.in/yaml/v3"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// figures are the metrics of a process, once they have all of the texts.
func (s *staff) figures(p *platform.Process, texts ...string) (out string) {
	s.t.Helper()
	testkit.Until(s.t, fmt.Sprintf("metrics have %q", texts), func() bool {
		out = string(read(s.t, "http://"+p.Admin+"/metrics"))
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(out, text) })
	})
	return out
}

// reported says whether there is a series of a metric.
func reported(figures, name string) bool {
	return strings.Contains(figures, "\n"+name+" ") || strings.Contains(figures, "\n"+name+"{")
}

// TestFigures holds a real process to what the specification wants measured, to what the
// alerts speak of, and to the platform's flags.
func TestFigures(t *testing.T) {
	t.Parallel()
	s := &staff{t: t, World: testkit.NewWorld(t, nil)}
	p := s.Start("bff-backoffice", map[string]string{"BFF_BACKOFFICE_LIMITS": "off", "BFF_BACKOFFICE_METRIC_TENANTS": "1"})
	s.alertsSpeakOf(s.figures(p, "\nbff_backoffice_outbox_lag_seconds ", "\nbff_backoffice_job_last_success_timestamp_seconds{"))

	d := s.newDesk(p, nil)
	s.signIn(d, "parwana")
	who := s.whoAmI(d)
	s.fetch(d, "/dashboard?propertyId="+who.PropertyScope[0], new(map[string]any))
	s.do(d, http.StatusNotFound, http.MethodGet, "/nothing", nil)
	s.do(d, http.StatusBadRequest, http.MethodGet, "/dashboard", nil)
	figures := s.figures(p)
	testkit.CheckMetricKinds(t, figures)
	// backoffice.md §9.
	for name := range strings.FieldsSeq(`request_total request_duration_seconds_count request_inflight errors_total redis_pool_inuse redis_pool_total
		postgres_pool_inuse postgres_pool_total postgres_connections outbox_depth outbox_lag_seconds circuit_breaker_state cache_hit_total cache_miss_total
		singleflight_followers_total dashboard_partial_total lock_action_total mfa_attestation_total dpop_replay_blocked_total
		sse_active_connections sse_events_pushed_total device_status_count session_active_count
		dashboard_first_byte_seconds_count sse_first_event_seconds_count force_logout_seconds_count device_heartbeat_total redis_call_duration_seconds_count
		build_info`) {
		if !reported(figures, "bff_backoffice_"+name) {
			t.Errorf("bff_backoffice_%s is not reported", name)
		}
	}
	for _, text := range []string{
		`request_total{route="GET /bff/backoffice/v1/session",status="200",tenant_id="` + who.TenantID + `"} `,
		`errors_total{code="MELMASTOON.GENERAL.VALIDATION_FAILED",route="GET /bff/backoffice/v1/dashboard",tenant_id="`,
		`device_status_count{status="online"} `, `device_heartbeat_total{status="unknown"} 0`,
	} {
		if !strings.Contains(figures, "\nbff_backoffice_"+text) {
			t.Errorf("there is no %s", text)
		}
	}
	for _, le := range []string{"0.08", "0.2", "0.25", "0.3", "0.4", "0.6", "0.8"} {
		if !strings.Contains(figures, `bff_backoffice_request_duration_seconds_bucket{route="GET /bff/backoffice/v1/dashboard",le="`+le+`"}`) {
			t.Errorf("%s s is no boundary", le)
		}
	}
	s.switchesOff(d)
}

// alertsSpeakOf checks that a process which no operator has called reports what the
// rules are about: a metric that appears with its first failure makes a rule miss it.
// Those that depend on labels of a request or a fault are left out.
func (s *staff) alertsSpeakOf(figures string) {
	s.t.Helper()
	later := []string{"request_duration_seconds_bucket", "request_duration_seconds_count", "errors_total", "outbox_topic_down"}
	names := regexp.MustCompile(`\bbff_backoffice_[a-z0-9_]+`)
	for _, file := range []string{"backoffice.yaml", "backoffice-slo.yaml"} {
		raw, err := os.ReadFile("../../../deploy/alerts/" + file)
		if err != nil {
			s.t.Fatal(err)
		}
		var rules struct {
			Groups []struct {
				Rules []struct{ Alert, Record, Expr string }
			}
		}
		if err := yaml.Unmarshal(raw, &rules); err != nil || len(rules.Groups) == 0 {
			s.t.Fatal(file, err)
		}
		for _, g := range rules.Groups {
			for _, r := range g.Rules {
				for _, name := range names.FindAllString(r.Expr, -1) {
					if !slices.Contains(later, strings.TrimPrefix(name, "bff_backoffice_")) && !reported(figures, name) {
						s.t.Errorf("%s%s speaks of %s, which is not reported", r.Alert, r.Record, name)
					}
				}
			}
		}
	}
}

// switchesOff has an operator of the platform switch streams off, and on again.
func (s *staff) switchesOff(d *desk.Client) {
	s.t.Helper()
	ctx := testkit.Context(s.t)
	client, err := redis.Open(redis.Config{URL: s.RedisURL, Tier: "test", Timeout: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(client.Close)
	events := s.listen(d)
	key := backofficecache.FlagsKey(redis.NewKeys(s.Env()["MELMASTOON_ENV"], "bff-backoffice"))
	change := func(cmd rueidis.Completed) {
		for _, r := range client.DoMulti(ctx, cmd, client.B().Publish().Channel(key).Message("").Build()) {
			if err := r.Error(); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	change(client.B().Hset().Key(key).FieldValue().FieldValue("live_stream", "off").Build())
	s.await(events, "drain")
	s.do(d, http.StatusServiceUnavailable, http.MethodGet, "/sse/stream", nil)
	var me struct{ Flags map[string]bool }
	s.fetch(d, "/session", &me)
	if on, there := me.Flags["live_stream"]; on || !there || !me.Flags["ai_inbox"] {
		s.t.Errorf("%v", me.Flags)
	}
	change(client.B().Hdel().Key(key).Field("live_stream").Build())
	for !me.Flags["live_stream"] {
		s.fetch(d, "/session", &me)
	}
}
