package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// insideEnv tells the test binary that `melmastoon up` runs it as its command, and
// where the binary of that is.
const insideEnv = "MELMASTOON_TEST_INSIDE"

// TestUp runs the guest's and the operator's way end to end: this test again, in a process of its
// own, as the command of `melmastoon up`.
func TestUp(t *testing.T) {
	if os.Getenv(insideEnv) != "" {
		t.Run("guest is handed off", insideGuestIsHandedOff)
		t.Run("strangers are refused", insideStrangersAreRefused)
		t.Run("garbage", insideGarbage)
		t.Run("operator works", insideOperatorWorks)
		t.Run("clock is wrong", insideClockIsWrong)
		return
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := testkit.Binary(t, "melmastoon")
	cmd := exec.CommandContext(testkit.Context(t), binary, "up", "--", self, "-test.run=^TestUp$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"="+binary)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := bytes.Count(out, []byte("--- PASS: TestUp/")); n != 5 {
		t.Fatalf("%d tests passed inside, want 5:\n%s", n, out)
	}
}

func TestUpExitsWithTheCommandsStatus(t *testing.T) {
	t.Parallel()
	database := testkit.NewPostgres(t, false)
	for _, c := range []struct {
		script     string
		args, env  []string
		wantStatus int
		wantOut    []string
	}{
		{script: "kill -9 $$", wantStatus: 128 + 9},
		// The command finds the world that it runs in, a server can be named, and phones
		// on the network are served.
		{
			script: `test "$MELMASTOON_POSTGRES_URL" = "$MELMASTOON_UP_POSTGRES_URL" && test "$BFF_CONSUMER_PLAIN_COOKIES" = true && "$0" status && "$0" bff-consumer --world dlq list && exit 7`,
			args:   []string{"--lan", "--lan-address", "127.0.0.2"}, wantStatus: 7,
			wantOut: []string{
				"bff-consumer    http://127.0.0.2:", "bff-backoffice  http://127.0.0.1:", "pages           http://127.0.0.2:", "there are no dead letters",
			},
		},
		{
			script: "exit 0", env: []string{"MELMASTOON_MAX_CONNECTIONS=-1"}, wantStatus: 1,
			wantOut: []string{"ended before it was ready", "its log ends so:", "MELMASTOON_MAX_CONNECTIONS"},
		},
	} {
		binary := testkit.Binary(t, "melmastoon")
		cmd := exec.CommandContext(testkit.Context(t), binary, slices.Concat([]string{"up"}, c.args, []string{"--", "sh", "-c", c.script, binary})...)
		cmd.Env = append(append(os.Environ(), "MELMASTOON_UP_POSTGRES_URL="+database.URL()), c.env...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		out, err := cmd.CombinedOutput()
		got := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			got = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if got != c.wantStatus {
			t.Errorf("%s: status %d, want %d\n%s", c.script, got, c.wantStatus, out)
		}
		for _, text := range c.wantOut {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s: no %q in\n%s", c.script, text, out)
			}
		}
	}
}

// TestUpKeepsItsData starts, stops and starts again on one data directory with
// the well-known ports taken by others.
func TestUpKeepsItsData(t *testing.T) {
	t.Parallel()
	ours := takeUsualPorts()
	home, err := os.MkdirTemp("/var/tmp", "melmastoon-test-") //nolint:usetesting // the database's user must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	var secrets []string
	devices := map[string]bool{}
	for run := range 2 {
		var out lines
		out.want = make(chan struct{})
		cmd := exec.CommandContext(testkit.Context(t), testkit.Binary(t, "melmastoon"), "up", "--data", home)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-out.want:
		case err := <-ended:
			t.Fatalf("ended before it was up: %v\n%s", err, out.String())
		}
		if !strings.Contains(out.String(), "curl") {
			t.Errorf("no curl lines in:\n%s", out.String())
		}
		for port := range ours {
			if strings.HasPrefix(port, "80") && !strings.Contains(out.String(), fmt.Sprintf("port %s is taken by another program (pid %d, ", port, os.Getpid())) {
				t.Errorf("it is not said that %s is taken:\n%s", port, out.String())
			}
		}
		if run == 0 {
			secondTerminal(t, home)
		}
		k := clerk{t: t, home: home} // a second terminal
		answer, notes, status := k.run("get", "/session")
		var s struct{ DeviceID, DisplayName string }
		if err := json.Unmarshal([]byte(answer), &s); err != nil || status != 0 || s.DisplayName != "Parwana Wardak" || !strings.Contains(notes, "Signed in") {
			t.Errorf("desk get /session: status %d, %v\n%s%s", status, err, answer, notes)
		}
		devices[s.DeviceID] = true
		b, err := os.ReadFile(home + "/secrets.json")
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, string(b))
		var left *exec.Cmd
		beside := &second{t, testkit.Binary(t, "melmastoon"), home}
		if run == 1 {
			left, _ = beside.tail()
		}
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatalf("unclean stop: %v\n%s", err, out.String())
		}
		if left != nil {
			beside.end(left) // one Ctrl-C is enough, although its platform has stopped
		}
	}
	if _, notes, status := (&clerk{t: t, home: home}).run("get", "/session"); status != 1 || !strings.Contains(notes, "melmastoon up") {
		t.Errorf("desk after the stop: status %d, %s", status, notes)
	}
	if len(devices) != 1 {
		t.Errorf("%d devices, want one that is kept", len(devices))
	}
	if secrets[0] != secrets[1] {
		t.Error("secrets changed between two runs")
	}
}
