package backofficed

import (
	"context"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// lastFrame is what a stream was ended with.
type lastFrame struct{ name string }

func (*lastFrame) Send(...stream.Frame) {}

func (l *lastFrame) End(frames ...stream.Frame) { l.name = frames[len(frames)-1].Event }

// TestStreamsDrain: streams end with a hint when to come again, and none is opened.
func TestStreamsDrain(t *testing.T) {
	t.Parallel()
	ctx, now := testkit.Context(t), time.Now()
	client, err := redis.Open(redis.Config{URL: testkit.Redis(t), Tier: "test", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	tenant := bff.NewID(bff.PrefixTenant, now)
	s := newStreams(backofficestore.NewSessions(backofficestore.SessionsConfig{
		Client: client, Keys: backofficestore.NewKeys(redis.NewKeys(tenant.String(), "bff-backoffice")), Timeout: time.Minute,
	}), nil, 20, 20)
	running, stop := context.WithCancel(ctx)
	var loop sync.WaitGroup
	loop.Go(func() { _ = s.log.Run(running, s) }) // ends with the context
	defer loop.Wait()
	defer stop()
	open := func() (*stream.Stream, error) {
		return s.Open(ctx, &backoffice.Visit{
			Caller: backoffice.Caller{Tenant: tenant, Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, now), TokenExpires: now.Add(time.Hour)},
			Member: &backoffice.Member{},
		}, "", now)
	}
	ends := make([]lastFrame, 20)
	for i := range ends {
		one, err := open()
		if err != nil {
			t.Fatal(err)
		}
		one.Start(&ends[i])
	}
	if err := s.drain(ctx); err != nil {
		t.Fatal(err)
	}
	for _, e := range ends {
		if e.name != "drain" {
			t.Errorf("ended with %q", e.name)
		}
	}
	if _, err := open(); bff.CodeOf(err) != bff.CodeServiceUnavailable {
		t.Errorf("opened while draining: %v", err)
	}
}
