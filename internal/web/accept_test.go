package web_test

import (
	"net/http"
	"testing"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/web"
)

func TestNegotiate(t *testing.T) {
	t.Parallel()
	const json, lines = "application/json", "application/x-ndjson"
	for _, tt := range []struct {
		accept []string
		want   string
	}{
		{nil, json},
		{[]string{json}, json},
		{[]string{lines}, lines},
		{[]string{"*/*"}, json},
		{[]string{"application/*"}, json},
		{[]string{"application/x-ndjson, application/json;q=0.9"}, lines},
		{[]string{"application/json;q=0.1", "Application/X-NDJSON ; q=0.2"}, lines},
		{[]string{"*/*;q=0.5, application/json;q=0"}, lines},
		{[]string{"text/html, */*;q=0.1"}, json},
		{[]string{"text/html"}, ""},
		{[]string{"application/json;q=0"}, ""},
		// A range whose weight cannot be read asks for nothing.
		{[]string{"application/json;q=x"}, ""},
		{[]string{"application/json;q=x, application/x-ndjson;q=0.1"}, lines},
		{[]string{"application/json;q=2, */*;q=0.1"}, json},
		{[]string{""}, ""},
	} {
		got, err := web.Negotiate(&http.Request{Header: http.Header{"Accept": tt.accept}}, json, lines)
		if got != tt.want || (err == nil) != (tt.want != "") || err != nil && bff.CodeOf(err) != bff.CodeNotAcceptable {
			t.Errorf("%q: %q, %v; want %q", tt.accept, got, err, tt.want)
		}
	}
}
