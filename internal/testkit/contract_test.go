package testkit

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const sample = `
openapi: 3.1.0
servers: [{url: 'https://{host}/base', variables: {host: {default: example.org}}}]
x-elsewhere:
  '404': {$ref: '#/components/responses/Problem'}
  '405': {$ref: '#/components/responses/Problem'}
paths:
  /rooms/{room}:
    parameters:
      - {name: room, in: path, required: true, schema: {type: integer, minimum: 1}}
    get:
      operationId: room
      parameters:
        - {name: beds, in: query, schema: {type: array, maxItems: 2, items: {$ref: '#/components/schemas/Count'}}}
        - {name: X-View, in: header, required: true, schema: {enum: [sea, hill]}}
      responses:
        '200':
          headers:
            X-Cache: {required: true, schema: {enum: [HIT, MISS]}}
            Age: {schema: {type: integer}}
          content:
            application/json:
              schema:
                type: object
                required: [room]
                properties: {room: {$ref: '#/components/schemas/Count'}}
                unevaluatedProperties: false
        '304': {description: the same}
    put:
      operationId: furnish
      requestBody:
        required: true
        content:
          application/json: {schema: {type: object, required: [beds]}}
      responses:
        '204': {description: done}
        '400': {$ref: '#/components/responses/Problem'}
  /rooms/first:
    servers: [{url: /base}]
    get:
      operationId: first
      responses: {'200': {description: nothing}}
components:
  responses:
    Problem:
      description: no
      content:
        application/problem+json: {schema: {required: [error]}}
  schemas:
    Count: {type: integer, minimum: 0}
`

func TestContractFindsBreaches(t *testing.T) {
	t.Parallel()
	doc, err := parseDocument([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(`{"room":true}`)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		request string // method, path, body
		sent    http.Header
		status  int
		got     http.Header
		body    string
		want    []string // parts of the breaches, in order
	}{
		{
			name: "as described", request: "GET /base/rooms/7?beds=1,2", sent: http.Header{"X-View": {"sea"}},
			status: 200, got: http.Header{"Content-Type": {"application/json"}, "X-Cache": {"HIT"}, "Age": {"3"}}, body: `{"room":7}`,
		},
		{
			name: "a parameter in a path", request: "GET /base/rooms/none", sent: http.Header{"X-View": {"sea"}},
			status: 200, got: http.Header{"Content-Type": {"application/json"}, "X-Cache": {"HIT"}}, body: `{"room":7}`,
			want: []string{"parameter room at #: got string, want integer"},
		},
		{
			name: "parameters", request: "GET /base/rooms/0?beds=1,x,3",
			status: 200, got: http.Header{"Content-Type": {"application/json"}, "X-Cache": {"HIT"}}, body: `{"room":7}`,
			want: []string{"parameter beds at #: maxItems", "parameter beds at #/1: got string", "parameter X-View: is missing", "parameter room at #: minimum"},
		},
		{
			name: "headers", request: "GET /base/rooms/7", sent: http.Header{"X-View": {"sea"}},
			status: 200, got: http.Header{"Content-Type": {"application/json"}, "Age": {"old"}, "Set-Cookie": {"a=b"}}, body: `{"room":7}`,
			want: []string{"header Age at #: got string", "header X-Cache: is missing", "header Set-Cookie: is not described"},
		},
		{
			name: "a body", request: "GET /base/rooms/7", sent: http.Header{"X-View": {"sea"}},
			status: 200, got: http.Header{"Content-Type": {"application/json"}, "X-Cache": {"HIT"}}, body: `{"room":-7,"price":1}`,
			want: []string{"response at #/room: minimum", "response at #/price: false schema"},
		},
		{
			name: "a compressed body", request: "GET /base/rooms/7", sent: http.Header{"X-View": {"sea"}},
			status: 200, got: http.Header{"Content-Type": {"application/json"}, "X-Cache": {"HIT"}, "Content-Encoding": {"gzip"}}, body: packed.String(),
			want: []string{"response at #/room: got boolean"},
		},
		{
			name: "another content type", request: "GET /base/rooms/7", sent: http.Header{"X-View": {"sea"}},
			status: 200, got: http.Header{"Content-Type": {"text/html; charset=utf-8"}, "X-Cache": {"HIT"}}, body: `{"room":7}`,
			want: []string{"response: content type text/html"},
		},
		{
			name: "no JSON", request: "GET /base/rooms/7", sent: http.Header{"X-View": {"sea"}},
			status: 200, got: http.Header{"Content-Type": {"application/json"}, "X-Cache": {"HIT"}}, body: `{"room":7`,
			want: []string{"response: not JSON"},
		},
		{
			name: "HEAD has no body", request: "HEAD /base/rooms/7", sent: http.Header{"X-View": {"sea"}},
			status: 200, got: http.Header{"Content-Type": {"application/json"}, "X-Cache": {"HIT"}},
		},
		{name: "another status", request: "GET /base/rooms/7", status: 201, want: []string{"room has no such answer"}},
		{name: "no body", request: "GET /base/rooms/7", status: 304, body: "x", want: []string{"response: a body where none is described"}},
		{name: "the literal path wins", request: "GET /base/rooms/first", status: 200},
		{name: "a request body", request: `PUT /base/rooms/7 {"beds":1}`, sent: http.Header{"Content-Type": {"application/json"}}, status: 204},
		{
			name: "a wrong request body", request: `PUT /base/rooms/7 {}`, sent: http.Header{"Content-Type": {"application/json"}}, status: 204,
			want: []string{"request at #: missing property"},
		},
		{name: "no request body", request: `PUT /base/rooms/7`, status: 204, want: []string{"request: no body"}},
		{
			name: "a refused request", request: `PUT /base/rooms/7 {}`, status: 400,
			got: http.Header{"Content-Type": {"application/problem+json"}}, body: `{"error":{}}`,
		},
		{
			name: "elsewhere", request: "GET /rooms/7", status: 404,
			got: http.Header{"Content-Type": {"application/problem+json"}}, body: `{}`, want: []string{"response at #: missing property"},
		},
		{
			name: "another method", request: "POST /base/rooms/7", status: 405,
			got: http.Header{"Content-Type": {"application/problem+json"}}, body: `{"error":{}}`,
		},
		{name: "another method taken", request: "POST /base/rooms/7", status: 404, want: []string{"there is no such operation"}},
		{name: "not described", request: "GET /elsewhere", status: 200, want: []string{"there is no such operation"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			parts := strings.SplitN(tt.request, " ", 3)
			req := httptest.NewRequestWithContext(t.Context(), parts[0], parts[1], nil)
			req.Header = tt.sent
			var sent []byte
			if len(parts) == 3 {
				sent = []byte(parts[2])
			}
			if tt.got == nil {
				tt.got = http.Header{}
			}
			found := newOpenAPI(t, doc).check(req, sent, &http.Response{StatusCode: tt.status, Header: tt.got}, []byte(tt.body))
			ok := len(found) == len(tt.want)
			for i := range found {
				ok = ok && strings.HasPrefix(found[i], tt.want[i])
			}
			if !ok {
				t.Errorf("breaches %q, want %q", found, tt.want)
			}
		})
	}
}

// A tile of a known kind that lacks a figure is refused for that, not for being none of the others.
func TestContractNamesTheAlternativeThatWasMeant(t *testing.T) {
	t.Parallel()
	tile := func(id, figure string) string {
		return `{"properties": {"id": {"const": "` + id + `"}, "` + figure + `": {"type": "integer"}}, "required": ["id", "` + figure + `"]}`
	}
	described, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"oneOf": [` + tile("a", "rooms") + `, ` + tile("b", "guests") + `, ` + tile("c", "beds") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("tile.json", described); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{`{"id": "b", "guests": 2}`: "", `{"id": "b", "Guests": 2}`: "'guests'", `{"id": "d", "guests": 2}`: "none matched"} {
		got := violations("tile", c.MustCompile("tile.json"), []byte(body))
		if text := strings.Join(got, "\n"); len(got) > 1 || (text == "") != (want == "") || !strings.Contains(text, want) {
			t.Errorf("%s: %s", body, text)
		}
	}
}
