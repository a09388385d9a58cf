package secrets_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff/internal/secrets"
)

// vault is a source that a test changes.
type vault struct {
	mu     sync.Mutex
	secret string
	err    error
	looks  int
}

func (v *vault) Load(context.Context) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.looks++
	return []byte(v.secret), v.err
}

func (v *vault) String() string { return "vault" }

func (v *vault) set(secret string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.secret, v.err = secret, err
}

func TestWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var (
			log  bytes.Buffer
			v    = &vault{secret: "first"}
			used string
		)
		w, err := secrets.Watch(t.Context(), secrets.Config{
			Source: v, Every: 10 * time.Second, MinInterval: time.Second, Now: time.Now,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
			Apply: func(secret []byte) error {
				if strings.HasPrefix(string(secret), "broken") {
					return errors.New("not a keyring")
				}
				used = string(secret)
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = w.Run(ctx) })
		step := func(want string) {
			t.Helper()
			time.Sleep(11 * time.Second) //nolint:forbidigo // the bubble's clock
			synctest.Wait()
			if used != want {
				t.Errorf("in use: %q, want %q", used, want)
			}
		}
		step("first")
		v.set("second", nil)
		step("second")
		v.set("broken-secret", nil)
		step("second")
		step("second")
		v.set("third", errors.New("away"))
		step("second")
		v.set("third", nil)
		step("third")
		if n := strings.Count(log.String(), "new secret is invalid"); n != 1 {
			t.Errorf("the broken secret was reported %d times, want once", n)
		}

		// A caller that meets a newer key need not wait for the next look, but
		// cannot make us look all the time.
		v.set("fourth", nil)
		if !w.Refresh(t.Context()) || used != "fourth" {
			t.Errorf("refreshed to %q", used)
		}
		looks := v.looks
		for range 100 {
			if w.Refresh(t.Context()) {
				t.Error("nothing changed")
			}
		}
		if v.looks != looks {
			t.Errorf("%d looks in one moment", v.looks-looks)
		}
		for _, secret := range []string{"first", "second", "third", "fourth", "broken-secret"} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log holds %q", secret)
			}
		}
		cancel()
		wg.Wait()
	})
}

func TestWatchNeedsAUsableSecret(t *testing.T) {
	t.Parallel()
	ok := func([]byte) error { return nil }
	for name, cfg := range map[string]secrets.Config{
		"no file": {Source: secrets.File(filepath.Join(t.TempDir(), "none")), Apply: ok},
		"refused": {Source: secrets.Static("setting", []byte("hidden")), Apply: func([]byte) error { return errors.New("no") }},
	} {
		cfg.Now, cfg.Log = time.Now, slog.New(slog.DiscardHandler)
		if _, err := secrets.Watch(t.Context(), cfg); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := secrets.File(name).Load(t.Context()); err != nil || string(b) != "s" {
		t.Errorf("%q %v", b, err)
	}
	if err := os.WriteFile(name, make([]byte, 1<<20+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.File(name).Load(t.Context()); err == nil {
		t.Error("a file of any size was read")
	}
}
