package daemon

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"
)

// NewLogger returns the process's logger. While a Daemon runs with it, lines
// below the level of a warning are collected for a moment before they are
// written; a warning or an error is out when the call that logs it returns.
func NewLogger(w io.Writer, s Settings, service string) *slog.Logger {
	over := func(w io.Writer) slog.Handler {
		opts := &slog.HandlerOptions{Level: s.LogLevel}
		if s.LogFormat == "text" {
			return slog.NewTextHandler(w, opts)
		}
		return slog.NewJSONHandler(w, opts)
	}
	names := []any{"service", service, "instance", s.InstanceName(service)}
	out := newSink(w, func(dropped int) []byte {
		var line bytes.Buffer
		slog.New(over(&line)).With(names...).Error("log lines dropped: the log was not read fast enough or could not be written", "dropped", dropped)
		return line.Bytes()
	})
	return slog.New(&logHandler{Handler: over(out), sink: out, plain: s.LogFormat != "text"}).With(names...)
}

// buffered collects the logger's lines until the returned function is called.
func buffered(log *slog.Logger) (stop func()) {
	if h, ok := log.Handler().(*logHandler); ok {
		return h.sink.Buffer()
	}
	return func() {}
}

// flush returns when the logger's lines are out.
func flush(log *slog.Logger) {
	if h, ok := log.Handler().(*logHandler); ok {
		h.sink.Flush()
	}
}

// logHandler writes what slog.JSONHandler would. It encodes events whose names and
// values need no escaping, as that of every request, in half of the time, and
// leaves all others to slog.
type logHandler struct {
	slog.Handler
	sink  *sink
	plain bool
	attrs []byte // the encoded attributes of With
}

// maxLine is the capacity up to which a buffer is kept.
const maxLine = 16 << 10

// lines are buffers for one line each.
var lines = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// Handle implements slog.Handler.
func (h *logHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.write(ctx, r)
	if r.Level >= slog.LevelWarn {
		h.sink.Flush()
	}
	return err
}

func (h *logHandler) write(ctx context.Context, r slog.Record) error {
	if !h.plain {
		return h.Handler.Handle(ctx, r)
	}
	b, _ := lines.Get().(*[]byte)
	line, ok := h.appendRecord((*b)[:0], r)
	if !ok {
		lines.Put(b)
		return h.Handler.Handle(ctx, r)
	}
	_, err := h.sink.Write(line)
	if cap(line) <= maxLine {
		*b = line
		lines.Put(b)
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := &logHandler{Handler: h.Handler.WithAttrs(attrs), sink: h.sink, plain: h.plain, attrs: bytes.Clone(h.attrs)}
	for _, a := range attrs {
		if n.plain {
			n.attrs, n.plain = appendAttr(n.attrs, a)
		}
	}
	return n
}

// WithGroup implements slog.Handler.
func (h *logHandler) WithGroup(name string) slog.Handler {
	return &logHandler{Handler: h.Handler.WithGroup(name), sink: h.sink}
}

func (h *logHandler) appendRecord(b []byte, r slog.Record) (_ []byte, ok bool) {
	b, ok = appendTime(append(b, `{"time":`...), r.Time)
	if !ok || r.Time.IsZero() || !isPlain(r.Message) {
		return b, false
	}
	b = append(append(append(b, `,"level":"`...), r.Level.String()...), `","msg":"`...)
	b = append(append(append(b, r.Message...), '"'), h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		b, ok = appendAttr(b, a)
		return ok
	})
	return append(b, "}\n"...), ok
}

// appendAttr appends ,"key":value; it reports false for what slog has to encode.
func appendAttr(b []byte, a slog.Attr) ([]byte, bool) {
	if a.Key == "" || !isPlain(a.Key) {
		return b, false
	}
	b = append(append(append(b, `,"`...), a.Key...), `":`...)
	switch v := a.Value; v.Kind() {
	case slog.KindString:
		s := v.String()
		if !isPlain(s) {
			return b, false
		}
		return append(append(append(b, '"'), s...), '"'), true
	case slog.KindInt64:
		return strconv.AppendInt(b, v.Int64(), 10), true
	case slog.KindUint64:
		return strconv.AppendUint(b, v.Uint64(), 10), true
	case slog.KindDuration:
		return strconv.AppendInt(b, int64(v.Duration()), 10), true
	case slog.KindBool:
		return strconv.AppendBool(b, v.Bool()), true
	case slog.KindTime:
		return appendTime(b, v.Time())
	case slog.KindFloat64:
		f := v.Float64()
		// Beyond these bounds encoding/json writes an exponent.
		return strconv.AppendFloat(b, f, 'f', -1, 64), f == 0 || (math.Abs(f) >= 1e-6 && math.Abs(f) < 1e21)
	default:
		return b, false
	}
}

func appendTime(b []byte, t time.Time) ([]byte, bool) {
	if y := t.Year(); y < 0 || y > 9999 {
		return b, false
	}
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"'), true
}

// notPlain marks the bytes that JSON or slog escapes.
var notPlain = func() (odd [256]byte) {
	for c := range odd {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			odd[c] = 1
		}
	}
	return odd
}()

// isPlain reports whether s needs no escaping in JSON.
func isPlain(s string) bool {
	var odd byte
	for i := range len(s) { // without a branch: almost every text is plain
		odd |= notPlain[s[i]]
	}
	return odd == 0
}
