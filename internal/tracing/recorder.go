package tracing

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of OTLP's messages (opentelemetry/proto/trace/v1).
const (
	spanTraceID, spanID, spanParent, spanName, spanKind, spanStart, spanEnd protowire.Number = 1, 2, 4, 5, 6, 7, 8
	spanAttributes, spanEvents, spanLinks, spanStatus, spanFlags            protowire.Number = 9, 11, 13, 15, 16
	eventTime, eventName, eventAttributes                                   protowire.Number = 1, 2, 3
	isRemoteKnown, isRemote                                                 uint32           = 0x100, 0x200 // flags
)

// maxSpan bounds one span: what would make it longer is left out.
const maxSpan = 64 << 10

// Recorder makes the spans of a process. Each is written as OTLP has it while it is
// recorded: the library's spans, which are gathered, copied and converted first, make a
// warm request in detail cost twice as much (docs/performance.md).
type Recorder struct {
	ended  func(span []byte)
	detail bool
}

// NewRecorder returns a Recorder of spans that take detail or do not; ended has each when
// it is over, and must not keep its bytes.
func NewRecorder(detail bool, ended func(span []byte)) *Recorder {
	if detail {
		detailing.Store(true)
	}
	return &Recorder{ended: ended, detail: detail}
}

// start begins a span: below another, or one of a trace of its own.
func (r *Recorder) start(parent trace.SpanContext, name string, kind trace.SpanKind, causes ...trace.SpanContext) *Span {
	ids := trace.SpanContextConfig{TraceID: parent.TraceID(), TraceFlags: parent.TraceFlags() | trace.FlagsSampled}
	if !ids.TraceID.IsValid() {
		binary.NativeEndian.PutUint64(ids.TraceID[:8], rand.Uint64())   //nolint:gosec // rare, and no secret
		binary.NativeEndian.PutUint64(ids.TraceID[8:], rand.Uint64()|1) //nolint:gosec // see above; never all zero
	}
	binary.NativeEndian.PutUint64(ids.SpanID[:], rand.Uint64()|1)                                  //nolint:gosec // see above
	s := &Span{of: r, context: trace.NewSpanContext(ids), name: name, text: texts.Get().(*[]byte)} //nolint:forcetypeassert // its New
	b := appendBytes((*s.text)[:0], spanTraceID, ids.TraceID[:])
	b = appendBytes(b, spanID, ids.SpanID[:])
	flags := uint32(ids.TraceFlags) | isRemoteKnown
	if id := parent.SpanID(); id.IsValid() {
		b = appendBytes(b, spanParent, id[:])
		if parent.IsRemote() {
			flags |= isRemote
		}
	}
	b = protowire.AppendFixed32(protowire.AppendTag(b, spanFlags, protowire.Fixed32Type), flags)
	b = protowire.AppendVarint(protowire.AppendTag(b, spanKind, protowire.VarintType), uint64(kind)) //nolint:gosec // a small number
	for _, cause := range causes {
		if id, of := cause.TraceID(), cause.SpanID(); cause.IsValid() {
			inner, at := open(b, spanLinks)
			b = shut(appendBytes(appendBytes(inner, spanTraceID, id[:]), spanID, of[:]), at)
		}
	}
	*s.text = appendTime(b, spanStart, time.Now())
	return s
}

// Span is one that is being recorded.
type Span struct {
	noop.Span // of what nothing here asks for
	of        *Recorder
	context   trace.SpanContext

	mu   sync.Mutex
	name string
	text *[]byte // of its message so far; nil once it has ended
}

// texts are those of spans that have ended.
var texts = sync.Pool{New: func() any { return new(make([]byte, 0, 1<<10)) }}

// SpanContext implements trace.Span.
func (s *Span) SpanContext() trace.SpanContext { return s.context }

// IsRecording implements trace.Span.
func (s *Span) IsRecording() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text != nil
}

// SetName implements trace.Span.
func (s *Span) SetName(name string) {
	s.mu.Lock()
	s.name = name
	s.mu.Unlock()
}

// describe names the span, and says more about it.
func (s *Span) describe(name string, attributes []attribute.KeyValue) {
	s.add(func(b []byte) []byte {
		s.name = name
		return appendAttributes(b, spanAttributes, attributes)
	})
}

// SetAttributes implements trace.Span. Of a key that is set again both values are told,
// and the later one counts.
func (s *Span) SetAttributes(attributes ...attribute.KeyValue) {
	s.add(func(b []byte) []byte { return appendAttributes(b, spanAttributes, attributes) })
}

// Note adds a moment within the span.
func (s *Span) Note(name string, attributes ...attribute.KeyValue) {
	s.add(func(b []byte) []byte {
		b, at := open(b, spanEvents)
		b = appendString(appendTime(b, eventTime, time.Now()), eventName, name)
		return shut(appendAttributes(b, eventAttributes, attributes), at)
	})
}

// SetStatus implements trace.Span.
func (s *Span) SetStatus(code codes.Code, description string) {
	if code != codes.Error {
		return
	}
	s.add(func(b []byte) []byte {
		const message, status, failed = 2, 3, 2
		b, at := open(b, spanStatus)
		return shut(protowire.AppendVarint(protowire.AppendTag(appendString(b, message, description), status, protowire.VarintType), failed), at)
	})
}

// add appends to the span's message while it has room.
func (s *Span) add(more func([]byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == nil {
		return
	}
	if b := more(*s.text); len(b) <= maxSpan {
		*s.text = b
	}
}

// End implements trace.Span.
func (s *Span) End(...trace.SpanEndOption) {
	s.mu.Lock()
	text := s.text
	s.text = nil
	s.mu.Unlock()
	if text == nil {
		return
	}
	*text = appendTime(appendString(*text, spanName, s.name), spanEnd, time.Now())
	s.of.ended(*text)
	texts.Put(text)
}

// appendTag appends the tag of a field that has a length; there is none above fifteen.
func appendTag(b []byte, field protowire.Number) []byte {
	return append(b, byte(field)<<3|byte(protowire.BytesType)) //nolint:gosec // see above
}

// appendLength is one byte for nearly all that is written here.
func appendLength(b []byte, n int) []byte {
	if n < 1<<7 {
		return append(b, byte(n)) //nolint:gosec // see above
	}
	return protowire.AppendVarint(b, uint64(n)) //nolint:gosec // of a text
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return append(appendLength(appendTag(b, field), len(v)), v...)
}

// appendString mends what is no UTF-8: for one such text a collector refuses all spans of its message.
func appendString(b []byte, field protowire.Number, v string) []byte {
	if !utf8.ValidString(v) { // which looks at eight bytes at a time
		v = strings.ToValidUTF8(v, "\uFFFD")
	}
	return append(appendLength(appendTag(b, field), len(v)), v...)
}

func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(t.UnixNano())) //nolint:gosec // this century
}

func appendAttributes(b []byte, field protowire.Number, attributes []attribute.KeyValue) []byte {
	for i := range attributes {
		const key, value = 1, 2
		a := &attributes[i]
		inner, pair := open(b, field)
		inner = append(appendLength(appendTag(inner, key), len(a.Key)), a.Key...)
		inner, at := open(inner, value)
		b = shut(shut(appendValue(inner, &a.Value), at), pair)
	}
	return b
}

func appendValue(b []byte, v *attribute.Value) []byte {
	const text, truth, whole, double, array, values = 1, 2, 3, 4, 5, 1
	switch v.Type() {
	case attribute.STRING:
		return appendString(b, text, v.AsString())
	case attribute.BOOL:
		return protowire.AppendVarint(protowire.AppendTag(b, truth, protowire.VarintType), protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		return protowire.AppendVarint(protowire.AppendTag(b, whole, protowire.VarintType), uint64(v.AsInt64())) //nolint:gosec // two's complement
	case attribute.FLOAT64:
		return protowire.AppendFixed64(protowire.AppendTag(b, double, protowire.Fixed64Type), math.Float64bits(v.AsFloat64()))
	case attribute.STRINGSLICE:
		b, at := open(b, array)
		for _, one := range v.AsStringSlice() {
			inner, from := open(b, values)
			b = shut(appendString(inner, text, one), from)
		}
		return shut(b, at)
	default:
		return appendString(b, text, v.String())
	}
}

// open begins a message whose length is not known yet, and shut writes the length.
func open(b []byte, field protowire.Number) ([]byte, int) {
	b = append(appendTag(b, field), 0)
	return b, len(b)
}

func shut(b []byte, from int) []byte {
	n := len(b) - from
	if n < 1<<7 {
		b[from-1] = byte(n) //nolint:gosec // see above
		return b
	}
	more := protowire.SizeVarint(uint64(n)) - 1 //nolint:gosec // of a slice
	for range more {
		b = append(b, 0)
	}
	copy(b[from+more:], b[from:]) // copies what overlaps rightly
	appendLength(b[:from-1], n)
	return b
}
