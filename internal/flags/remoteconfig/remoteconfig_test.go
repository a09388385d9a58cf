package remoteconfig

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/option"
)

// google answers as Remote Config does.
type google struct {
	path   string
	calls  int
	status int
	body   string
}

func (g *google) RoundTrip(r *http.Request) (*http.Response, error) {
	g.calls++
	g.path = r.URL.Path
	return &http.Response{
		StatusCode: g.status, Request: r, Body: io.NopCloser(strings.NewReader(g.body)),
		Header: http.Header{"Content-Type": {"application/json"}, "Etag": {"e1"}},
	}, nil
}

func TestLoad(t *testing.T) {
	t.Parallel()
	g := &google{status: http.StatusOK, body: `{
		"conditions": [{"name": "always", "condition": {"boolean": true}}],
		"parameters": {
			"bff_consumer_campaign_mode_v1": {"defaultValue": {"value": "false"}, "conditionalValues": {"always": {"value": "true"}}},
			"in_app": {"defaultValue": {"useInAppDefault": true}},
			"other": {"defaultValue": {"value": "1"}}
		}}`}
	s, err := New(t.Context(), Config{
		Project: "demo", Flags: []string{"bff.consumer.campaign_mode.v1", "in.app", "missing"}, Randomization: "instance-1", Every: time.Nanosecond,
		Options: []option.ClientOption{option.WithHTTPClient(&http.Client{Transport: g})},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"bff.consumer.campaign_mode.v1": "true"}
	got, err := s.Load(t.Context())
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if g.path != "/v1/projects/demo/namespaces/firebase-server/serverRemoteConfig" {
		t.Errorf("asked %s", g.path)
	}

	s.cfg.Every = time.Hour // the template is fresh now
	if got, err := s.Load(t.Context()); err != nil || g.calls != 1 || !cmp.Equal(want, got) {
		t.Errorf("fresh: %v, %v, %d calls", got, err, g.calls)
	}
	s.cfg.Every = time.Nanosecond
	g.status, g.body = http.StatusForbidden, `{"error": {"message": "quota"}}`
	if got, err := s.Load(t.Context()); err == nil || got != nil {
		t.Errorf("refused: %v, %v", got, err)
	}
}

func TestNewReportsFaults(t *testing.T) {
	t.Parallel()
	if _, err := New(t.Context(), Config{Project: "demo"}); err == nil {
		t.Error("accepted without flags")
	}
}
