package consumerd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerevents"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"

// visitor is a browser at one instance's door.
type visitor struct {
	base   string // http://host:port
	header map[string]string
	cookie string // the session's id
	card   string
}

// browser gives up when no answer comes.
var browser = &http.Client{Timeout: time.Minute}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) field(name string) string {
	var m map[string]any
	if json.Unmarshal(a.body, &m) != nil {
		return ""
	}
	s, _ := m[name].(string)
	return s
}

// try sends a request; after an error it is unknown what became of it.
func (v *visitor) try(ctx context.Context, method, path string, header map[string]string, body any) (answer, error) {
	var raw []byte
	switch b := body.(type) {
	case nil:
	case string:
		raw = []byte(b)
	default:
		var err error
		if raw, err = json.Marshal(b); err != nil {
			return answer{}, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, v.base+"/bff/consumer/v1"+path, bytes.NewReader(raw))
	if err != nil {
		return answer{}, err
	}
	all := map[string]string{"User-Agent": firefox, "Accept-Language": "ps-AF", "Content-Type": "application/json"}
	maps.Copy(all, v.header)
	maps.Copy(all, header)
	for k, value := range all {
		req.Header.Set(k, value)
	}
	if sent := testkit.CookieHeader(v.cookie, v.card); sent != "" {
		req.Header.Set("Cookie", sent)
	}
	res, err := browser.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	testkit.TakeCookies(res.Header, &v.cookie, &v.card)
	return answer{res.StatusCode, res.Header, b}, nil
}

// ask is try for requests that must be answered with a status. Like a good
// client it comes back when the service is busy.
func (v *visitor) ask(t *testing.T, want int, method, path string, body any, header ...map[string]string) answer {
	t.Helper()
	all := map[string]string{}
	for _, h := range header {
		maps.Copy(all, h)
	}
	var a answer
	var err error
	testkit.Retry(t, method+" "+path+" while the service is busy", func() bool {
		a, err = v.try(testkit.Context(t), method, path, all, body)
		return err != nil || a.status == want || !busy(a.status, a.body)
	})
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.status != want {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, a.status, want, a.body)
	}
	return a
}

// busy reports whether a client that gets this answer asks again, after a moment.
func busy(status int, body []byte) bool {
	return status == http.StatusServiceUnavailable || testkit.TooSlow(status, body)
}

// received is an event as it came from Pub/Sub.
type received struct {
	Envelope struct {
		EventID, Subject string
		SessionID        *string
		SamplingRate     float64
	}
	Payload map[string]any
	raw     string
}

func (e received) session() string {
	if e.Envelope.SessionID == nil {
		return ""
	}
	return *e.Envelope.SessionID
}

// subscriber receives every event of the service, checks each against its schema and keeps it.
type subscriber struct {
	t    *testing.T
	stop func()

	mu      sync.Mutex
	events  []received
	changed chan struct{}
}

// listen subscribes before it returns: everything published afterwards is received.
func listen(t *testing.T, w *testkit.World) *subscriber {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: w.PubSubProject, EmulatorHost: w.PubSubHost})
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := consumerevents.NewSchemas()
	if err != nil {
		t.Fatal(err)
	}
	e := &subscriber{t: t, changed: make(chan struct{}, 1)}
	var wg sync.WaitGroup
	for _, s := range consumer.Subjects() {
		sub := pubsub.Subscription{Name: "test." + strings.ReplaceAll(string(s), ".", "-"), Topic: string(s)}
		if err := client.EnsureSubscription(ctx, sub); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			err := client.Subscribe(ctx, sub, func(_ context.Context, d pubsub.Delivery) error {
				if err := schemas.Check(d.Data); err != nil {
					t.Errorf("%s: %v\n%s", d.Topic, err, d.Data)
				}
				e.add(d.Data)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	e.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		_ = client.Close()
	})
	t.Cleanup(e.stop)
	return e
}

func (e *subscriber) add(data []byte) {
	var r received
	if err := json.Unmarshal(data, &r); err != nil {
		e.t.Error(err)
	}
	r.raw = string(data)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, r)
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// all returns the events received so far.
func (e *subscriber) all() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clip(e.events)
}

// await returns the first event that is wanted.
func (e *subscriber) await(what string, wanted func(received) bool) received {
	e.t.Helper()
	r, ok := e.within(testkit.Context(e.t), wanted)
	if !ok {
		e.t.Fatalf("no %s arrived", what)
	}
	return r
}

func (e *subscriber) within(ctx context.Context, wanted func(received) bool) (received, bool) {
	for {
		for _, r := range e.all() {
			if wanted(r) {
				return r, true
			}
		}
		select {
		case <-e.changed:
		case <-ctx.Done():
			return received{}, false
		}
	}
}

// provoke acts until an event of a guest arrives. It is for events that are not
// promised: a service that could not read a session in time answers without one.
// What is committed with its event is looked for with of, after one action.
func (e *subscriber) provoke(s consumer.Subject, guest string, act func(n int)) received {
	e.t.Helper()
	ctx := testkit.Context(e.t)
	for n := 0; ctx.Err() == nil; n++ {
		act(n)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		r, ok := e.within(short, func(r received) bool { return r.Envelope.Subject == string(s) && r.session() == guest })
		cancel()
		if ok {
			return r
		}
	}
	e.t.Fatalf("no %s arrived", s)
	return received{}
}

// of waits for an event of a guest.
func (e *subscriber) of(s consumer.Subject, guest string) received {
	e.t.Helper()
	return e.await(string(s)+" of "+guest, func(r received) bool {
		return r.Envelope.Subject == string(s) && r.session() == guest
	})
}
