package consumerd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// TestEventSurvivesKill mints a hand-off while Pub/Sub cannot be reached, kills
// the service with SIGKILL, and finds the event published by the next one.
func TestEventSurvivesKill(t *testing.T) {
	t.Parallel()
	testkit.EachPubSub(t, killAndPublish)
}

func killAndPublish(t *testing.T, host, project string) {
	t.Helper()
	ctx := testkit.Context(t)
	w := testkit.NewWorld(t, func(p *platform.Places) { p.PubSubHost, p.PubSubProject = host, project })
	const topic = "melmastoon.bff.consumer.handoff.initiated.v1"
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: w.PubSubProject, EmulatorHost: w.PubSubHost})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	sub := pubsub.Subscription{Name: "crash-test", Topic: topic}
	if err := client.EnsureSubscription(ctx, sub); err != nil {
		t.Fatal(err)
	}

	cutOff := w.Start("bff-consumer", map[string]string{"PUBSUB_EMULATOR_HOST": "127.0.0.1:1"})
	id := mint(t, cutOff, w)
	cutOff.Kill()

	w.Start("bff-consumer", nil)
	got := make(chan string, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_ = client.Subscribe(ctx, sub, func(_ context.Context, d pubsub.Delivery) error {
			var e struct{ Payload struct{ HandoffID string } }
			if err := json.Unmarshal(d.Data, &e); err != nil {
				return err
			}
			select {
			case got <- e.Payload.HandoffID:
			default:
			}
			return nil
		})
	}()
	select {
	case arrived := <-got:
		if arrived != id {
			t.Errorf("event of %s arrived, want %s", arrived, id)
		}
	case <-ctx.Done():
		t.Fatal("the event did not arrive")
	}
}

// mint asks for a hand-off to any active hotel and returns its id.
func mint(t *testing.T, p *platform.Process, w *testkit.World) string {
	t.Helper()
	hotel := w.Sim.Catalog().Properties[0]
	body, err := json.Marshal(map[string]any{
		"propertyId": hotel.PropertyID, "tenantId": hotel.TenantID,
		"dates":     map[string]string{"checkIn": "2077-05-12", "checkOut": "2077-05-15"},
		"occupancy": map[string]int{"adults": 2, "children": 0, "rooms": 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(testkit.Context(t), http.MethodPost, "http://"+p.Public+"/bff/consumer/v1/handoff", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "crash-1")
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct{ HandoffID string }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != http.StatusCreated {
		t.Fatalf("mint: %d %v", res.StatusCode, err)
	}
	return answer.HandoffID
}
