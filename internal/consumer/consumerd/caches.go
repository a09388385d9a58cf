package consumerd

import (
	"errors"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/consumer/consumercache"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerupstream"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/service"
)

// caches is what searches read and answer through.
type caches struct {
	reads   *consumercache.Caches
	answers *consumerhttp.Answers
}

// openStore opens what all caches share.
func (c *Config) openStore(p *service.Process) (*cache.Store, error) {
	client, err := p.Redis("cache", c.RedisCacheURL)
	if err != nil {
		return nil, err
	}
	p.AddCheck("redis cache", redis.Ping(client))
	bus, err := p.Redis("bus", c.RedisCacheURL)
	if err != nil {
		return nil, err
	}
	store, err := cache.NewStore(cache.StoreConfig{
		Redis: client, Bus: bus, Prefix: p.Keys().Key(""), Namespace: p.Namespace, Registerer: p.Metrics,
		EncodeError: encodeFailure, DecodeError: decodeFailure,
	})
	if err != nil {
		return nil, err
	}
	p.Add("caches", nil, store.Close)
	return store, nil
}

// openCaches opens the caches of what is read, with the given configuration's
// switches and stores, and those of finished answers.
func openCaches(cfg consumercache.Config, up *consumerupstream.Upstreams) (out caches, err error) {
	cfg.Search, cfg.Prices, cfg.Brands, cfg.Properties = up.Search, up.Pricing, up.Theme, up.Property
	if out.reads, err = consumercache.New(cfg); err != nil {
		return out, err
	}
	out.answers, err = consumerhttp.NewAnswers(cfg.Store, cfg.Keys)
	return out, err
}

// The failure of a fill reaches the instances that waited for it as its code and
// reason alone.

func encodeFailure(err error) string {
	reason := ""
	if r, ok := errors.AsType[bff.Reasoner](err); ok {
		reason = r.DegradedReason()
	}
	return string(bff.CodeOf(err)) + "|" + reason
}

func decodeFailure(code string) error {
	name, reason, _ := strings.Cut(code, "|")
	e := &bff.Error{Code: bff.Code(name), Err: errors.New("the fill failed in another instance")}
	if e.Code == bff.CodeInternal && reason != "" {
		return &remoteFailure{reason: reason}
	}
	return e
}

// remoteFailure is an upstream's failure in another instance.
type remoteFailure struct{ reason string }

func (f *remoteFailure) Error() string          { return "the fill failed in another instance: " + f.reason }
func (f *remoteFailure) DegradedReason() string { return f.reason }
