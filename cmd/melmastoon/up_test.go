package main_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

func TestUpExitsWithTheCommandsStatus(t *testing.T) {
	t.Parallel()
	database := testkit.NewPostgres(t, false)
	for _, c := range []struct {
		script     string
		args, env  []string
		wantStatus int
		wantOut    []string
	}{
		// The command finds the world that it runs in, a server can be named, and phones
		// on the network are served.
		{
			script: `test "$MELMASTOON_POSTGRES_URL" = "$MELMASTOON_UP_POSTGRES_URL" && test "$BFF_CONSUMER_PLAIN_COOKIES" = true && "$0" status && "$0" bff-consumer --world dlq list && kill -9 $$`,
			args:   []string{"--lan", "--lan-address", "127.0.0.2"}, wantStatus: 128 + 9,
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
