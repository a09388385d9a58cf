package testkit

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"melmastoon.ghasi.io/bff/contracts"
)

// OpenAPI holds what crosses the wire to a published description. It is for
// answers that end: a stream is read whole before the caller sees it.
type OpenAPI struct {
	t   testing.TB
	doc *document

	mu   sync.Mutex
	seen map[string]bool // operation and status
	sent map[string]bool // members of answers
}

var (
	consumerDocument   = sync.OnceValues(func() (*document, error) { return parseDocument(contracts.OpenAPI("consumer")) })
	backofficeDocument = sync.OnceValues(func() (*document, error) { return parseDocument(contracts.OpenAPI("backoffice")) })
)

// Contract returns the description of the anonymous service.
func Contract(t testing.TB) *OpenAPI {
	t.Helper()
	doc, err := consumerDocument()
	if err != nil {
		t.Fatalf("contracts/openapi/consumer.yaml: %v", err)
	}
	return newOpenAPI(t, doc)
}

// StaffContract returns the description of the staff service.
func StaffContract(t testing.TB) *OpenAPI {
	t.Helper()
	doc, err := backofficeDocument()
	if err != nil {
		t.Fatalf("contracts/openapi/backoffice.yaml: %v", err)
	}
	return newOpenAPI(t, doc)
}

func newOpenAPI(t testing.TB, doc *document) *OpenAPI {
	t.Helper()
	return &OpenAPI{t: t, doc: doc, seen: map[string]bool{}, sent: map[string]bool{}}
}

// Client returns a client that fails the test for every answer, and for every
// request that was answered well, which the description does not allow. Base
// sends the requests; nil is a transport of its own, closed with the test.
func (c *OpenAPI) Client(base http.RoundTripper) *http.Client {
	c.t.Helper()
	if base == nil {
		own := &http.Transport{}
		c.t.Cleanup(own.CloseIdleConnections)
		base = own
	}
	return &http.Client{
		Transport:     &checked{contract: c, base: base},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Check compares a JSON text with a schema of the description, such as "StreamEvent".
func (c *OpenAPI) Check(schema, text string) error {
	_, at, err := c.doc.find("#/components/schemas/" + schema)
	if err != nil {
		return err
	}
	s, err := c.doc.schema(at)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(value)
}

// Unseen lists the answers of operations that no client has met, such as
// "search 429".
func (c *OpenAPI) Unseen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, op := range c.doc.operations {
		for status := range op.answers {
			if name := op.id + " " + status; !c.seen[name] {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

type checked struct {
	contract *OpenAPI
	base     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *checked) RoundTrip(req *http.Request) (*http.Response, error) {
	c.contract.t.Helper()
	sent, req, err := peekRequest(req)
	if err != nil {
		return nil, err
	}
	res, err := c.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(res.Body)
	if closeErr := res.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	res.Body = io.NopCloser(bytes.NewReader(got))
	for _, breach := range c.contract.check(req, sent, res, got) {
		c.contract.t.Errorf("%s %s → %d: %s", req.Method, req.URL.Path, res.StatusCode, breach)
	}
	return res, nil
}

// peekRequest reads a request's body and returns a request that still has it.
func peekRequest(req *http.Request) ([]byte, *http.Request, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, req, nil
	}
	body, err := io.ReadAll(req.Body)
	if closeErr := req.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, nil, err
	}
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	return body, req, nil
}

// check returns everything about an exchange that the description does not
// allow. A refused request may be as wrong as it likes.
func (c *OpenAPI) check(req *http.Request, sent []byte, res *http.Response, got []byte) []string {
	method := req.Method
	if method == http.MethodHead { // GET without the body
		method = http.MethodGet
	}
	op, arguments, other := c.doc.match(method, req.URL.EscapedPath())
	status := strconv.Itoa(res.StatusCode)
	if op == nil {
		a, ok := c.doc.elsewhere[status]
		onPath := status == "405" || req.Method == http.MethodOptions && (status == "204" || status == "403") // of an operation with other methods
		if !ok || (other != onPath && status != strconv.Itoa(http.StatusBadRequest)) {
			return []string{"there is no such operation"}
		}
		return a.check(req.Method, res, got)
	}
	a, ok := op.answers[status]
	if !ok {
		return []string{op.id + " has no such answer"}
	}
	c.mu.Lock()
	c.seen[op.id+" "+status] = true
	c.mu.Unlock()
	breaches := a.check(req.Method, res, got)
	c.note(a, res, got)
	if res.StatusCode < http.StatusMultipleChoices {
		breaches = append(breaches, op.check(req, arguments, sent)...)
	}
	return breaches
}

// note keeps what an answer has.
func (c *OpenAPI) note(a *answer, res *http.Response, got []byte) {
	media, schema := mediaOf(res.Header, a.content)
	body, err := decoded(res.Header.Get("Content-Encoding"), got)
	if schema == nil || err != nil || media == "text/event-stream" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for values := json.NewDecoder(bytes.NewReader(body)); ; { // one, or one on each line
		var v any
		if values.UseNumber(); values.Decode(&v) != nil {
			return
		}
		c.met(schema, v)
	}
}

// check holds a request to what its operation takes.
func (op *operation) check(req *http.Request, arguments map[string]string, sent []byte) []string {
	var breaches []string
	query := req.URL.Query()
	for _, p := range op.parameters {
		var given []string
		switch p.in {
		case "path":
			if arg, ok := arguments[p.name]; ok {
				given = []string{arg}
			}
		case "query":
			given = query[p.name]
		case "header":
			given = req.Header.Values(p.name)
		default:
			breaches = append(breaches, "parameter "+p.name+": in "+p.in+": not understood")
		}
		breaches = append(breaches, p.breaches("parameter", given)...)
	}
	switch {
	case len(sent) > 0 && op.body == nil:
		return append(breaches, "request: a body where none is taken")
	case len(sent) == 0 && op.mustBody:
		return append(breaches, "request: no body")
	case len(sent) == 0:
		return breaches
	}
	media, schema := mediaOf(req.Header, op.body)
	if schema == nil {
		return append(breaches, "request: content type "+media)
	}
	return append(breaches, violations("request", schema, sent)...)
}

// transportHeaders belong to HTTP and to no operation.
var transportHeaders = []string{"Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Keep-Alive"}

// check holds a response to what it is described as.
func (a *answer) check(method string, res *http.Response, got []byte) []string {
	var breaches []string
	for _, name := range slices.Sorted(maps.Keys(a.headers)) {
		breaches = append(breaches, a.headers[name].breaches("header", res.Header[name])...)
	}
	for _, name := range slices.Sorted(maps.Keys(res.Header)) {
		if a.headers[name] == nil && !slices.Contains(transportHeaders, name) {
			breaches = append(breaches, "header "+name+": is not described")
		}
	}
	if len(a.content) == 0 {
		if len(got) > 0 {
			breaches = append(breaches, "response: a body where none is described")
		}
		return breaches
	}
	media, schema := mediaOf(res.Header, a.content)
	if schema == nil {
		return append(breaches, "response: content type "+media)
	}
	if method == http.MethodHead {
		return breaches
	}
	body, err := decoded(res.Header.Get("Content-Encoding"), got)
	if err != nil {
		return append(breaches, "response: "+err.Error())
	}
	if media == "application/x-ndjson" { // the schema is that of each line
		for line := range bytes.Lines(body) {
			breaches = append(breaches, violations("response", schema, line)...)
		}
		return breaches
	}
	if media == "text/event-stream" { // described as a text
		body = []byte(strconv.Quote(string(body)))
	}
	return append(breaches, violations("response", schema, body)...)
}

func (v *value) breaches(kind string, given []string) []string {
	switch {
	case len(given) == 0 && v.required:
		return []string{kind + " " + v.name + ": is missing"}
	case len(given) == 0:
		return nil
	case v.name == "Set-Cookie": // the one header whose lines cannot be joined
		var found []string
		for _, line := range given {
			if err := v.check(line); err != nil {
				found = append(found, explained(kind+" "+v.name, err)...)
			}
		}
		return found
	case len(given) > 1:
		return []string{fmt.Sprintf("%s %s: is there %d times", kind, v.name, len(given))}
	}
	if err := v.check(given[0]); err != nil {
		return explained(kind+" "+v.name, err)
	}
	return nil
}

func mediaOf(h http.Header, content map[string]*jsonschema.Schema) (string, *jsonschema.Schema) {
	given := h.Get("Content-Type")
	media, _, err := mime.ParseMediaType(given)
	if err != nil {
		return strconv.Quote(given), nil
	}
	return media, content[media]
}

func decoded(encoding string, body []byte) ([]byte, error) {
	switch encoding {
	case "":
		return body, nil
	case "gzip":
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case "zstd":
		r, err := zstd.NewReader(nil)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.DecodeAll(body, nil)
	}
	return nil, fmt.Errorf("content encoding %s is not understood", encoding)
}

// violations lists where a body breaks its schema.
func violations(what string, schema *jsonschema.Schema, body []byte) []string {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return []string{what + ": not JSON: " + err.Error()}
	}
	if err := schema.Validate(v); err != nil {
		return explained(what, err)
	}
	return nil
}

// explained lists the places of a refusal, each by the JSON pointer into what
// was refused and the one into the description.
func explained(what string, err error) []string {
	refusal, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []string{what + ": " + err.Error()}
	}
	english := message.NewPrinter(language.English)
	var out []string
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		causes := meant(e)
		for _, cause := range causes {
			walk(cause)
		}
		if len(causes) > 0 {
			return
		}
		_, rule, _ := strings.Cut(e.SchemaURL, "#")
		out = append(out, fmt.Sprintf("%s at %s: %s (rule %s)", what, pointer(e.InstanceLocation),
			e.ErrorKind.LocalizedString(english), "#"+rule))
	}
	walk(refusal)
	return first(out)
}

// meant are the causes of a refusal. Of alternatives that a constant tells apart, the one that has it says what is wrong, if one has it.
func meant(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if _, ok := e.ErrorKind.(*kind.OneOf); ok {
		return slices.DeleteFunc(slices.Clone(e.Causes), otherConstant)
	}
	return e.Causes
}

func otherConstant(e *jsonschema.ValidationError) bool {
	_, other := e.ErrorKind.(*kind.Const)
	return other || slices.ContainsFunc(e.Causes, otherConstant)
}

// maxFollowing bounds the refusals that follow from others.
const maxFollowing = 3

// first puts what matters first: a member that no rule has taken is mostly one of an object
// that another rule refused, and there are as many of these lines as the object has members.
func first(refusals []string) []string {
	follows := func(s string) bool { return strings.Contains(s, "/unevaluatedProperties)") }
	slices.SortStableFunc(refusals, func(a, b string) int {
		switch {
		case follows(a) == follows(b):
			return 0
		case follows(b):
			return -1
		}
		return 1
	})
	i := slices.IndexFunc(refusals, follows)
	if i <= 0 || len(refusals)-i <= maxFollowing {
		return refusals
	}
	return append(refusals[:i+maxFollowing:i+maxFollowing], fmt.Sprintf("… and %d more that no rule has taken", len(refusals)-i-maxFollowing))
}
