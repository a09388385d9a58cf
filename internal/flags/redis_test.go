package flags

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

func open(t *testing.T, url string) rueidis.Client {
	t.Helper()
	c, err := redis.Open(redis.Config{URL: url, Tier: "flags", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// running starts f and returns a function that waits until a change to flag
// brings what ok wants.
func running(t *testing.T, f *Flags) (until func(what string, ok func() bool)) {
	t.Helper()
	var mu sync.Mutex
	bell := make(chan struct{}, 1)
	f.OnChange(func([]string) {
		mu.Lock()
		defer mu.Unlock()
		select {
		case bell <- struct{}{}:
		default:
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func(what string, ok func() bool) {
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
	f := newFlags(t, Config{Sources: []Source{NewRedis(mine, key)}, Every: time.Hour}) // only pushes can bring news
	until := running(t, f)
	operator := NewRedis(theirs, key)
	t.Cleanup(func() {
		theirs.Do(context.Background(), theirs.B().Del().Key(key).Build())
	})

	for _, on := range []string{"true", "false", "true"} {
		if err := operator.Set(t.Context(), someFlag, on); err != nil {
			t.Fatal(err)
		}
		until("set to "+on, func() bool { return f.String(someFlag, "") == on })
	}
	if err := operator.Unset(t.Context(), someFlag); err != nil {
		t.Fatal(err)
	}
	until("unset", func() bool { return f.String(someFlag, "default") == "default" })
	if err := operator.Set(t.Context(), "x", string(make([]byte, maxValue+1))); err == nil {
		t.Error("a huge value was set")
	}
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
	src := NewRedis(c, key)
	if err := src.Set(t.Context(), someFlag, "true"); err != nil {
		t.Fatal(err)
	}
	f := newFlags(t, Config{Sources: []Source{src}, Every: 200 * time.Millisecond, Timeout: time.Second})
	until := running(t, f)
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
	operator := NewRedis(open(t, server.URL()), key)
	if err := operator.Set(t.Context(), someFlag, "true"); err != nil {
		t.Fatal(err)
	}
	until("on again", func() bool { return f.Bool(someFlag, false) })
}
