package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/pause"
)

// maxBody bounds what any route reads.
const maxBody = 256 << 10

// call is a request with its body already read.
type call struct {
	*http.Request
	body []byte
	now  time.Time
	base string // of media addresses

	reply  http.Header // of the answer
	speaks dialect
	above  bool // a call of /_sim, which is above tenants
}

// failure is an answer that is not a success.
type failure struct {
	status  int
	code    string
	message string
	fields  bff.FieldErrors
}

func (f *failure) Error() string { return f.code + ": " + f.message }

func notFound(what string) error {
	return &failure{status: http.StatusNotFound, code: "NOT_FOUND", message: what + " not found"}
}

func refused(fields bff.FieldErrors) error {
	if len(fields) == 0 {
		return nil
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Field + " (" + f.Code + ")"
	}
	return &failure{status: http.StatusBadRequest, code: "INVALID_ARGUMENT", message: "refused: " + strings.Join(names, ", "), fields: fields}
}

// raw is an answer that is already JSON.
type raw []byte

// created is an answer with status 201.
type created struct{ body any }

// accepted is an answer with status 202.
type accepted struct{ body any }

// handle mounts one route of an upstream. Its handler sees calls that no fault
// has eaten; the counter sees all.
func (s *Sim) handle(upstream, route string, h func(c *call) (any, error)) {
	method, path, _ := strings.Cut(route, " ")
	count := s.calls.counter(upstream, route)
	s.faults.know(upstream, route)
	latency, speaks := s.cfg.Latency[upstream], dialectOf(upstream)
	s.mux.HandleFunc(method+" /"+upstream+path, func(w http.ResponseWriter, r *http.Request) {
		s.faults.met.note(r, nil)
		count.Add(1)
		if id := r.Header.Get("X-Request-Id"); id != "" && len(id) <= 64 {
			w.Header().Set("X-Request-Id", id)
		}
		// The body first: net/http notices that a client has gone only once
		// the body has been read.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
				writeFailure(w, &failure{status: http.StatusRequestEntityTooLarge, code: "PAYLOAD_TOO_LARGE", message: "body too large"})
			}
			return // otherwise the client went away
		}
		before, after := s.faults.hit(upstream, route)
		if !wait(r.Context(), latency.Base, latency.Jitter) || !s.faults.suffer(w, r, before, s.closed) {
			return
		}
		out, err := h(&call{Request: r, body: body, now: s.cfg.Now(), base: s.mediaBase(r), reply: w.Header(), speaks: speaks})
		if !s.faults.suffer(w, r, after, s.closed) {
			return
		}
		if err != nil {
			writeFailure(w, err)
			return
		}
		writeJSON(w, out)
	})
}

// wait sleeps unless the client goes away; it reports whether to go on.
func wait(ctx context.Context, base, jitter time.Duration) bool {
	if jitter > 0 {
		base += rand.N(jitter) //nolint:gosec // timing noise, not a secret
	}
	if base <= 0 {
		return ctx.Err() == nil
	}
	return pause.For(ctx, base)
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func writeJSON(w http.ResponseWriter, v any) {
	status := http.StatusOK
	switch t := v.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
		return
	case notModified:
		w.WriteHeader(http.StatusNotModified)
		return
	case created:
		status, v = http.StatusCreated, t.body
	case accepted:
		status, v = http.StatusAccepted, t.body
	}
	b, ok := v.(raw)
	if !ok {
		buf := buffers.Get().(*bytes.Buffer)
		buf.Reset()
		defer buffers.Put(buf)
		enc := json.NewEncoder(buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			writeFailure(w, err)
			return
		}
		b = buf.Bytes()
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that went away is its own affair
}

func writeFailure(w http.ResponseWriter, err error) {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{status: http.StatusInternalServerError, code: "INTERNAL", message: "internal error"}
	}
	var body struct {
		Error struct {
			Code    string          `json:"code"`
			Message string          `json:"message"`
			Fields  bff.FieldErrors `json:"fields,omitempty"`
		} `json:"error"`
	}
	body.Error.Code, body.Error.Message, body.Error.Fields = f.code, f.message, f.fields
	b, err := json.Marshal(body)
	if err != nil {
		b = []byte(`{"error":{"code":"INTERNAL","message":"internal error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write(b)
}

// decode reads a JSON body, tolerant of fields it does not know.
func (c *call) decode(v any) error {
	if err := json.Unmarshal(c.body, v); err != nil {
		return decodeFailure(err)
	}
	return nil
}

// decodeFailure names the field where the decoder knows it.
func decodeFailure(err error) error {
	field, code := "body", bff.FieldFormat
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		field, code = t.Field, bff.FieldType
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		field, code = strings.Trim(name, `"`), bff.FieldUnsupported
	}
	return refused(bff.FieldErrors{{Field: field, Code: code}})
}

// number reads an integer of the query, or the default where it is absent.
func (c *call) number(bad *bff.FieldErrors, name string, def, lo, hi int) int {
	s := c.URL.Query().Get(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		bad.Add(name, bff.FieldFormat)
		return def
	}
	bad.Check(n >= lo && n <= hi, name, bff.FieldRange)
	return n
}

// date reads a day of the query.
func (c *call) date(bad *bff.FieldErrors, name string) bff.Date {
	s := c.URL.Query().Get(name)
	if s == "" {
		bad.Add(name, bff.FieldRequired)
		return 0
	}
	d, err := bff.ParseDate(s)
	bad.Check(err == nil, name, bff.FieldFormat)
	return d
}

// currency reads a currency, or the default where it is absent.
func currencyOf(bad *bff.FieldErrors, name, s string) bff.Currency {
	if s == "" {
		return bff.DefaultCurrency
	}
	cur, err := bff.ParseCurrency(s)
	bad.Check(err == nil, name, bff.FieldUnsupported)
	return cur
}
