package web

import (
	"encoding/json"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff/internal/tracing"
)

// response is the ResponseWriter that handlers see, together with all that the
// Server keeps of the request, in one allocation. It is not reused: work behind
// the answer may keep the Request.
//
// Until a route claims the request, what the mux writes by itself is not sent.
type response struct {
	http.ResponseWriter
	req     Request
	ctx     requestContext
	began   time.Time // by the system's clock
	route   *route
	claimed bool
	shared  bool // with a page of another origin
	err     error
	status  int
	bytes   int64

	detailed *tracing.Span // nil if it takes no detail
	missing  []string      // what the answer says is missing, for the span
}

// nameRequest sets the headers under which the request is found in logs and traces.
func (w *response) nameRequest(r *http.Request) {
	var names [96]byte
	b := w.req.appendTraceparent(names[:0], r)
	at := len(b)
	b, _ = w.req.ID.AppendText(b) // never fails
	text := string(b)
	w.req.TraceParent, w.req.name = text[:at], text[at:]
	h := w.Header()
	h["X-Request-Id"] = []string{text[len(text)-ulidLength:]}
	h["Traceparent"] = []string{w.req.TraceParent}
}

const ulidLength = 26

func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	if w.claimed {
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if !w.claimed {
		return len(b), nil
	}
	if w.detailed != nil && len(w.missing) < maxMissing && len(b) > 0 && b[0] == '{' { // else it is compressed
		w.missing = append(w.missing, tracing.Missing(b)...)
	}
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Values of headers that all answers share; they must not be written to.
var (
	jsonType = []string{"application/json"}
	personal = []string{"private, no-store"}
	nosniff  = []string{"nosniff"}
)

// WriteJSON writes an answer that belongs to one person only.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteBytes(w, status, body)
}

// WriteBytes writes an encoded JSON answer that belongs to one person only, and is not kept
// unless its handler has said how.
func WriteBytes(w http.ResponseWriter, status int, body []byte) error {
	h := w.Header()
	h["Content-Type"] = jsonType
	if Header(h, "Cache-Control") == "" {
		h["Cache-Control"] = personal
	}
	h["X-Content-Type-Options"] = nosniff
	w.WriteHeader(status)
	_, _ = w.Write(body) // the peer has gone: nothing is left to do
	return nil
}
