package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// failureBody is the body of every failure: the platform's problem under error, and at the
// top the members that clients of RFC 9457 look for.
type failureBody struct {
	Type     string  `json:"type"`
	Title    string  `json:"title"`
	Status   int     `json:"status"`
	Detail   string  `json:"detail"`
	Instance string  `json:"instance"`
	Error    problem `json:"error"`
}

// problem is the one shape of every failure.
type problem struct {
	Type           string          `json:"type"`
	Code           bff.Code        `json:"code"`
	Title          string          `json:"title"`
	Status         int             `json:"status"`
	Detail         string          `json:"detail"`
	Instance       string          `json:"instance"`
	Errors         bff.FieldErrors `json:"errors"`
	TraceID        string          `json:"traceId"`
	RequestID      string          `json:"requestId"`
	TenantID       *string         `json:"tenantId"`
	Retriable      bool            `json:"retriable"`
	RetryAfter     *int            `json:"retryAfter"`
	UserMessageKey string          `json:"userMessageKey"`
	DocURL         string          `json:"docUrl"`
	Runbook        *string         `json:"runbook"`
	Known          *bff.Known      `json:"known,omitempty"`
}

// typeBase names kinds of problems. It is an identifier, which clients compare, and the
// same everywhere (RFC 9457 §3.1.1).
const typeBase = "https://docs.melmastoon.ghasi.io/errors/"

// fail writes the problem document of an error and returns the error as it was
// classified.
func (w *response) fail(codes Codes, err error) error {
	req := &w.req
	e := codes.Classify(&w.ctx, err)
	if w.ctx.left() || w.status != 0 {
		return e
	}
	info := e.Code.Info()
	p := problem{
		Type: typeBase + string(e.Code), Code: info.Code, Title: info.Title, Status: info.Status,
		Detail: e.Detail, Instance: "urn:melmastoon:request:" + req.name, Errors: e.Fields,
		TraceID: req.traceID(), RequestID: req.name, Known: e.Known,
		Retriable: info.Retriable, UserMessageKey: info.UserMessageKey, DocURL: cmp.Or(codes.Pages, typeBase) + string(e.Code),
	}
	if p.Detail == "" {
		p.Detail = info.Title + named(e.Fields)
	}
	if p.Errors == nil {
		p.Errors = bff.FieldErrors{}
	}
	if info.Runbook != "" {
		p.Runbook = &info.Runbook
	}
	if e.RetryAfter > 0 {
		seconds := int((e.RetryAfter + time.Second - 1) / time.Second)
		p.RetryAfter = &seconds
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	body, jsonErr := json.Marshal(failureBody{Type: p.Type, Title: p.Title, Status: p.Status, Detail: p.Detail, Instance: p.Instance, Error: p})
	if jsonErr != nil { // a struct of plain fields always encodes
		return errors.Join(e, jsonErr)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "private, no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("ETag")
	w.WriteHeader(info.Status)
	_, _ = w.Write(body) // the peer has gone: the log event below says so
	return e
}

// maxNamed is how many fields a detail names; errors has all of them.
const maxNamed = 5

// named lists refused fields for people who read only the detail.
func named(fields bff.FieldErrors) string {
	if len(fields) == 0 {
		return ""
	}
	var b strings.Builder
	for i, f := range fields[:min(len(fields), maxNamed)] {
		b.WriteString([]string{": ", ", "}[min(i, 1)] + f.Field + " (" + f.Code + ")")
	}
	if more := len(fields) - maxNamed; more > 0 {
		b.WriteString(" and " + strconv.Itoa(more) + " more")
	}
	return b.String()
}

// errBudget is the cause of a context that a route's budget ended.
var errBudget = errors.New("the request's time budget is spent")

// Codes are a service's own codes of failures that any route can meet.
type Codes struct {
	Pages  string   // where the pages of codes are, for docUrl: the beginning of their URLs; empty = the platform's
	Budget bff.Code // the request's time is spent; empty = CodeServiceUnavailable
	// Unsupported are the codes of a lone field that is well-formed but not
	// supported, by the last name of its path, so that a client can tell it from a
	// malformed request; fields that are absent have CodeValidationFailed.
	Unsupported map[string]bff.Code
}

// Classify gives every error its code. An error without one is an internal error;
// a spent budget is one wherever it surfaced.
func (c Codes) Classify(ctx context.Context, err error) *bff.Error {
	if e, ok := errors.AsType[*bff.Error](err); ok {
		return c.unsupported(e)
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return bff.Errorf(bff.CodePayloadTooLarge, "the body may have at most %d bytes", tooLarge.Limit)
	}
	if errors.Is(err, errBudget) || (errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), errBudget)) {
		return &bff.Error{Code: cmp.Or(c.Budget, bff.CodeServiceUnavailable), RetryAfter: time.Second, Err: err}
	}
	return bff.Wrap(bff.CodeInternal, err)
}

func (c Codes) unsupported(e *bff.Error) *bff.Error {
	if e.Code != bff.CodeValidationFailed || len(e.Fields) != 1 || e.Fields[0].Code != bff.FieldUnsupported {
		return e
	}
	field := e.Fields[0].Field
	code, ok := c.Unsupported[field[strings.LastIndexByte(field, '.')+1:]]
	if !ok {
		return e
	}
	own := *e
	own.Code = code
	return &own
}
