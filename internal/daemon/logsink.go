package daemon

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	logBatch = 64 << 10               // bytes that are written at once
	logDelay = 100 * time.Millisecond // the longest that a line waits to be written
	// logWaiting bounds the bytes of lines that wait; as many again may be being
	// written.
	logWaiting = 1 << 20
	// logTimeout is how long the caller that logs an urgent line waits until it is
	// written, and how long a stop waits for the rest.
	logTimeout = 250 * time.Millisecond
)

// sink writes whole lines of the log. At first every line is written at once. While
// it is buffered, lines are collected and written by one goroutine: a system call
// per request would cost more than the request's own answer. If the log's reader
// stops reading, the service goes on, drops the lines that do not fit and logs later
// how many they were.
type sink struct {
	out    io.Writer
	notice func(dropped int) []byte // a line that says what was dropped

	mu       sync.Mutex
	buffered bool
	next     *batch // collects lines
	current  *batch // is being written; nil if none is
	spare    []byte
	dropped  int
	stuck    bool          // a write blocks: Flush no longer waits for it
	waiting  chan struct{} // there is something to write
	urgent   chan struct{} // and it cannot wait
}

type batch struct {
	lines []byte
	done  chan struct{} // closed once the lines are out
}

func newSink(out io.Writer, notice func(int) []byte) *sink {
	return &sink{
		out: out, notice: notice, next: &batch{done: make(chan struct{})},
		waiting: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
	}
}

// Write takes one line or a few whole ones.
func (s *sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.buffered {
		return s.out.Write(line)
	}
	before := len(s.next.lines)
	if before+len(line) > logWaiting {
		s.dropped += bytes.Count(line, []byte{'\n'})
		return len(line), nil
	}
	s.next.lines = append(s.next.lines, line...)
	if before == 0 {
		nudge(s.waiting)
	}
	if before < logBatch && len(s.next.lines) >= logBatch {
		nudge(s.urgent)
	}
	return len(line), nil
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // the signal is already pending
	}
}

// Flush returns when every line taken so far is written, or after logTimeout if
// the log's reader does not read.
func (s *sink) Flush() {
	s.mu.Lock()
	b := s.current
	if len(s.next.lines) > 0 {
		b = s.next
		nudge(s.urgent)
	}
	stuck := s.stuck
	s.mu.Unlock()
	if b == nil || stuck {
		return
	}
	timeout := time.NewTimer(logTimeout)
	defer timeout.Stop()
	select {
	case <-b.done:
	case <-timeout.C:
		s.mu.Lock()
		s.stuck = s.current != nil
		s.mu.Unlock()
	}
}

// Buffer begins to collect lines, until the returned function is called. That
// one returns when all are written, or after logTimeout if the reader does not read.
func (s *sink) Buffer() (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.buffered { // the first caller of Buffer ends it
		return s.Flush
	}
	s.buffered = true
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ending)
	}()
	return func() {
		close(ending)
		timeout := time.NewTimer(logTimeout)
		defer timeout.Stop()
		select {
		case <-ended:
		case <-timeout.C:
		}
	}
}

func (s *sink) run(ending <-chan struct{}) {
	delay := time.NewTimer(logDelay)
	defer delay.Stop()
	for {
		select {
		case <-s.waiting:
		case <-ending:
		}
		delay.Reset(logDelay)
		select {
		case <-delay.C:
		case <-s.urgent:
		case <-ending:
			for !s.end() {
				s.write()
			}
			return
		}
		s.write()
	}
}

// end goes back to writing every line at once. It reports whether all is out.
func (s *sink) end() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next.lines) > 0 {
		return false
	}
	s.buffered = false
	return true
}

// write hands over what has been collected.
func (s *sink) write() {
	s.mu.Lock()
	b := s.next
	if len(b.lines) == 0 {
		s.mu.Unlock()
		return
	}
	s.current = b
	s.next = &batch{lines: s.spare[:0], done: make(chan struct{})}
	s.spare = nil
	s.mu.Unlock()

	_, err := s.out.Write(b.lines)

	s.mu.Lock()
	if err != nil {
		s.dropped += bytes.Count(b.lines, []byte{'\n'})
	}
	dropped := s.dropped
	s.dropped, s.stuck = 0, false
	s.mu.Unlock()
	if dropped > 0 {
		if _, err = s.out.Write(s.notice(dropped)); err != nil {
			s.mu.Lock()
			s.dropped += dropped
			s.mu.Unlock()
		}
	}
	s.mu.Lock()
	s.current = nil
	if cap(b.lines) <= 2*logBatch { // a flood's buffer is not kept
		s.spare = b.lines
	}
	s.mu.Unlock()
	close(b.done)
}
