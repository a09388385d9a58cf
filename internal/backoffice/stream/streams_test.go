package stream_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	const ai, alerts, control = 0, 1, stream.EntryOpened
	// The log of an epoch: the kinds of its entries, at positions 10, 20, …
	build := func(kinds ...stream.EntryKind) []stream.Entry {
		var log []stream.Entry
		var heads stream.Heads
		for i, k := range kinds {
			e := stream.Entry{ID: stream.EventID{Epoch: 7, Seq: uint64(10 * (i + 1))}, Kind: k, Before: heads}
			heads = e.After()
			log = append(log, e)
		}
		return log
	}
	log := build(ai, alerts, control, ai, alerts)
	all := backoffice.Channels()
	for _, test := range []struct {
		name       string
		last       stream.EventID
		log        []stream.Entry
		wantMissed []backoffice.Channel
		wantRest   int
	}{
		{"everything is there", stream.EventID{Epoch: 7, Seq: 20}, log, nil, 3},
		{"at the head", stream.EventID{Epoch: 7, Seq: 50}, log, nil, 0},
		{"trimmed up to what was read", stream.EventID{Epoch: 7, Seq: 30}, log[3:], nil, 2},
		{"one channel was trimmed", stream.EventID{Epoch: 7, Seq: 10}, log[3:], []backoffice.Channel{"alerts"}, 2},
		{"two channels were trimmed", stream.EventID{Epoch: 7, Seq: 0}, log[3:], []backoffice.Channel{"ai", "alerts"}, 2},
		{"only control was trimmed", stream.EventID{Epoch: 7, Seq: 20}, log[3:], nil, 2},
		{"another epoch", stream.EventID{Epoch: 6, Seq: 20}, log, all, 0},
		{"beyond the head", stream.EventID{Epoch: 7, Seq: 51}, log, all, 0},
		{"an entry that the log never had", stream.EventID{Epoch: 7, Seq: 35}, log, all, 0},
	} {
		missed, rest := stream.Replay(test.last, test.log)
		if diff := cmp.Diff(test.wantMissed, missed); diff != "" || len(rest) != test.wantRest {
			t.Errorf("%s: missed %v, %d follow, want %v, %d", test.name, missed, len(rest), test.wantMissed, test.wantRest)
		}
	}
}

func TestParseEventID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"1-0": true, "1763384000123-51000042": true, "": false, "-": false, "1-": false, "0-1": false, "1-2-3": false, "-1-2": false,
		"99999999999999999999-1": false, "1": false,
	} {
		id, ok := stream.ParseEventID(text)
		if ok != want || ok && id.String() != text {
			t.Errorf("%q: %v %v", text, id, ok)
		}
	}
}

var seedFlag = flag.Uint64("stream.seed", 0, "run one schedule of TestProofStreams")

// TestProofStreams runs random schedules of what can go wrong between a device and what
// it is told: connections that are cut, instances that are restarted, a bus that loses
// messages, a Redis that does not answer, trims its logs or loses them, clients that
// sleep. When things are quiet again, the client's state is the server's. It may have
// been wrong in between only on channels that it was about to fetch.
func TestProofStreams(t *testing.T) {
	t.Parallel()
	schedules := 60
	if os.Getenv("MELMASTOON_PROOF") == "long" {
		schedules = 20_000
	}
	first := rand.Uint64N(1 << 40) //nolint:gosec // a seed
	if *seedFlag != 0 {
		first, schedules = *seedFlag, 1
	}
	t.Logf("seeds %d and the %d that follow; one of them: -stream.seed", first, schedules-1)
	for i := range schedules {
		seed := first + uint64(i)
		synctest.Test(t, func(t *testing.T) {
			newDrill(t, seed).run()
		})
		if t.Failed() {
			t.Fatalf("failed with -stream.seed=%d", seed)
		}
	}
}

var errAway = errors.New("away")

// drill is one schedule: a device, two instances, one log.
type drill struct {
	t    *testing.T
	rand *rand.Rand
	at   stream.Address

	mu    sync.Mutex
	away  bool // Redis does not answer
	epoch uint64
	life  int // of the server
	began int // life in which the log began
	log   []stream.Entry
	truth map[string]int // what a fetch of a channel would return

	instances []*instance
	client    *client
}

// instance is one process: its streams and its connection to the bus.
type instance struct {
	d       *drill
	streams *stream.Streams
	stop    context.CancelFunc
	loops   sync.WaitGroup

	follows bool
	deaf    bool // messages are lost
}

func newDrill(t *testing.T, seed uint64) *drill {
	t.Helper()
	d := &drill{t: t, rand: rand.New(rand.NewPCG(seed, 1)), truth: map[string]int{}} //nolint:gosec // repeatable
	now := time.Now()
	d.at = stream.Address{Tenant: bff.NewID(bff.PrefixTenant, now), Device: bff.NewID(bff.PrefixDevice, now)}
	for range 2 {
		d.instances = append(d.instances, d.start())
	}
	d.client = &client{d: d, rand: rand.New(rand.NewPCG(seed, 2)), state: map[string]int{}} //nolint:gosec // repeatable
	return d
}

func (d *drill) start() *instance {
	in := &instance{d: d}
	ctx, stop := context.WithCancel(context.Background())
	in.stop, in.streams = stop, stream.NewStreams(in, 10, 10)
	in.loops.Go(func() { _ = in.streams.Work(ctx) })
	in.loops.Go(func() {
		tick := time.NewTicker(stream.TickEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				in.streams.Tick(now)
			}
		}
	})
	return in
}

// run plays a schedule: faults, then quiet.
func (d *drill) run() {
	var stop sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	stop.Go(func() { d.client.follow(ctx) })
	for range 40 + d.rand.IntN(120) {
		d.step()
		if d.rand.IntN(3) > 0 {
			time.Sleep(time.Duration(d.rand.IntN(8000)) * time.Millisecond) //nolint:forbidigo // of the bubble
		}
	}
	d.set(func() {
		d.away = false
		for _, in := range d.instances {
			in.deaf = false
		}
	})
	// A client sleeps for two minutes at most, waits for half a minute after failures,
	// and is compared with the log every fifteen seconds.
	time.Sleep(4 * time.Minute) //nolint:forbidigo // of the bubble
	synctest.Wait()
	d.client.check()
	cancel()
	for _, in := range d.instances {
		in.streams.Drain(10)
		in.stop()
		in.loops.Wait()
	}
	stop.Wait()
}

func (d *drill) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// step does one thing of a schedule.
func (d *drill) step() {
	switch d.rand.IntN(17) {
	case 0:
		d.client.cut()
	case 1:
		d.client.sleep(time.Duration(d.rand.IntN(120)) * time.Second)
	case 2:
		i := d.rand.IntN(len(d.instances))
		old := d.instances[i]
		old.stop()
		old.loops.Wait()
		d.client.cutFrom(old)
		fresh := d.start()
		d.set(func() { d.instances[i] = fresh })
	case 3: // a trim by length or age
		d.set(func() {
			if len(d.log) > 0 {
				d.log = slices.Clone(d.log[d.rand.IntN(len(d.log)):])
			}
		})
	case 4:
		if d.rand.IntN(3) == 0 {
			d.set(func() { d.log = nil })
		}
	case 5:
		away := d.rand.IntN(2) == 0
		d.set(func() { d.away = away })
	case 6:
		d.set(func() { in := d.instances[d.rand.IntN(2)]; in.deaf = !in.deaf })
	case 16: // a replica takes over that lacks the last entries
		if d.rand.IntN(2) == 0 {
			d.set(func() {
				d.life++
				d.log = slices.Clone(d.log[:len(d.log)-d.rand.IntN(min(len(d.log), 5)+1)])
			})
		}
	case 7: // the bus is connected again
		for _, in := range d.instances {
			in.streams.Resync()
		}
	case 8:
		for _, in := range d.instances {
			_ = in.append(stream.Entry{Kind: stream.EntryProved, Operator: "opt_1", Type: "1", Data: "hash", Expires: time.Now().Add(15 * time.Minute)})
		}
	default:
		for range 1 + d.rand.IntN(4) {
			d.happen()
		}
	}
}

// happen changes something and tells the device, as often as it takes.
func (d *drill) happen() {
	kind := stream.EntryKind(d.rand.IntN(6))
	channel := string(backoffice.Channels()[kind])
	d.mu.Lock()
	d.truth[channel]++
	data := strconv.Itoa(d.truth[channel])
	d.mu.Unlock()
	for d.instances[d.rand.IntN(2)].append(stream.Entry{Kind: kind, Type: "changed", Data: data}) != nil {
		d.set(func() { d.away = d.away && d.rand.IntN(4) > 0 })
		time.Sleep(time.Second) //nolint:forbidigo // of the bubble
	}
}

// append is what the script in Redis does.
func (in *instance) append(e stream.Entry) error {
	d := in.d
	d.mu.Lock()
	if d.away {
		d.mu.Unlock()
		return errAway
	}
	e = d.add(e)
	var hear []*instance
	for _, other := range d.instances {
		if other.follows && !other.deaf {
			hear = append(hear, other)
		}
	}
	d.mu.Unlock()
	for _, other := range hear {
		other.streams.Deliver(d.at, e)
	}
	return nil
}

func (d *drill) add(e stream.Entry) stream.Entry {
	e.ID.Seq = 1
	if d.began != d.life {
		d.log = nil
	}
	if n := len(d.log); n > 0 {
		last := &d.log[n-1]
		e.ID.Epoch, e.Before = last.ID.Epoch, last.After()
		e.ID.Seq = max(last.ID.Seq+1, uint64(time.Now().UnixMicro())-1000*e.ID.Epoch) //nolint:gosec // positive
	} else { // no two logs begin in one millisecond
		d.epoch = max(d.epoch+1, uint64(time.Now().UnixMilli())) //nolint:gosec // positive
		e.ID.Epoch, d.began = d.epoch, d.life
	}
	d.log = append(slices.Clone(d.log), e)
	if len(d.log) > 20 {
		d.log = d.log[len(d.log)-20:]
	}
	return e
}

// Append implements stream.Log.
func (in *instance) Append(_ context.Context, _ bff.ID, _ []bff.ID, e stream.Entry) error {
	return in.append(e)
}

// Open implements stream.Log.
func (in *instance) Open(context.Context, stream.Address) ([]stream.Entry, error) {
	if err := in.append(stream.Entry{Kind: stream.EntryOpened}); err != nil {
		return nil, err
	}
	in.d.mu.Lock()
	defer in.d.mu.Unlock()
	for i, e := range slices.Backward(in.d.log) { // the log as it was after the opening
		if e.Kind == stream.EntryOpened {
			return in.d.log[:i+1], nil
		}
	}
	return nil, errAway
}

// Read implements stream.Log.
func (in *instance) Read(_ context.Context, at []stream.Cursor) []stream.LogReading {
	in.d.mu.Lock()
	defer in.d.mu.Unlock()
	out := make([]stream.LogReading, len(at))
	for i, c := range at {
		if in.d.away {
			out[i].Err = errAway
			continue
		}
		for _, e := range in.d.log {
			if e.ID.Epoch > c.From.Epoch || e.ID.Epoch == c.From.Epoch && e.ID.Seq >= c.From.Seq {
				out[i].Log = append(out[i].Log, e)
			}
		}
	}
	return out
}

// Marks implements stream.Log.
func (in *instance) Marks(_ context.Context, tenants []bff.ID) (stream.Marks, error) {
	in.d.mu.Lock()
	defer in.d.mu.Unlock()
	if in.d.away {
		return stream.Marks{}, errAway
	}
	return stream.Marks{Server: strconv.Itoa(in.d.life), Tenants: make([]string, len(tenants))}, nil
}

// Follow implements stream.Log.
func (in *instance) Follow(context.Context, stream.Address) error {
	in.d.mu.Lock()
	defer in.d.mu.Unlock()
	if in.d.away {
		return errAway
	}
	in.follows = true
	return nil
}

// Unfollow implements stream.Log.
func (in *instance) Unfollow(context.Context, []stream.Address) error {
	in.d.mu.Lock()
	defer in.d.mu.Unlock()
	in.follows = false
	return nil
}

// client is a device: what it has of every channel, and where it stands.
type client struct {
	d    *drill
	rand *rand.Rand

	mu       sync.Mutex
	state    map[string]int
	position string
	conn     *pipe
	asleep   time.Time
}

// pipe is a connection. What was sent before it is cut may or may not arrive.
type pipe struct {
	in     *instance
	stream *stream.Stream
	frames chan stream.Frame
	once   sync.Once
	done   chan struct{}
}

// Send implements stream.Sink.
func (p *pipe) Send(frames ...stream.Frame) {
	for _, f := range frames {
		select {
		case p.frames <- f:
		case <-p.done:
		}
	}
}

// End implements stream.Sink.
func (p *pipe) End(frames ...stream.Frame) {
	p.Send(frames...)
	close(p.frames)
}

func (p *pipe) cut() { p.once.Do(func() { close(p.done) }) }

func (c *client) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil {
		c.conn.cut()
	}
}

func (c *client) cutFrom(in *instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != nil && c.conn.in == in {
		c.conn.cut()
	}
}

func (c *client) sleep(d time.Duration) {
	c.mu.Lock()
	c.asleep = time.Now().Add(d)
	c.mu.Unlock()
	c.cut()
}

// follow connects again and again.
func (c *client) follow(ctx context.Context) {
	for ctx.Err() == nil {
		c.mu.Lock()
		wait, last := max(time.Until(c.asleep), time.Second), c.position
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if err := c.once(ctx, last); err != nil {
			c.d.t.Error(err)
			return
		}
	}
}

func (c *client) once(ctx context.Context, last string) error {
	var in *instance
	c.d.set(func() { in = c.d.instances[int(time.Now().UnixNano()/int64(time.Millisecond))%2] })
	v := &backoffice.Visit{
		Caller: backoffice.Caller{Tenant: c.d.at.Tenant, Device: c.d.at.Device, Operator: "opt_1", TokenExpires: time.Now().Add(15 * time.Minute)},
		Member: &backoffice.Member{},
	}
	s, err := in.streams.Open(ctx, v, last, time.Now())
	if err != nil {
		return nil //nolint:nilerr // it comes again
	}
	p := &pipe{in: in, stream: s, frames: make(chan stream.Frame, 1<<12), done: make(chan struct{})}
	c.mu.Lock()
	c.conn = p
	c.mu.Unlock()
	s.Start(p)
	defer s.Gone()
	for {
		select {
		case <-p.done:
			return nil
		default:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.done:
			return nil
		case <-time.After(time.Minute): // silent
			return nil
		case f, ok := <-p.frames:
			if !ok {
				return nil
			}
			if err := c.take(f, last); err != nil {
				return err
			}
			time.Sleep(time.Duration(c.rand.IntN(900)) * time.Millisecond) //nolint:forbidigo // of the bubble: a cut may come before the next
		}
	}
}

// take does what a client has to do with a message.
func (c *client) take(f stream.Frame, last string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	fetch := func(channels ...string) {
		c.d.set(func() {
			for _, name := range channels {
				c.state[name] = c.d.truth[name]
			}
		})
	}
	var doc struct {
		Channels []string
		Heads    map[string]string
	}
	switch f.Event {
	case "ready", "ping", "gap":
		if err := json.Unmarshal([]byte(f.Data), &doc); err != nil {
			return fmt.Errorf("%s: %w", f.Event, err)
		}
	}
	if f.ID != (stream.EventID{}) {
		c.position = f.ID.String()
	}
	switch f.Event {
	case "ready", "ping":
		if f.Event == "ready" && last == "" {
			fetch(slices.Collect(maps.Keys(doc.Heads))...)
		}
		own, _ := stream.ParseEventID(c.position)
		for name, text := range doc.Heads {
			head, ok := stream.ParseEventID(text)
			if !ok || head.Epoch != own.Epoch || head.Seq > own.Seq {
				return fmt.Errorf("%s: head %s of %s is not behind %s", f.Event, text, name, c.position)
			}
		}
	case "gap":
		fetch(doc.Channels...)
	case "superseded", "reauth", "drain", "end":
	default:
		n, err := strconv.Atoi(f.Data)
		if err != nil {
			return err
		}
		if n > c.state[f.Event]+1 {
			return fmt.Errorf("channel %s: %d came after %d, and nothing was said of what is between", f.Event, n, c.state[f.Event])
		}
		c.state[f.Event] = max(c.state[f.Event], n)
	}
	return nil
}

func (c *client) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if c.position == "" {
		c.d.t.Error("the client never got through")
		return
	}
	for name, want := range c.d.truth {
		if got := c.state[name]; got != want {
			c.d.t.Errorf("channel %s: the client has %d of %d, and does not know", name, got, want)
		}
	}
}
