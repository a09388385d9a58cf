package sim

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// Pages of this machine may ask iam, whatever their port; pages of others may not, and
// no page may ask the services that only services ask.
func TestCORS(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, origin string
		allowed      bool
	}{
		{"/iam/api/v1/auth/sign-in", "http://127.0.0.1:5173", true},
		{"/iam/api/v1/auth/sign-in", "http://localhost:5173", true},
		{"/iam/api/v1/auth/sign-in", "http://[::1]:5173", true},
		{"/iam/api/v1/auth/sign-in", "https://evil.example", false},
		{"/iam/api/v1/auth/sign-in", "http://127.0.0.1.evil.example", false},
		{"/iam/api/v1/auth/sign-in", "null", false},
		{"/iam/api/v1/auth/sign-in", "", false},
		{"/pricing/api/v1/rates", "http://127.0.0.1:5173", false},
	} {
		for _, method := range []string{http.MethodOptions, http.MethodPost} {
			r := httptest.NewRequestWithContext(t.Context(), method, tt.path, nil)
			r.Header.Set("Origin", tt.origin)
			if method == http.MethodOptions {
				r.Header.Set("Access-Control-Request-Method", http.MethodPost)
				r.Header.Set("Access-Control-Request-Headers", "content-type,dpop")
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			got := w.Header().Get("Access-Control-Allow-Origin")
			if (got == tt.origin && got != "") != tt.allowed {
				t.Errorf("%s %s from %q: allows %q", method, tt.path, tt.origin, got)
			}
			if tt.allowed && method == http.MethodOptions && (w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Headers") != "content-type,dpop") {
				t.Errorf("preflight: %d %v", w.Code, w.Header())
			}
		}
	}
}
