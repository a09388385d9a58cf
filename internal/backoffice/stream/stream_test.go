package stream_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
)

// tape is the log of every device's stream, in memory.
type tape struct {
	mu       sync.Mutex
	log      []stream.Entry
	away     error
	refused  bool
	lost     bool
	trimmed  int // entries that are gone
	server   string
	cursors  []stream.Cursor // of the last reading
	appended []stream.Entry
	left     []stream.Address
	followed int
}

// add puts an entry at the end of the log.
func (l *tape) add(e stream.Entry) stream.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = stream.EventID{Epoch: 7, Seq: uint64(len(l.log) + 1)}
	if n := len(l.log); n > 0 {
		e.Before = l.log[n-1].After()
	}
	l.log = append(l.log, e)
	return e
}

func (l *tape) Append(_ context.Context, t bff.ID, devices []bff.ID, e stream.Entry) error {
	if t != tenant || len(devices) != 1 || devices[0] != device {
		return errors.New("another device")
	}
	l.appended = append(l.appended, e)
	return l.away
}

func (l *tape) Open(context.Context, stream.Address) ([]stream.Entry, error) {
	l.add(stream.Entry{Kind: stream.EntryOpened})
	return l.log, l.away
}

func (l *tape) Read(_ context.Context, at []stream.Cursor) []stream.LogReading {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cursors = at
	out := make([]stream.LogReading, len(at))
	for i, c := range at {
		out[i] = stream.LogReading{Refused: l.refused, Err: l.away}
		if !l.lost {
			out[i].Log = l.log[max(int(c.From.Seq)-1, l.trimmed):]
		}
	}
	return out
}

func (l *tape) Follow(context.Context, stream.Address) error {
	l.followed++
	return l.away
}

func (l *tape) Unfollow(_ context.Context, devices []stream.Address) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = append(l.left, devices...)
	return nil
}

func (l *tape) Marks(_ context.Context, tenants []bff.ID) (stream.Marks, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return stream.Marks{Server: l.server, Tenants: make([]string, len(tenants))}, l.away
}

// screen is what a client has been sent, each message as its name and id or data.
type screen struct {
	mu    sync.Mutex
	got   []string
	ended bool
}

func (s *screen) Send(frames ...stream.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range frames {
		said := f.Data
		if f.ID.Seq > 0 {
			said = strconv.FormatUint(f.ID.Seq, 10)
		}
		s.got = append(s.got, f.Event+" "+said)
	}
}

func (s *screen) End(frames ...stream.Frame) {
	s.Send(frames...)
	s.ended = true
}

// take returns what was sent since it was asked last; it ends with a dot if the stream has.
func (s *screen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.got, ", ")
	if s.got = nil; s.ended {
		text += "."
	}
	return text
}

// watcher is a visitor that works for one property, with a token for a quarter of an hour.
func watcher(now time.Time) *backoffice.Visit {
	v := visitor()
	v.Caller.TokenHash, v.Caller.TokenIssued, v.Caller.TokenExpires = "hash", now, now.Add(identity.TokenLifetime)
	v.Member.Scope = backoffice.ReadPropertyScope([]string{property.String()})
	return v
}

// started opens a stream and shows it on a screen.
func started(t *testing.T, ss *stream.Streams, v *backoffice.Visit, last string) (*stream.Stream, *screen) {
	t.Helper()
	s, err := ss.Open(t.Context(), v, last, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	out := &screen{}
	s.Start(out)
	return s, out
}

// live runs a test against the streams of an instance that reads its logs.
func live(t *testing.T, test func(t *testing.T, l *tape, ss *stream.Streams)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &tape{server: "one"}
		ss := stream.NewStreams(l, 3, 2)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = ss.Work(ctx) // ends with the context
		}()
		test(t, l, ss)
		stop()
		<-done
	})
}

// A client is told what is for its operator and its properties, as it happens and after a
// break; what ended an earlier stream does not end this one.
func TestStreamScope(t *testing.T) {
	t.Parallel()
	sister := bff.MustParseID(bff.PrefixProperty, "ppt_01JXG9KMGRC638MD0V7C0ZPD0X")
	news := []stream.Entry{
		{Kind: 0, Data: "of all"},
		{Kind: 1, Property: property, Data: "of the house"},
		{Kind: 1, Property: sister, Data: "of another house"},
		{Kind: 2, Operator: "opt_1", Data: "of the operator"},
		{Kind: 2, Operator: "opt_2", Data: "of another operator"},
		{Kind: stream.EntryProved, Operator: "opt_2", Data: "hash"},
	}
	const told = "ai 2, alerts 3, sync 5"
	live(t, func(t *testing.T, l *tape, ss *stream.Streams) {
		t.Helper()
		_, out := started(t, ss, watcher(time.Now()), "")
		if got := out.take(); got != "ready 1" {
			t.Errorf("first %s", got)
		}
		for _, e := range news {
			ss.Deliver(stream.Address{Tenant: tenant, Device: device}, l.add(e))
		}
		if got := out.take(); got != told {
			t.Errorf("told %s, want %s", got, told)
		}
		ss.Deliver(stream.Address{Tenant: tenant, Device: device}, l.log[1]) // a second time
		ss.Deliver(stream.Address{Tenant: tenant, Device: tenant}, l.add(stream.Entry{Data: "of another device"}))
		if got := out.take(); got != "" {
			t.Errorf("told %s", got)
		}
		l.add(stream.Entry{Kind: 4, Type: backoffice.SessionReplaced, Operator: "opt_1"})
		if _, again := started(t, ss, watcher(time.Now()), "7-1"); again.take() != told+", ai 8, ready 10" {
			t.Errorf("after the break: %v", again.got)
		}
		synctest.Wait()
		if got := out.take(); got != "superseded {}." {
			t.Errorf("the older stream: %s", got)
		}
		if _, again := started(t, ss, watcher(time.Now()), "nonsense"); again.take() != `gap 11, ready 11` {
			t.Errorf("after nonsense: %v", again.got)
		}
	})
}

// A stream ends with what ends its session, and what it is told before is told.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		entry stream.Entry
		want  string
	}{
		"revoked":             {stream.Entry{Kind: 4, Type: backoffice.SessionRevoked}, "session 2."},
		"signed out":          {stream.Entry{Kind: 4, Type: backoffice.SessionSignedOut, Operator: "opt_1"}, "session 2."},
		"another's":           {stream.Entry{Kind: 4, Type: backoffice.SessionRevoked, Operator: "opt_2"}, ""},
		"other rights":        {stream.Entry{Kind: 4, Type: backoffice.MembershipChanged}, "session 2."},
		"suspended":           {stream.Entry{Kind: 4, Type: backoffice.TenantSuspended}, "session 2."},
		"too many":            {stream.Entry{Kind: 4, Type: backoffice.SessionOutgrown}, "session 2."},
		"streams are off":     {stream.Entry{Kind: 4, Type: backoffice.FlagsChanged, Data: `{"flag":"live_stream"}`}, "session 2."},
		"another flag":        {stream.Entry{Kind: 4, Type: backoffice.FlagsChanged, Data: `{"flag":"else"}`}, "session 2"},
		"of another channel":  {stream.Entry{Kind: 1, Type: backoffice.SessionRevoked}, "alerts 2"},
		"opened elsewhere":    {stream.Entry{Kind: stream.EntryOpened}, "superseded {}."},
		"preferences updated": {stream.Entry{Kind: 4, Type: "preferences.updated"}, "session 2"},
	} {
		live(t, func(t *testing.T, l *tape, ss *stream.Streams) {
			t.Helper()
			_, out := started(t, ss, watcher(time.Now()), "")
			synctest.Wait()
			out.take()
			ss.Deliver(stream.Address{Tenant: tenant, Device: device}, l.add(tc.entry))
			if got := out.take(); got != tc.want {
				t.Errorf("%s: %q, want %q", name, got, tc.want)
			}
			synctest.Wait()
			if ended := strings.HasSuffix(tc.want, "."); (ss.Len() == 0) != ended {
				t.Errorf("%s: %d are open", name, ss.Len())
			}
		})
	}
}

// A device is asked for another token a minute before its own ends, once, and its stream ends
// with the token. Only a proof of the same operator, with a later end, lets it go on.
func TestStreamTokens(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, l *tape, ss *stream.Streams) {
		t.Helper()
		began := time.Now()
		_, out := started(t, ss, watcher(began), "")
		tick := func(at time.Duration) string {
			t.Helper()
			synctest.Wait()
			out.take()
			ss.Tick(began.Add(at))
			synctest.Wait()
			var about []string
			for said := range strings.SplitSeq(out.take(), ", ") {
				if said != "" && !strings.HasPrefix(said, "ping ") {
					about = append(about, said)
				}
			}
			return strings.Join(about, ", ")
		}
		prove := func(operator string, until time.Duration) {
			ss.Deliver(stream.Address{Tenant: tenant, Device: device}, l.add(stream.Entry{
				Kind: stream.EntryProved, Operator: operator, Type: strconv.FormatInt(began.Add(time.Hour).Unix(), 10), Data: "fresh", Expires: began.Add(until),
			}))
		}
		expires := func(at time.Duration) string { return `reauth {"expiresAt":"` + bff.At(began.Add(at)).String() + `"}` }
		for _, step := range []struct {
			at   time.Duration
			want string
		}{
			{14*time.Minute - time.Millisecond, ""}, {14 * time.Minute, expires(15 * time.Minute)}, {14*time.Minute + time.Second, ""},
		} {
			if got := tick(step.at); got != step.want {
				t.Errorf("after %s: %q, want %q", step.at, got, step.want)
			}
		}
		prove("opt_1", 20*time.Minute)
		if c := l.cursors[0].Caller; c.TokenHash != "hash" || !c.TokenIssued.Equal(began) || c.Tenant != tenant || c.Device != device || c.Operator != "opt_1" {
			t.Errorf("read for %+v", c)
		}
		prove("opt_2", 30*time.Minute)
		prove("opt_1", 20*time.Minute)
		prove("opt_1", 19*time.Minute)
		ss.Resync()
		synctest.Wait()
		if c := l.cursors[0].Caller; c.TokenHash != "fresh" || c.TokenIssued.Unix() != began.Add(time.Hour).Unix() {
			t.Errorf("read for %+v", c)
		}
		for _, step := range []struct {
			at   time.Duration
			want string
		}{
			{15 * time.Minute, ""},
			{19 * time.Minute, expires(20 * time.Minute)},
			{20*time.Minute - time.Millisecond, ""},
			{20 * time.Minute, `end {"reason":"token_expired"}.`},
			{21 * time.Minute, "."},
		} {
			if got := tick(step.at); got != step.want {
				t.Errorf("after %s: %q, want %q", step.at, got, step.want)
			}
		}
		v := watcher(began)
		if err := ss.Reauth(t.Context(), v); err != nil {
			t.Error(err)
		}
		want := stream.Entry{Kind: stream.EntryProved, Operator: "opt_1", Type: strconv.FormatInt(began.Unix(), 10), Data: "hash", Expires: v.Caller.TokenExpires}
		if diff := cmp.Diff([]stream.Entry{want}, l.appended, sameIDs); diff != "" {
			t.Errorf("proved (-want +got):\n%s", diff)
		}
		if l.away = errAway; bff.CodeOf(ss.Reauth(t.Context(), v)) != bff.CodeServiceUnavailable {
			t.Error("a proof that is not kept")
		}
	})
}

// A logout of which the notice was lost ends a stream with the next reading; so does a log
// that was lost, and another server. While logs cannot be read, the client hears that.
func TestStreamIsCompared(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*tape)
		want   string
		late   uint64
	}{
		"as it was": {func(*tape) {}, "ping 1", 0},
		"refused":   {func(l *tape) { l.refused = true }, `session {"type":"session.revoked","at":"TIME"}.`, 1},
		"refused, and said why": {func(l *tape) {
			l.refused = true
			l.add(stream.Entry{Kind: 4, Type: backoffice.TenantSuspended})
		}, "session 2.", 0},
		"refused, and something else": {func(l *tape) {
			l.refused = true
			l.add(stream.Entry{Kind: 1})
		}, `alerts 2, session {"type":"session.revoked","at":"TIME"}.`, 1},
		"missed one": {func(l *tape) { l.add(stream.Entry{Kind: 1}) }, "alerts 2, ping 2", 0},
		"an alert is gone": {func(l *tape) {
			l.add(stream.Entry{Kind: 1})
			l.add(stream.Entry{Kind: 1})
			l.trimmed = 2
		}, "gap 2, alerts 3, ping 3", 0},
		// It may have been what ends the stream.
		"word of the session is gone": {func(l *tape) {
			l.add(stream.Entry{Kind: 4})
			l.add(stream.Entry{Kind: 1})
			l.trimmed = 2
		}, `gap {"channels":["ai","alerts","sync","locks","session","dashboard"]}.`, 0},
		"another opening is gone": {func(l *tape) {
			l.add(stream.Entry{Kind: stream.EntryOpened})
			l.add(stream.Entry{Kind: 1})
			l.trimmed = 2
		}, `gap {"channels":["ai","alerts","sync","locks","session","dashboard"]}.`, 0},
		"log lost":       {func(l *tape) { l.lost = true }, `gap {"channels":["ai","alerts","sync","locks","session","dashboard"]}.`, 0},
		"away":           {func(l *tape) { l.away = errAway }, `ping {"serverTime":"TIME"}`, 0},
		"another server": {func(l *tape) { l.server = "two" }, `gap {"channels":["ai","alerts","sync","locks","session","dashboard"]}.`, 0},
	} {
		live(t, func(t *testing.T, l *tape, ss *stream.Streams) {
			t.Helper()
			_, out := started(t, ss, watcher(time.Now()), "")
			synctest.Wait()
			out.take()
			tc.change(l)
			now := time.Now()
			for range 15 { // each stream has its ping in one of fifteen ticks
				now = now.Add(time.Second)
				ss.Tick(now)
				synctest.Wait()
			}
			got := out.take()
			if at := strings.Index(got, `"20`); at >= 0 {
				got = got[:at+1] + "TIME" + got[at+25:]
			}
			if got != tc.want || ss.Counts().Late != tc.late {
				t.Errorf("%s: %s, %d late; want %s, %d", name, got, ss.Counts().Late, tc.want, tc.late)
			}
			if l.away == nil {
				return
			}
			l.mu.Lock()
			l.away = nil
			l.mu.Unlock()
			l.add(stream.Entry{Kind: 1})
			ss.Tick(now.Add(time.Second)) // what could not be read is read with the next tick
			synctest.Wait()
			if got := out.take(); got != "alerts 2" {
				t.Errorf("%s: afterwards %s", name, got)
			}
		})
	}
}

// An instance has room for some streams, and a tenant for some of them; a device that comes
// again takes its own place. What is not opened, not started or left gives its place back.
func TestStreamPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // without Work: the tape is one log for all devices, whose streams would supersede each other
		l := &tape{server: "one"}
		ss := stream.NewStreams(l, 3, 2)
		other := bff.NewID(bff.PrefixTenant, began)
		at := func(tenant bff.ID, n byte) *backoffice.Visit {
			v := watcher(time.Now())
			id := device.Bytes()
			id[15] = n
			v.Caller.Tenant, v.Caller.Device = tenant, bff.IDFromBytes(bff.PrefixDevice, id)
			return v
		}
		open := func(v *backoffice.Visit) (*stream.Stream, bool) {
			s, err := ss.Open(t.Context(), v, "", time.Now())
			if e, ok := errors.AsType[*bff.Error](err); ok && (e.Code != bff.CodeServiceUnavailable || e.RetryAfter <= 0) {
				t.Errorf("%v", err)
			}
			return s, err == nil
		}
		first, _ := started(t, ss, at(tenant, 1), "")
		second, ok := open(at(tenant, 2))
		if !ok {
			t.Fatal("no room for the second")
		}
		if _, ok := open(at(tenant, 3)); ok {
			t.Error("a third of the tenant")
		}
		if again, ok := open(at(tenant, 1)); !ok {
			t.Error("the first device does not come again")
		} else {
			again.Cancel()
		}
		third, _ := started(t, ss, at(other, 4), "")
		if _, ok := open(at(other, 5)); ok {
			t.Error("a fourth of the instance")
		}
		if n := ss.Counts().Full; n != 2 || ss.Len() != 2 {
			t.Errorf("%d found no place, %d are open", n, ss.Len())
		}
		second.Cancel()
		l.away = errAway
		if _, ok := open(at(tenant, 3)); ok {
			t.Error("opened without a log")
		}
		l.away = nil
		if s, ok := open(at(tenant, 3)); !ok {
			t.Error("the place was not given back")
		} else {
			s.Start(&screen{})
		}
		first.Gone()
		third.Gone()
		synctest.Wait()
		for _, v := range []*backoffice.Visit{at(tenant, 1), at(other, 4)} {
			s, ok := open(v)
			if !ok {
				t.Fatal("the places were not given back")
			}
			s.Start(&screen{})
		}
		if left := ss.Drain(2); left != 1 || ss.Len() != 1 {
			t.Errorf("%d left, %d open", left, ss.Len())
		}
		if _, ok := open(at(tenant, 9)); ok {
			t.Error("opened while the instance ends")
		}
		if n := ss.Counts().Full; n != 2 {
			t.Errorf("%d found no place", n)
		}
	})
}
