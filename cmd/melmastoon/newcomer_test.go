package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// takeUsualPorts holds, until the tests end, the ports at which the platform and its servers
// would be found. One that cannot be had is another program's already, which may give it
// back.
var takeUsualPorts = sync.OnceValue(func() map[string]net.Listener {
	held := map[string]net.Listener{}
	for _, port := range []string{"8080", "8081", "8083", "8090", "5432", "6379"} {
		if ln, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil { //nolint:noctx // held by this process
			held[port] = ln // a listener that nothing refers to would be closed
		}
	}
	return held
})

const melmastoon = "bin/melmastoon" // within the clone

// newcomer has a fresh directory with what a clone has for `make run`, and no rights on
// the machine: if the test is root's, its commands run as another user.
type newcomer struct {
	t    *testing.T
	dir  string
	env  []string
	as   *syscall.SysProcAttr
	told chan map[string]any // by the page
}

// stubGo stands for the compiler alone: the program is compiled already.
const stubGo = `#!/bin/sh
case "$1" in
build) mkdir -p bin && cp "$(dirname "$0")/../program" bin/melmastoon && echo melmastoon.ghasi.io/bff/cmd/melmastoon ;;
*) echo go version go1.26 ;;
esac
`

func newNewcomer(t *testing.T) *newcomer {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "melmastoon-new-") //nolint:usetesting // another user must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	n := &newcomer{t: t, dir: dir, told: make(chan map[string]any, 1), as: &syscall.SysProcAttr{Setpgid: true}}
	files := map[string]string{"path/go": stubGo}
	for _, name := range []string{"Makefile", "tools/need", "tools/build"} {
		b, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		files["bff/"+name] = string(b)
	}
	program, err := os.ReadFile(testkit.Binary(t, "melmastoon"))
	if err != nil {
		t.Fatal(err)
	}
	files["program"] = string(program)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.env = []string{"HOME=" + dir + "/home", "PATH=" + dir + "/path:" + os.Getenv("PATH"), "LC_ALL=C"}
	n.dropRights()
	return n
}

// noRights is the user and the group that own nothing, on every Linux.
const noRights = 65534

func (n *newcomer) dropRights() {
	if os.Geteuid() != 0 {
		return
	}
	n.as.Credential = &syscall.Credential{Uid: noRights, Gid: noRights}
	err := filepath.WalkDir(n.dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, noRights, noRights)
	})
	if err = errors.Join(err, os.Chmod(n.dir, 0o755)); err != nil { //nolint:gosec // it holds no secrets
		n.t.Fatal(err)
	}
}

// terminal is a command that runs on.
type terminal struct {
	*newcomer
	cmd   *exec.Cmd
	out   printed
	ended chan error
}

// start runs a command in the clone, as in a terminal of its own.
func (n *newcomer) start(args ...string) *terminal {
	n.t.Helper()
	term := &terminal{newcomer: n, cmd: exec.Command(args[0], args[1:]...), ended: make(chan error, 1)} //nolint:gosec,noctx // ended below
	term.cmd.Dir, term.cmd.Env, term.cmd.SysProcAttr = filepath.Join(n.dir, "bff"), n.env, n.as
	term.cmd.Stdout, term.cmd.Stderr = &term.out, &term.out
	if err := term.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	go func() {
		term.ended <- term.cmd.Wait()
		close(term.ended)
	}()
	n.t.Cleanup(func() {
		term.interrupt()
		select {
		case <-term.ended:
		case <-time.After(30 * time.Second): // a failed test leaves nothing behind
			_ = syscall.Kill(-term.cmd.Process.Pid, syscall.SIGKILL)
			<-term.ended
		}
	})
	return term
}

// interrupt is Ctrl-C: it reaches all that was started from the terminal.
func (term *terminal) interrupt() { _ = syscall.Kill(-term.cmd.Process.Pid, syscall.SIGINT) } // gone already is as good

// await returns what was printed once a text is there.
func (term *terminal) await(text string) string {
	term.t.Helper()
	ctx := testkit.Context(term.t)
	for {
		out, more := term.out.read()
		if strings.Contains(out, text) {
			return out
		}
		select {
		case <-more:
		case err := <-term.ended:
			if out, _ := term.out.read(); !strings.Contains(out, text) {
				term.t.Fatalf("%v ended without %q: %v\n%s", term.cmd.Args, text, err, out)
			}
		case <-ctx.Done():
			term.t.Fatalf("%v does not print %q:\n%s", term.cmd.Args, text, out)
		}
	}
}

// run returns what a command prints and whether it went well.
func (n *newcomer) run(program string, args ...string) (string, error) {
	n.t.Helper()
	term := n.start(append([]string{program}, args...)...)
	err := <-term.ended
	out, _ := term.out.read()
	return out, err
}

// printed is what a running command has printed.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{} // closed with the next text
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.more != nil {
		close(p.more)
		p.more = nil
	}
	return p.text.Write(b)
}

func (p *printed) read() (string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.more == nil {
		p.more = make(chan struct{})
	}
	return p.text.String(), p.more
}

// storefront is a front end on another origin of the machine: it takes a guest from the first
// call to the hotel's booking page.
const storefront = `<!doctype html><meta charset="utf-8"><body><script>
(async () => {
  const base = '%s/bff/consumer/v1', told = {};
  // A browser that has just started may drop its first calls: it notices the machine's network and calls that a change.
  const settled = async () => {
    for (let left = 20; left > 0; left--) {
      if (await fetch(base + '/session', {mode: 'no-cors'}).then(() => true, () => false)) return;
      await new Promise(done => setTimeout(done, 250));
    }
  };
  const call = async (name, method, path, body, headers) => {
    const answer = await fetch(base + path, {method, credentials: 'include', body: body && JSON.stringify(body), headers: {...(body && {'Content-Type': 'application/json'}), ...headers}});
    told[name] = answer.status;
    return answer.json();
  };
  const key = () => ({'Idempotency-Key': crypto.randomUUID()});
  const stay = {dates: {checkIn: '2077-05-12', checkOut: '2077-05-15'}, occupancy: {adults: 2, rooms: 1}};
  await settled();
  try {
    told.guest = (await call('session', 'GET', '/session')).sessionId;
    const query = {geo: {mode: 'city', city: 'Kabul'}, ...stay};
    const hotel = (await call('search', 'POST', '/search', query)).results[0];
    told.pins = (await call('map', 'POST', '/search/map', query)).pins.length;
    const page = await call('hotel', 'GET', '/hotels/' + hotel.propertyId);
    told.picture = await new Promise(done => {
      const picture = new Image();
      picture.onload = () => done(picture.naturalWidth > 0);
      picture.onerror = () => done(false);
      picture.src = page.photos[0].url;
    });
    await call('wish', 'POST', '/wishlist', {propertyId: hotel.propertyId, source: 'list'}, key());
    const again = await call('again', 'GET', '/session');
    told.same = again.sessionId === told.guest && again.wishlistSize === 1;
    told.url = (await call('handoff', 'POST', '/handoff', {propertyId: hotel.propertyId, tenantId: hotel.tenantId, ...stay}, key())).url;
  } catch (e) { told.threw = String(e); }
  await fetch('/told', {method: 'POST', body: JSON.stringify(told)});
  const link = Object.assign(document.createElement('a'), {href: told.url});
  document.body.append(link);
  link.click();
})();
</script>`

// visit has a browser go through the storefront, and returns the address of the booking
// page on which it ends.
func (n *newcomer) visit(consumer string) string {
	n.t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, storefront, consumer)
	})
	mux.HandleFunc("POST /told", func(_ http.ResponseWriter, r *http.Request) {
		var told map[string]any
		if err := json.NewDecoder(r.Body).Decode(&told); err != nil {
			told = map[string]any{"threw": err.Error()}
		}
		n.told <- told
	})
	server := httptest.NewServer(mux)
	n.t.Cleanup(server.Close)
	browser, ctx := testkit.Chromium(n.t, server.URL), testkit.Context(n.t)
	var told map[string]any
	select {
	case told = <-n.told:
	case <-ctx.Done():
		n.t.Fatal("the page told nothing")
	}
	for step, want := range map[string]float64{"session": 200, "search": 200, "map": 200, "hotel": 200, "wish": 201, "again": 200, "handoff": 201} {
		if told[step] != want {
			n.t.Errorf("%s: %v, want %v", step, told[step], want)
		}
	}
	pins, _ := told["pins"].(float64)
	address, _ := told["url"].(string)
	if told["same"] != true || told["picture"] != true || pins < 100 || address == "" || told["threw"] != nil {
		n.t.Fatalf("the guest's way: %v", told)
	}
	testkit.Until(n.t, "the guest arrives at "+address, func() bool {
		var open []struct{ URL, Title string }
		if err := json.Unmarshal(n.get(http.StatusOK, "http://"+browser.DevTools+"/json/list"), &open); err != nil {
			n.t.Fatal(err)
		}
		return slices.ContainsFunc(open, func(page struct{ URL, Title string }) bool {
			return page.URL == address && strings.HasSuffix(page.Title, ", 2077-05-12 – 2077-05-15") && !strings.HasPrefix(page.Title, "en,")
		})
	})
	return address
}

func (n *newcomer) get(wantStatus int, address string) []byte {
	n.t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(n.t), http.MethodGet, address, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	res, err := new(http.Client).Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != wantStatus {
		n.t.Fatalf("%s: %d, want %d, %v\n%s", address, res.StatusCode, wantStatus, err, b)
	}
	return b
}

// TestNewcomer is the first hour of an engineer who may not install anything, on a machine
// whose usual ports are taken: make run, a second terminal, a page in a browser, and an
// operator of the staff service, and the same again on what was kept.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	held := takeUsualPorts()
	n := newNewcomer(t)
	platform := n.start("make", "run")
	said := platform.await("Ctrl-C stops everything.")
	for _, want := range []string{
		"built melmastoon in bin/", "starting Postgres, Redis and Pub/Sub", "service ready (name bff-consumer, at http://", "Melmastoon is up",
		"/booking/", "curl -s http://127.0.0.1:",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("make run does not print %q", want)
		}
	}
	for _, port := range []string{"8080", "8081", "8083", "8090"} {
		if want := "port " + port + " is taken by"; held[port] != nil && !strings.Contains(said, want) {
			t.Errorf("make run does not print %q", want)
		}
	}
	at := func(line string) string {
		found := regexp.MustCompile(line).FindStringSubmatch(said)
		if found == nil {
			t.Fatalf("make run prints no %s:\n%s", line, said)
		}
		if port := found[1][strings.LastIndexByte(found[1], ':')+1:]; held[port] != nil {
			t.Fatalf("make run prints %s, which is taken:\n%s", found[1], said)
		}
		return found[1]
	}
	at(`Postgres +(\S+)`)
	at(`Redis +(\S+)`)
	pages, consumer := at(`Look at (\S+)`), at(`bff-consumer +(http\S+)`)
	if index := n.get(http.StatusOK, pages); !strings.Contains(string(index), "<html") {
		t.Errorf("the page to look at: %s", index)
	}

	n.commands(filepath.Join(n.dir, "home/.local/share/melmastoon"))
	if out, err := n.run(melmastoon, "status"); err != nil || strings.Count(out, " ready ") != 2 || !strings.Contains(out, consumer) {
		t.Errorf("status: %v\n%s", err, out)
	}
	events := n.start(melmastoon, "tail")
	events.await("listening to ")
	n.suspends(events)

	booking := n.visit(consumer)
	if !strings.HasPrefix(booking, pages+"/booking/") {
		t.Errorf("guests are led to %s", booking)
	}
	if again := n.get(http.StatusConflict, booking); !strings.Contains(string(again), "already used") {
		t.Errorf("a second visit: %s", again)
	}
	events.await("handoff.initiated")

	device := n.signsIn()
	stream := n.start(melmastoon, "desk", "follow")
	stream.await(" ready {")
	if out, err := n.run(melmastoon, "trigger", "notification.alert.raised"); err != nil {
		t.Errorf("trigger: %v\n%s", err, out)
	}
	stream.await(" alerts {")
	events.await("notification.alert.raised")

	secrets := filepath.Join(n.dir, "home/.local/share/melmastoon/secrets.json")
	before, err := os.ReadFile(secrets)
	if err != nil {
		t.Fatal(err)
	}
	for _, running := range []*terminal{stream, platform, events} { // one Ctrl-C each is enough, although the platform of the last has stopped
		running.interrupt()
		<-running.ended
	}
	platform.await("Stopping.")
	for _, args := range [][]string{{"status"}, {"desk", "get", "/session"}} {
		if out, err := n.run(melmastoon, args...); err == nil || !strings.Contains(out, "make run") {
			t.Errorf("%v after Ctrl-C: %v\n%s", args, err, out)
		}
	}

	n.start(melmastoon, "up").await("Ctrl-C stops everything.")
	if again := n.signsIn(); again != device {
		t.Errorf("the desk was device %s and is %s after a stop", device, again)
	}
	if after, err := os.ReadFile(secrets); err != nil || !bytes.Equal(before, after) {
		t.Errorf("secrets changed between two runs, or %v", err)
	}
}

// signsIn has the desk's operator ask for the session, and returns the device. A machine that is
// busy with starting may be too slow for the first requests.
func (n *newcomer) signsIn() string {
	n.t.Helper()
	var found []string
	testkit.Retry(n.t, "desk get /session", func() bool {
		out, err := n.run(melmastoon, "desk", "get", "/session")
		found = regexp.MustCompile(`"deviceId":"(dev_\w+)"`).FindStringSubmatch(out)
		return err == nil && found != nil && strings.Contains(out, `"displayName":"Parwana Wardak"`)
	})
	if found == nil {
		n.t.Fatal("the operator is not told the device")
	}
	return found[1]
}
