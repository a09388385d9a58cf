// Package redis opens the doors to Redis: one client per tier, the key builder
// and scripts. It knows key shapes, not what is kept behind them.
package redis

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"
)

// Config says which server and how patient to be.
type Config struct {
	// URL is redis://[:password@]host:port/db, with several hosts as addr= parameters for
	// a cluster, or with the sentinels as hosts and master_set= for what they watch over.
	URL string
	// Tier is what CLIENT LIST shows, the service and its tier.
	Tier string
	// Timeout caps a write to the socket; calls carry their own deadlines.
	Timeout time.Duration
	// MaxConns bounds the connections to one server; zero = 16 (DATA_MODEL §6). What
	// needs one of its own waits for it when they are all taken.
	MaxConns int
	// InUse counts the connections; nil = they are not counted.
	InUse prometheus.Gauge
	// Dialed is told of each connection before anything is sent over it; nil = nothing is.
	Dialed func()
}

// InUse registers the gauge of a tier's connections. Calls share them, so that each
// one that is open is in use.
func InUse(reg prometheus.Registerer, namespace, tier string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "redis_pool_inuse", Help: "Connections to Redis; calls share them.", ConstLabels: prometheus.Labels{"tier": tier},
	})
	reg.MustRegister(g, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "redis_pool_total", Help: "Connections that there may be to each server of Redis.", ConstLabels: prometheus.Labels{"tier": tier},
	}, func() float64 { return maxConns }))
	return g
}

const (
	bufferSize = 64 << 10
	maxConns   = 16
	// sharedScale lets calls share 2^1 of the connections; the others are for what
	// needs one of its own.
	sharedScale = 1
	// ringScale lets 2^8 calls wait for their answers on one connection, several of
	// one pipeline counting as one. Every place is five objects: by default they are a
	// third of all that a garbage collection of this process has to mark.
	ringScale = 8
)

// ValidURL reports whether a server's URL can be read.
func ValidURL(url string) bool {
	_, err := rueidis.ParseURL(url)
	return err == nil
}

// Plaintext reports whether a server is reached without TLS over the network.
func Plaintext(url string) bool {
	opt, err := rueidis.ParseURL(url)
	if err != nil || opt.TLSConfig != nil {
		return false // one that cannot be read is reported by itself
	}
	return slices.ContainsFunc(opt.InitAddress, func(address string) bool {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return !strings.HasPrefix(address, "/") // a socket's path
		}
		addr, err := netip.ParseAddr(host)
		return host != "localhost" && (err != nil || !addr.Unmap().IsLoopback())
	})
}

// Open connects one tier. Tiers have separate clients, so that a flood of
// cache traffic cannot queue in front of a session.
func Open(cfg Config) (rueidis.Client, error) {
	opt, err := rueidis.ParseURL(cfg.URL)
	if err != nil {
		return nil, errors.New("redis: the URL cannot be read") // the URL may hold a password
	}
	opt.ClientName = cfg.Tier
	opt.DisableCache = true // our own invalidation bus does this; managed servers may lack tracking
	opt.ConnWriteTimeout = cfg.Timeout
	opt.Dialer.Timeout = cfg.Timeout
	// Few connections with full pipelines, and buffers for pages, not for files: what
	// the library takes by default is a tenth of this process's memory.
	opt.PipelineMultiplex = sharedScale
	opt.BlockingPoolSize = cmp.Or(cfg.MaxConns, maxConns) - 1<<sharedScale
	opt.RingScaleEachConn = ringScale
	opt.ReadBufferEachConn, opt.WriteBufferEachConn = bufferSize, bufferSize
	if opt.Sentinel.MasterSet != "" {
		// Sentinels take the servers' credentials. A client that was cut off while they chose
		// another master would never hear of it: the refresh asks.
		opt.Sentinel.Username, opt.Sentinel.Password, opt.Sentinel.TLSConfig = opt.Username, opt.Password, opt.TLSConfig
		opt.Sentinel.ClientName, opt.Sentinel.Dialer.Timeout, opt.Sentinel.TopologyRefreshInterval = cfg.Tier, cfg.Timeout, 5*time.Second
	}
	if cfg.InUse != nil {
		opt.DialCtxFn = counting(opt.DialCtxFn, cfg.InUse)
	}
	if cfg.Dialed != nil {
		opt.DialCtxFn = telling(opt.DialCtxFn, cfg.Dialed)
	}
	c, err := rueidis.NewClient(opt)
	if err == nil {
		return c, nil
	}
	// A service must be able to start while its Redis is away: a lone server is
	// then dialled again with each call. A cluster must tell its shape first, and
	// sentinels which server it is.
	if len(opt.InitAddress) == 1 && opt.Sentinel.MasterSet == "" {
		opt.ForceSingleClient = true
		if c, _ := rueidis.NewClient(opt); c != nil {
			return c, nil
		}
	}
	return nil, fmt.Errorf("redis %s: %w", cfg.Tier, err)
}

type dialFunc = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error)

// plain dials as the client would.
func plain(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
	if t != nil {
		return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

// telling tells of each connection.
func telling(dial dialFunc, dialed func()) dialFunc {
	if dial == nil {
		dial = plain
	}
	return func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		c, err := dial(ctx, addr, d, t)
		if err == nil {
			dialed()
		}
		return c, err
	}
}

// counting counts what is open.
func counting(dial dialFunc, open prometheus.Gauge) dialFunc {
	if dial == nil {
		dial = plain
	}
	return func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		c, err := dial(ctx, addr, d, t)
		if err != nil {
			return nil, err
		}
		open.Inc()
		return &countedConn{Conn: c, closed: sync.OnceFunc(open.Dec)}, nil
	}
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// Ping is a readiness check.
func Ping(c rueidis.Client) func(ctx context.Context) error {
	return func(ctx context.Context) error { return c.Do(ctx, c.B().Ping().Build()).Error() }
}

// Node is what one server of a tier says of itself.
type Node struct {
	Address   string
	Version   string // such as 7.0.15
	Policy    string // maxmemory-policy
	MaxMemory string // in bytes; "0" is without limit
	Time      time.Time
}

// Inspect asks every server of a tier. INFO says what CONFIG would, also where that
// is not allowed.
func Inspect(ctx context.Context, c rueidis.Client) ([]Node, error) {
	var nodes []Node
	for address, node := range c.Nodes() {
		answers := node.DoMulti(ctx, node.B().Info().Section("server").Build(), node.B().Info().Section("memory").Build(), node.B().Time().Build())
		server, err1 := answers[0].ToString()
		memory, err2 := answers[1].ToString()
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("ask %s about itself: %w", address, err)
		}
		n := Node{
			Address: address, Version: infoField(server, "redis_version"), Policy: infoField(memory, "maxmemory_policy"), MaxMemory: infoField(memory, "maxmemory"),
		}
		if at, err := answers[2].AsStrSlice(); err == nil && len(at) == 2 {
			seconds, err1 := strconv.ParseInt(at[0], 10, 64)
			micros, err2 := strconv.ParseInt(at[1], 10, 64)
			if err1 == nil && err2 == nil {
				n.Time = time.Unix(seconds, micros*int64(time.Microsecond))
			}
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b Node) int { return strings.Compare(a.Address, b.Address) })
	return nodes, nil
}

// infoField is one line's value of INFO.
func infoField(info, name string) string {
	_, value, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ = strings.Cut(value, "\r\n")
	return value
}

// KeepsKeys is a readiness check of a tier whose keys may not go before their time:
// no server of it may evict any when its memory is full.
func KeepsKeys(c rueidis.Client) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		nodes, err := Inspect(ctx, c)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			if n.Policy != "noeviction" {
				return fmt.Errorf("%s may evict keys: maxmemory-policy is %q, want noeviction", n.Address, n.Policy)
			}
		}
		return nil
	}
}

// Keys builds the keys of one service in one environment.
type Keys struct{ prefix string }

// NewKeys returns the builder for "{env}:{service}:…".
func NewKeys(env, service string) Keys { return Keys{prefix: env + ":" + service + ":"} }

// Prefix begins every key of the service.
func (k Keys) Prefix() string { return k.prefix }

// Key joins the parts below the service's prefix.
func (k Keys) Key(parts ...string) string { return k.prefix + strings.Join(parts, ":") }
