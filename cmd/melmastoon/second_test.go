package main_test

import (
	"bytes"
	"net/http"
	"strings"
)

// commands are what people type beside a running platform.
func (n *newcomer) commands(home string) {
	n.t.Helper()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--version"}, []string{"melmastoon ", "commit ", "go1."}},
		{[]string{"status"}, []string{"data in " + home, "bff-consumer", "bff-backoffice", "ready", "Postgres", "logs/bff-consumer.log"}},
		{[]string{"fault", "set", "pricing", "--status", "500"}, []string{"100% fail with 500"}},
		{[]string{"fault", "clear", "pricing"}, []string{"All upstreams are well."}},
		{[]string{"flag", "set", "rung", "none"}, []string{"bff.consumer.brownout_rung.v1 is none"}},
		{[]string{"flag", "clear", "rung"}, []string{"has its default again"}},
		{[]string{"why"}, []string{"asked by", "bff-"}},
		{[]string{"why", "--json"}, []string{`"upstreams": [`, `"traceId": "`}},
		{[]string{"logs", "bff-consumer", "-n", "0"}, []string{`"msg":"ready"`}},
		{[]string{"trigger", "--list"}, []string{"tenant.suspended", "A hotel company was suspended"}},
		{[]string{"trigger", "iam.user.locked", "--operator", "karim", "--dry-run"}, []string{`"operatorId": "opt_`}},
		{[]string{"bff-consumer", "--world", "jobs", "all"}, nil},
		{[]string{"bff-backoffice", "migrate", "--world"}, nil},
		{[]string{"bff-consumer", "keys", "add", "hmac-2026-11", "--file", home + "/handoff.json"}, []string{"hmac-2026-11 is its active key"}},
		{[]string{"bff-consumer", "keys", "list", "--file", home + "/handoff.json"}, []string{"hmac-2026-11"}},
		{[]string{"bff-consumer", "--world", "events", "topics"}, []string{"melmastoon.bff.consumer.session.started.v1"}},
		{[]string{"bff-backoffice", "--world", "audit", "refused"}, nil},
	} {
		out, err := n.run(melmastoon, c.args...)
		if err != nil {
			n.t.Errorf("%v: %v\n%s", c.args, err, out)
		}
		for _, text := range c.want {
			if !strings.Contains(out, text) {
				n.t.Errorf("%v: no %q in\n%s", c.args, text, out)
			}
		}
	}
	for what, want := range map[string]string{"pages": "Melmastoon on this machine", "reference": "Melmastoon API", "errors": "SUSPECTED_BOT"} {
		url, _ := n.run(melmastoon, "open", what, "--print")
		if page := n.get(http.StatusOK, strings.TrimSpace(url)); !bytes.Contains(page, []byte(want)) {
			n.t.Errorf("open %s: %q, no %q", what, url, want)
		}
	}
	for want, args := range map[string][]string{ // refusals say what to do instead
		"trigger --list":       {"trigger", "tea.served"},
		"got number, want str": {"trigger", "tenant.suspended", "--set", "tenantId=7"},
		"one of search-aggr":   {"fault", "set", "prcing"},
		"docs/upstreams.md":    {"fault", "set", "pricing", "--route", "GET /tea"},
		"no platform runs":     {"status", "--world", "/tea"},
		"latest two thousand":  {"why", "req_tea"},
	} {
		if out, err := n.run(melmastoon, args...); err == nil || !strings.Contains(out, want) {
			n.t.Errorf("%v: %v, no %q in\n%s", args, err, want, out)
		}
	}
	// A shell reads the environment, and a service's command uses it.
	out, err := n.run("sh", "-euc", `eval "$("$0" env)"; unset MELMASTOON_HOME MELMASTOON_WORLD; exec "$0" bff-backoffice dlq list`, melmastoon)
	if err != nil || !strings.Contains(out, "there are no dead letters") {
		n.t.Errorf("a command with the exported settings: %v\n%s", err, out)
	}
}

// suspends triggers an event, and takes back what it did with what it prints.
func (n *newcomer) suspends(events *terminal) {
	n.t.Helper()
	// Not the tenant of an operator that could work next, and with the way back.
	out, err := n.run(melmastoon, "trigger", "tenant.suspended", "--set", "note=tea")
	_, undo, ok := strings.Cut(out, "undo: melmastoon ")
	if err != nil || !ok || !strings.Contains(out, "published melmastoon.tenant.suspended.v1 as evt_") {
		n.t.Fatalf("trigger: %v\n%s", err, out)
	}
	events.await("tenant.suspended")
	if out, err := n.run(melmastoon, strings.Fields(undo)...); err != nil || !strings.Contains(out, "published melmastoon.tenant.reinstated.v1 as evt_") {
		n.t.Fatalf("%s: %v\n%s", undo, err, out)
	}
	events.await("tenant.reinstated")
}
