package console

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff/internal/pubsub"
	"melmastoon.ghasi.io/bff/internal/tracing"
)

// shownLetters are how many events that were given up are listed.
const shownLetters = 100

// listened has the console listen to all topics from the first look on: a platform of
// tests, at which none looks, pays for no subscriptions.
func (c *Console) listened(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.listening.Do(c.listen)
		next(w, r)
	}
}

// listen subscribes to every topic under a name of its own.
func (c *Console) listen() {
	topics := map[string][]string{} // to who receives them
	producers := map[string]string{}
	for _, svc := range c.cfg.Services {
		for _, t := range svc.Publishes {
			topics[t], producers[t] = append(topics[t], []string{}...), svc.Name
		}
	}
	for _, svc := range c.cfg.Services {
		for _, t := range svc.Receives {
			if !slices.Contains(topics[t], svc.Name) {
				topics[t] = append(topics[t], svc.Name)
			}
		}
	}
	client, err := pubsub.Open(c.ctx, pubsub.Config{ProjectID: c.cfg.Environment["PUBSUB_PROJECT_ID"], EmulatorHost: c.cfg.Environment["PUBSUB_EMULATOR_HOST"]})
	if err != nil {
		return // the list stays empty; `status` says that Pub/Sub is away
	}
	context.AfterFunc(c.ctx, func() { _ = client.Close() }) // with everything else
	var seq atomic.Uint64
	suffix := strings.ToLower(rand.Text()[:8])
	for topic, receivers := range topics {
		sub := pubsub.Subscription{Name: "console-" + suffix + "." + topic, Topic: topic}
		c.work.Go(func() {
			if client.EnsureSubscription(c.ctx, sub) != nil {
				return
			}
			_ = client.Subscribe(c.ctx, sub, func(_ context.Context, d pubsub.Delivery) error {
				e := eventOf(d, seq.Add(1))
				e.Producer, e.ReceivedBy = producers[topic], append(e.ReceivedBy, receivers...)
				if e.Producer == "" {
					e.Producer = "upstreams"
				}
				c.events.add(e.Seq, e)
				return nil
			}) // ends with the platform
		})
	}
}

func eventOf(d pubsub.Delivery, seq uint64) Event {
	var sent struct {
		Envelope struct {
			EventID    string    `json:"eventId"`
			OccurredAt time.Time `json:"occurredAt"`
			TenantID   string    `json:"tenantId"`
		} `json:"envelope"`
	}
	e := Event{Seq: seq, Subject: d.Topic, At: d.PublishTime.UTC(), ReceivedBy: []string{}}
	if json.Unmarshal(d.Data, &sent) == nil {
		e.ID, e.TenantID, e.Data = sent.Envelope.EventID, sent.Envelope.TenantID, d.Data
		if !sent.Envelope.OccurredAt.IsZero() {
			e.At = sent.Envelope.OccurredAt
		}
	} else {
		e.Data, _ = json.Marshal(string(d.Data)) // a text encodes
	}
	if cause := tracing.Cause(d.Data); cause.IsValid() {
		e.TraceID = cause.TraceID().String()
	}
	return e
}

// outboxes says what waits, and what was given up.
func (c *Console) outboxes(ctx context.Context) ([]Outbox, error) {
	c.collect()
	out := []Outbox{}
	for _, svc := range c.cfg.Services {
		stats, err := svc.Outbox.Stats(ctx, c.db)
		if err != nil {
			return nil, err
		}
		letters, err := svc.Outbox.DeadLetters(ctx, c.db, shownLetters)
		if err != nil {
			return nil, err
		}
		box := Outbox{
			Service: svc.Name, Waiting: int64(stats.Depth), Held: int64(stats.Held), LagSeconds: stats.Lag.Seconds(), DeadLetters: []DeadLetter{},
			Published: int64(c.now("sum(" + svc.Namespace + "_outbox_published_total)")[""]),
		}
		for _, l := range letters {
			box.DeadLetters = append(box.DeadLetters, DeadLetter{
				ID: l.ID, Subject: l.Topic, At: l.CreatedAt, Attempts: l.Attempts, Reason: l.LastError, Retry: svc.Name + " --world dlq replay --id " + l.ID,
			})
		}
		out = append(out, box)
	}
	return out, nil
}
