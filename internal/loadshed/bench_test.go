package loadshed

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/pause"
)

// work keeps a processor busy for about half a millisecond. It gives way now and then, as
// a handler does with each system call: otherwise no further request could arrive.
func work() {
	var block [32 << 10]byte
	for range 20 {
		sum := sha256.Sum256(block[:])
		copy(block[:], sum[:])
		runtime.Gosched()
	}
}

// wait is a dependency with a few connections.
type wait chan struct{}

func (w wait) serve() {
	w <- struct{}{}
	pause.For(context.Background(), 5*time.Millisecond)
	<-w
}

// outcome of a slice of load.
type outcome struct {
	offered float64 // requests a second
	goodput float64 // those that were served well
	p99     time.Duration
}

// ramp is the beginning of a slice, which does not count: nothing can be finished yet.
const ramp = 100 * time.Millisecond

func tally(took []time.Duration, over time.Duration) outcome {
	if len(took) == 0 {
		return outcome{}
	}
	slices.Sort(took)
	return outcome{goodput: float64(len(took)) / over.Seconds(), p99: took[len(took)*99/100]}
}

// atCapacity lets a fixed number of callers come back as soon as they were served.
func atCapacity(serve func(), callers int, lasting time.Duration) outcome {
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			for time.Since(begin) < lasting {
				arrived := time.Now()
				serve()
				if d, at := time.Since(arrived), time.Since(begin); at > ramp && at < lasting {
					mu.Lock()
					took = append(took, d)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return tally(took, lasting-ramp)
}

// overloaded sends requests at a rate, served or not, from many callers that each come by
// chance: a single generator would be starved on a busy machine and send in gusts. What
// counts is served while it lasts, and before the caller gives up.
func overloaded(admit func(giveUp time.Duration) (func(bool), bool), serve func(), rate float64, lasting, giveUp time.Duration) outcome {
	const callers = 600
	var mu sync.Mutex
	var took []time.Duration
	var offered atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			next := begin
			for {
				next = next.Add(time.Duration(rand.ExpFloat64() * callers / rate * float64(time.Second)))
				if next.Sub(begin) > lasting {
					return
				}
				pause.For(context.Background(), time.Until(next))
				wg.Go(func() { // the caller does not wait: more will come
					arrived := time.Now()
					if arrived.Sub(begin) < lasting {
						offered.Add(1)
					}
					done, ok := admit(giveUp)
					if !ok {
						return
					}
					serve()
					done(true)
					if d, at := time.Since(arrived), time.Since(begin); d < giveUp && at > ramp && at < lasting {
						mu.Lock()
						took = append(took, d)
						mu.Unlock()
					}
				})
			}
		})
	}
	wg.Wait()
	o := tally(took, lasting-ramp)
	o.offered = float64(offered.Load()) / lasting.Seconds()
	return o
}

// BenchmarkOverload is the goal "goodput at 5 × overload ÷ goodput at capacity ≥ 0.95, p99
// of the admitted ≤ 2 ×", in alternating slices, and what becomes of it without gates.
func BenchmarkOverload(b *testing.B) {
	pool := make(wait, 32)
	cores := runtime.GOMAXPROCS(0)
	for _, bb := range []struct {
		name    string
		serve   func()
		callers int
	}{
		{"processor", work, cores + 1},
		{"latency", pool.serve, 32},
	} {
		admitAll := func(time.Duration) (func(bool), bool) { return func(bool) {}, true }
		admitNone := func(time.Duration) (func(bool), bool) { return nil, false }
		for _, gated := range []bool{true, false} {
			name := bb.name + "/open"
			if gated {
				name = bb.name + "/gated"
			}
			b.Run(name, func(b *testing.B) {
				s, err := New(Config{Classes: []Class{{Name: "search"}}})
				if err != nil {
					b.Fatal(err)
				}
				gate, err := s.Gate("search")
				if err != nil {
					b.Fatal(err)
				}
				admit := admitAll
				if gated {
					admit = func(giveUp time.Duration) (func(bool), bool) {
						ctx, cancel := context.WithTimeout(context.Background(), giveUp)
						defer cancel()
						pass, ok := gate.Admit(ctx, from)
						return pass.Leave, ok
					}
				}
				const slice = 500 * time.Millisecond
				base := atCapacity(bb.serve, bb.callers, slice)
				giveUp := 5 * base.p99
				overloaded(admit, bb.serve, 5*base.goodput, 3*slice, giveUp) // finds its limit
				var offered, goodput, p99 []float64
				rate := 5 * base.goodput
				for b.Loop() {
					// Callers cost something in the same process, also refused ones:
					// both sides have them.
					var crowd sync.WaitGroup
					crowd.Go(func() { overloaded(admitNone, bb.serve, rate, slice, giveUp) })
					base := atCapacity(bb.serve, bb.callers, slice)
					crowd.Wait()
					over := overloaded(admit, bb.serve, rate, slice, giveUp)
					offered = append(offered, over.offered/base.goodput)
					goodput = append(goodput, over.goodput/base.goodput)
					p99 = append(p99, float64(over.p99)/float64(base.p99))
				}
				slices.Sort(offered)
				slices.Sort(goodput)
				slices.Sort(p99)
				// Well below 5, the machine was too busy to make the load: no result.
				b.ReportMetric(offered[len(offered)/2], "offered-ratio")
				b.ReportMetric(goodput[len(goodput)/2], "goodput-ratio")
				b.ReportMetric(p99[len(p99)/2], "p99-ratio")
				b.ReportMetric(float64(gate.stats().Limit), "limit")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
