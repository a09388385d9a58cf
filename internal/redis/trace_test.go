package redis_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/internal/tracing/tracingtest"
)

// TestRoundTripsAreSpans: one for each, with the command's name and nothing of its
// keys and values; none outside of what is recorded.
func TestRoundTripsAreSpans(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	c, err := redis.Open(redis.Config{URL: server.URL(), Tier: "test", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c = redis.WithTraces(new(redis.Breakers).Wrap(c, redis.NewBreakerMetrics(prometheus.NewRegistry(), "test", "session")))
	defer c.Close()
	tracer, spans := tracingtest.New(1)
	plain := testkit.Context(t)
	ctx, _ := tracer.Begin(plain, "request", trace.SpanKindServer)

	c.Do(plain, c.B().Ping().Build())
	c.DoMulti(plain, c.B().Ping().Build())
	if n := len(spans.Started()); n != 1 {
		t.Fatalf("%d spans of calls that are not recorded", n-1)
	}
	for _, err := range []error{
		c.Do(ctx, c.B().Set().Key("secret-key").Value("secret-value").Build()).Error(),
		c.Do(ctx, c.B().Del().Key("secret-key").Build()).Error(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	c.Do(ctx, c.B().Get().Key("secret-key").Build())                                                              // absent, which is no failure
	c.Do(ctx, c.B().Arbitrary("OBJECT", "FREQ").Keys("secret-key").Args("secret-value").Build())                  // refused
	c.DoMulti(ctx, c.B().Get().Key("secret-key").Build(), c.B().Get().Key("secret-key").Build())                  // alike
	c.DoMulti(ctx, c.B().Set().Key("secret-key").Value("secret-value").Build(), c.B().Get().Key("other").Build()) // mixed
	c.DoMulti(ctx)                                                                                                // no round trip

	want := []string{
		"redis SET: db.operation.name=SET db.system.name=redis",
		"redis DEL: db.operation.name=DEL db.system.name=redis",
		"redis GET: db.operation.name=GET db.system.name=redis",
		"redis OBJECT: db.operation.name=OBJECT db.system.name=redis error.type=refused",
		"redis PIPELINE GET: db.operation.batch.size=2 db.operation.name=PIPELINE GET db.system.name=redis",
		"redis PIPELINE: db.operation.batch.size=2 db.operation.name=PIPELINE db.system.name=redis",
	}
	if diff := cmp.Diff(want, spans.Lines()); diff != "" {
		t.Error(diff)
	}
}
