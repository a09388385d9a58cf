// Package trace receives what this machine's services record over OTLP, keeps the
// latest of it in memory, and tells each request as a story: who asked, what the cache
// had, which upstreams were called and which fault they were told to have, what left and
// what is missing.
package trace

import (
	"compress/gzip"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"melmastoon.ghasi.io/bff/internal/local/sim"
)

const (
	// maxTraces and maxBytes bound what is kept: half of the traces are of requests,
	// the others of deliveries, publish calls and jobs.
	maxTraces = 4000
	maxBytes  = 64 << 20
	maxExport = 32 << 20 // of one export, unpacked
	maxFills  = 16 << 10
)

// Config of a Store.
type Config struct {
	// Met says how often the call of a span came to its upstream, and which faults it
	// suffered from there; nil = it is not known.
	Met func(span string) (times int, faults []sim.ActiveFault)
	// Finished hears of each request once it is there; nil = nothing does.
	Finished func(*Story)
}

// Store keeps the latest traces.
type Store struct {
	cfg Config

	mu     sync.Mutex
	seq    uint64
	bytes  int
	traces map[string]*record
	order  []string // of traces, the oldest first
	roots  map[string]root
	last   root
	fills  map[string]fill // by cache key
}

// record is a trace.
type record struct {
	spans []*span
	left  []departure
	roots []string // ids of its requests
	bytes int
}

// root is a request: the span of a server.
type root struct {
	seq   uint64
	trace string
	span  *span
}

// fill is the latest known filling of a cache entry.
type fill struct {
	trace string
	at    int64
	tags  []string
}

// departure is a publish call with an event of a request.
type departure struct {
	root, subject string
	at            int64
}

// span is what is kept of one.
type span struct {
	id, parent, service, name string
	kind                      tracepb.Span_SpanKind
	start, end                int64 // Unix nanoseconds
	failed                    string
	facts                     map[string]string
	lists                     map[string][]string
	events                    []event
}

// event is a moment within a span.
type event struct {
	name  string
	at    int64
	facts map[string]string
	lists map[string][]string
}

// New returns an empty Store.
func New(cfg Config) *Store {
	return &Store{cfg: cfg, traces: map[string]*record{}, roots: map[string]root{}, fills: map[string]fill{}}
}

// ServeHTTP is the receiver: POST /v1/traces of OTLP over HTTP.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, "no gzip", http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	b, err := io.ReadAll(io.LimitReader(body, maxExport+1))
	var sent collectorpb.ExportTraceServiceRequest
	if err == nil && len(b) > maxExport {
		err = errors.New("too large")
	}
	if err = errors.Join(err, proto.Unmarshal(b, &sent)); err != nil {
		http.Error(w, "this is no export of spans", http.StatusBadRequest)
		return
	}
	s.Add(&sent)
	w.Header().Set("Content-Type", "application/x-protobuf") // of an empty answer
}

// Add keeps what was exported.
func (s *Store) Add(sent *collectorpb.ExportTraceServiceRequest) {
	var finished []*Story
	s.mu.Lock()
	for _, resource := range sent.GetResourceSpans() {
		service := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, p := range scope.GetSpans() {
				s.add(service, p)
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, p := range scope.GetSpans() {
				if p.GetKind() == tracepb.Span_SPAN_KIND_SERVER {
					if rt, known := s.roots[hex.EncodeToString(p.GetSpanId())]; known {
						finished = append(finished, s.story(rt))
					}
				}
			}
		}
	}
	s.mu.Unlock()
	if s.cfg.Finished != nil {
		for _, r := range finished {
			s.cfg.Finished(r)
		}
	}
}

func (s *Store) add(service string, p *tracepb.Span) {
	id := hex.EncodeToString(p.GetTraceId())
	sp := &span{
		id: hex.EncodeToString(p.GetSpanId()), parent: hex.EncodeToString(p.GetParentSpanId()), service: service, name: p.GetName(), kind: p.GetKind(),
		start: int64(p.GetStartTimeUnixNano()), end: int64(p.GetEndTimeUnixNano()), //nolint:gosec // this century
	}
	sp.facts, sp.lists = read(p.GetAttributes())
	if p.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		sp.failed = p.GetStatus().GetMessage()
	}
	for _, e := range p.GetEvents() {
		facts, lists := read(e.GetAttributes())
		sp.events = append(sp.events, event{name: e.GetName(), at: int64(e.GetTimeUnixNano()), facts: facts, lists: lists}) //nolint:gosec // this century
	}
	rec := s.record(id)
	rec.spans = append(rec.spans, sp)
	s.grow(rec, proto.Size(p)*2) // texts, and what holds them
	if topic := sp.facts["messaging.destination.name"]; sp.kind == tracepb.Span_SPAN_KIND_PRODUCER && sp.failed == "" {
		for _, l := range p.GetLinks() {
			cause := s.record(hex.EncodeToString(l.GetTraceId()))
			cause.left = append(cause.left, departure{root: hex.EncodeToString(l.GetSpanId()), subject: topic, at: sp.end})
			s.grow(cause, 2*len(topic))
		}
	}
	if sp.kind == tracepb.Span_SPAN_KIND_SERVER {
		s.seq++
		s.last = root{seq: s.seq, trace: id, span: sp}
		s.roots[sp.id] = s.last
		rec.roots = append(rec.roots, sp.id)
	}
	if key := sp.facts["cache.key"]; key != "" && sp.facts["cache.result"] == "MISS" && sp.facts["cache.collapsed"] != "true" {
		if len(s.fills) >= maxFills {
			clear(s.fills)
		}
		s.fills[key] = fill{trace: id, at: sp.end, tags: sp.lists["cache.tags"]}
	}
	s.trim()
}

func (s *Store) record(id string) *record {
	rec := s.traces[id]
	if rec == nil {
		rec = new(record)
		s.traces[id], s.order = rec, append(s.order, id)
	}
	return rec
}

func (s *Store) grow(rec *record, by int) {
	rec.bytes += by
	s.bytes += by
}

// trim forgets the oldest.
func (s *Store) trim() {
	for len(s.order) > maxTraces || s.bytes > maxBytes && len(s.order) > 1 {
		rec := s.traces[s.order[0]]
		for _, id := range rec.roots {
			delete(s.roots, id)
		}
		s.bytes -= rec.bytes
		delete(s.traces, s.order[0])
		s.order[0] = ""
		s.order = s.order[1:]
	}
}

// read reads attributes as texts, and those that are lists as lists besides.
func read(attributes []*commonpb.KeyValue) (facts map[string]string, lists map[string][]string) {
	facts = make(map[string]string, len(attributes))
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			facts[a.GetKey()] = v.StringValue
		case *commonpb.AnyValue_BoolValue:
			facts[a.GetKey()] = strconv.FormatBool(v.BoolValue)
		case *commonpb.AnyValue_IntValue:
			facts[a.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		case *commonpb.AnyValue_DoubleValue:
			facts[a.GetKey()] = strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
		case *commonpb.AnyValue_ArrayValue:
			if lists == nil {
				lists = map[string][]string{}
			}
			for _, one := range v.ArrayValue.GetValues() {
				lists[a.GetKey()] = append(lists[a.GetKey()], one.GetStringValue())
			}
			facts[a.GetKey()] = strings.Join(lists[a.GetKey()], ", ")
		}
	}
	return facts, lists
}

// Find returns the story of a request: by its id, with or without the prefix, by its
// trace's id, or the last one.
func (s *Store) Find(id string) (*Story, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "last" {
		return s.told(s.last)
	}
	if rec := s.traces[id]; rec != nil && len(rec.roots) > 0 {
		return s.told(s.roots[rec.roots[len(rec.roots)-1]])
	}
	id = bare(id)
	var found root
	for _, r := range s.roots { // the latest: a client may send an id again
		if bare(r.span.facts["request.id"]) == id && r.seq > found.seq {
			found = r
		}
	}
	return s.told(found)
}

func (s *Store) told(r root) (*Story, bool) {
	if r.span == nil || s.traces[r.trace] == nil {
		return nil, false
	}
	told := s.story(r)
	told.Text = told.text()
	return told, true
}

// bare is the part of a request's id that X-Request-Id shows.
func bare(id string) string { return strings.ToUpper(id[strings.LastIndexByte(id, '_')+1:]) }
