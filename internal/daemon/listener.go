package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff/internal/http1"
)

// Limits of every listener. They bound what a slow or hostile peer can hold.
const (
	readHeaderTimeout     = 5 * time.Second
	readTimeout           = 15 * time.Second
	idleTimeout           = 2 * time.Minute
	maxHeaderBytes        = 16 << 10
	defaultMaxConnections = 10_000
	// crowdedIdleTimeout is that of a listener with less than a quarter of its
	// connections left: a client that holds them without asking loses them.
	crowdedIdleTimeout = 10 * time.Second
	// leastShare is what an address may hold of a small listener: the computers of a
	// hotel, or the guests of a café, behind one address.
	leastShare = 64
)

// ServerOptions are what listeners differ in.
type ServerOptions struct {
	// FastPath serves common HTTP/1.1 requests with internal/http1 and the others
	// with net/http. Without it, or with Settings.NoFastPath, net/http serves all.
	FastPath bool
	// WriteTimeout limits the time from a request's head to the end of its answer.
	// A handler that streams extends it with http.ResponseController.
	WriteTimeout time.Duration
	// MaxConnections limits the open connections; zero = Settings.MaxConnections.
	MaxConnections int
	// Trusted are the proxies in front, each of which speaks for many: they may hold
	// all connections.
	Trusted []netip.Prefix
	// NoDrain says that the listener is no load balancer's: a stop does not wait
	// until its clients have noticed.
	NoDrain bool
}

// AddServer registers an HTTP listener, HTTP/1.1 and cleartext HTTP/2 on one
// port. It binds at start, so that a taken port is a clear error at once.
func (d *Daemon) AddServer(name, addr string, h http.Handler, opts ServerOptions) {
	limit := d.connectionLimit(name, opts)
	srv := d.newServer(name, h, opts, limit.crowded)
	if !opts.NoDrain {
		d.drains = append(d.drains, srv.Drain)
	}
	d.Add(name, func(ctx context.Context) error {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		d.Log.Info("listening", "listener", name, "address", ln.Addr().String())
		tcp, ok := ln.(*net.TCPListener)
		if !ok {
			return fmt.Errorf("%T does not listen for TCP", ln)
		}
		limit.TCPListener = tcp
		go func() {
			if err := srv.Serve(limit); !errors.Is(err, http.ErrServerClosed) {
				d.fail(fmt.Errorf("%s: %w", name, err))
			}
		}()
		return nil
	}, func(ctx context.Context) error {
		if err := srv.Shutdown(ctx); err != nil {
			return errors.Join(err, srv.Close())
		}
		return nil
	})
}

func (d *Daemon) newServer(name string, h http.Handler, opts ServerOptions, crowded func() bool) *http1.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return http1.New(&http.Server{
		Handler: d.logPanics(name, h), Protocols: protocols,
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: opts.WriteTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug), // what clients do wrong
	}, http1.Options{NoFastPath: !opts.FastPath || d.settings.NoFastPath, Crowded: crowded, CrowdedIdle: crowdedIdleTimeout})
}

// logPanics logs a panic that no handler recovered. The servers' own message would
// be among those about clients, at a level that is off, and hold the client's address.
func (d *Daemon) logPanics(listener string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p != http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
				d.Log.ErrorContext(r.Context(), "panic in a handler, the connection is closed without an answer",
					"listener", listener, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			panic(http.ErrAbortHandler)
		}()
		h.ServeHTTP(w, r)
	})
}

// limitedListener closes connections beyond a limit as soon as they are accepted.
// Connections that are open keep being served, and a load balancer sees at once
// that it has to try another instance. If new connections waited for a place
// instead, they would wait for as long as idle ones are kept open. No address but that
// of a trusted proxy has more than its share: one computer that opens connections and
// says nothing would otherwise shut everybody else out.
type limitedListener struct {
	*net.TCPListener
	name    string
	max     int64
	share   int
	trusted []netip.Prefix
	open    atomic.Int64
	refused prometheus.Counter // by the listener
	over    prometheus.Counter // one address's share
	log     *slog.Logger
	warned  time.Time // of the accepting goroutine

	mu sync.Mutex
	of map[netip.Addr]int // open connections of addresses that have a share
}

func (d *Daemon) connectionLimit(listener string, opts ServerOptions) *limitedListener {
	labels := prometheus.Labels{"listener": listener}
	most := cmp.Or(opts.MaxConnections, d.settings.MaxConnections, defaultMaxConnections)
	share := cmp.Or(d.settings.MaxConnectionsPerAddress, max(most/10, min(leastShare, (most+1)/2)))
	l := &limitedListener{name: listener, max: int64(most), share: share, trusted: opts.Trusted, of: map[netip.Addr]int{}, log: d.Log}
	l.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "listener_connections_refused_total", Help: "Connections closed at once because the listener had its maximum.", ConstLabels: labels,
	})
	l.over = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "listener_connections_over_share_total", Help: "Connections closed at once because their address had its share of the listener's.", ConstLabels: labels,
	})
	d.Metrics.MustRegister(l.refused, l.over, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "listener_connections", Help: "Open connections.", ConstLabels: labels,
	}, func() float64 { return float64(l.open.Load()) }))
	return l
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		release, full := l.admit(nc.RemoteAddr())
		if release != nil {
			return &limitedConn{TCPConn: nc, release: sync.OnceFunc(release)}, nil
		}
		_ = nc.Close() // nothing was read or written
		counter, why := l.refused, "the listener has its maximum"
		if !full {
			counter, why = l.over, "an address that is no trusted proxy has its share"
		}
		counter.Inc()
		if now := time.Now(); now.Sub(l.warned) >= time.Minute {
			l.warned = now
			l.log.Warn("connections refused", "why", why, "listener", l.name, "max", l.max, "share", l.share)
		}
	}
}

// admit counts a connection and returns what ends that, or nil: the listener is full,
// or the address has its share.
func (l *limitedListener) admit(peer net.Addr) (release func(), full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, counts := l.holder(peer)
	switch {
	case l.open.Load() >= l.max:
		return nil, true
	case counts && l.of[of] >= l.share:
		return nil, false
	}
	l.open.Add(1)
	if !counts {
		return func() { l.open.Add(-1) }, false
	}
	l.of[of]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open.Add(-1)
		if l.of[of]--; l.of[of] == 0 {
			delete(l.of, of)
		}
	}, false
}

// holder is whose share a connection counts to, if it does. A whole /64 is one holder:
// with IPv6 that is what one computer has.
func (l *limitedListener) holder(peer net.Addr) (netip.Addr, bool) {
	tcp, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, true
	}
	a := tcp.AddrPort().Addr().Unmap().WithZone("")
	for _, p := range l.trusted {
		if p.Contains(a) || a.Is4() && p.Contains(netip.AddrFrom16(a.As16())) {
			return a, false
		}
	}
	if a.Is6() {
		a = netip.PrefixFrom(a, 64).Masked().Addr()
	}
	return a, true
}

// crowded reports whether less than a quarter of the connections are left.
func (l *limitedListener) crowded() bool { return 4*l.open.Load() > 3*l.max }

// limitedConn gives its place back when it is closed. It embeds the TCP connection
// so that the servers keep its fast ways to write.
type limitedConn struct {
	*net.TCPConn
	release func()
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	defer c.release()
	return c.TCPConn.Close()
}
