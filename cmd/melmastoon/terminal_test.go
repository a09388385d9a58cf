package main

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestExportsAreReadBack has a shell read what env prints: no value may run as a command.
func TestExportsAreReadBack(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"T_PLAIN": "http://127.0.0.1:8081", "T_EMPTY": "", "T_QUOTES": `it's "quoted" \ back`, "T_SHELL": "$(echo run) `echo run` $HOME; exit 3 & # x",
		"T_LINES": "{\n  \"keys\": []\n}\n.",
	}
	var script bytes.Buffer
	if err := writeExports(&script, want); err != nil {
		t.Fatal(err)
	}
	for name := range want {
		script.WriteString("printf '%s=%s\\0' " + name + " \"$" + name + "\"\n")
	}
	cmd := exec.CommandContext(testkit.Context(t), "sh", "-eu")
	cmd.Stdin = &script
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for pair := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		name, value, _ := strings.Cut(pair, "=")
		got[name] = value
	}
	if diff := cmp.Diff(maps.Clone(want), got); diff != "" {
		t.Error(diff)
	}
}

func TestEndOfALog(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 20_000)
	for _, tc := range []struct {
		name, text string
		lines      int
		want       string
	}{
		{"empty", "", 3, ""},
		{"fewer", "a\nb\n", 3, "a\nb\n"},
		{"as many", "a\nb\nc\n", 3, "a\nb\nc\n"},
		{"more", "a\nb\nc\nd\n", 3, "b\nc\nd\n"},
		{"a line under way", "a\nb\nc\nd", 2, "c\nd"},
		{"all", "a\nb\n", 0, "a\nb\n"},
		{"longer than a block", "a\n" + long + "\n" + long + "\nz\n", 3, long + "\n" + long + "\nz\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "x.log")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			var out bytes.Buffer
			if err := copyEnd(&out, f, tc.lines); err != nil || out.String() != tc.want {
				t.Errorf("%q, %v; want %q", out.String(), err, tc.want)
			}
		})
	}
}

func TestFaultsAreDescribed(t *testing.T) {
	t.Parallel()
	half := 0.5
	for _, tc := range []struct {
		fault sim.Fault
		want  string
	}{
		{sim.Fault{}, "nothing"},
		{sim.Fault{LatencyMs: 100, JitterMs: 50}, "100 to 150 ms slower"},
		{sim.Fault{Status: 500}, "100% fail with 500"},
		{sim.Fault{ErrorRate: &half, Hang: true}, "50% fail with 503, never answers"},
		{sim.Fault{Garbage: true, Done: true}, "answers with garbage, after the work is done"},
	} {
		if got := tc.fault.String(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestPrinter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newPrinter(&out, slog.LevelInfo)
	p.step("making tea")()
	log := slog.New(p).With("name", "tea")
	log.Debug("unheard")
	log.Info("redis ready", "port", 6379, "took", 1234567*time.Microsecond)
	log.Warn("service ended", "error", "")
	if want := "making tea\nredis ready (name tea, port 6379, 1.23s)\nwarn: service ended (name tea)\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
