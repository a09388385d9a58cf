package web

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
)

// A condition under which every request is refused is one error in the log every ten
// seconds, which says how many there were; another condition is told at once.
func TestOutagesAreToldOnce(t *testing.T) {
	t.Parallel()
	var o outages
	now := time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC)
	errors := 0
	for range 1000 {
		if _, due := o.report("AWAY", now); due {
			errors++
		}
	}
	if errors != 1 {
		t.Errorf("%d errors of 1000 refusals", errors)
	}
	if _, due := o.report("FULL", now); !due {
		t.Error("another condition was not told")
	}
	if alike, due := o.report("AWAY", now.Add(outageEvery)); !due || alike != 999 {
		t.Errorf("later: %v, %d alike, want 999", due, alike)
	}
	if alike, due := o.report("AWAY", now.Add(2*outageEvery)); !due || alike != 0 {
		t.Errorf("once more: %v, %d alike, want none", due, alike)
	}
}

// While a tier is away, requests are lines of the log as always, and one of them an error.
func TestLogDuringAnOutage(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := NewServer(Config{Log: slog.New(slog.NewTextHandler(&log, nil)), Metrics: prometheus.NewRegistry(), Namespace: "test", Budget: time.Minute})
	err := s.Mount(Route{
		Pattern: "GET /away", Kind: Internal, Budget: time.Minute,
		Handle: func(http.ResponseWriter, *http.Request) error { return bff.Errorf(bff.CodeServiceUnavailable, "away") },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/away", http.NoBody))
	}
	if lines, errors := strings.Count(log.String(), "msg=request"), strings.Count(log.String(), "level=ERROR"); lines != 100 || errors != 1 {
		t.Errorf("%d lines of 100 requests, %d of them errors, want one", lines, errors)
	}
}
