package outbox

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestOutageIsLoggedOnce: a relay tries again every few seconds, which would bury the
// rest of the log.
func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := &Relay{cfg: RelayConfig{Table: &Table{name: "schema.outbox"}, Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	refused := errors.New("connection refused")
	r.found(t.Context())
	for range 3 {
		r.lost(t.Context(), refused)
	}
	for range 2 {
		r.found(t.Context())
	}
	r.lost(t.Context(), refused)
	var levels []string
	for line := range strings.Lines(log.String()) {
		levels = append(levels, strings.Fields(line)[1])
	}
	if got, want := strings.Join(levels, " "), "level=WARN level=INFO level=WARN"; got != want {
		t.Errorf("logged %s, want %s\n%s", got, want, &log)
	}
}
