package consumerstore_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/outbox"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// shop is a store on real servers, seen from inside and from outside.
type shop struct {
	*consumerstore.Store
	t     *testing.T
	db    *pgxpool.Pool
	redis rueidis.Client
	keys  redis.Keys
}

type noRelay struct{}

func (noRelay) Wake() {}

// onBoth runs a test on one Redis and on a cluster of three.
func onBoth(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		test(t, newShop(t, testkit.Redis(t), database(t)))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		nodes := testkit.RedisCluster(t)
		all, err := url.Parse(nodes[0])
		if err != nil {
			t.Fatal(err)
		}
		q := all.Query()
		for _, n := range nodes[1:] {
			u, err := url.Parse(n)
			if err != nil {
				t.Fatal(err)
			}
			q.Add("addr", u.Host)
		}
		all.RawQuery = q.Encode()
		test(t, newShop(t, all.String(), database(t)))
	})
}

// database is a migrated database, as the service's own role sees it.
func database(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(testkit.PostgresTemplate(t, "consumer", func(dsn string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return postgres.Migrate(ctx, dsn, migrations.Consumer(), postgres.MigrateOptions{})
	}))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("role", migrations.ConsumerApp)
	u.RawQuery = q.Encode()
	return u.String()
}

func newShop(t *testing.T, redisURL, postgresURL string) *shop {
	t.Helper()
	s := &shop{t: t, keys: redis.NewKeys("t"+strings.ToLower(rand.Text()[:8]), "bff-consumer")}
	var err error
	if s.redis, err = redis.Open(redis.Config{URL: redisURL, Tier: "test", Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.redis.Close)
	if s.db, err = postgres.Open(testkit.Context(t), testkit.Patient(postgresURL)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.db.Close)
	table := consumerstore.OutboxTable()
	s.Store = consumerstore.New(consumerstore.Config{
		DB: s.db, Sessions: s.redis, Keys: s.keys, Outbox: table,
		Appender: outbox.NewAppender(s.db, table, noRelay{}, 1000), Waker: noRelay{},
		Peppers: [][]byte{[]byte("the pepper of tests"), []byte("the pepper before it")}, LeastTimeout: 10 * time.Second,
	})
	return s
}

func (s *shop) ctx() context.Context { return testkit.Context(s.t) }

func (s *shop) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// ttl of a key, rounded to whole days; -2 if it is not there.
func (s *shop) ttl(key string) int64 {
	s.t.Helper()
	n, err := s.redis.Do(s.ctx(), s.redis.B().Ttl().Key(key).Build()).AsInt64()
	s.check(err)
	if n < 0 {
		return n
	}
	return (n + 43200) / 86400
}

func (s *shop) list(key string) []string {
	s.t.Helper()
	items, err := s.redis.Do(s.ctx(), s.redis.B().Lrange().Key(key).Start(0).Stop(-1).Build()).AsStrSlice()
	s.check(err)
	return items
}

func (s *shop) del(key string) {
	s.t.Helper()
	s.check(s.redis.Do(s.ctx(), s.redis.B().Del().Key(key).Build()).Error())
}

func (s *shop) count(sql string, args ...any) int {
	s.t.Helper()
	var n int
	s.check(s.db.QueryRow(s.ctx(), sql, args...).Scan(&n))
	return n
}

// events returns the payloads of a subject in the outbox, in order.
func (s *shop) events(subject consumer.Subject) []map[string]any {
	s.t.Helper()
	rows, err := s.db.Query(s.ctx(), `SELECT payload FROM bff_consumer.outbox WHERE topic = $1 ORDER BY id`, string(subject))
	s.check(err)
	raw, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	s.check(err)
	var out []map[string]any
	for _, b := range raw {
		var m map[string]any
		s.check(json.Unmarshal(b, &m))
		out = append(out, m)
	}
	return out
}

func newID(p bff.Prefix) bff.ID { return bff.NewID(p, time.Now()) }
