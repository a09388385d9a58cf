package consumerd_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// balancer sends requests on kept-alive connections as load balancers do: to
// instances that are ready, and on no connection that was announced to close. It
// never tries again, so that it sees whatever a stop cuts.
type balancer struct {
	backends       []*backend
	served, failed atomic.Int64
	failure        atomic.Pointer[error] // the first one
}

type backend struct {
	public, admin string
	ready         atomic.Bool
}

// probe asks each instance whether it should get traffic, until ctx ends.
func (b *balancer) probe(ctx context.Context) {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		for _, to := range b.backends {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+to.admin+"/ready", http.NoBody)
			if err != nil {
				return
			}
			res, err := client.Do(req)
			if err == nil {
				_ = res.Body.Close()
			}
			to.ready.Store(err == nil && res.StatusCode == http.StatusOK)
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// send keeps one connection to each instance and uses them in turn.
func (b *balancer) send(ctx context.Context, every time.Duration) {
	conns := map[*backend]*keptConn{}
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		to := b.choose(i, conns)
		if to == nil {
			continue
		}
		closed, err := b.ask(conns, to)
		if err != nil {
			b.failed.Add(1)
			err = fmt.Errorf("%s: %w", to.public, err)
			b.failure.CompareAndSwap(nil, &err)
		}
		if err != nil || closed {
			delete(conns, to)
		}
		b.served.Add(1)
	}
}

// choose returns the instance whose turn it is, or the next that is ready. The
// connections to those that are not are given up.
func (b *balancer) choose(turn int, conns map[*backend]*keptConn) *backend {
	for j := range b.backends {
		to := b.backends[(turn+j)%len(b.backends)]
		if to.ready.Load() {
			return to
		}
		if c := conns[to]; c != nil {
			_ = c.Close()
			delete(conns, to)
		}
	}
	return nil
}

type keptConn struct {
	net.Conn
	r *bufio.Reader
}

// ask sends one request and reads the whole answer.
func (b *balancer) ask(conns map[*backend]*keptConn, to *backend) (closed bool, err error) {
	c := conns[to]
	if c == nil {
		nc, err := net.DialTimeout("tcp", to.public, 10*time.Second) //nolint:noctx // it has a timeout
		if err != nil {
			return true, err
		}
		c = &keptConn{nc, bufio.NewReader(nc)}
		conns[to] = c
	}
	defer func() {
		if closed || err != nil {
			_ = c.Close()
		}
	}()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return true, err
	}
	if _, err := fmt.Fprintf(c, "GET /bff/consumer/v1/facets?country=AF HTTP/1.1\r\nHost: %s\r\n\r\n", to.public); err != nil {
		return true, err
	}
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return true, err
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return true, err
	}
	if res.StatusCode != http.StatusOK {
		return true, fmt.Errorf("status %d", res.StatusCode)
	}
	return res.Close, nil
}

// TestProofRollingRestart restarts two instances, one without the fast path, one after the
// other under load on kept-alive connections: no request fails and no connection is reset.
// With MELMASTOON_PROOF=long there are three, and it does so ten times.
func TestProofRollingRestart(t *testing.T) {
	t.Parallel()
	rounds, rate := testkit.Proof(1, 10), testkit.Proof(50, 500)
	w := testkit.NewWorld(t, nil)
	settings := func(i int) map[string]string {
		return map[string]string{
			"MELMASTOON_DRAIN_DELAY": "5s", "BFF_CONSUMER_LIMITS": "off", "BFF_CONSUMER_BOT_DEFENCE": "off",
			"MELMASTOON_NO_FAST_PATH": strconv.FormatBool(i == 1),
		}
	}
	var instances []*platform.Process
	b := new(balancer)
	for i := range testkit.Proof(2, 3) {
		p := w.Start("bff-consumer", settings(i))
		instances = append(instances, p)
		b.backends = append(b.backends, &backend{public: p.Public, admin: p.Admin})
	}
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	load.Go(func() { b.probe(ctx) })
	const workers = 16
	for range workers {
		load.Go(func() { b.send(ctx, workers*time.Second/time.Duration(rate)) })
	}
	for range rounds {
		for i, p := range instances {
			before := b.served.Load()
			until(t, "load", func() bool { return b.served.Load() >= before+50 })
			if err := p.Stop(time.Minute); err != nil {
				t.Errorf("instance %d: %v", i, err)
			}
			instances[i] = w.Relaunch(p.Service, settings(i))
			if err := instances[i].AwaitReady(testkit.Context(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	load.Wait()
	if n := b.failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed, the first: %v", n, b.served.Load(), *b.failure.Load())
	}
	t.Logf("%d requests during %d restarts", b.served.Load(), rounds*len(instances))
}
