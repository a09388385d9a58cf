package platform

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// Upstreams are the simulated upstreams, served by this process.
type Upstreams struct {
	*sim.Sim
	URL string

	server *http.Server
	client *pubsub.Client
	stop   context.CancelFunc
	day    sync.WaitGroup
}

// ServeUpstreams starts the simulator; its events go to Pub/Sub.
func ServeUpstreams(ctx context.Context, cfg sim.Config, pubsubHost, project string) (*Upstreams, error) {
	client, err := pubsub.Open(ctx, pubsub.Config{ProjectID: project, EmulatorHost: pubsubHost})
	if err != nil {
		return nil, err
	}
	cfg.Publisher = publisher{client}
	sim, err := sim.New(cfg)
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &Upstreams{
		Sim: sim, URL: "http://" + ln.Addr().String(), client: client,
		server: &http.Server{Handler: sim.Handler(), ReadHeaderTimeout: 5 * time.Second},
	}
	go func() { _ = u.server.Serve(ln) }() // ends with Close
	day, stop := context.WithCancel(context.WithoutCancel(ctx))
	u.stop = stop
	u.day.Go(func() { u.Run(day) })
	return u, nil
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
