package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

// secondTerminal does what people do beside a running platform.
func secondTerminal(t *testing.T, home string) {
	t.Helper()
	s := &second{t, testkit.Binary(t, "melmastoon"), home}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--version"}, []string{"melmastoon ", "commit ", "go1."}},
		{[]string{"bff-backoffice", "--version"}, []string{"bff-backoffice ", "commit "}},
		{[]string{"status"}, []string{"data in " + home, "bff-consumer", "bff-backoffice", "ready", "Postgres", "logs/bff-consumer.log"}},
		{[]string{"fault"}, []string{"All upstreams are well."}},
		{[]string{"fault", "set", "pricing", "--status", "500"}, []string{"100% fail with 500"}},
		{[]string{"fault", "list"}, []string{"pricing", "every route"}},
		{[]string{"fault", "clear"}, []string{"All upstreams are well."}},
		{[]string{"logs", "bff-consumer", "-n", "0"}, []string{`"msg":"ready"`}},
		{[]string{"trigger", "--list"}, []string{"tenant.suspended", "A hotel company was suspended"}},
		{[]string{"trigger", "iam.user.locked", "--operator", "karim", "--dry-run"}, []string{`"operatorId": "opt_`}},
		{[]string{"bff-consumer", "--world", "jobs", "all"}, nil},
		{[]string{"bff-backoffice", "migrate", "--world"}, nil},
		{[]string{"bff-consumer", "--world", "dlq", "list"}, []string{"there are no dead letters"}},
		{[]string{"bff-consumer", "--world", "keys", "list"}, []string{"STATE", "active"}},
		{[]string{"bff-consumer", "keys", "add", "hmac-2026-11", "--file", home + "/handoff.json"}, []string{"hmac-2026-11 is its active key"}},
		{[]string{"bff-consumer", "keys", "list", "--file", home + "/handoff.json"}, []string{"hmac-2026-11"}},
		{[]string{"bff-consumer", "--world", "events", "topics"}, []string{"melmastoon.bff.consumer.session.started.v1"}},
		{[]string{"bff-backoffice", "--world", "audit", "refused"}, nil},
	} {
		out, notes, status := s.run(c.args...)
		if status != 0 {
			t.Errorf("%v: status %d\n%s%s", c.args, status, out, notes)
		}
		for _, text := range c.want {
			if !strings.Contains(out, text) {
				t.Errorf("%v: no %q in\n%s%s", c.args, text, out, notes)
			}
		}
	}
	for what, want := range map[string]string{"pages": "Melmastoon on this machine", "reference": "/bff/backoffice/v1/session", "errors": "SUSPECTED_BOT"} {
		url, _, _ := s.run("open", what, "--print")
		if a := send(t, http.MethodGet, strings.TrimSpace(url), nil, nil); a.status != http.StatusOK || !bytes.Contains(a.body, []byte(want)) {
			t.Errorf("open %s: %q %d, no %q", what, url, a.status, want)
		}
	}
	s.refusals()
	s.exports()
	s.events()
}

type second struct {
	t      *testing.T
	binary string
	home   string
}

func (s *second) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(testkit.Context(s.t), s.binary, args...)
	cmd.Env = append(os.Environ(), "MELMASTOON_HOME="+s.home)
	return cmd
}

func (s *second) run(args ...string) (out, notes string, status int) {
	s.t.Helper()
	return runCommand(s.t, s.command(args...))
}

// refusals say what to do instead.
func (s *second) refusals() {
	s.t.Helper()
	for want, args := range map[string][]string{
		"trigger --list":       {"trigger", "tea.served"},
		"no tenant is called":  {"trigger", "tenant.suspended", "--tenant", "tea-house"},
		"got number, want str": {"trigger", "tenant.suspended", "--set", "tenantId=7"},
		"one of search-aggr":   {"fault", "set", "prcing"},
		"docs/upstreams.md":    {"fault", "set", "pricing", "--route", "GET /tea"},
		"want one of":          {"open", "tea"},
		"no platform runs":     {"status", "--world", s.t.TempDir()},
	} {
		if out, notes, status := s.run(args...); status != 1 || !strings.Contains(notes, want) {
			s.t.Errorf("%v: status %d, no %q in\n%s%s", args, status, want, out, notes)
		}
	}
}

// exports has a shell read the environment and a service's command use it.
func (s *second) exports() {
	s.t.Helper()
	cmd := s.command()
	cmd.Path, cmd.Args = "/bin/sh", []string{
		"sh", "-euc", `eval "$("$0" env)"; unset MELMASTOON_HOME MELMASTOON_WORLD; exec "$0" bff-backoffice dlq list`, s.binary,
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "there are no dead letters") {
		s.t.Errorf("a command with the exported settings: %v\n%s", err, out)
	}
}

// events follows what is triggered meanwhile.
func (s *second) events() {
	s.t.Helper()
	tail, events := s.tail()
	lines := json.NewDecoder(events)
	var undo []string
	for _, event := range []string{"tenant.suspended", "tenant.reinstated"} {
		// Not the tenant of an operator that could work next, and with the way back.
		args := slices.Concat(undo, []string{"--set", "note=tea"})
		if undo == nil {
			args = append([]string{"trigger", event}, args...)
		}
		out, said, status := s.run(args...)
		if _, after, ok := strings.Cut(out, "undo: melmastoon "); ok {
			undo = strings.Fields(after)
		} else if event == "tenant.suspended" {
			s.t.Fatalf("trigger %s does not say how to undo it:\n%s", event, out)
		}
		if status != 0 || !strings.Contains(out, "published melmastoon."+event+".v1 as evt_") {
			s.t.Fatalf("trigger %s: status %d\n%s%s", event, status, out, said)
		}
		var e struct {
			Envelope struct{ Subject, EventID, TenantID string }
			Payload  struct{ TenantID, Note string }
		}
		for e.Envelope.EventID == "" || !strings.Contains(out, e.Envelope.EventID) { // delivery is at least once
			if err := lines.Decode(&e); err != nil {
				s.t.Fatal(err)
			}
		}
		if e.Envelope.Subject != "melmastoon."+event+".v1" || e.Payload.TenantID == "" || e.Payload.TenantID != e.Envelope.TenantID || e.Payload.Note != "tea" {
			s.t.Errorf("%s: %+v", event, e)
		}
	}
	s.end(tail)
}

// tail begins to follow two kinds of events.
func (s *second) tail() (*exec.Cmd, io.Reader) {
	s.t.Helper()
	tail := s.command("tail", "--json", "--subject", "tenant.suspended", "--subject", "tenant.reinstated")
	notes, err := tail.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	events, err := tail.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := tail.Start(); err != nil {
		s.t.Fatal(err)
	}
	if line, err := bufio.NewReader(notes).ReadString('\n'); err != nil || !strings.Contains(line, "listening to 2 topics") {
		s.t.Fatalf("tail: %q %v", line, err)
	}
	return tail, events
}

// end is one Ctrl-C.
func (s *second) end(tail *exec.Cmd) {
	s.t.Helper()
	if err := tail.Process.Signal(syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	if err := tail.Wait(); err != nil {
		s.t.Errorf("tail ended with %v", err)
	}
}
