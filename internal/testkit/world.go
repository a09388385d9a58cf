package testkit

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/local/trace"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/migrations"
)

// World is the platform for one test: a database of its own, keys of its own in
// Redis, a Pub/Sub server, the simulated upstreams, and as many real service
// processes as the test starts.
type World struct {
	platform.Places
	Sim *platform.Upstreams
	// Programs is a directory with the services of another version; empty = this one's.
	Programs string

	t        testing.TB
	receiver string // of traces; empty = nothing is recorded
}

// WhyEnv has the services of worlds record every request, and a failed test tell the
// last one as a story. It is no default: recording costs half of a core under load.
const WhyEnv = "MELMASTOON_TEST_WHY"

// record receives what the services of this world record.
func (w *World) record() {
	store := trace.New(trace.Config{Met: w.Sim.Met})
	server := httptest.NewServer(store)
	w.receiver = server.URL
	w.t.Cleanup(func() {
		server.Close()
		if story, known := store.Find("last"); known && w.t.Failed() {
			w.t.Logf("the last request:\n%s", story.Text)
		}
	})
}

const testPassword = "only-for-tests"

// NewWorld prepares a world. Change may replace servers by the test's own, to
// be flushed and killed at will, before anything uses them.
func NewWorld(t testing.TB, change func(*platform.Places)) *World {
	t.Helper()
	secrets, err := platform.NewSecrets(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	// Roles belong to the whole server, which worlds share: so do their passwords.
	secrets.ConsumerPassword, secrets.BackofficePassword, secrets.JobsPassword = testPassword, testPassword, testPassword
	places := platform.Places{Name: "test-" + strings.ToLower(rand.Text()[:8]), Secrets: secrets}
	if change != nil {
		change(&places)
	}
	if places.PostgresURL == "" {
		places.PostgresURL = migrated(t)
	}
	if places.RedisURL == "" {
		places.RedisURL = Redis(t)
	}
	if places.PubSubHost == "" {
		places.PubSubHost, places.PubSubProject = PubSub(t)
	}
	// It is always one o'clock in the houses: a test that looks twice sees the same.
	sim, err := platform.ServeUpstreams(Context(t), "", sim.Config{HouseTime: 13 * time.Hour}, places.PubSubHost, places.PubSubProject)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, sim) })
	places.SimURL = sim.URL
	w := &World{Places: places, Sim: sim, t: t}
	if os.Getenv(WhyEnv) != "" {
		w.record()
	}
	return w
}

// migrated returns a database with both services' schemas.
func migrated(t testing.TB) string {
	t.Helper()
	return PostgresTemplate(t, "both services", func(url string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for _, set := range []migrations.Set{migrations.Consumer(), migrations.Backoffice()} {
			if err := postgres.Migrate(ctx, url, set, postgres.MigrateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Env is what an instance needs to join this world.
func (w *World) Env() map[string]string {
	w.t.Helper()
	env, err := w.Places.Environment()
	if err != nil {
		w.t.Fatal(err)
	}
	return env
}

// Flags are a service's settings in an environment as flags of its command line: a test
// that runs beside others has no variables of its own.
func Flags(env map[string]string, prefix string) []string {
	var args []string
	for variable, value := range env {
		name := map[string]string{"MELMASTOON_ENV": "environment", "PUBSUB_PROJECT_ID": "pubsub-project", "PUBSUB_EMULATOR_HOST": "pubsub-emulator"}[variable]
		if strings.HasPrefix(variable, prefix+"_") || strings.HasPrefix(variable, "MELMASTOON_INTERNAL_") {
			name = strings.TrimPrefix(strings.TrimPrefix(variable, prefix+"_"), "MELMASTOON_")
			name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
		}
		if name != "" {
			args = append(args, "--"+name+"="+value)
		}
	}
	return args
}

// Start runs an instance of a service as a process and waits until it is
// ready. Settings are further environment variables. What it logs is shown
// when the test fails. If another program has taken one of its ports meanwhile, it
// runs on others.
func (w *World) Start(service string, settings map[string]string) *platform.Process {
	w.t.Helper()
	const attempts = 3
	for attempt := 1; ; attempt++ {
		p, log := w.run(w.place(service), settings)
		err := p.AwaitReady(Context(w.t))
		if err == nil {
			return p
		}
		if attempt == attempts || !lostPort(log) {
			w.t.Fatal(err)
		}
	}
}

// lostPort reports whether a process ended because another has its port.
func lostPort(log *os.File) bool {
	said, err := os.ReadFile(log.Name())
	return err == nil && bytes.Contains(said, []byte(syscall.EADDRINUSE.Error()))
}

// Launch is Start without waiting.
func (w *World) Launch(service string, settings map[string]string) *platform.Process {
	w.t.Helper()
	return w.Relaunch(w.place(service), settings)
}

// place finds addresses for an instance.
func (w *World) place(service string) platform.Service {
	w.t.Helper()
	svc, err := platform.NewService(service, false)
	if err != nil {
		w.t.Fatal(err)
	}
	return svc
}

// Relaunch runs an instance on addresses that an earlier one had.
func (w *World) Relaunch(svc platform.Service, settings map[string]string) *platform.Process {
	w.t.Helper()
	p, _ := w.run(svc, settings)
	return p
}

func (w *World) run(svc platform.Service, settings map[string]string) (*platform.Process, *os.File) {
	w.t.Helper()
	log, err := os.Create(filepath.Join(w.t.TempDir(), svc.Name+".log"))
	if err != nil {
		w.t.Fatal(err)
	}
	env := svc.URLs() // an instance is its own public address, unless the test says where it is
	maps.Copy(env, w.Env())
	if w.receiver != "" {
		maps.Copy(env, platform.Traced(w.receiver))
	}
	maps.Copy(env, settings)
	p, err := svc.Start([]string{w.program(svc.Name), "serve"}, platform.Pairs(env), log)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		p.Kill()
		w.showLog(svc.Name, log)
	})
	return p, log
}

func (w *World) program(name string) string {
	w.t.Helper()
	if w.Programs != "" {
		return filepath.Join(w.Programs, name)
	}
	return Binary(w.t, name)
}

// Run runs a command of a service to its end and returns what it printed; it must
// succeed.
func (w *World) Run(service string, args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(Context(w.t), w.program(service), args...)
	cmd.Env = append(os.Environ(), platform.Pairs(w.Env())...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("%s %s: %v\n%s%s", service, strings.Join(args, " "), err, out, &problems)
	}
	return string(out)
}

// Of a service's log a failed test shows the last lines that report a failure;
// the whole log stays in a file. More would hide the one line that matters.
const (
	shownLines = 5
	shownLine  = 300
)

func (w *World) showLog(name string, log *os.File) {
	defer func() { _ = log.Close() }() // only read from here on
	if !w.t.Failed() {
		return
	}
	b, err := os.ReadFile(log.Name())
	if err != nil {
		return
	}
	kept := filepath.Join(os.TempDir(), "melmastoon-log-"+strings.ReplaceAll(w.t.Name(), "/", "-")+"-"+name+".log")
	if err := os.WriteFile(kept, b, 0o600); err != nil {
		kept = err.Error()
	}
	var shown []string
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, `"ERROR"`) || strings.Contains(line, `"WARN"`) || !strings.HasPrefix(line, "{") {
			shown = append(shown, line[:min(len(line), shownLine)])
		}
	}
	shown = shown[max(0, len(shown)-shownLines):]
	w.t.Logf("log of %s: %s\n%s", name, kept, strings.Join(shown, ""))
}

var (
	binaries   = map[string]func() (string, error){}
	binariesMu sync.Mutex
)

// ProgramsEnv names a directory with the commands of this module, built for this run
// of the tests as these are. Without it each test process builds those that it starts.
const ProgramsEnv = "MELMASTOON_TEST_PROGRAMS"

// Binary builds a command of this module, once per test process, and returns
// its path. It is built as the test is: with the race detector if that is on.
func Binary(t testing.TB, name string) string {
	t.Helper()
	binariesMu.Lock()
	build, ok := binaries[name]
	if !ok {
		build = sync.OnceValues(func() (string, error) { return compile(name) })
		binaries[name] = build
	}
	binariesMu.Unlock()
	path, err := build()
	if err != nil {
		t.Fatalf("build %s: %v", name, err)
	}
	return path
}

func compile(name string) (string, error) {
	if dir := os.Getenv(ProgramsEnv); dir != "" {
		path := filepath.Join(dir, name)
		_, err := os.Stat(path)
		return path, err
	}
	dir := filepath.Join(os.TempDir(), binPrefix+strconv.Itoa(os.Getpid()))
	sweepBinaries()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	// No debugger will look at it.
	args := []string{"build", "-ldflags=-s -w", "-o", path}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "melmastoon.ghasi.io/bff/cmd/"+name)...) //nolint:noctx // bounded by the test's deadline
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", &buildError{out: string(out), err: err}
	}
	return path, nil
}

const binPrefix = "melmastoon-bin-"

// sweepBinaries removes what test processes that are gone have built: a test
// binary has no moment after its last test.
func sweepBinaries() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), binPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), binPrefix))
		if err == nil && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = os.RemoveAll(dir) // another's directory, perhaps
	}
}

type buildError struct {
	out string
	err error
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + e.out }
