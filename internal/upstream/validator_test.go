package upstream

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestUnless(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/silent": // a 304 without the tag, which the caller knows anyway
			w.WriteHeader(http.StatusNotModified)
			return
		case "/untagged":
		default:
			w.Header().Set("Etag", `"2"`)
		}
		if r.Header.Get("If-None-Match") == `"2"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"n":2}`)
	}))
	t.Cleanup(srv.Close)
	c := newClient(t, Config{BaseURL: srv.URL, Timeout: time.Minute})
	for name, test := range map[string]struct {
		path string
		had  string
		want Validator
		body string
	}{
		"nothing had yet":   {"/tagged", "", Validator{ETag: `"2"`}, `{"n":2}`},
		"changed":           {"/tagged", `"1"`, Validator{ETag: `"2"`}, `{"n":2}`},
		"unchanged":         {"/tagged", `"2"`, Validator{ETag: `"2"`, Unchanged: true}, ""},
		"unchanged, silent": {"/silent", `"1"`, Validator{ETag: `"1"`, Unchanged: true}, ""},
		"no longer tagged":  {"/untagged", `"1"`, Validator{}, `{"n":2}`},
	} {
		v, body := Validator{ETag: test.had}, []byte(nil)
		if err := c.Get(t.Context(), "/x", test.path, nil, &body, Unless(&v)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, v); diff != "" || string(body) != test.body {
			t.Errorf("%s: %q (-want +got):\n%s", name, body, diff)
		}
	}
	// A 304 without If-None-Match is no answer.
	v := Validator{}
	err := c.Get(t.Context(), "/x", "/silent", nil, nil, Unless(&v))
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != Garbage || v.Unchanged {
		t.Errorf("304 without a condition: %v, %+v", err, v)
	}
}
