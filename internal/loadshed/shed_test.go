package loadshed

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// server has a few workers and an endless queue: what overload does to a process.
type server struct {
	slots   chan struct{}
	service time.Duration
	// frozen takes the processor away for the first part of every turn.
	frozen, turn time.Duration
}

func newServer(workers int, service time.Duration) *server {
	return &server{slots: make(chan struct{}, workers), service: service}
}

func (s *server) serve() {
	s.slots <- struct{}{}
	<-time.After(s.service)
	if s.turn > 0 {
		if at := time.Duration(time.Now().UnixNano()) % s.turn; at < s.frozen {
			<-time.After(s.frozen - at)
		}
	}
	<-s.slots
}

// capacity is what it can serve in a second.
func (s *server) capacity() float64 { return float64(cap(s.slots)) / s.service.Seconds() }

// result of a load on one class.
type result struct {
	mu      sync.Mutex
	served  int
	refused int
	took    []time.Duration
}

func (r *result) quantile(q float64) time.Duration {
	slices.Sort(r.took)
	if len(r.took) == 0 {
		return 0
	}
	return r.took[int(q*float64(len(r.took)-1))]
}

// load sends requests at a rate for a while; they arrive by chance, as guests do. What
// comes before warm is not counted.
func load(g *Gate, s *server, rate float64, warm, total time.Duration) *result {
	r := &result{}
	random := rand.New(rand.NewPCG(1, uint64(rate)))
	begin := time.Now()
	var wg sync.WaitGroup
	for {
		<-time.After(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		arrived := time.Now()
		if arrived.Sub(begin) > total {
			break
		}
		counts := arrived.Sub(begin) > warm
		wg.Go(func() {
			pass, ok := g.Admit(context.Background(), from)
			if ok {
				s.serve()
				pass.Leave(true)
			}
			if !counts {
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if !ok {
				r.refused++
				return
			}
			r.served++
			r.took = append(r.took, time.Since(arrived))
		})
	}
	wg.Wait()
	return r
}

// from is an address.
var from = netip.MustParseAddr("192.0.2.1")

func newGateFor(t *testing.T, classes ...Class) (*Shedder, []*Gate) {
	t.Helper()
	s, err := New(Config{Classes: classes})
	if err != nil {
		t.Fatal(err)
	}
	var gates []*Gate
	for _, c := range classes {
		g, err := s.Gate(c.Name)
		if err != nil {
			t.Fatal(err)
		}
		gates = append(gates, g)
	}
	return s, gates
}

// At five times its capacity a server does what it can, and does it in time: for as long
// as it takes, which includes probes.
func TestOverload(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		workers int
		service time.Duration
	}{
		"processor bound": {workers: 2, service: 5 * time.Millisecond},
		"latency bound":   {workers: 16, service: 40 * time.Millisecond},
		"slow":            {workers: 8, service: 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newServer(s.workers, s.service)
				_, gates := newGateFor(t, Class{Name: "search", Min: 2})
				const warm, total = 20 * time.Second, 80 * time.Second
				r := load(gates[0], server, 5*server.capacity(), warm, total)
				goodput := float64(r.served) / (total - warm).Seconds() / server.capacity()
				p99 := float64(r.quantile(0.99)) / float64(s.service)
				t.Logf("goodput %.3f of capacity, p99 %.2f × idle, limit %d", goodput, p99, gates[0].stats().Limit)
				if goodput < 0.95 {
					t.Errorf("goodput %.3f of capacity, want 0.95", goodput)
				}
				if p99 > 2.01 {
					t.Errorf("p99 %.2f times the idle latency, want 2", p99)
				}
			})
		})
	}
}

// A neighbour takes the processor away for moments: that is slow, but no queue of ours.
func TestNoisyNeighbour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer(8, 10*time.Millisecond)
		server.frozen, server.turn = 60*time.Millisecond, 350*time.Millisecond
		_, gates := newGateFor(t, Class{Name: "search", Min: 2})
		const warm, total = 10 * time.Second, 40 * time.Second
		r := load(gates[0], server, 2*server.capacity(), warm, total)
		possible := server.capacity() * (1 - server.frozen.Seconds()/server.turn.Seconds()) * (total - warm).Seconds()
		t.Logf("served %.2f of what is possible, limit %d", float64(r.served)/possible, gates[0].stats().Limit)
		if float64(r.served) < 0.9*possible {
			t.Errorf("served %d, want nearly %.0f", r.served, possible)
		}
	})
}

// Below its capacity nothing is refused.
func TestNoOverload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer(32, 40*time.Millisecond)
		shedder, gates := newGateFor(t, Class{Name: "search", Min: 4})
		r := load(gates[0], server, 0.7*server.capacity(), 10*time.Second, 50*time.Second)
		if share := float64(r.refused) / float64(r.served); share > 0.001 {
			t.Errorf("%.2f %% refused at 70 %% of the capacity", 100*share)
		}
		if level := shedder.Level(); level != 0 {
			t.Errorf("brownout %d", level)
		}
	})
}

// Classes share a processor that one of them could fill alone: the more important one is
// served, the others get their minimum.
func TestPriorities(t *testing.T) {
	t.Parallel()
	for name, rates := range map[string][3]float64{
		"hand-offs before the rest": {0.9, 0.9, 0.9},
		"search before telemetry":   {0.05, 0.9, 0.9},
		"telemetry when alone":      {0.01, 0.01, 0.9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := newServer(8, 20*time.Millisecond)
				_, gates := newGateFor(t,
					Class{Name: "handoff", Rank: 0, Min: 1},
					Class{Name: "search", Rank: 1, Min: 1},
					Class{Name: "telemetry", Rank: 2, Min: 1})
				var share [3]float64
				var wg sync.WaitGroup
				for i, g := range gates {
					wg.Go(func() {
						r := load(g, server, rates[i]*server.capacity()+float64(i), 20*time.Second, 80*time.Second)
						share[i] = float64(r.served) / float64(r.served+r.refused)
					})
				}
				wg.Wait()
				t.Logf("served shares %.2f", share)
				served := false
				for i, rate := range rates {
					switch {
					case served && share[i] > 0.5:
						t.Errorf("%s: %.2f served, want less than half", gates[i].class.Name, share[i])
					case !served && share[i] < 0.75:
						t.Errorf("%s: %.2f served, want most", gates[i].class.Name, share[i])
					}
					served = served || rate > 0.5
				}
			})
		})
	}
}

// A dependency that gets slow for good looks like overload; the gate must get over it.
func TestSlowIsTheNewNormal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, gates := newGateFor(t, Class{Name: "search", Min: 2}, Class{Name: "telemetry", Rank: 2})
		fast, slow := newServer(1000, 5*time.Millisecond), newServer(1000, 50*time.Millisecond)
		load(gates[0], fast, 300, 0, 10*time.Second)
		r := load(gates[0], slow, 300, 20*time.Second, 40*time.Second)
		if share := float64(r.refused) / float64(r.served); share > 0.05 {
			t.Errorf("%.1f %% refused although there is room", 100*share)
		}
	})
}

// Quick failures must not make the server look fast, slow ones must count.
func TestFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, gates := newGateFor(t, Class{Name: "search", Min: 1})
		g := gates[0]
		request := func(took time.Duration, ok bool) {
			pass, admitted := g.Admit(t.Context(), from)
			if !admitted {
				t.Fatal("refused")
			}
			<-time.After(took)
			pass.Leave(ok)
		}
		for range 30 {
			request(10*time.Millisecond, true)
		}
		if g.idle != 10*time.Millisecond {
			t.Fatalf("idle latency %v, want 10ms", g.idle)
		}
		for range 1000 {
			request(time.Microsecond, false)
		}
		if g.idle != 10*time.Millisecond {
			t.Errorf("idle latency %v after quick failures", g.idle)
		}
		before := g.limit
		for range 60 {
			request(100*time.Millisecond, false)
		}
		if g.limit >= before && before > 1 {
			t.Errorf("limit %v after slow failures, was %v", g.limit, before)
		}
	})
}

// TestBurst: a thousand at once are all served, if there is time for them, and that is no reason
// to leave anything out of an answer. A client that goes away meanwhile was not refused.
func TestBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, gates := newGateFor(t, Class{Name: "read", Min: 32})
		server := newServer(2, time.Millisecond) // half a second for all
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		left, leave := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				pass, ok := gates[0].Admit(ctx, from)
				if !ok {
					t.Error("refused")
					return
				}
				server.serve()
				pass.Leave(true)
			})
		}
		synctest.Wait()
		wg.Go(func() {
			if _, ok := gates[0].Admit(left, from); ok {
				t.Error("admitted a client that had left")
			}
		})
		synctest.Wait()
		leave()
		wg.Wait()
		if got := s.Stats()[0]; got.Admitted != 1000 || got.Refused != 0 || got.Inflight != 0 || s.brownout.refused.Load() != 0 {
			t.Errorf("%+v, %d refused for the brownout", got, s.brownout.refused.Load())
		}
	})
}

// TestNetworksTakeTurns: whatever one network sends, the requests of another wait for one
// turn; the addresses of an IPv6 /64 are one network.
func TestNetworksTakeTurns(t *testing.T) {
	t.Parallel()
	for _, flood := range []string{"198.51.100.7", "2001:db8::"} {
		synctest.Test(t, func(t *testing.T) {
			_, gates := newGateFor(t, Class{Name: "read", Min: 1, Max: 1})
			var wg sync.WaitGroup
			var ahead atomic.Int64
			addr := netip.MustParseAddr(flood)
			for range 50 {
				if addr.Is6() {
					addr = addr.Next()
				}
				wg.Go(func() {
					if pass, ok := gates[0].Admit(t.Context(), addr); ok {
						ahead.Add(1)
						<-time.After(time.Millisecond)
						pass.Leave(true)
					}
				})
				synctest.Wait()
			}
			pass, ok := gates[0].Admit(t.Context(), from)
			if got := ahead.Load(); !ok || got != 2 {
				t.Errorf("%s: admitted %v after %d of the flood, want 2", flood, ok, got)
			}
			if ok {
				pass.Leave(true)
			}
			wg.Wait()
		})
	}
}

func TestBrownout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, gates := newGateFor(t, Class{Name: "search", Min: 1, Max: 1})
		late, cancel := context.WithDeadline(t.Context(), time.Now()) // no time to wait
		defer cancel()
		// A second in which some of a hundred requests are refused.
		second := func(refused int) int {
			for i := range 100 {
				pass, ok := gates[0].Admit(t.Context(), from)
				if !ok {
					t.Fatal("refused an idle gate")
				}
				if i < refused {
					if _, ok := gates[0].Admit(late, from); ok {
						t.Fatal("admitted beyond the limit")
					}
				}
				<-time.After(10 * time.Millisecond)
				pass.Leave(true)
			}
			return s.Level()
		}
		second(0)
		var climbing []int
		for range 12 {
			climbing = append(climbing, second(10))
		}
		if want := []int{0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 5}; !slices.Equal(climbing, want) {
			t.Errorf("climbing %v, want %v", climbing, want)
		}
		if got := second(1); got != 5 { // one in a hundred: neither pressure nor calm
			t.Errorf("level %d in between", got)
		}
		steps := 0
		for level := 5; level > 0; steps++ {
			got := second(0)
			if got < level-1 {
				t.Fatalf("fell from %d to %d", level, got)
			}
			level = got
		}
		if steps != 5*descend {
			t.Errorf("descended in %d calm seconds, want %d", steps, 5*descend)
		}

		for range 6 { // up again, to come down by itself
			second(10)
		}
		<-time.After(time.Hour) // without a request
		if got := s.Level(); got != 0 {
			t.Errorf("level %d after an idle hour", got)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	s, _ := newGateFor(t, Class{Name: "search"})
	for level := range MaxLevel + 1 {
		s.brownout.level = level
		seen := map[time.Duration]bool{}
		for range 20 {
			d := s.RetryAfter()
			seen[d] = true
			if least := time.Duration(1+level) * time.Second; d < least || d >= 4*least || d%time.Second != 0 {
				t.Errorf("level %d: retry after %v", level, d)
			}
		}
		if len(seen) < 2 {
			t.Error("all clients are told the same")
		}
	}
}

func TestNewReportsEverythingWrong(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Classes: []Class{{}, {Name: "a", Rank: 9}, {Name: "a"}, {Name: "b", Min: 5, Max: 2}}, Slack: -1})
	if err == nil {
		t.Fatal("New accepted nonsense")
	}
	for _, want := range []string{"name", "rank", "twice", "min", "slack"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not mention %q: %v", want, err)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New accepted no classes")
	}
	s, _ := newGateFor(t, Class{Name: "search"})
	if _, err := s.Gate("nothing"); err == nil {
		t.Error("a gate for nothing")
	}
}

// For the race detector: many classes, real goroutines.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	s, gates := newGateFor(t, Class{Name: "a", Min: 8}, Class{Name: "b", Rank: 1, Min: 8})
	var wg sync.WaitGroup
	var under atomic.Int64
	for i := range 32 {
		wg.Go(func() {
			for range 500 {
				if pass, ok := gates[i%2].Admit(t.Context(), from); ok {
					under.Add(1)
					s.Level()
					under.Add(-1)
					pass.Leave(true)
				}
			}
		})
	}
	wg.Wait()
	for _, st := range s.Stats() {
		if st.Inflight != 0 || st.Admitted+st.Refused != 16*500 {
			t.Errorf("%+v, want all left", st)
		}
	}
}
