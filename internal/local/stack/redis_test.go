package stack

import (
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"
)

// redisDo runs a command on the server that a URL names.
func redisDo(t *testing.T, address string, args ...string) error {
	t.Helper()
	option, err := rueidis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	option.ForceSingleClient, option.DisableCache, option.DisableRetry = true, true, true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Do(testContext(t), client.B().Arbitrary(args...).Build()).Error()
}

func ping(t *testing.T, address string) error {
	t.Helper()
	return redisDo(t, address, "PING")
}

func TestRedis(t *testing.T) {
	t.Parallel()
	r := startRedis(t, RedisConfig{MaxMemory: "64mb", MaxMemoryPolicy: "allkeys-lfu"})
	for setting, want := range map[string]string{
		"maxmemory": "67108864", "maxmemory-policy": "allkeys-lfu", "save": "", "appendonly": "no", "bind": "127.0.0.1",
	} {
		option, err := rueidis.ParseURL(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		option.DisableCache = true
		client, err := rueidis.NewClient(option)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Do(testContext(t), client.B().ConfigGet().Parameter(setting).Build()).AsStrMap()
		client.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got[setting] != want {
			t.Errorf("%s = %q, want %q", setting, got[setting], want)
		}
	}
	for _, who := range []*url.Userinfo{nil, url.UserPassword("", "guess")} {
		u, err := url.Parse(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		u.User = who
		if ping(t, u.String()) == nil {
			t.Error("answered without the password")
		}
	}
	if line := commandLine(r.proc.pid()); strings.Contains(line, r.password) {
		t.Error("the process list shows the password")
	}
}

func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	r := startRedis(t, RedisConfig{})
	for name, end := range map[string]func() error{
		"stop": func() error { return r.Stop(ctx) },
		"kill": r.Kill,
	} {
		before := r.URL()
		if err := redisDo(t, r.URL(), "SET", "key", "value"); err != nil {
			t.Fatal(err)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if ping(t, r.URL()) == nil {
			t.Errorf("answers after %s", name)
		}
		if err := r.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, r.URL()); diff != "" {
			t.Errorf("the address changed after %s:\n%s", name, diff)
		}
		if err := redisDo(t, r.URL(), "GET", "key"); !rueidis.IsRedisNil(err) {
			t.Errorf("after %s the key is still there (%v), want an empty server", name, err)
		}
	}
}

// Between the choice of a port and its use another process may take it.
func TestRedisLosesThePort(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	r := startRedis(t, RedisConfig{})
	if err := r.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	lost := r.port
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", loopback(lost))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := r.Start(ctx); err == nil {
		t.Error("started on a port that is taken")
	}
	r.settled = false // as on the first start
	if err := r.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if r.port == lost {
		t.Errorf("port %d is taken", lost)
	}
	if err := ping(t, r.URL()); err != nil {
		t.Error(err)
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	ctx := testContext(t)
	c, err := StartRedisCluster(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	option, err := rueidis.ParseURL(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	if len(option.InitAddress) != 3 {
		t.Errorf("%d addresses in the URL, want 3", len(option.InitAddress))
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	same := client.B().Mset().KeyValue().KeyValue("{ssn_1}:a", "1").KeyValue("{ssn_1}:b", "2").Build()
	if err := client.Do(ctx, same).Error(); err != nil {
		t.Errorf("keys of one slot: %v", err)
	}
	// Every slot is served: keys without a common tag reach every node.
	for key := range strings.FieldsSeq("a b c d e f g h i j k l m n o p") {
		if err := client.Do(ctx, client.B().Set().Key(key).Value("1").Build()).Error(); err != nil {
			t.Errorf("SET %s: %v", key, err)
		}
	}
	// "a" and "b" are of different slots: a node refuses the pair.
	refused := 0
	for _, address := range c.URLs() {
		if err := redisDo(t, address, "MSET", "a", "1", "b", "2"); err != nil && strings.HasPrefix(err.Error(), "CROSSSLOT") {
			refused++
		}
	}
	if refused != 3 {
		t.Errorf("%d of 3 nodes refuse keys of two slots", refused)
	}
}
