package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// teller writes log records for people: one line each, the message first and what
// else there is behind it.
type teller struct {
	level slog.Level
	mu    *sync.Mutex
	w     io.Writer
	attrs []slog.Attr
}

func newTeller(w io.Writer, level slog.Level) *teller {
	return &teller{level: level, mu: new(sync.Mutex), w: w}
}

// Enabled implements slog.Handler.
func (t *teller) Enabled(_ context.Context, level slog.Level) bool { return level >= t.level }

// WithAttrs implements slog.Handler.
func (t *teller) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *t
	more.attrs = append(append([]slog.Attr(nil), t.attrs...), attrs...)
	return &more
}

// WithGroup implements slog.Handler; there are no groups here.
func (t *teller) WithGroup(string) slog.Handler { return t }

// Handle implements slog.Handler.
func (t *teller) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	if r.Level >= slog.LevelWarn {
		line.WriteString(strings.ToLower(r.Level.String()) + ": ")
	}
	line.WriteString(r.Message)
	var behind []string
	add := func(a slog.Attr) bool {
		switch v := a.Value.Resolve(); {
		case a.Key == "took" && v.Kind() == slog.KindDuration:
			behind = append(behind, v.Duration().Round(10*time.Millisecond).String())
		case v.String() != "":
			behind = append(behind, a.Key+" "+v.String())
		}
		return true
	}
	for _, a := range t.attrs {
		add(a)
	}
	r.Attrs(add)
	if len(behind) > 0 {
		fmt.Fprintf(&line, " (%s)", strings.Join(behind, ", "))
	}
	return t.write(line.String())
}

func (t *teller) write(line string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := fmt.Fprintln(t.w, line)
	return err
}

// say writes a line that is no record of anything.
func (t *teller) say(line string) {
	if t.level <= slog.LevelInfo {
		_ = t.write(line) // what cannot be said is not worth a failure
	}
}

// stillEvery is how long a step may be silent.
const stillEvery = 10 * time.Second

// step says that something begins and, while it lasts, that it goes on. The returned
// function ends that.
func (t *teller) step(what string) (done func()) {
	t.say(what)
	begin, end := time.Now(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(stillEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				t.say(fmt.Sprintf("still %s (%s)", what, time.Since(begin).Round(time.Second)))
			case <-end:
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(end); wg.Wait() })
}
