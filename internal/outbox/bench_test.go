package outbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
)

// The figures are ratios of medians of interleaved slices: absolute ones say
// more about the machine than about the code.

const (
	drainRows  = 10_000
	drainBatch = 500
)

// acceptAll accepts every message at once.
var acceptAll = publisherFunc(func(m []message) []error { return make([]error, len(m)) })

// fill commits rows in transactions of 100 and returns their ids as the column
// holds them.
func (fx *fixture) fill(b *testing.B, rows int) []string {
	b.Helper()
	var ids []string
	for n := 0; n < rows; n += 100 {
		var events []bff.Event
		for i := range 100 {
			e := fx.event(fmt.Sprint("gms_", (n+i)%997), n)
			e.Payload = []byte(`{"guestSessionId":"gms_01H8YN7Q2P7GZ4F8Y5CK4MV3DT","kind":"listing-card","tenantId":"tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D","propertyId":"ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3D","position":3,"page":1,"sortKey":"recommended"}`)
			events = append(events, e)
			ids = append(ids, e.Envelope.EventID)
		}
		if err := fx.table.Append(b.Context(), fx.write, events...); err != nil {
			b.Fatal(err)
		}
	}
	return ids
}

// raw is the yardstick: the marking alone, with known ids and no reads, in statements
// as large as the relay's.
func (fx *fixture) raw(b *testing.B, ids []string) cost {
	b.Helper()
	conn, err := fx.relay.Acquire(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	cpu, start := fx.serverCPU(b), time.Now()
	for chunk := range slices.Chunk(ids, drainBatch/2) {
		_, err := conn.Exec(b.Context(), "UPDATE "+fx.table.Name()+" SET published_at = now() WHERE id = ANY($1)", chunk)
		if err != nil {
			b.Fatal(err)
		}
	}
	return cost{time.Since(start), fx.serverCPU(b) - cpu}
}

// cost is the time that passed and the server's processor time.
type cost struct {
	wall time.Duration
	cpu  int
}

// over divides the medians.
func over(theirs, ours []cost) (wall, cpu float64) {
	var wt, wo, ct, co []float64
	for i := range ours {
		wt, wo = append(wt, float64(theirs[i].wall)), append(wo, float64(ours[i].wall))
		ct, co = append(ct, float64(theirs[i].cpu)), append(co, float64(ours[i].cpu))
	}
	return median(wt) / median(wo), median(ct) / max(1, median(co))
}

// drainer is a relay that has long been running and meets a backlog.
type drainer struct {
	fx    *fixture
	relay *outbox.Relay
	gate  sync.RWMutex // closed while the backlog is made

	settled []cost // until the last row is marked as well
}

func newDrainer(b *testing.B, fx *fixture) *drainer {
	b.Helper()
	d := &drainer{fx: fx}
	d.relay = fx.newRelay(b, publisherFunc(func(m []message) []error {
		d.gate.RLock()
		defer d.gate.RUnlock()
		return make([]error, len(m))
	}), func(c *outbox.RelayConfig) { c.Batch = drainBatch })
	run(b, d.relay)
	eventually(b, "a leader", func() (bool, error) { return d.relay.Counters().Leader, nil })
	return d
}

func (d *drainer) drain(b *testing.B) cost {
	b.Helper()
	want := d.relay.Counters().Published + drainRows
	d.gate.Lock()
	d.fx.fill(b, drainRows)
	d.relay.Wake()
	cpu, start := d.fx.serverCPU(b), time.Now()
	d.gate.Unlock()
	eventually(b, "the backlog's end", func() (bool, error) { return d.relay.Counters().Published == want, nil })
	took := cost{time.Since(start), d.fx.serverCPU(b) - cpu}
	eventually(b, "an empty journal", func() (bool, error) {
		var paid bool
		err := d.fx.super.QueryRow(b.Context(), "SELECT NOT EXISTS (SELECT FROM "+d.fx.table.Name()+"_marks)").Scan(&paid)
		return paid, err
	})
	d.settled = append(d.settled, cost{time.Since(start), d.fx.serverCPU(b) - cpu})
	return took
}

// BenchmarkDrain: rows per second of the relay over rows per second of the bare
// UPDATE, aim 1.0; and the same until all marks that it owes are paid, which can
// not be better than reading, publishing and the UPDATE together.
func BenchmarkDrain(b *testing.B) {
	for name, prepare := range map[string]func(*testing.B, *fixture){
		"empty history": func(*testing.B, *fixture) {},
		"old snapshot": func(b *testing.B, fx *fixture) {
			b.Helper()
			// Nothing that dies from now on can be vacuumed away.
			tx, err := fx.super.BeginTx(b.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			if _, err := tx.Exec(b.Context(), "SELECT FROM "+fx.table.Name()); err != nil {
				b.Fatal(err)
			}
			if _, err := tx.Exec(b.Context(), "SET idle_in_transaction_session_timeout = 0"); err != nil {
				b.Fatal(err)
			}
		},
		"old writer": func(b *testing.B, fx *fixture) {
			b.Helper()
			tx, err := fx.super.Begin(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			if _, err := tx.Exec(b.Context(), "SET idle_in_transaction_session_timeout = 0; SELECT pg_current_xact_id()"); err != nil {
				b.Fatal(err)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			fx, rival := newFixture(b, shapes[0]), newFixture(b, shapes[0])
			prepare(b, fx)
			prepare(b, rival)
			d := newDrainer(b, fx)
			var ours, theirs []cost
			for b.Loop() {
				theirs = append(theirs, rival.raw(b, rival.fill(b, drainRows)))
				ours = append(ours, d.drain(b))
			}
			wall, cpu := over(theirs, ours)
			b.ReportMetric(wall, "ratio")
			b.ReportMetric(cpu, "cpu-ratio")
			wall, cpu = over(theirs, d.settled)
			b.ReportMetric(wall, "settled-ratio")
			b.ReportMetric(cpu, "settled-cpu-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkWake: commits per second of 32 writers who wake the relay over those
// of writers who leave it to its poll. Aim: 0.97.
func BenchmarkWake(b *testing.B) {
	for _, where := range []string{"same process", "other process"} {
		b.Run(where, func(b *testing.B) {
			fx := newFixture(b, shapes[0])
			r := fx.newRelay(b, acceptAll, func(c *outbox.RelayConfig) { c.Poll = 200 * time.Millisecond })
			run(b, r)
			eventually(b, "a leader", func() (bool, error) { return r.Counters().Leader, nil })
			wake := r.Wake
			if where == "other process" {
				n := outbox.NewNotifier(fx.write, fx.table, nil)
				b.Cleanup(n.Close)
				wake = n.Wake
			}
			var on, off []float64
			slice := func(wake func()) float64 {
				rate := fx.commits(b, wake)
				r.Wake()
				fx.settled(b) // what one slice leaves must not slow down the next
				return rate
			}
			for n := 0; b.Loop(); n++ {
				if n%2 == 0 {
					off = append(off, slice(func() {}))
					on = append(on, slice(wake))
				} else {
					on = append(on, slice(wake))
					off = append(off, slice(func() {}))
				}
			}
			b.ReportMetric(median(on), "commits/s")
			b.ReportMetric(median(on)/median(off), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// commits is what 32 writers manage per second.
func (fx *fixture) commits(b *testing.B, wake func()) float64 {
	b.Helper()
	const slice = 400 * time.Millisecond
	ctx, cancel := context.WithTimeout(b.Context(), slice)
	defer cancel()
	var wg sync.WaitGroup
	counts := make([]int, 32)
	start := time.Now()
	for k := range counts {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := fx.table.Append(context.WithoutCancel(ctx), fx.write, fx.event(fmt.Sprint("gms_", k), n)); err != nil {
					b.Error(err)
					return
				}
				counts[k]++
				wake()
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return float64(total) / time.Since(start).Seconds()
}

// BenchmarkLatency: from the return of the commit to the arrival at the
// publisher, one event at a time. Aim:
// p50 5 ms, p99 25 ms.
func BenchmarkLatency(b *testing.B) {
	for _, where := range []string{"same process", "other process"} {
		b.Run(where, func(b *testing.B) {
			fx := newFixture(b, shapes[0])
			arrived := make(chan time.Time, 1000)
			r := fx.newRelay(b, publisherFunc(func(m []message) []error {
				now := time.Now()
				for range m {
					arrived <- now
				}
				return make([]error, len(m))
			}), func(c *outbox.RelayConfig) { c.Poll = time.Minute })
			run(b, r)
			eventually(b, "a leader", func() (bool, error) { return r.Counters().Leader, nil })
			wake := r.Wake
			if where == "other process" {
				n := outbox.NewNotifier(fx.write, fx.table, nil)
				b.Cleanup(n.Close)
				wake = n.Wake
			}
			var took []time.Duration
			for b.Loop() {
				e := fx.event("gms_1", 0)
				if err := fx.table.Append(b.Context(), fx.write, e); err != nil {
					b.Fatal(err)
				}
				committed := time.Now()
				wake()
				took = append(took, (<-arrived).Sub(committed))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkRefusingTopic: the time from commit to publisher while another topic
// refuses 10,000 events of 10,000 keys, over the same without them. They stay on
// their first backoff, so that all of them are due every two seconds. Aim: 2.
func BenchmarkRefusingTopic(b *testing.B) {
	usual, beside := newLatency(b), newLatency(b)
	beside.fx.many(b, badTopic, 10_000)
	beside.relay.Wake()
	beside.fx.held(b, 10_000)
	for b.Loop() {
		usual.measure(b)
		beside.measure(b)
	}
	b.ReportMetric(beside.percentile(50)/usual.percentile(50), "p50-ratio")
	b.ReportMetric(beside.percentile(99)/usual.percentile(99), "p99-ratio")
	b.ReportMetric(beside.percentile(99), "p99-ms")
	b.ReportMetric(usual.percentile(99), "usual-p99-ms")
	b.ReportMetric(float64(beside.relay.Counters().Failed)/b.Elapsed().Seconds(), "refusals/s")
	b.ReportMetric(0, "ns/op")
}

// latency measures one event after the other beside what else is in its outbox.
type latency struct {
	fx      *fixture
	relay   *outbox.Relay
	arrived chan time.Time
	took    []time.Duration
}

func newLatency(b *testing.B) *latency {
	b.Helper()
	l := &latency{fx: newFixture(b, shapes[0]), arrived: make(chan time.Time, 1)}
	refusal := status.Error(codes.InvalidArgument, "no")
	l.relay = l.fx.newRelay(b, publisherFunc(func(m []message) []error {
		now := time.Now()
		errs := make([]error, len(m))
		for i := range m {
			if m[i].Topic == badTopic {
				errs[i] = refusal
			} else {
				l.arrived <- now
			}
		}
		return errs
	}), func(c *outbox.RelayConfig) {
		c.Poll, c.MinBackoff, c.MaxBackoff, c.MaxAttempts = time.Minute, 2*time.Second, 2*time.Second, 1<<30
	})
	run(b, l.relay)
	eventually(b, "a leader", func() (bool, error) { return l.relay.Counters().Leader, nil })
	return l
}

func (l *latency) measure(b *testing.B) {
	b.Helper()
	if err := l.fx.table.Append(b.Context(), l.fx.write, l.fx.event("gms_1", 0)); err != nil {
		b.Fatal(err)
	}
	committed := time.Now()
	l.relay.Wake()
	l.took = append(l.took, (<-l.arrived).Sub(committed))
}

// percentile is in milliseconds.
func (l *latency) percentile(p int) float64 {
	slices.Sort(l.took)
	return float64(l.took[len(l.took)*p/100].Microseconds()) / 1000
}

func median[T int | float64 | time.Duration](v []T) T {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
