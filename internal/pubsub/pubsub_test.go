package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// each runs a test against every server there is.
func each(t *testing.T, test func(t *testing.T, c *pubsub.Client)) {
	t.Helper()
	t.Parallel()
	testkit.EachPubSub(t, func(t *testing.T, host, project string) {
		t.Helper()
		test(t, open(t, host, project))
	})
}

func open(t *testing.T, host, project string) *pubsub.Client {
	t.Helper()
	c, err := pubsub.Open(t.Context(), pubsub.Config{ProjectID: project, EmulatorHost: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// subscribe receives until the test ends or stop is called, which waits.
func subscribe(t *testing.T, c *pubsub.Client, sub pubsub.Subscription, h pubsub.Handler) (stop func()) {
	t.Helper()
	if err := c.EnsureSubscription(testkit.Context(t), sub); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Subscribe(ctx, sub, h) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func receive[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-testkit.Context(t).Done():
		t.Fatal("nothing arrived")
		panic("unreachable")
	}
}

func TestPublishKeepsOrderPerKey(t *testing.T) {
	each(t, func(t *testing.T, c *pubsub.Client) {
		t.Helper()
		got := make(chan pubsub.Delivery, 100)
		subscribe(t, c, pubsub.Subscription{Name: "sub", Topic: "topic", Ordered: true}, func(_ context.Context, d pubsub.Delivery) error {
			got <- d
			return nil
		})
		var messages []pubsub.Message
		for i := range 60 {
			messages = append(messages, pubsub.Message{
				Topic: "topic", Key: fmt.Sprint("k", i%3), Data: fmt.Append(nil, i), Attributes: map[string]string{"n": fmt.Sprint(i)},
			})
		}
		for _, err := range c.Publish(testkit.Context(t), messages) {
			if err != nil {
				t.Fatal(err)
			}
		}
		last := map[string]int{}
		for range messages {
			d := receive(t, got)
			var n int
			if _, err := fmt.Sscan(string(d.Data), &n); err != nil {
				t.Fatal(err)
			}
			if before, ok := last[d.Key]; ok && n != before+3 {
				t.Errorf("key %s: %d after %d", d.Key, n, before)
			}
			last[d.Key] = n
			if d.Attributes["n"] != string(d.Data) {
				t.Errorf("attributes = %v of message %s", d.Attributes, d.Data)
			}
		}
	})
}

func TestPublishAnswersEachMessage(t *testing.T) {
	each(t, func(t *testing.T, c *pubsub.Client) {
		t.Helper()
		if err := c.EnsureTopics(testkit.Context(t), "there"); err != nil {
			t.Fatal(err)
		}
		huge := []byte(strings.Repeat("x", 9<<20))
		errs := c.Publish(testkit.Context(t), []pubsub.Message{
			{Topic: "there", Data: []byte("a")},
			{Topic: "missing", Data: []byte("b")},
			{Topic: "there", Key: "k", Data: []byte("c")},
			{Topic: "there", Key: "k", Data: huge},
			{Topic: "there", Key: "k", Data: []byte("d")},
			{Topic: "there", Data: huge},
			{Topic: "there", Data: []byte("e")},
		})
		want := []string{"ok", "NotFound", "ok", "too large", "held", "too large", "ok"}
		var got []string
		for _, err := range errs {
			switch {
			case err == nil:
				got = append(got, "ok")
			case errors.Is(err, pubsub.ErrHeld):
				got = append(got, "held")
			case errors.Is(err, pubsub.ErrTooLarge):
				got = append(got, "too large")
			default:
				got = append(got, status.Code(err).String())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("answers (-want +got):\n%s", diff)
		}
	})
}

func TestPoisonGoesToDeadLetter(t *testing.T) {
	each(t, func(t *testing.T, c *pubsub.Client) {
		t.Helper()
		dead := make(chan pubsub.Delivery, 10)
		subscribe(t, c, pubsub.Subscription{Name: "dead-sub", Topic: "topic.dlq"}, func(_ context.Context, d pubsub.Delivery) error {
			dead <- d
			return nil
		})
		good := make(chan string, 10)
		var mu sync.Mutex
		runs := map[string]int{}
		subscribe(t, c, pubsub.Subscription{
			Name: "sub", Topic: "topic", DLQ: "topic.dlq", MaxAttempts: 3, MinBackoff: time.Millisecond, MaxBackoff: 2 * time.Millisecond,
		}, func(_ context.Context, d pubsub.Delivery) error {
			mu.Lock()
			runs[string(d.Data)]++
			mu.Unlock()
			switch string(d.Data) {
			case "fails":
				return errors.New("no")
			case "panics":
				panic("no")
			}
			good <- string(d.Data)
			return nil
		})
		for _, err := range c.Publish(testkit.Context(t), []pubsub.Message{
			{Topic: "topic", Data: []byte("fails"), Attributes: map[string]string{"eventId": "evt_1"}},
			{Topic: "topic", Data: []byte("panics")},
			{Topic: "topic", Data: []byte("good")},
		}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		attempts := map[string]string{}
		for range 2 {
			d := receive(t, dead)
			attempts[string(d.Data)] = d.Attributes["dlqAttempts"]
			if d.Attributes["dlqTopic"] != "topic" || d.Attributes["dlqSubscription"] != "sub" || d.Attributes["dlqMessageId"] == "" {
				t.Errorf("attributes = %v", d.Attributes)
			}
			if string(d.Data) == "fails" && d.Attributes["eventId"] != "evt_1" {
				t.Errorf("lost the message's own attributes: %v", d.Attributes)
			}
		}
		if diff := cmp.Diff(map[string]string{"fails": "3", "panics": "3"}, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		if got := receive(t, good); got != "good" {
			t.Errorf("got %q", got)
		}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(map[string]int{"fails": 3, "panics": 3, "good": 1}, runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}
	})
}

// TestFailuresHoldUpNoOthers has more messages wait for another attempt than
// handlers may run at once.
func TestFailuresHoldUpNoOthers(t *testing.T) {
	each(t, func(t *testing.T, c *pubsub.Client) {
		t.Helper()
		failed, good := make(chan struct{}, 100), make(chan string, 10)
		var running, most atomic.Int32
		subscribe(t, c, pubsub.Subscription{
			Name: "sub", Topic: "topic", DLQ: "topic.dlq", MaxOutstanding: 2, MinBackoff: 10 * time.Minute, MaxBackoff: 10 * time.Minute,
		}, func(_ context.Context, d pubsub.Delivery) error {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			if string(d.Data) == "fails" {
				failed <- struct{}{}
				return errors.New("no")
			}
			good <- string(d.Data)
			return nil
		})
		const poison = 20
		for range poison {
			if err := c.Publish(testkit.Context(t), []pubsub.Message{{Topic: "topic", Data: []byte("fails")}})[0]; err != nil {
				t.Fatal(err)
			}
		}
		for range poison {
			receive(t, failed)
		}
		if err := c.Publish(testkit.Context(t), []pubsub.Message{{Topic: "topic", Data: []byte("good")}})[0]; err != nil {
			t.Fatal(err)
		}
		if got := receive(t, good); got != "good" {
			t.Errorf("got %q", got)
		}
		if n := most.Load(); n > 2 {
			t.Errorf("%d handlers ran at once, want 2 at most", n)
		}
	})
}

// uncounted is a process that dies before it can count a failure.
type uncounted struct{}

func (uncounted) Failed(context.Context, pubsub.Delivery, error) (int, error) {
	return 0, errors.New("died")
}

// Pub/Sub's own policy stands behind our count.
func TestServerSetsAsideWhatIsNeverCounted(t *testing.T) {
	each(t, func(t *testing.T, c *pubsub.Client) {
		t.Helper()
		dead := make(chan pubsub.Delivery, 10)
		subscribe(t, c, pubsub.Subscription{Name: "dead-sub", Topic: "topic.dlq"}, func(_ context.Context, d pubsub.Delivery) error {
			select {
			case dead <- d:
			default: // the server in this process repeats them
			}
			return nil
		})
		subscribe(t, c, pubsub.Subscription{
			Name: "sub", Topic: "topic", DLQ: "topic.dlq", ServerDeadLetter: true, Attempts: uncounted{},
			MaxAttempts: 1, MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond,
		}, func(context.Context, pubsub.Delivery) error { return errors.New("no") })
		if err := c.Publish(testkit.Context(t), []pubsub.Message{{Topic: "topic", Data: []byte("deadly")}})[0]; err != nil {
			t.Fatal(err)
		}
		if d := receive(t, dead); string(d.Data) != "deadly" || d.Attributes["dlqAttempts"] != "" {
			t.Errorf("dead letter %s with %v", d.Data, d.Attributes)
		}
	})
}

func TestDrainLetsHandlersFinish(t *testing.T) {
	each(t, func(t *testing.T, c *pubsub.Client) {
		t.Helper()
		started, release := make(chan struct{}), make(chan struct{})
		var finished bool
		stop := subscribe(t, c, pubsub.Subscription{Name: "sub", Topic: "topic"}, func(ctx context.Context, _ pubsub.Delivery) error {
			close(started)
			<-release
			finished = ctx.Err() == nil
			return nil
		})
		if err := c.Publish(testkit.Context(t), []pubsub.Message{{Topic: "topic", Data: []byte("x")}})[0]; err != nil {
			t.Fatal(err)
		}
		receive(t, started)
		stopped := make(chan struct{})
		go func() {
			stop()
			close(stopped)
		}()
		close(release)
		receive(t, stopped)
		if !finished {
			t.Error("the handler was cut off")
		}
	})
}

func TestSubscribeToNothing(t *testing.T) {
	each(t, func(t *testing.T, c *pubsub.Client) {
		t.Helper()
		err := c.Subscribe(testkit.Context(t), pubsub.Subscription{Name: "nowhere", Topic: "topic"}, func(context.Context, pubsub.Delivery) error { return nil })
		if status.Code(errors.Unwrap(err)) != codes.NotFound {
			t.Errorf("err = %v, want NotFound", err)
		}
	})
}

func TestConfigErrorsAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := pubsub.Open(t.Context(), pubsub.Config{PublishTimeout: -1, Parallel: -1})
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("err = %v, want three", err)
	}
}
