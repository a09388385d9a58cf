package consumerd

import (
	"errors"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumercache"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerupstream"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/service"
)

// discovery is what searches read and answer through.
type discovery struct {
	store     *cache.Store
	reads     *consumercache.Caches
	answers   *consumerhttp.Answers
	suspended *consumer.SuspendedTenants
}

func (c *Config) openCaches(p *service.Process, up *consumerupstream.Upstreams, searches consumer.Searches, campaign func() bool) (discovery, error) {
	out := discovery{suspended: new(consumer.SuspendedTenants)}
	client, err := p.Redis("cache", c.RedisCacheURL)
	if err != nil {
		return out, err
	}
	p.AddCheck("redis cache", redis.Ping(client))
	bus, err := p.Redis("bus", c.RedisCacheURL)
	if err != nil {
		return out, err
	}
	keys := p.Keys()
	out.store, err = cache.NewStore(cache.StoreConfig{
		Redis: client, Bus: bus, Prefix: keys.Key(""), Namespace: p.Namespace, Registerer: p.Metrics,
		EncodeError: encodeFailure, DecodeError: decodeFailure,
	})
	if err != nil {
		return out, err
	}
	p.Add("caches", nil, out.store.Close)
	if out.reads, err = consumercache.New(consumercache.Config{
		Store: out.store, Keys: keys, Campaign: campaign,
		Search: up.Search, Prices: up.Pricing, Brands: up.Theme, Properties: up.Property, Tenants: up.Tenant, Searches: searches,
	}); err != nil {
		return out, err
	}
	out.answers, err = consumerhttp.NewAnswers(out.store, keys)
	return out, err
}

// A failure that one process met is told to those who waited for it elsewhere
// by its code and reason alone.

func encodeFailure(err error) string {
	reason := ""
	if r, ok := errors.AsType[consumer.Reasoner](err); ok {
		reason = r.DegradedReason()
	}
	return string(bff.CodeOf(err)) + "|" + reason
}

func decodeFailure(code string) error {
	name, reason, _ := strings.Cut(code, "|")
	e := &bff.Error{Code: bff.Code(name), Err: errors.New("another instance could not get it")}
	if e.Code == bff.CodeInternal && reason != "" {
		return &told{reason: reason}
	}
	return e
}

// told is an upstream's failure that another instance met.
type told struct{ reason string }

func (t *told) Error() string          { return "another instance could not get it: " + t.reason }
func (t *told) DegradedReason() string { return t.reason }
