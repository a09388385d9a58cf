package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

const (
	// With less than this left a call cannot come back in time; it would only
	// load the upstream.
	leastTime = 2 * time.Millisecond
	// What is read of an unwanted answer, to keep its connection.
	drainBytes = 16 << 10
)

// errCap is the cause of a context that ended at the call's own cap and not at
// the caller's deadline.
var errCap = errors.New("upstream timeout reached")

// call is one call as its caller sees it; it may take several attempts.
type call struct {
	method, route string
	url           *url.URL
	body          []byte
	cap           time.Duration
	idempotent    bool
	conditional   bool
	whose         string     // takes turns with others at the limiter
	place         *permit    // for the first attempt
	unless        *Validator // nil unless the caller keeps answers; not for attempts, which may outlive the call

	mu     sync.Mutex
	header http.Header // of all attempts
	lent   bool        // the first attempt has it as it is

	span     trace.Span // nil if the call is not recorded
	attempts int        // of a recorded call
}

// attemptHeader is the header of one attempt. Nearly every call has one, which
// needs no copy.
func (c *call) attemptHeader(ctx context.Context) http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.header
	if c.lent {
		h = h.Clone()
	}
	c.lent = true
	deadline, _ := ctx.Deadline() // every call has a cap
	h["X-Deadline-Ms"] = []string{strconv.FormatInt(max(time.Until(deadline).Milliseconds(), 1), 10)}
	c.name(ctx, h)
	return h
}

// reply is a whole 2xx answer, or the 304 of a conditional call.
type reply struct {
	body      []byte
	json      bool
	etag      string
	unchanged bool // 304: there is no body
}

// run makes the call under the breaker and tells it what to think of the
// outcome.
func (c *Client) run(caller context.Context, call *call, out any) error {
	if err := caller.Err(); err != nil {
		return c.ended(caller, call, err)
	}
	pass, ok := c.breaker.enter()
	call.met(c.breaker, pass, ok)
	if !ok {
		return c.fail(call, Breaker, "")
	}
	verdict := neutral // also if decoding panics
	defer func() { c.breaker.leave(pass, verdict) }()
	// What passes until there is a place is our own doing: neither the call's cap nor
	// the verdict on the upstream includes it.
	permit, err := c.limiter.acquire(caller, call)
	if err != nil {
		return c.unplaced(caller, call, err)
	}
	if !c.breaker.holds(pass) { // it opened meanwhile
		permit.drop()
		return c.fail(call, Breaker, "")
	}
	call.place = &permit
	ctx, cancel := context.WithTimeoutCause(caller, call.cap, errCap)
	defer cancel()
	if deadline, _ := ctx.Deadline(); time.Until(deadline) < leastTime {
		permit.drop()
		return c.fail(call, Budget, "no time left")
	}

	start := time.Now()
	reply, err := c.send(ctx, call, pass)
	if err == nil {
		err = c.decode(call, reply, out)
	}
	if e, typed := errors.AsType[*Error](err); err != nil && (!typed || e.Status == 0) && ctx.Err() != nil {
		err = c.ended(ctx, call, err) // the end of time outranks what it broke
	}
	verdict = judge(err, time.Since(start), call.cap)
	return err
}

// ended says whose time ran out, the call's or its caller's, or that the caller went
// away, which is no failure and has no reason.
func (c *Client) ended(ctx context.Context, call *call, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("upstream %s %s: %w", c.name, call.route, context.Canceled)
	case errors.Is(context.Cause(ctx), errCap):
		return c.fail(call, Timeout, "")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return c.fail(call, Budget, "")
	}
	return err
}

// unplaced is the error of a call that found no place.
func (c *Client) unplaced(ctx context.Context, call *call, err error) error {
	if errors.Is(err, errSaturated) {
		return c.fail(call, Shed, "")
	}
	return c.ended(ctx, call, err)
}

func (c *Client) fail(call *call, reason Reason, detail string) *Error {
	return &Error{Upstream: c.name, Route: call.route, Reason: reason, Detail: detail}
}

// attempt sends the call once. The body is read whole here: the context of a
// hedged attempt ends with it.
func (c *Client) attempt(ctx context.Context, call *call, permit permit, hedge bool) (reply, error) {
	ctx = call.beginAttempt(ctx, hedge)
	r, err := c.roundTrip(ctx, call)
	c.endAttempt(ctx, call, err)
	e, _ := errors.AsType[*Error](err)
	switch {
	case err == nil, e != nil && e.Refused(), errors.Is(context.Cause(ctx), errCap):
		permit.record()
	default: // quick failures and cancelled attempts say nothing about load
		permit.drop()
	}
	return r, err
}

func (c *Client) roundTrip(ctx context.Context, call *call) (reply, error) {
	c.metrics.inflight.Inc()
	defer c.metrics.inflight.Dec()
	resp, err := c.transport.RoundTrip(request(ctx, call))
	if err != nil {
		return reply{}, c.broken(call, err)
	}
	defer resp.Body.Close()
	call.answered(ctx, resp.StatusCode)

	etag := resp.Header.Get("Etag")
	if resp.StatusCode == http.StatusNotModified && call.conditional {
		return reply{etag: etag, unchanged: true}, nil
	}
	if resp.StatusCode/100 != 2 {
		return reply{}, c.declined(call, resp)
	}
	body, err := readAll(resp, c.maxBody)
	switch {
	case errors.Is(err, errTooLarge):
		return reply{}, c.fail(call, Garbage, "answer too large")
	case err != nil:
		return reply{}, c.broken(call, err)
	}
	return reply{body: body, json: isJSON(resp.Header.Get("Content-Type")), etag: etag}, nil
}

// request builds the request of one attempt.
func request(ctx context.Context, call *call) *http.Request {
	req := (&http.Request{
		Method: call.method, URL: call.url, Host: call.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: call.attemptHeader(ctx), Body: http.NoBody,
	}).WithContext(ctx)
	if call.body != nil {
		req.ContentLength = int64(len(call.body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(call.body)), nil }
		req.Body, _ = req.GetBody()
	}
	if !call.idempotent {
		// net/http repeats a request with an idempotency key by itself when a
		// kept-alive connection breaks; without GetBody it cannot. What
		// is not idempotent is sent once, or not at all.
		req.GetBody = nil
		if req.Body == http.NoBody {
			req.Body = io.NopCloser(bytes.NewReader(nil))
		}
	}
	return req
}

// broken names a failure of the connection. The error itself is dropped, it
// quotes the URL.
func (c *Client) broken(call *call, err error) error {
	e := c.fail(call, Failed, "transport")
	e.transient = true
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Detail = refusedConnection
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.Detail = "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		e.Detail = "answer cut short"
	case errors.As(err, &timeout) && timeout.Timeout():
		e.Detail = "connect timeout"
	case strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "x509:"):
		e.Detail, e.transient = "tls", false
	}
	return e
}

// declined turns a status that is no success into an error.
func (c *Client) declined(call *call, resp *http.Response) error {
	e := c.fail(call, Failed, "")
	e.Status = resp.StatusCode
	switch status := resp.StatusCode; {
	case status < 400: // redirects are not followed: they would leave the upstream
		e.Reason, e.Detail = Garbage, "redirect"
	case status == http.StatusTooManyRequests:
		e.Reason = Shed
	case status < 500:
		e.Code = errorCode(resp)
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		e.transient = resp.Header.Get("Retry-After") == "" // it asks for more than our backoff
	}
	if resp.ContentLength <= drainBytes {
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	}
	return e
}

// errorCode returns the code of the agreed error body, if it looks like one.
func errorCode(resp *http.Response) string {
	if !isJSON(resp.Header.Get("Content-Type")) {
		return ""
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, drainBytes))
	if err != nil {
		return ""
	}
	var body struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(raw, &body) != nil || len(body.Error.Code) > 100 {
		return ""
	}
	for _, r := range body.Error.Code {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r) {
			return ""
		}
	}
	return body.Error.Code
}

var errTooLarge = errors.New("answer too large")

// readAll reads the whole body, to the end-of-file that lets its connection be
// used again.
func readAll(resp *http.Response, limit int64) ([]byte, error) {
	if resp.ContentLength > limit {
		return nil, errTooLarge
	}
	if n := resp.ContentLength; n >= 0 {
		body := make([]byte, n+1) // the end is found by reading past it
		got, err := io.ReadFull(resp.Body, body)
		if int64(got) == n && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)) {
			err = nil
		}
		return body[:min(int64(got), n)], err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = errTooLarge
	}
	return body, err
}

// isJSON accepts application/json and application/…+json.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "application/json" ||
		strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// Reading reads an answer without reflection. Members that it requires and does
// not find are reported as drift.
type Reading func(r *jsonscan.Reader)

// decode fills out. It runs once per call, after the attempts: two hedged
// attempts must not write to the same value.
func (c *Client) decode(call *call, r reply, out any) error {
	if v := call.unless; v != nil {
		if r.etag != "" || !r.unchanged { // a 304 may leave it out
			v.ETag = r.etag
		}
		v.Unchanged = r.unchanged
	}
	if out == nil || r.unchanged {
		return nil
	}
	if !r.json {
		return c.fail(call, Garbage, "not JSON by its content type")
	}
	if raw, ok := out.(*[]byte); ok {
		if !json.Valid(r.body) {
			return c.fail(call, Garbage, "not JSON")
		}
		*raw = r.body
		return nil
	}
	if read, ok := out.(Reading); ok {
		at := jsonscan.New(r.body)
		if read(at); at.Err() != nil {
			return c.fail(call, Garbage, "unexpected JSON")
		}
		for _, field := range at.Missing() {
			c.drift.report(call.route, field)
		}
		return nil
	}
	if err := json.Unmarshal(r.body, out); err != nil { // the error may quote the body
		return c.fail(call, Garbage, "unexpected JSON")
	}
	c.drift.check(call.route, out)
	return nil
}
