package backofficehttp_test

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeupstream"
	"melmastoon.ghasi.io/bff/internal/local/sim"
)

// overSimulator returns a simulator and the clients of its services.
func overSimulator(tb testing.TB, cfg sim.Config) (*sim.Sim, *backofficeupstream.Upstreams) {
	tb.Helper()
	s, err := sim.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(s.Handler())
	tb.Cleanup(server.Close)
	tb.Cleanup(s.Close)
	up, err := backofficeupstream.New(backofficeupstream.Config{
		URLs: backofficetest.UpstreamURLs(server.URL), Metrics: prometheus.NewRegistry(), Namespace: "test", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return s, up
}
