package doctor

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// Checks run beside each other and are told in their order; one that fails, hangs or
// panics says so, and the others are not held up.
func TestExamination(t *testing.T) {
	t.Parallel()
	x := NewExamination(service.Identity{Name: "test"}, &service.Settings{Settings: daemon.Settings{Environment: "test"}}, Settings{Timeout: time.Minute})
	first, second, free := make(chan struct{}), make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(free) })
	closed := make(chan struct{})
	x.onEnd(func() { close(closed) })
	x.Add(
		Check{Area: "a", Name: "one", Run: func(context.Context) ([]Finding, error) { // ends when the second runs
			close(first)
			<-second
			return Good("content with %d", 2), nil
		}},
		Check{Area: "a", Name: "two", Run: func(context.Context) ([]Finding, error) {
			<-first
			close(second)
			return Bad("mend\x1b[2J it", "broken"), nil
		}},
		Check{Area: "b", Name: "fails", Run: func(context.Context) ([]Finding, error) { return nil, errors.New("first\n\tsecond") }},
		Check{Area: "b", Name: "panics", Run: func(context.Context) ([]Finding, error) { panic("oh") }},
		Check{Area: "b", Name: "hangs", Timeout: time.Nanosecond, Run: func(context.Context) ([]Finding, error) { <-free; return nil, nil }},
		Check{Area: "b", Name: "late", Timeout: time.Nanosecond, Run: func(ctx context.Context) ([]Finding, error) { <-ctx.Done(); return nil, ctx.Err() }},
		Check{Area: "b", Name: "stands on another", Run: func(context.Context) ([]Finding, error) { return nil, errAway }},
		Check{Area: "c", Name: "last", Run: func(context.Context) ([]Finding, error) { return Good("refused"), nil }},
		Check{Area: "a", Name: "three", Run: func(context.Context) ([]Finding, error) { return Good("in its place"), nil }},
	)
	var out bytes.Buffer
	err := x.Run(testkit.Context(t), &out)
	if exit, ok := errors.AsType[*daemon.ExitError](err); !ok || exit.Status != 1 {
		t.Errorf("%v, want the exit status 1", err)
	}
	<-closed
	const slow = "gave no answer within 1ns\n" +
		"                                                        do: see whether the server is overloaded or a firewall drops packets; --timeout allows more\n"
	const want = "test in test\n" +
		"\na\n" +
		"  ok       one                                          content with 2\n" +
		"  wrong    two                                          broken\n" +
		"                                                        do: mend[2J it\n" +
		"  ok       three                                        in its place\n" +
		"\nb\n" +
		"  wrong    fails                                        first second\n" +
		"                                                        do: see whether the address and the credentials are right and the server is up\n" +
		"  wrong    panics                                       the check itself failed: oh\n" +
		"                                                        do: report this as a defect of the service\n" +
		"  wrong    hangs                                        " + slow +
		"  wrong    late                                         " + slow +
		"  warning  stands on another                            not checked: the server could not be reached\n" +
		"\nc\n" +
		"  ok       last                                         refused\n" +
		"\n3 ok, 1 warnings, 5 wrong\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}
