package backofficestore

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/pause"
)

// EntryHandler takes the entries that the bus carries.
type EntryHandler interface {
	Deliver(a stream.Address, e stream.Entry)
	// Resync: messages may have been missed.
	Resync()
}

const (
	// followBatch is how many devices are followed in one command.
	followBatch = 64
	busPause    = 200 * time.Millisecond // before the next connection
	busTimeout  = 5 * time.Second        // to follow one batch again
)

// bus is the one connection over which a process hears of all devices that it follows.
type bus struct {
	client rueidis.Client
	keys   Keys

	// turn is held by the one that sends commands: they take effect in the order in
	// which followed changes.
	turn     chan struct{}
	conn     rueidis.DedicatedClient // nil while there is none
	ready    chan struct{}           // closed when there is a connection
	followed map[stream.Address]struct{}
}

func newBus(client rueidis.Client, keys Keys) *bus {
	return &bus{client: client, keys: keys, turn: make(chan struct{}, 1), ready: make(chan struct{}), followed: map[stream.Address]struct{}{}}
}

// take waits for the turn.
func (b *bus) take(ctx context.Context) error {
	select {
	case b.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *bus) give() { <-b.turn }

// take and wait for a connection.
func (b *bus) takeConnected(ctx context.Context) error {
	for {
		if err := b.take(ctx); err != nil {
			return err
		}
		if b.conn != nil {
			return nil
		}
		ready := b.ready
		b.give()
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// names are those of all channels of devices.
func (b *bus) names(devices []stream.Address) ([]string, error) {
	names := make([]string, 0, len(devices)*len(backoffice.Channels()))
	for _, a := range devices {
		t, err := b.keys.Tenant(a.Tenant)
		if err != nil {
			return nil, err
		}
		for _, c := range backoffice.Channels() {
			names = append(names, busName(t.StreamBus(a.Device), c))
		}
	}
	return names, nil
}

func (b *bus) follow(ctx context.Context, a stream.Address) error {
	names, err := b.names([]stream.Address{a})
	if err != nil {
		return err
	}
	if err := b.takeConnected(ctx); err != nil {
		return err
	}
	defer b.give()
	if _, known := b.followed[a]; known {
		return nil
	}
	if err := b.conn.Do(ctx, b.conn.B().Subscribe().Channel(names...).Build()).Error(); err != nil {
		return err
	}
	b.followed[a] = struct{}{}
	return nil
}

func (b *bus) unfollow(ctx context.Context, devices []stream.Address) error {
	if err := b.take(ctx); err != nil {
		return err
	}
	defer b.give()
	gone := devices[:0:0]
	for _, a := range devices {
		if _, known := b.followed[a]; known {
			delete(b.followed, a)
			gone = append(gone, a)
		}
	}
	names, err := b.names(gone)
	if err != nil || len(names) == 0 || b.conn == nil {
		return err
	}
	return b.conn.Do(ctx, b.conn.B().Unsubscribe().Channel(names...).Build()).Error()
}

// run keeps the connection until the context ends.
func (b *bus) run(ctx context.Context, to EntryHandler) error {
	for ctx.Err() == nil {
		b.session(ctx, to)
		pause.For(ctx, busPause)
	}
	return ctx.Err()
}

// session hears over one connection until it breaks.
func (b *bus) session(ctx context.Context, to EntryHandler) {
	conn, release := b.client.Dedicate()
	defer release()
	defer conn.Close()
	ended := conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { b.hear(m, to) }})
	if b.connect(ctx, conn) != nil {
		return
	}
	to.Resync()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	_ = b.take(context.WithoutCancel(ctx)) // never fails
	defer b.give()
	b.conn, b.ready = nil, make(chan struct{})
}

// connect follows all devices over a new connection.
func (b *bus) connect(ctx context.Context, conn rueidis.DedicatedClient) error {
	if err := b.take(ctx); err != nil {
		return err
	}
	defer b.give()
	all := make([]stream.Address, 0, len(b.followed))
	for a := range b.followed {
		all = append(all, a)
	}
	for {
		n := min(len(all), followBatch)
		names, err := b.names(all[:n])
		if err != nil {
			return err
		}
		cmd := conn.B().Ping().Build() // shows that the connection works
		if n > 0 {
			cmd = conn.B().Subscribe().Channel(names...).Build()
		}
		limited, cancel := context.WithTimeout(ctx, busTimeout)
		err = conn.Do(limited, cmd).Error()
		cancel()
		if err != nil {
			return err
		}
		if all = all[n:]; len(all) == 0 {
			break
		}
	}
	b.conn = conn
	close(b.ready)
	return nil
}

// hear reads a message: the tenant's seal, the id, the entry. What cannot be read is
// dropped: the log has it, and the next reading shows it.
func (b *bus) hear(m rueidis.PubSubMessage, to EntryHandler) {
	device, ok := busDevice(m.Channel)
	if !ok {
		return
	}
	name, _, _ := strings.Cut(m.Message, "\n")
	tenant, err := bff.ParseID(bff.PrefixTenant, name)
	if err != nil {
		return
	}
	t, err := b.keys.Tenant(tenant)
	if err != nil {
		return
	}
	opened, err := t.StreamBus(device).Open([]byte(m.Message))
	if err != nil {
		return
	}
	id, body, _ := strings.Cut(string(opened), "\n")
	e, err := readEntry(id, body)
	if err != nil {
		return
	}
	to.Deliver(stream.Address{Tenant: tenant, Device: device}, e)
}
