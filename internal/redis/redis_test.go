package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestOpenWhileRedisIsAway: a client opened during an outage works when the
// server is back.
func TestOpenWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NewRedis(t)
	if err := server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	c, err := redis.Open(redis.Config{URL: server.URL(), Tier: "test", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := redis.Ping(c)(short); err == nil {
		t.Fatal("a stopped server answered")
	}
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := redis.Ping(c)(ctx); err != nil {
		t.Fatalf("after the server is back: %v", err)
	}
}

// TestConnectionsAreCounted, also those that the server has closed.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	server := testkit.NewRedis(t)
	reg := prometheus.NewRegistry()
	open := redis.InUse(reg, "test", "session")
	c, err := redis.Open(redis.Config{URL: server.URL(), Tier: "test", Timeout: time.Minute, InUse: open})
	if err != nil {
		t.Fatal(err)
	}
	count := func() float64 {
		got, err := reg.Gather()
		if err != nil || len(got) != 2 || got[1].GetMetric()[0].GetGauge().GetValue() != 16 {
			t.Fatal(got, err)
		}
		return got[0].GetMetric()[0].GetGauge().GetValue()
	}
	until := func(what string, ok func(n float64) bool) {
		t.Helper()
		testkit.Until(t, "connections "+what, func() bool { return ok(count()) })
	}
	if err := redis.Ping(c)(ctx); err != nil {
		t.Fatal(err)
	}
	until("after a call", func(n float64) bool { return n > 0 })
	if err := server.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	until("to a server that is gone", func(n float64) bool { return n == 0 })
	if err := server.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := redis.Ping(c)(ctx); err != nil {
		t.Fatal(err)
	}
	until("to a server that is back", func(n float64) bool { return n > 0 })
	c.Close()
	until("after the end", func(n float64) bool { return n == 0 })
}

func TestKeys(t *testing.T) {
	t.Parallel()
	if got, want := redis.NewKeys("prod", "bff-consumer").Key("session", "gms_1", "wishlist"), "prod:bff-consumer:session:gms_1:wishlist"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOpenHidesThePassword(t *testing.T) {
	t.Parallel()
	_, err := redis.Open(redis.Config{URL: "redis://:hunter2@%zz", Tier: "test"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

// TestKeepsKeys asks a server with each kind of policy.
func TestKeepsKeys(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	c, err := redis.Open(redis.Config{URL: testkit.NewRedis(t).URL(), Tier: "test", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct {
		policy string
		want   bool
	}{{"noeviction", true}, {"allkeys-lru", false}, {"volatile-ttl", false}} {
		if err := c.Do(ctx, c.B().ConfigSet().ParameterValue().ParameterValue("maxmemory-policy", tt.policy).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if err := redis.KeepsKeys(c)(ctx); (err == nil) != tt.want {
			t.Errorf("%s: %v", tt.policy, err)
		}
	}
}

// TestKeepsKeysOnACluster: one node that may evict is enough.
func TestKeepsKeysOnACluster(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	c, err := redis.Open(redis.Config{URL: testkit.RedisCluster(t)[0], Tier: "test", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := redis.KeepsKeys(c)(ctx); err != nil {
		t.Fatal(err)
	}
	for _, node := range c.Nodes() {
		if err := node.Do(ctx, node.B().ConfigSet().ParameterValue().ParameterValue("maxmemory-policy", "allkeys-lru").Build()).Error(); err != nil {
			t.Fatal(err)
		}
		break
	}
	if err := redis.KeepsKeys(c)(ctx); err == nil || !strings.Contains(err.Error(), "allkeys-lru") {
		t.Errorf("one node evicts: %v", err)
	}
}
