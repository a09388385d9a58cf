package upstream

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestGet(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"name":"x"}`))
	}))
	defer srv.Close()
	c, err := New(Config{Name: "search", BaseURL: srv.URL, Timeout: time.Second, Retries: 1, HedgeAfter: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out struct {
		Name string `json:"name"`
	}
	if err := c.Get(t.Context(), "/x/{id}", Path("/x/{id}", "a/b"), nil, &out); err != nil || out.Name != "x" {
		t.Fatal(out, err)
	}
}
