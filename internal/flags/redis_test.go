package flags

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func open(t *testing.T, url string) rueidis.Client {
	t.Helper()
	c, err := redis.Open(redis.Config{URL: url, Tier: "flags", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// heard calls a function whenever flags have changed.
type heard func()

func (heard) Enabled(context.Context, slog.Level) bool    { return true }
func (h heard) Handle(context.Context, slog.Record) error { h(); return nil }
func (h heard) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h heard) WithGroup(string) slog.Handler             { return h }

// change runs a command that changes the flags under key, and announces that.
func change(t *testing.T, c rueidis.Client, key string, cmd rueidis.Completed) {
	t.Helper()
	if err := c.Do(t.Context(), cmd).Error(); err != nil {
		t.Fatal(err)
	}
	if err := c.Do(t.Context(), c.B().Publish().Channel(key).Message("").Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

func set(t *testing.T, c rueidis.Client, key, text string) {
	t.Helper()
	change(t, c, key, c.B().Hset().Key(key).FieldValue().FieldValue(someFlag, text).Build())
}

// running starts flags and returns them, and a function that waits until a change to flag
// brings what ok wants.
func running(t *testing.T, cfg Config) (f *Flags, until func(what string, ok func() bool)) {
	t.Helper()
	bell := make(chan struct{}, 1)
	cfg.Log = slog.New(heard(func() {
		select {
		case bell <- struct{}{}:
		default:
		}
	}))
	f = newFlags(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return f, func(what string, ok func() bool) {
		t.Helper()
		late := testkit.Context(t).Done()
		for !ok() {
			select {
			case <-bell:
			case <-late:
				t.Fatal("never: ", what)
			}
		}
	}
}

func TestRedisPush(t *testing.T) {
	t.Parallel()
	key := "test:flags:" + t.Name()
	mine, theirs := open(t, testkit.Redis(t)), open(t, testkit.Redis(t))
	f, until := running(t, Config{Sources: []Source{NewRedis(mine, key)}, Every: time.Hour}) // only pushes can bring news
	t.Cleanup(func() {
		theirs.Do(context.Background(), theirs.B().Del().Key(key).Build())
	})

	for _, on := range []string{"true", "false", "true"} {
		set(t, theirs, key, on)
		until("set to "+on, func() bool { return f.String(someFlag, "") == on })
	}
	change(t, theirs, key, theirs.B().Hdel().Key(key).Field(someFlag).Build())
	until("unset", func() bool { return f.String(someFlag, "default") == "default" })
}

func TestRedisPoll(t *testing.T) {
	t.Parallel()
	key := "test:flags:" + t.Name()
	c := open(t, testkit.Redis(t))
	src := NewRedis(c, key)
	t.Cleanup(func() {
		c.Do(context.Background(), c.B().Del().Key(key).Build())
	})
	f := newFlags(t, Config{Sources: []Source{src}})
	if err := f.Refresh(t.Context()); err != nil || f.Bool("a", true) != true {
		t.Errorf("no hash: %v", err)
	}
	set := c.B().Hset().Key(key).FieldValue().FieldValue("a", "off").FieldValue("b", "7").Build()
	if err := c.Do(t.Context(), set).Error(); err != nil {
		t.Fatal(err)
	}
	if err := f.Refresh(t.Context()); err != nil || f.Bool("a", true) || f.Int("b", 0) != 7 {
		t.Errorf("%v, a %v, b %d", err, f.Bool("a", true), f.Int("b", 0))
	}
	many := c.B().Hset().Key(key).FieldValue()
	for name := range make1001() {
		many = many.FieldValue("n"+name, "1")
	}
	if err := c.Do(t.Context(), many.Build()).Error(); err != nil {
		t.Fatal(err)
	}
	if err := f.Refresh(t.Context()); err == nil || f.Int("b", 0) != 7 {
		t.Errorf("too many flags: %v", err)
	}
}

// Redis dies and comes back empty-handed: the switch stays where it was until
// another can be set, and pushes work again by themselves.
func TestRedisOutage(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	key := "test:flags"
	c := open(t, server.URL())
	set(t, c, key, "true")
	f, until := running(t, Config{Sources: []Source{NewRedis(c, key)}, Every: 200 * time.Millisecond, Timeout: time.Second})
	until("on", func() bool { return f.Bool(someFlag, false) })

	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := f.Refresh(t.Context()); err == nil || !f.Bool(someFlag, false) {
		t.Errorf("during the outage: %v, %v", f.Bool(someFlag, false), err)
	}
	if err := server.Start(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	until("gone with the server's memory", func() bool { return !f.Bool(someFlag, false) })
	set(t, open(t, server.URL()), key, "true")
	until("on again", func() bool { return f.Bool(someFlag, false) })
}
