package consumerhttp

import (
	"net/url"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/web"
)

// FuzzTelemetry: whatever a client reports, what is kept of it holds no query,
// no fragment, no credentials, no address and nothing long.
func FuzzTelemetry(f *testing.F) {
	for _, s := range []string{
		`{"path":"/search?q=a#b","referer":"https://u:p@x.example:1/y?z#w","metadata":{"a":1,"b":"c","d":true}}`,
		`{"path":"//x/y","referer":"https://x.example?@","metadata":{"a":"b@c"}}`,
		`{"path":"/%3f%23%40","referer":"http://[::1]:80"}`,
		`{"path":"/a b/ü"}`, `{"path":"?","referer":"#","metadata":{"":null}}`, `{"metadata":{"a":1e400}}`, `{"metadata":{"a":1e-400,"a":0e99999}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		in, err := web.ParseBody(t.Context(), []byte(body))
		if err != nil {
			return
		}
		path, referer, metadata := readPath(in), readReferer(in), readMetadata(in)
		if in.Err() != nil {
			return
		}
		if path != "" && (path[0] != '/' || strings.ContainsAny(path, "?#@") || len(path) > maxEscapedPath) {
			t.Errorf("path %q", path)
		}
		if decoded, err := url.PathUnescape(path); err != nil || strings.Contains(decoded, "@") {
			t.Errorf("path %q: %v", path, err)
		}
		if rest := strings.TrimPrefix(strings.TrimPrefix(referer, "https://"), "http://"); referer != "" && (rest == "" || strings.ContainsAny(rest, "/?#@")) {
			t.Errorf("referer %q", referer)
		}
		if len(metadata) > maxMetadata {
			t.Errorf("%d members", len(metadata))
		}
		for name, v := range metadata {
			switch v := v.(type) {
			case bool:
			case float64:
				if v > 1e15 || v < -1e15 {
					t.Errorf("%s: %v", name, v)
				}
			case string:
				if len([]rune(v)) > maxMetadataText || strings.Contains(v, "@") {
					t.Errorf("%s: %q", name, v)
				}
			default:
				t.Errorf("%s is a %T", name, v)
			}
		}
	})
}
