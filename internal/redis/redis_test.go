package redis_test

import (
	"context"
	"strings"
	"testing"
	"time"

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
	c, err := redis.Open(redis.Config{URL: server.URL(), Tier: "test", Timeout: time.Second})
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
