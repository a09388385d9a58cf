package world_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/world"
)

func TestFind(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	notRunning := func(when string) {
		t.Helper()
		_, err := world.Find(home)
		if gone, ok := errors.AsType[*world.NotRunningError](err); !ok || gone.Home != home {
			t.Errorf("%s: %v, want that none runs in %s", when, err, home)
		}
	}
	notRunning("before")

	want := world.World{
		Home: home, PID: 7, Since: time.Date(2077, 5, 12, 8, 0, 0, 0, time.UTC), Logs: home + "/logs",
		Environment: map[string]string{"A_URL": "http://127.0.0.1:1", "A_SECRET": "it's $HOME"},
	}
	withdraw, err := want.Announce()
	if err != nil {
		t.Fatal(err)
	}
	got, err := world.Find(home)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	note := filepath.Join(home, "running.json")
	info, err := os.Stat(note)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the note with secrets: %v %v", info, err)
	}
	if _, err := want.Announce(); err == nil {
		t.Error("a second platform has taken the note over")
	}
	left, err := os.ReadFile(note)
	if err != nil {
		t.Fatal(err)
	}
	if err := withdraw(); err != nil {
		t.Fatal(err)
	}
	notRunning("after the stop")

	// As a killed platform leaves it: the file, and no process that holds its lock.
	if err := os.WriteFile(note, left, 0o600); err != nil {
		t.Fatal(err)
	}
	notRunning("after a crash")
	if withdraw, err = want.Announce(); err != nil {
		t.Fatalf("on top of a note that was left: %v", err)
	}
	if err := withdraw(); err != nil {
		t.Error(err)
	}
}

// TestFromArgs changes the environment, so it runs alone.
func TestFromArgs(t *testing.T) {
	t.Setenv(world.WorldEnv, "")
	t.Setenv("WORLD_TEST_SET", "mine")
	t.Setenv("WORLD_TEST_UNSET", "")
	if err := os.Unsetenv("WORLD_TEST_UNSET"); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	withdraw, err := world.World{Home: home, Environment: map[string]string{"WORLD_TEST_SET": "its", "WORLD_TEST_UNSET": "its"}}.Announce()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = withdraw() }() // with the directory

	for _, tc := range []struct {
		name     string
		home     string // MELMASTOON_HOME
		args     []string
		wantArgs []string
		wantErr  bool
		want     string
	}{
		{"no flag", home, []string{"events", "tail"}, []string{"events", "tail"}, false, ""},
		{"after --", home, []string{"x", "--", "--world"}, []string{"x", "--", "--world"}, false, ""},
		{"none runs there", "/nonexistent", []string{"--world", "jobs"}, nil, true, ""},
		{"directory", "/nonexistent", []string{"jobs", "--world=" + home, "all"}, []string{"jobs", "all"}, false, "its"},
		{"alone", home, []string{"--world", "jobs"}, []string{"jobs"}, false, "its"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv(world.HomeEnv, tc.home)
			got, err := world.FromArgs(tc.args)
			if (err != nil) != tc.wantErr {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.wantArgs, got); diff != "" {
				t.Error(diff)
			}
			if v := os.Getenv("WORLD_TEST_UNSET"); v != tc.want {
				t.Errorf("unset variable is %q, want %q", v, tc.want)
			}
			if v := os.Getenv("WORLD_TEST_SET"); v != "mine" {
				t.Errorf("variable that was set is %q now", v)
			}
		})
	}
}

func TestMakeHomeSaysHowToChooseAnother(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	if got, err := world.MakeHome(dir); err != nil || got != dir {
		t.Errorf("%s %v", got, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := world.MakeHome(filepath.Join(file, "c")); err == nil || !strings.Contains(err.Error(), world.HomeEnv) {
		t.Errorf("%v, want one that names %s", err, world.HomeEnv)
	}
}
