package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestPartsAreLoggedWhenTheyChange: probes and scrapes ask every second, and the log says
// that a part went, each minute that it is still away, and that it is back.
func TestPartsAreLoggedWhenTheyChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		d := New(settings(), slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})))
		var away error
		d.Require("database", func(context.Context) error { return away })
		d.AddCheck("schema", func(context.Context) error {
			if away != nil {
				return ErrUnknown
			}
			return nil
		})
		d.state.Store(stateReady)
		for second := range 200 {
			away = nil
			if second >= 10 && second < 140 {
				away = errors.New("refused")
			}
			admin(t, d, "/ready")
			if second%15 == 0 {
				admin(t, d, "/metrics")
			}
			time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
		}
		const want = "level=WARN msg=\"dependency unavailable\" part=database required=true error=refused\n" +
			"level=WARN msg=\"dependency still unavailable\" part=database required=true away_ms=60000 asked=64 error=refused\n" +
			"level=WARN msg=\"dependency still unavailable\" part=database required=true away_ms=120000 asked=64 error=refused\n" +
			"level=INFO msg=\"dependency available again\" part=database away_ms=130000\n"
		if out.String() != want {
			t.Errorf("got\n%s\nwant\n%s", out.String(), want)
		}
	})
}

// TestReadyTells: what a check tells is shown, what it does not know has no effect.
func TestReadyTells(t *testing.T) {
	t.Parallel()
	for state, err := range map[string]error{
		"migration 0018 is missing: run migrate": errors.Join(PublicError("migration 0018 is missing: run migrate"), errors.New("hunter2")),
		"unknown":                                ErrUnknown,
	} {
		d := New(settings(), slog.New(slog.DiscardHandler))
		d.Require("schema", func(context.Context) error { return err })
		d.state.Store(stateReady)
		want := http.StatusServiceUnavailable
		if state == "unknown" {
			want = http.StatusOK
		}
		if code, body := admin(t, d, "/ready"); code != want || !strings.Contains(body, `"schema":"`+state+`"`) || strings.Contains(body, "hunter2") {
			t.Errorf("%d %s", code, body)
		}
		if _, body := admin(t, d, "/metrics"); strings.Contains(body, `service_ready{part="schema"} 0`) != (want != http.StatusOK) {
			t.Errorf("%s: the metric says otherwise", state)
		}
	}
}

// The metric says what /ready says, part by part.
func TestReadinessIsAMetric(t *testing.T) {
	t.Parallel()
	d := New(settings(), slog.New(slog.DiscardHandler))
	var away atomic.Bool
	d.AddCheck("database", func(context.Context) error {
		if away.Load() {
			return errors.New("away")
		}
		return nil
	})
	d.Require("other", func(context.Context) error { return nil })
	for _, test := range []struct {
		name           string
		started, there bool
		want           map[string]float64
	}{
		{"starting", false, true, map[string]float64{"process": 0}},
		{"ready", true, true, map[string]float64{"process": 1, "database": 1, "other": 1}},
		{"database away", true, false, map[string]float64{"process": 1, "database": 0, "other": 1}},
	} {
		d.state.Store(stateStarting)
		if test.started {
			d.state.Store(stateReady)
		}
		away.Store(!test.there)
		families, err := d.Metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			if f.GetName() != "service_ready" {
				continue
			}
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
