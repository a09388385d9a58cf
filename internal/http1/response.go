package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxBuffered is how much of an answer without a length is buffered to find it.
	maxBuffered = 32 << 10
	// typicalHeaders is the first size of a header map: one that grows costs more.
	// Every answer has a map of its own, as a handler may keep it.
	typicalHeaders = 8
	// maxCopied is the longest body that is copied behind its head, to be sent with
	// one plain write.
	maxCopied = 16 << 10
)

// writer is the ResponseWriter of one request.
type writer struct {
	conn   *conn
	x      *exchange
	header http.Header

	lines    [2]string // header lines of FinishHead
	status   int       // 0 until WriteHeader
	length   int64     // declared by the handler; -1: none
	written  int64
	typed    bool    // there is a content type
	bodied   bool    // the status allows a body
	last     bool    // the connection is closed after this answer
	sent     bool    // the head has been sent
	chunked  bool    // the body is sent in chunks
	over     bool    // the handler has returned or hijacked the connection
	head     *[]byte // formatted, not yet sent
	buffered *[]byte // the body of an answer without a length
	err      error   // of the first write that failed
}

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, maxRequest)
	return &b
}}

func newBuffer() *[]byte {
	b, _ := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// freeBuffer returns a buffer to the pool, unless it has grown too large to keep.
func freeBuffer(b **[]byte) {
	if *b != nil && cap(**b) <= 2*maxBuffered {
		buffers.Put(*b)
	}
	*b = nil
}

func (w *writer) begin(c *conn, x *exchange) {
	w.conn, w.x, w.length = c, x, -1
	w.header = make(http.Header, typicalHeaders)
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. It formats the header; later changes
// of the map have no effect. Informational statuses are not supported.
func (w *writer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid status %d", status))
	}
	if w.status != 0 || w.over || status < 200 {
		return
	}
	w.status = status
	w.bodied = status != http.StatusNoContent && status != http.StatusNotModified
	if !w.bodied {
		w.length = -1
	}
	w.head = newBuffer()
	b := append(*w.head, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	b = append(b, "\r\n"...)
	dated := false
	for name, values := range w.header {
		switch name {
		case "Content-Length":
			w.setLength(values)
			continue
		case "Transfer-Encoding", "Trailer":
			continue // the writer chooses the first; trailers are not supported
		case "Connection":
			w.last = w.last || len(values) > 0 && strings.EqualFold(values[0], "close")
			continue
		case "Content-Encoding", "Content-Type":
			w.typed = true // the type of an encoded body cannot be detected
		case "Date":
			dated = true
		}
		for _, v := range values {
			b = appendLine(b, name, v)
		}
	}
	b = append(append(b, w.lines[0]...), w.lines[1]...)
	if !dated {
		b = append(append(append(b, "Date: "...), date(time.Now())...), "\r\n"...)
	}
	*w.head = b
}

func (w *writer) setLength(values []string) {
	if len(values) == 0 || !w.bodied {
		return
	}
	if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && n >= 0 {
		w.length = n
	}
}

// FinishHead gives the answer the length of its body and two blocks of header
// lines, formatted as http.Header.Write does it and with the content type among
// them. They are sent beside the header map. It reports false, and does nothing,
// once the answer has begun.
func (w *writer) FinishHead(length int, lines, more string) bool {
	if w.status != 0 || w.over {
		return false
	}
	w.length, w.lines, w.typed = int64(length), [2]string{lines, more}, true
	return true
}

// appendLine formats a header as net/http does: a name that is no token is left
// out, and a line break in a value becomes a space.
func appendLine(b []byte, name, value string) []byte {
	if name == "" || !consistsOf(name, isToken) {
		return b
	}
	b = append(append(b, name...), ": "...)
	at := len(b)
	b = append(b, textproto.TrimString(value)...)
	for i, c := range b[at:] {
		if c == '\r' || c == '\n' {
			b[at+i] = ' '
		}
	}
	return append(b, "\r\n"...)
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case len(p) == 0:
		return 0, nil
	case !w.bodied:
		return 0, http.ErrBodyNotAllowed
	case w.length >= 0 && w.written+int64(len(p)) > w.length:
		return 0, http.ErrContentLength
	}
	if !w.typed {
		w.typed = true
		*w.head = appendLine(*w.head, "Content-Type", http.DetectContentType(p))
	}
	w.written += int64(len(p))
	switch {
	case w.isHead():
	case w.sent:
		w.send(p)
	case w.length >= 0:
		w.sendHead(p)
	case w.written > maxBuffered:
		w.stream()
		w.send(p)
	default:
		if w.buffered == nil {
			w.buffered = newBuffer()
		}
		*w.buffered = append(*w.buffered, p...)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// usable returns the error of a call that comes too late.
func (w *writer) usable() error {
	switch {
	case !w.over:
		return nil
	case w.conn.hijacked:
		return http.ErrHijacked
	}
	return http.ErrHandlerTimeout
}

func (w *writer) isHead() bool { return w.x.r.Method == http.MethodHead }

// WriteString implements io.StringWriter.
func (w *writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

var (
	_ io.StringWriter = (*writer)(nil)
	_ http.Flusher    = (*writer)(nil)
	_ http.Hijacker   = (*writer)(nil)
)

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// FlushError sends what was written so far; http.ResponseController calls it. An
// answer without a length is sent in chunks from then on, one per Write.
func (w *writer) FlushError() error {
	if err := w.usable(); err != nil {
		return err
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.sent:
	case w.length >= 0 || !w.bodied || w.isHead():
		w.sendHead(nil)
	default:
		w.stream()
	}
	return w.err
}

// SetWriteDeadline replaces the server's write timeout for this answer.
func (w *writer) SetWriteDeadline(at time.Time) error {
	if err := w.usable(); err != nil {
		return err
	}
	w.conn.deadlinesSet.Store(true)
	return w.conn.nc.SetWriteDeadline(at)
}

// SetReadDeadline limits how long the client is watched while the handler waits;
// the body has been read before the handler runs.
func (w *writer) SetReadDeadline(at time.Time) error {
	if err := w.usable(); err != nil {
		return err
	}
	w.conn.deadlinesSet.Store(true)
	return w.x.ctx.setReadDeadline(at)
}

// EnableFullDuplex always succeeds: the body has been read before the handler runs.
func (w *writer) EnableFullDuplex() error { return w.usable() }

// Hijack implements http.Hijacker.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := w.usable(); err != nil {
		return nil, nil, err
	}
	if w.status != 0 {
		return nil, nil, errors.New("http1: Hijack after WriteHeader or Write")
	}
	rw, err := w.conn.hijack(w.x)
	if err != nil {
		return nil, nil, err
	}
	w.abandon()
	return w.conn.nc, rw, nil
}

// stream sends what is buffered, and has later writes sent at once.
func (w *writer) stream() {
	w.chunked = true
	w.sendHead(nil)
	if w.buffered != nil {
		w.send(*w.buffered)
	}
	freeBuffer(&w.buffered)
}

// sendHead sends the head, with the beginning of the body in the same packet.
func (w *writer) sendHead(p []byte) {
	w.sent = true
	if w.conn.s.draining.Load() {
		w.last = true
	}
	b := *w.head
	switch {
	case w.chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case w.length >= 0:
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, w.length, 10)
		b = append(b, "\r\n"...)
	}
	if w.last {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, "\r\n"...)
	if len(p) <= maxCopied {
		b = append(b, p...)
		_, w.err = w.conn.nc.Write(b)
	} else {
		parts := net.Buffers{b, p}
		_, w.err = parts.WriteTo(w.conn.nc)
	}
	*w.head = b
	freeBuffer(&w.head)
}

// send sends more of the body.
func (w *writer) send(p []byte) {
	if w.err != nil || len(p) == 0 {
		return
	}
	if !w.chunked {
		_, w.err = w.conn.nc.Write(p)
		return
	}
	size := append(strconv.AppendInt(nil, int64(len(p)), 16), "\r\n"...)
	parts := net.Buffers{size, p, []byte("\r\n")}
	_, w.err = parts.WriteTo(w.conn.nc)
}

// finish sends the rest of the answer and reports whether the connection can be
// used further.
func (w *writer) finish() bool {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.sent {
		// The whole body is buffered, so its length is known. That of a HEAD is known
		// only if the handler wrote the body.
		if w.length < 0 && w.bodied && (!w.isHead() || w.written > 0) {
			w.length = w.written
		}
		var all []byte
		if w.buffered != nil {
			all = *w.buffered
		}
		w.sendHead(all)
	} else if w.chunked && w.err == nil {
		_, w.err = io.WriteString(w.conn.nc, "0\r\n\r\n")
	}
	short := w.length > w.written && !w.isHead() // the client waits for more
	w.abandon()
	return w.err == nil && !w.last && !short
}

// abandon makes later calls of the handler fail.
func (w *writer) abandon() {
	w.over = true
	freeBuffer(&w.head)
	freeBuffer(&w.buffered)
}

// date is the value of the Date header, formatted once per second.
func date(now time.Time) string {
	if d := currentDate.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dateText{now.Unix(), now.UTC().Format(http.TimeFormat)}
	currentDate.Store(d)
	return d.text
}

type dateText struct {
	second int64
	text   string
}

var currentDate atomic.Pointer[dateText]
