package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
