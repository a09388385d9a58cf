package testkit

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// SlowTransport has a platform in memory answer each call shortly before its client gives
// up. It runs in a bubble of virtual time.
type SlowTransport struct {
	TB       testing.TB
	Platform http.Handler
	// Until is the end of the route's budget, which must cut no call short.
	Until time.Time

	calls atomic.Int64
}

// Calls is how many there were.
func (s *SlowTransport) Calls() int { return int(s.calls.Load()) }

// RoundTrip implements http.RoundTripper.
func (s *SlowTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls.Add(1)
	deadline, ok := r.Context().Deadline()
	switch {
	case !ok:
		s.TB.Errorf("%s: a call without a deadline", r.URL.Path)
	case deadline.Equal(s.Until):
		s.TB.Errorf("%s: the route's budget leaves %s for the call, less than its own timeout", r.URL.Path, time.Until(deadline))
	}
	r = r.Clone(r.Context())
	if r.Body == nil { // as a server would have it
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	s.Platform.ServeHTTP(w, r)
	late := time.NewTimer(time.Until(deadline) - time.Millisecond)
	defer late.Stop()
	select {
	case <-late.C:
		return w.Result(), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
