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

// printer writes log records for people: one line each, the message first and what
// else there is behind it.
type printer struct {
	level slog.Level
	mu    *sync.Mutex
	w     io.Writer
	attrs []slog.Attr
}

func newPrinter(w io.Writer, level slog.Level) *printer {
	return &printer{level: level, mu: new(sync.Mutex), w: w}
}

// Enabled implements slog.Handler.
func (p *printer) Enabled(_ context.Context, level slog.Level) bool { return level >= p.level }

// WithAttrs implements slog.Handler.
func (p *printer) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *p
	more.attrs = append(append([]slog.Attr(nil), p.attrs...), attrs...)
	return &more
}

// WithGroup implements slog.Handler; there are no groups here.
func (p *printer) WithGroup(string) slog.Handler { return p }

// Handle implements slog.Handler.
func (p *printer) Handle(_ context.Context, r slog.Record) error {
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
	for _, a := range p.attrs {
		add(a)
	}
	r.Attrs(add)
	if len(behind) > 0 {
		fmt.Fprintf(&line, " (%s)", strings.Join(behind, ", "))
	}
	return p.write(line.String())
}

func (p *printer) write(line string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintln(p.w, line)
	return err
}

// say writes a line that is no record of anything.
func (p *printer) say(line string) {
	if p.level <= slog.LevelInfo {
		_ = p.write(line) // what cannot be said is not worth a failure
	}
}

// stillEvery is how long a step may be silent.
const stillEvery = 10 * time.Second

// step says that something begins and, while it lasts, that it goes on. The returned
// function ends that.
func (p *printer) step(what string) (done func()) {
	p.say(what)
	begin, end := time.Now(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(stillEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.say(fmt.Sprintf("still %s (%s)", what, time.Since(begin).Round(time.Second)))
			case <-end:
				return
			}
		}
	})
	return sync.OnceFunc(func() { close(end); wg.Wait() })
}
