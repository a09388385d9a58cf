package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// settings has a drain budget that no stop in these tests uses up: one may wait
// some seconds for a request of an HTTP/2 client whose frames have just arrived.
func settings() Settings {
	return Settings{Environment: "test", DrainBudget: time.Minute}
}

// journal records what happens in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, s)
}

func (j *journal) part(d *Daemon, name string, startErr error) {
	d.Add(name, func(context.Context) error { j.add("start " + name); return startErr },
		func(context.Context) error { j.add("stop " + name); return nil })
}

func TestPartsStartInOrderAndStopInReverse(t *testing.T) {
	t.Parallel()
	var j journal
	d := New(settings(), slog.New(slog.DiscardHandler))
	j.part(d, "a", nil)
	j.part(d, "b", nil)
	ctx, cancel := context.WithCancel(t.Context())
	d.Add("c", func(context.Context) error { cancel(); return nil }, nil)
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if want := []string{"start a", "start b", "stop b", "stop a"}; !slices.Equal(j.lines, want) {
		t.Errorf("got %v, want %v", j.lines, want)
	}
}

func TestFailedStartStopsWhatStarted(t *testing.T) {
	t.Parallel()
	var j journal
	d := New(settings(), slog.New(slog.DiscardHandler))
	j.part(d, "a", nil)
	j.part(d, "b", errors.New("boom"))
	j.part(d, "c", nil)
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "start b: boom") {
		t.Errorf("got %v", err)
	}
	if want := []string{"start a", "start b", "stop a"}; !slices.Equal(j.lines, want) {
		t.Errorf("got %v, want %v", j.lines, want)
	}
}

func TestFailingLoopEndsTheProcess(t *testing.T) {
	t.Parallel()
	var j journal
	d := New(settings(), slog.New(slog.DiscardHandler))
	j.part(d, "a", nil)
	d.AddLoop("loop", func(context.Context) error { return errors.New("boom") })
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "loop: boom") {
		t.Errorf("got %v", err)
	}
	if !slices.Contains(j.lines, "stop a") {
		t.Error("the other part was not stopped")
	}
}

func TestStopKeepsToTheBudget(t *testing.T) {
	t.Parallel()
	s := settings()
	s.DrainBudget = 10 * time.Millisecond
	d := New(s, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	d.AddLoop("stuck", func(context.Context) error { cancel(); select {} })
	if err := d.Run(ctx); err == nil || !strings.Contains(err.Error(), "drain budget") {
		t.Errorf("got %v, want the budget's end", err)
	}
}

// admin asks the admin listener.
func admin(t *testing.T, d *Daemon, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	d.Admin().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestAdmin(t *testing.T) {
	t.Parallel()
	d := New(settings(), slog.New(slog.DiscardHandler))
	if code, _ := admin(t, d, "/health"); code != http.StatusOK {
		t.Errorf("health: %d", code)
	}
	if code, body := admin(t, d, "/metrics"); code != http.StatusOK || !strings.Contains(body, "go_goroutines") {
		t.Errorf("metrics: %d", code)
	}
}

// TestProfilesStayOnTheMachine: probes come from elsewhere, and read no profile.
func TestProfilesStayOnTheMachine(t *testing.T) {
	t.Parallel()
	h := New(settings(), slog.New(slog.DiscardHandler)).Admin()
	for from, want := range map[string]int{
		"127.0.0.1:4711": http.StatusOK, "[::1]:4711": http.StatusOK, "[::ffff:127.0.0.1]:4711": http.StatusOK,
		"10.0.0.7:4711": http.StatusNotFound, "[2001:db8::7]:4711": http.StatusNotFound, "@": http.StatusNotFound,
	} {
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/cmdline", "/debug/pprof/symbol"} {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.RemoteAddr = from
			if h.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s from %s: %d, want %d", path, from, w.Code, want)
			}
		}
	}
}

// TestProfilesAreAskedFor: behind a mesh's sidecar every caller is on the machine.
func TestProfilesAreAskedFor(t *testing.T) {
	t.Parallel()
	for _, on := range []bool{false, true} {
		d := New(Settings{Environment: "production", Profiles: on}, slog.New(slog.DiscardHandler))
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/cmdline", nil)
		r.RemoteAddr = "127.0.0.1:4711"
		if d.Admin().ServeHTTP(w, r); (w.Code == http.StatusOK) != on {
			t.Errorf("profiles %v: %d", on, w.Code)
		}
	}
}

// TestReady: starting, draining and a required part make it 503. A part that is only
// reported does not, and the error, which may hold a password, is not shown.
func TestReady(t *testing.T) {
	t.Parallel()
	away := errors.New("password hunter2 refused")
	for _, tt := range []struct {
		name               string
		state              int32
		reported, required error
		wantCode           int
		want               readyAnswer
	}{
		{"starting", stateStarting, nil, nil, 503, readyAnswer{Status: "starting"}},
		{"draining", stateDraining, nil, nil, 503, readyAnswer{Status: "draining"}},
		{"ready", stateReady, nil, nil, 200, readyAnswer{"ready", map[string]string{"postgres": "up", "redis session": "up"}}},
		{"postgres away", stateReady, away, nil, 200, readyAnswer{"ready", map[string]string{"postgres": "unavailable", "redis session": "up"}}},
		{"sessions away", stateReady, nil, away, 503, readyAnswer{"unavailable", map[string]string{"postgres": "up", "redis session": "unavailable"}}},
	} {
		d := New(settings(), slog.New(slog.DiscardHandler))
		d.AddCheck("postgres", func(context.Context) error { return tt.reported })
		d.Require("redis session", func(context.Context) error { return tt.required })
		d.state.Store(tt.state)
		code, body := admin(t, d, "/ready")
		var got readyAnswer
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || code != tt.wantCode || strings.Contains(body, "hunter2") {
			t.Errorf("%s: %d %s\n%s", tt.name, code, body, diff)
		}
	}
}

// TestStopDrainsFirst: the process is not ready at once, and serves on until the
// drain delay is over, each answer the last of its connection.
func TestStopDrainsFirst(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, s Settings) {
		t.Helper()
		s.DrainDelay = time.Second
		over, draining := make(chan time.Time), make(chan time.Duration, 1)
		d, addr, stop := listenUntil(t, s, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "ok") }, ServerOptions{})
		d.after = func(delay time.Duration) <-chan time.Time { draining <- delay; return over }
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		if res := get(t, client, "http://"+addr); res.Close { //nolint:bodyclose // get closes it
			t.Error("closed before the stop")
		}
		stop()
		if got := <-draining; got != s.DrainDelay {
			t.Errorf("drains for %v, want %v", got, s.DrainDelay)
		}
		if code, body := admin(t, d, "/ready"); code != http.StatusServiceUnavailable || !strings.Contains(body, "draining") {
			t.Errorf("ready: %d %s", code, body)
		}
		for range 3 {
			if res := get(t, client, "http://"+addr); res.StatusCode != http.StatusOK || !res.Close { //nolint:bodyclose // get closes it
				t.Errorf("while draining: %d, close %v", res.StatusCode, res.Close)
			}
		}
		close(over)
	})
}

type cli struct {
	Serve struct {
		Settings
		Key   Secret `env:"TEST_DAEMON_KEY"`
		Count int    `env:"TEST_DAEMON_COUNT" default:"3"`
	} `cmd:""`
}

func TestParseReportsEverythingAtOnce(t *testing.T) {
	t.Setenv("TEST_DAEMON_COUNT", "hunter2")
	t.Setenv("MELMASTOON_LOG_LEVEL", "hunter2")
	t.Setenv("MELMASTOON_LOG_FORMAT", "hunter2")
	_, err := Parse(&cli{}, "test", "", []string{"serve"})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"TEST_DAEMON_COUNT", "MELMASTOON_LOG_LEVEL", "MELMASTOON_LOG_FORMAT"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a value is shown: %v", err)
	}
}

// careful has rules of its own, and looks at its settings itself.
type careful struct {
	Serve carefulServe `cmd:""`
}

type carefulServe struct {
	Settings
	Count   int    `name:"count" env:"TEST_DAEMON_COUNT"`
	First   string `name:"first" env:"TEST_DAEMON_FIRST"`
	Second  string `name:"second" env:"TEST_DAEMON_SECOND"`
	Nowhere string `name:"nowhere"`
}

func (s *carefulServe) Validate() error {
	return errors.Join(
		errors.New("second: is wrong"), errors.Join(errors.New("count: is too small"), fmt.Errorf("first or second: %w", errors.New("one is required"))),
		errors.New("nowhere: is not in the environment"),
	)
}

type examining struct {
	Doctor doctorCommand `cmd:""`
}

type doctorCommand struct {
	carefulServe
	seen []Problem
}

func (*doctorCommand) ExaminesSettings() {}

func (d *doctorCommand) Run(env *Environment) error {
	d.seen = append(env.Problems(d.carefulServe.Validate()), env.Unknown("TEST_DAEMON_")...)
	return nil
}

// All that is wrong is named by variable, in the order of the settings, what cannot
// be read beside what is refused.
func TestProblemsAreNamedByVariable(t *testing.T) {
	t.Setenv("MELMASTOON_ENV", "test")
	t.Setenv("MELMASTOON_LOG_FORMAT", "hunter2")
	t.Setenv("TEST_DAEMON_COUNT", "hunter2")
	t.Setenv("TEST_DAEMON_FRIST", "hunter2")
	want := []string{
		"MELMASTOON_LOG_FORMAT: must be one of json,text", "TEST_DAEMON_COUNT: not a valid int", "TEST_DAEMON_FIRST or TEST_DAEMON_SECOND: one is required",
		"TEST_DAEMON_SECOND: is wrong", "nowhere: is not in the environment",
	}
	_, err := Parse(&careful{}, "test", "", []string{"serve"})
	if err == nil || err.Error() != strings.Join(want, "\n") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
	}

	var cli examining
	cmd, err := Parse(&cli, "test", "", []string{"doctor"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range cli.Doctor.seen {
		got = append(got, p.Text)
	}
	if diff := strings.Join(got, "\n"); diff != strings.Join(append(want, "TEST_DAEMON_FRIST: is no setting; did you mean TEST_DAEMON_FIRST?"), "\n") {
		t.Errorf("examined:\n%s", diff)
	}
	if _, err := Parse(&cli, "test", "", []string{"doctor", "--nonsense"}); err == nil {
		t.Error("an unknown flag was accepted")
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	s := Secret("hunter2")
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "key", s, "struct", struct{ K Secret }{s})
	encoded, err := json.Marshal(map[string]Secret{"k": s})
	if err != nil {
		t.Fatal(err)
	}
	for name, shown := range map[string]string{
		"v": fmt.Sprintf("%v", s), "+v": fmt.Sprintf("%+v", struct{ K Secret }{s}), "#v": fmt.Sprintf("%#v", s),
		"s": fmt.Sprintf("%s", s), //nolint:gocritic,perfsprint // the verbs are what is tested
		"q": fmt.Sprintf("%q", s), "x": fmt.Sprintf("%x", s), "log": log.String(), "json": string(encoded),
	} {
		if strings.Contains(shown, "hunter2") || strings.Contains(shown, "68756e74") {
			t.Errorf("%s shows the secret: %s", name, shown)
		}
	}
	if s.Reveal() != "hunter2" {
		t.Error("the secret is lost")
	}
}
