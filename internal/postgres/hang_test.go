package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// While the server hangs calls fail at once, also when those before them hold every
// connection of the pool; the ones that wait leave with their own context; and all is
// well when it answers again.
func TestPoolWhileTheServerHangs(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	line := testkit.NewLine(t, testkit.Postgres(t))
	reg := prometheus.NewRegistry()
	cfg := testkit.Patient(line.URL)
	cfg.MaxConns, cfg.Breaker = 2, postgres.NewBreaker(reg, "test")
	defer cfg.Breaker.Close()
	db, err := postgres.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ask := func(ctx context.Context) error {
		_, err := db.Exec(ctx, "SELECT 1")
		return err
	}
	until := func(away float64) {
		t.Helper()
		testkit.Until(t, fmt.Sprint("away is ", away), func() bool {
			got, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			return got[0].GetMetric()[0].GetGauge().GetValue() == away
		})
	}
	if err := ask(ctx); err != nil {
		t.Fatal(err)
	}

	line.Hang()
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	left := make(chan error, 3)
	for range cap(left) { // two have the connections, and one waits for them
		go func() { left <- ask(waiting) }()
	}
	until(1)
	for range 3 { // each would wait until the end of the test
		err := ask(ctx)
		if !errors.Is(err, postgres.ErrAway) || !postgres.Unavailable(err) || bff.CodeOf(postgres.Durable(err)) != bff.CodeServiceUnavailable {
			t.Errorf("while it hangs: %v", err)
		}
	}
	select {
	case err := <-left:
		t.Errorf("a call that waits has ended: %v", err)
	default:
	}
	leave()
	for range cap(left) {
		if err := <-left; err == nil {
			t.Error("a call was answered by a server that hangs")
		}
	}

	line.Resume()
	until(0)
	for range 5 {
		if err := ask(ctx); err != nil {
			t.Errorf("back again: %v", err)
		}
	}
}
