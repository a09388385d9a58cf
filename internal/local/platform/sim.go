package platform

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/pause"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// Upstreams are the simulated upstreams, served by this process.
type Upstreams struct {
	*sim.Sim
	URL   string
	Taken *Taken // the usual port, if another program has it

	server *http.Server
	client *pubsub.Client
	stop   context.CancelFunc
	day    sync.WaitGroup
}

// ServeUpstreams starts the simulator; its events go to Pub/Sub, and those that its
// services listen to come from there. It listens on the usual port if that is free.
func ServeUpstreams(ctx context.Context, usual string, cfg sim.Config, pubsubHost, project string) (*Upstreams, error) {
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: project, EmulatorHost: pubsubHost})
	if err != nil {
		return nil, err
	}
	cfg.Publisher = publisher{client}
	sim, err := sim.New(cfg)
	if err != nil {
		return nil, err
	}
	var subs []pubsub.Subscription
	for _, topic := range sim.Topics() {
		sub := pubsub.Subscription{Name: "upstreams." + topic, Topic: topic}
		if err := client.EnsureSubscription(ctx, sub); err != nil {
			return nil, err
		}
		subs = append(subs, sub)
	}
	ln, taken, err := Listen(Simulated, usual)
	if err != nil {
		return nil, err
	}
	u := &Upstreams{
		Sim: sim, URL: "http://" + ln.Addr().String(), Taken: taken, client: client,
		server: &http.Server{Handler: sim.Handler(), ReadHeaderTimeout: 5 * time.Second},
	}
	go func() { _ = u.server.Serve(ln) }() // ends with Close
	day, stop := context.WithCancel(context.WithoutCancel(ctx))
	u.stop = stop
	u.day.Go(func() { u.Run(day) })
	for _, sub := range subs {
		u.day.Go(func() { u.listen(day, sub) })
	}
	return u, nil
}

const listenPause = time.Second

// listen hands on what comes from a subscription until ctx ends.
func (u *Upstreams) listen(ctx context.Context, sub pubsub.Subscription) {
	for ctx.Err() == nil {
		err := u.client.Subscribe(ctx, sub, func(_ context.Context, d pubsub.Delivery) error { return u.Hear(d.Topic, d.Data) })
		if err == nil {
			return
		}
		pause.For(ctx, listenPause) // Pub/Sub is away
	}
}

// Close ends the simulator.
func (u *Upstreams) Close() error {
	u.Sim.Close()
	u.stop()
	u.day.Wait()
	return errors.Join(u.server.Close(), u.client.Close())
}

type publisher struct{ client *pubsub.Client }

func (p publisher) Publish(ctx context.Context, topic string, data []byte, orderingKey string) error {
	if err := p.client.EnsureTopics(ctx, topic); err != nil {
		return err
	}
	return errors.Join(p.client.Publish(ctx, []pubsub.Message{{Topic: topic, Key: orderingKey, Data: data}})...)
}
