// Package sse writes server-sent events to many clients at once. A connection that has
// nothing to say costs its socket and a few hundred bytes: no goroutine waits with it,
// and no buffer is kept for it. A client that does not read is disconnected, and
// delays nothing but its own events.
//
// The package knows connections and the format of events
// (https://html.spec.whatwg.org/#server-sent-events), and nothing of what they say.
package sse

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxPending is how much a client may leave unread, beside what its socket holds.
	maxPending = 64 << 10
	// writeTimeout is how long a client may read nothing.
	writeTimeout = 10 * time.Second
)

// Event is one message.
type Event struct {
	ID    string // "": none
	Name  string
	Data  string
	Retry time.Duration // when the client may come again; zero: unsaid
}

// Append encodes the event.
func (e *Event) Append(b []byte) []byte {
	if e.Retry > 0 {
		b = append(strconv.AppendInt(append(b, "retry: "...), e.Retry.Milliseconds(), 10), '\n')
	}
	if e.ID != "" {
		b = append(append(append(b, "id: "...), e.ID...), '\n')
	}
	if e.Name != "" {
		b = append(append(append(b, "event: "...), e.Name...), '\n')
	}
	for line := range strings.SplitSeq(e.Data, "\n") {
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n')
}

// Conn is a client's connection. Its methods may be called at once, and none of them
// waits for the client.
type Conn struct {
	to   writer
	gone func(slow bool)

	mu      sync.Mutex
	pending []byte
	writing bool // a goroutine takes what is pending
	ending  bool // the connection is closed after what is pending
	cut     bool // it is closed, or about to be: nothing more is sent
	slow    bool // because the client does not read
	closed  chan struct{}
}

// writer is the way to the client.
type writer interface {
	write(b []byte) error
	close(clean bool)
}

// Accept begins the answer to a request. Gone is called once, from a goroutine of its
// own, when the client has left or was disconnected, and says whether it was too slow. The handler then calls Wait and
// returns. Over HTTP/1.1 the connection is taken over, and Wait returns at once.
func Accept(w http.ResponseWriter, r *http.Request, gone func(slow bool)) (*Conn, error) {
	h := w.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["X-Accel-Buffering"] = []string{"no"} // proxies pass events on as they come
	if r.ProtoMajor == 1 && r.ProtoMinor >= 1 {
		if c, err := takeOver(w, gone); !errors.Is(err, http.ErrNotSupported) {
			return c, err
		}
	}
	held := &heldWriter{w: w, control: http.NewResponseController(w)}
	w.WriteHeader(http.StatusOK)
	if err := held.write(nil); err != nil {
		return nil, err
	}
	return newConn(held, gone, make(chan struct{})), nil
}

func newConn(to writer, gone func(slow bool), closed chan struct{}) *Conn {
	return &Conn{to: to, gone: gone, closed: closed}
}

// takeOver takes the connection from its server and writes the head.
func takeOver(w http.ResponseWriter, gone func(slow bool)) (*Conn, error) {
	nc, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	var head strings.Builder
	head.WriteString("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nDate: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n")
	_ = w.Header().Write(&head) // never fails
	head.WriteString("\r\n")
	owned := &ownedWriter{nc: nc}
	if err := owned.send([]byte(head.String())); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return newConn(owned, gone, nil), nil
}

// Wait returns when the handler may.
func (c *Conn) Wait() {
	if c.closed != nil {
		<-c.closed
	}
}

// Send queues events.
func (c *Conn) Send(events ...Event) { c.queue(false, events) }

// End queues events and closes the connection after them.
func (c *Conn) End(events ...Event) { c.queue(true, events) }

func (c *Conn) queue(end bool, events []Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut || c.ending {
		return
	}
	for i := range events {
		c.pending = events[i].Append(c.pending)
	}
	c.ending = end
	if len(c.pending) > maxPending {
		c.cut, c.slow = true, true // the goroutine that writes is stuck, or will see it
		c.pending = nil
		if c.writing {
			go c.to.close(false) // ends its write
		}
	}
	if !c.writing {
		c.writing = true
		go c.flush()
	}
}

// flush writes what is pending until nothing is.
func (c *Conn) flush() {
	for {
		c.mu.Lock()
		b, end, cut := c.pending, c.ending, c.cut
		c.pending = nil
		if cut || len(b) == 0 {
			c.writing = false
			if cut || end {
				c.cut = true
				c.mu.Unlock()
				c.close(!cut)
				return
			}
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		if err := c.to.write(b); err != nil {
			c.mu.Lock()
			c.cut, c.pending = true, nil
			c.slow = c.slow || errors.Is(err, os.ErrDeadlineExceeded)
			c.mu.Unlock()
		}
	}
}

// close is called once, by the last flush.
func (c *Conn) close(clean bool) {
	c.to.close(clean)
	if c.closed != nil {
		close(c.closed)
	}
	c.mu.Lock()
	slow := c.slow
	c.mu.Unlock()
	c.gone(slow)
}

// ownedWriter is an HTTP/1.1 connection that was taken over. Each write is a chunk.
type ownedWriter struct{ nc net.Conn }

func (w *ownedWriter) write(b []byte) error {
	chunk := make([]byte, 0, len(b)+16)
	chunk = append(strconv.AppendInt(chunk, int64(len(b)), 16), "\r\n"...)
	return w.send(append(append(chunk, b...), "\r\n"...))
}

func (w *ownedWriter) send(b []byte) error {
	if err := w.nc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := w.nc.Write(b)
	return err
}

func (w *ownedWriter) close(clean bool) {
	if clean {
		_ = w.send([]byte("0\r\n\r\n")) // the client may have left
	}
	_ = w.nc.Close() // nothing can be done about it
}

// heldWriter is an answer whose handler waits: HTTP/2 has no connection to take over.
type heldWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (w *heldWriter) write(b []byte) error {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout)) // recorders of tests have none
	if _, err := w.w.Write(b); err != nil {
		return err
	}
	err := w.control.Flush()
	_ = w.control.SetWriteDeadline(time.Time{}) // the server's own would end a stream that is silent
	return err
}

func (w *heldWriter) close(clean bool) {
	if !clean {
		_ = w.control.SetWriteDeadline(time.Unix(1, 0)) // ends a write that waits
	}
}
