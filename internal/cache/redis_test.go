package cache

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/testkit"
)

func TestLink(t *testing.T) {
	t.Parallel()
	m, err := newStoreMetrics("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newLink(dial(t, testkit.Redis(t)), m)
	ok := func(context.Context, rueidis.Client) error { return nil }
	fail := func(context.Context, rueidis.Client) error { return errors.New("connection refused") }
	hang := func(ctx context.Context, _ rueidis.Client) error { <-ctx.Done(); return ctx.Err() }
	refuse := func(ctx context.Context, c rueidis.Client) error {
		return c.Do(ctx, c.B().Arbitrary("NO-SUCH-COMMAND").Build()).Error()
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, step := range []struct {
		name    string
		do      func() error
		wantErr bool
		wantUp  bool
	}{
		{"before the log was read", func() error { return l.do(t.Context(), time.Second, "op", ok) }, true, false},
		{"the log was read", func() error { l.restore(); return nil }, false, true},
		{"works", func() error { return l.do(t.Context(), time.Second, "op", ok) }, false, true},
		{"fails", func() error { return l.do(t.Context(), time.Second, "op", fail) }, true, true},
		{"does not answer", func() error { return l.do(t.Context(), time.Millisecond, "op", hang) }, true, true},
		{"caller is gone", func() error { return l.do(gone, time.Second, "op", hang) }, true, true},
		{"a refusal is an answer", func() error { return l.do(t.Context(), time.Second, "op", refuse) }, true, true},
		{"fails once", func() error { return l.do(t.Context(), time.Second, "op", fail) }, true, true},
		{"fails twice", func() error { return l.do(t.Context(), time.Second, "op", fail) }, true, true},
		{"fails thrice", func() error { return l.do(t.Context(), time.Second, "op", fail) }, true, false},
		{"is not asked", func() error { return l.do(t.Context(), time.Second, "op", ok) }, true, false},
		{"a probe passes, the log is not read yet", func() error { return l.call(t.Context(), time.Second, "op", ok) }, false, false},
		{"the log is read", func() error { l.restore(); return nil }, false, true},
	} {
		if err := step.do(); (err != nil) != step.wantErr || l.up() != step.wantUp {
			t.Errorf("%s: error %v, up %v", step.name, err, l.up())
		}
	}
}
