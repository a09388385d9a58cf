package http1

import (
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
	// maxGathered is how much of an answer without a length is gathered to find it.
	maxGathered = 32 << 10
	// usualHeaders is how many an answer has: a map that grows costs more than one
	// that is large enough. Each answer has its own, whoever holds on to an old one.
	usualHeaders = 8
	// maxCopied is how much is rather copied behind its head than sent beside it.
	maxCopied = 16 << 10
)

// writer is the ResponseWriter of one request.
type writer struct {
	conn   *conn
	r      *http.Request
	header http.Header

	lines    [2]string // of the head, formatted before
	status   int
	length   int64 // that the handler declared; -1: none
	written  int64
	typed    bool    // a content type was given
	bodied   bool    // the status allows for a body
	last     bool    // the connection ends with this answer
	sent     bool    // the head is on its way
	chunked  bool    //
	over     bool    // the handler has returned
	head     *[]byte // what waits to be sent
	gathered *[]byte // and the body, if there is no length
	err      error
}

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, maxRequest)
	return &b
}}

func take() *[]byte {
	b, _ := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// give returns a buffer, unless it has grown far beyond the usual.
func give(b **[]byte) {
	if *b != nil && cap(**b) <= 2*maxGathered {
		buffers.Put(*b)
	}
	*b = nil
}

func (w *writer) begin(c *conn, r *http.Request) {
	w.conn, w.r, w.length = c, r, -1
	w.header = make(http.Header, usualHeaders)
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. The header is written down here:
// what becomes of the map afterwards comes too late.
func (w *writer) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid status %d", status))
	}
	if w.status != 0 || w.over || status < 200 { // nobody here sends interim answers
		return
	}
	w.status = status
	w.bodied = status != http.StatusNoContent && status != http.StatusNotModified
	if !w.bodied {
		w.length = -1
	}
	w.head = take()
	b := append(*w.head, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	b = append(b, "\r\n"...)
	dated := false
	for name, values := range w.header {
		switch name {
		case "Content-Length":
			w.declare(values)
			continue
		case "Transfer-Encoding", "Trailer":
			continue // the first is ours to choose, and nobody here sends trailers
		case "Connection":
			w.last = w.last || len(values) > 0 && strings.EqualFold(values[0], "close")
			continue
		case "Content-Encoding", "Content-Type":
			w.typed = true // or not for us to guess
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

func (w *writer) declare(values []string) {
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

// appendLine writes a header as net/http does: no name that is none, and no line
// within a line.
func appendLine(b []byte, name, value string) []byte {
	if name == "" || !plain(name, isToken) {
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
	if w.over {
		return 0, http.ErrHandlerTimeout
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
	case w.r.Method == http.MethodHead:
	case w.sent:
		w.send(p)
	case w.length >= 0:
		w.start(p)
	case w.written > maxGathered:
		w.stream()
		w.send(p)
	default:
		if w.gathered == nil {
			w.gathered = take()
		}
		*w.gathered = append(*w.gathered, p...)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (w *writer) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

var (
	_ io.StringWriter = (*writer)(nil)
	_ http.Flusher    = (*writer)(nil)
)

// Flush implements http.Flusher.
func (w *writer) Flush() {
	if w.over {
		return
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.sent {
		return
	}
	if w.length >= 0 || !w.bodied || w.r.Method == http.MethodHead {
		w.start(nil)
		return
	}
	w.stream()
}

// stream sends what was gathered, and the rest as it comes.
func (w *writer) stream() {
	w.chunked = true
	w.start(nil)
	if w.gathered != nil {
		w.send(*w.gathered)
	}
	give(&w.gathered)
}

// start sends the head, with the beginning of the body in the same packet.
func (w *writer) start(p []byte) {
	w.sent = true
	if w.conn.s.closing.Load() {
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
	give(&w.head)
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

// finish sends what is left and reports whether the connection can go on.
func (w *writer) finish() bool {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.sent {
		// All of it is here: so is its length. What a HEAD would have brought is only
		// known if the handler wrote it.
		if head := w.r.Method == http.MethodHead; w.length < 0 && w.bodied && (!head || w.written > 0) {
			w.length = w.written
		}
		var all []byte
		if w.gathered != nil {
			all = *w.gathered
		}
		w.start(all)
	} else if w.chunked && w.err == nil {
		_, w.err = io.WriteString(w.conn.nc, "0\r\n\r\n")
	}
	short := w.length > w.written && w.r.Method != http.MethodHead // the client waits for more
	w.abandon()
	return w.err == nil && !w.last && !short
}

// abandon ends the handler's time.
func (w *writer) abandon() {
	w.over = true
	give(&w.head)
	give(&w.gathered)
}

// date is the Date header of this second.
func date(now time.Time) string {
	if d := today.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dateLine{now.Unix(), now.UTC().Format(http.TimeFormat)}
	today.Store(d)
	return d.text
}

type dateLine struct {
	second int64
	text   string
}

var today atomic.Pointer[dateLine]
