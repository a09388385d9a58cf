package daemon

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/pprof"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// adminIndex is for people who look at the listener with a browser.
const adminIndex = `Health, metrics and profiles.

  /health        the process runs
  /ready         it should get traffic, and the state of its parts
  /metrics       for Prometheus
  /debug/pprof/  profiles, for callers on this machine, with MELMASTOON_PROFILES
`

// Admin serves health, readiness, metrics and profiles. It belongs on its own
// listener: nothing of it may be reached from outside.
func (d *Daemon) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, adminIndex) // fails only if the client has left
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, map[string]any{"status": "ok"})
	})
	mux.HandleFunc("GET /ready", d.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.Metrics, promhttp.HandlerOpts{}))
	if d.settings.Profiles || d.settings.Development() {
		mux.Handle("/debug/pprof/", onMachine(pprof.Index))
		mux.Handle("/debug/pprof/cmdline", onMachine(pprof.Cmdline))
		mux.Handle("/debug/pprof/profile", onMachine(pprof.Profile))
		mux.Handle("/debug/pprof/symbol", onMachine(pprof.Symbol))
		mux.Handle("/debug/pprof/trace", onMachine(pprof.Trace))
	}
	return mux
}

// onMachine hides profiles from all but callers on the machine. Probes and Prometheus
// reach the listener from elsewhere: whatever else can reach it then could read what
// the process works on, and slow it down. A port that is forwarded into a container
// comes from the machine itself; so does everything behind a mesh's sidecar, for which
// profiles are off until a setting shows them.
func onMachine(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !from.Addr().Unmap().IsLoopback() {
			http.NotFound(w, r)
			return
		}
		h(w, r)
	})
}

func writeStatus(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client has left
}
