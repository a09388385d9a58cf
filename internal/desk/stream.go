package desk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is one message of a stream.
type Event struct {
	ID   string
	Name string // "message" where the server gives none
	Data string
}

// ErrSuperseded means that the device opened a newer stream: one is served.
var ErrSuperseded = errors.New("a newer stream of this device took over")

const (
	streamRetry    = time.Second      // until the server says otherwise
	maxStreamRetry = 30 * time.Second // after failures
	streamSilence  = time.Minute      // four pings of the server
	maxStreamLine  = 1 << 20
)

// Follow reads the stream of a path, such as /sse/stream, and hands on each
// event. It resumes after the last event whenever the stream ends, and proves
// itself anew when the server asks for it. It returns when the context ends, the
// service refuses, a newer stream takes over, or each returns an error.
func (c *Client) Follow(ctx context.Context, path string, each func(Event) error) error {
	f := follower{c: c, path: path, each: each, retry: streamRetry}
	if in, err := c.current(); err == nil {
		f.last = in.LastEventID
	}
	defer f.keep()
	for failures := 0; ; {
		wait, err := f.once(ctx)
		if err == nil {
			failures = 0
		} else if failures++; !f.mayRetry(ctx, err) {
			return err
		}
		if wait == 0 {
			wait = min(f.retry<<min(failures, 10), maxStreamRetry)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// follower is a stream over its connections.
type follower struct {
	c     *Client
	path  string
	each  func(Event) error
	last  string // id of the last event
	retry time.Duration
}

// keep remembers the last event for the next run.
func (f *follower) keep() {
	_ = f.c.update(func(s *state) error { // without it, the next run starts with what is new
		if s.SignedIn != nil {
			next := *s.SignedIn
			next.LastEventID = f.last
			s.SignedIn = &next
		}
		return nil
	})
}

// stopped wraps what ends a stream for good.
type stopped struct{ error }

func (e stopped) Unwrap() error { return e.error }

func (f *follower) mayRetry(ctx context.Context, err error) bool {
	if _, ok := errors.AsType[stopped](err); ok || ctx.Err() != nil || errors.Is(err, ErrSignedOut) {
		return false
	}
	r, refused := errors.AsType[*Refusal](err)
	return !refused || r.Status >= http.StatusInternalServerError || r.Status == http.StatusTooManyRequests
}

// once reads one connection to its end. Wait is how long the server wants to be
// left alone.
func (f *follower) once(ctx context.Context) (wait time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(streamSilence, func() { cancel(errors.New("the stream fell silent")) })
	defer silence.Stop()
	header := http.Header{"Accept": {"text/event-stream"}}
	if f.last != "" {
		header.Set("Last-Event-Id", f.last)
	}
	res, err := f.c.Send(ctx, Call{Method: http.MethodGet, Path: f.path, Header: header})
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // absent or a date: our own pace
		return time.Duration(seconds) * time.Second, peek(res)
	}
	if kind := res.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return 0, stopped{fmt.Errorf("%s is not a stream but %s", f.path, kind)}
	}
	return 0, f.read(ctx, res.Body, silence)
}

// read follows the format of https://html.spec.whatwg.org/#server-sent-events.
func (f *follower) read(ctx context.Context, body io.Reader, silence *time.Timer) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxStreamLine)
	var (
		ev   Event
		data []string
	)
	for lines.Scan() {
		silence.Reset(streamSilence)
		if lines.Text() == "" {
			if data != nil {
				ev.Data, ev.ID = strings.Join(data, "\n"), f.last
				if ev.Name == "" {
					ev.Name = "message"
				}
				if err := f.handle(ctx, ev); err != nil {
					return err
				}
			}
			ev, data = Event{}, nil
			continue
		}
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			f.last = value
		case "event":
			ev.Name = value
		case "data":
			data = append(data, value)
		case "retry":
			if ms, err := strconv.Atoi(value); err == nil && ms >= 0 {
				f.retry = min(time.Duration(ms)*time.Millisecond, maxStreamRetry)
			}
		}
	}
	return lines.Err()
}

// handle hands an event on and does what it asks the device for.
func (f *follower) handle(ctx context.Context, ev Event) error {
	if err := f.each(ev); err != nil {
		return stopped{err}
	}
	switch ev.Name {
	case "superseded":
		return stopped{ErrSuperseded}
	case "reauth":
		if err := f.c.Refresh(ctx); err != nil {
			return err
		}
		a, err := f.c.Do(ctx, http.MethodPost, "/sse/reauth", nil)
		if err != nil {
			return err
		}
		return a.Err()
	}
	return nil
}
