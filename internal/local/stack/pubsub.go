package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc"
)

const (
	emulatorEnv    = "PUBSUB_EMULATOR_HOST"
	defaultProject = "melmastoon-local"

	// maxPubSubMessage is what one call may carry: a publish of 10 MB, the
	// limit of Pub/Sub, and its envelope.
	maxPubSubMessage = 11 << 20

	// trimEvery and trimAbove say when forgetting is worth a look.
	trimEvery = 5 * time.Second
	trimAbove = 1000
	// trimTimeout is how long publishers are held back for subscribers to
	// finish what is under way.
	trimTimeout = 250 * time.Millisecond
	// retention is how long pstest offers a message; see [PubSub.trim].
	retention = 10 * time.Minute
)

// PubSubConfig describes a Pub/Sub server. The zero value is the emulator that
// PUBSUB_EMULATOR_HOST names or, without one, a server in this process.
type PubSubConfig struct {
	// Host names an emulator that is already there.
	Host string
	// InProcess starts a server whatever PUBSUB_EMULATOR_HOST says.
	InProcess bool
	// ProjectID is empty for "melmastoon-local".
	ProjectID string
	// Logger hears about progress; nil is silence.
	Logger *slog.Logger
}

// PubSub is a Pub/Sub server: an emulator, or pstest in this process. pstest
// keeps everything in memory, offers a message for ten minutes only, ignores
// retry policies and repeats dead-lettering: it is for one machine.
type PubSub struct {
	Host      string // host:port, without TLS and credentials
	ProjectID string

	fake   *pstest.Server
	server *grpc.Server
	log    *slog.Logger
	stop   chan struct{}
	wg     sync.WaitGroup
	once   sync.Once
	news   news
	unused *unused

	// gate is held for reading by calls that change what has to be delivered,
	// and for writing while messages are forgotten.
	gate      sync.RWMutex
	published atomic.Int64 // since the last trim
	reshaped  atomic.Int64 // when a subscription last came or went, Unix nanoseconds
}

// StartPubSub finds, or starts, a server, which runs until [PubSub.Close].
func StartPubSub(ctx context.Context, cfg PubSubConfig) (*PubSub, error) {
	p := &PubSub{Host: cfg.Host, ProjectID: cfg.ProjectID, log: orSilent(cfg.Logger)}
	if p.ProjectID == "" {
		p.ProjectID = defaultProject
	}
	if p.Host == "" && !cfg.InProcess {
		p.Host = os.Getenv(emulatorEnv)
	}
	if p.Host != "" {
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", p.Host)
		if err != nil {
			return nil, fmt.Errorf("start pubsub: reach emulator: %w", err)
		}
		return p, conn.Close()
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start pubsub: %w", err)
	}
	p.Host = listener.Addr().String()
	p.serve(listener)
	if err := p.settleIn(context.WithoutCancel(ctx)); err != nil {
		return nil, fmt.Errorf("start pubsub: %w", errors.Join(err, p.Close()))
	}
	p.log.InfoContext(ctx, "pubsub ready", "host", p.Host)
	return p, nil
}

// serve puts our own door before the fake: without it nothing could hold
// publishers back while messages are forgotten.
func (p *PubSub) serve(listener net.Listener) {
	p.fake = pstest.NewServerWithAddress("127.0.0.1:0")
	p.server = grpc.NewServer(grpc.MaxRecvMsgSize(maxPubSubMessage), grpc.UnaryInterceptor(p.watch))
	pubsubpb.RegisterPublisherServer(p.server, &p.fake.GServer)
	p.unused = newUnused(&p.fake.GServer)
	pubsubpb.RegisterSubscriberServer(p.server, subscriber{&p.fake.GServer, p.unused, &p.news})
	pubsubpb.RegisterSchemaServiceServer(p.server, &p.fake.GServer)
	p.stop = make(chan struct{})
	p.wg.Go(func() {
		if err := p.server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			p.log.Error("pubsub ended", "error", err)
		}
	})
	p.wg.Go(p.trimLoop)
}

// settleIn waits until the fake's own listener, which is not used, is served:
// closed before that, the fake writes to the standard log. The first bytes
// from a gRPC server are its settings, sent unasked.
func (p *PubSub) settleIn(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", p.fake.Addr)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // a probe
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// watch holds back what would add deliveries while messages are forgotten;
// taking messages and acknowledging them always goes on.
func (p *PubSub) watch(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	next := func(ctx context.Context, req any) (any, error) {
		if err := p.unused.before(ctx, req); err != nil {
			return nil, err
		}
		return handle(ctx, req)
	}
	switch r := req.(type) {
	case *pubsubpb.PullRequest:
		return next(ctx, req)
	case *pubsubpb.AcknowledgeRequest:
		defer p.news.tell(r.Subscription)
		return next(ctx, req)
	case *pubsubpb.ModifyAckDeadlineRequest:
		defer p.news.tell(r.Subscription)
		return next(ctx, req)
	case *pubsubpb.PublishRequest:
		defer p.news.tell(r.Topic)
		p.published.Add(int64(len(r.Messages)))
	case *pubsubpb.SeekRequest:
		defer p.news.tell(r.Subscription)
		defer func() { p.reshaped.Store(time.Now().UnixNano()) }()
	case *pubsubpb.Subscription, *pubsubpb.DeleteSubscriptionRequest, *pubsubpb.DetachSubscriptionRequest,
		*pubsubpb.UpdateSubscriptionRequest, *pubsubpb.DeleteTopicRequest:
		defer func() { p.reshaped.Store(time.Now().UnixNano()) }()
	}
	p.gate.RLock()
	defer p.gate.RUnlock()
	return next(ctx, req)
}

func (p *PubSub) trimLoop() {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			if p.published.Load() >= trimAbove {
				p.trim()
			}
		}
	}
}

// trim has the fake forget its messages once all are acknowledged:
// the fake keeps every message ever published, so a long load test would fill
// the memory, and it can only forget all of them at once.
func (p *PubSub) trim() {
	ctx, cancel := context.WithTimeout(context.Background(), trimTimeout)
	defer cancel()
	p.gate.Lock()
	defer p.gate.Unlock()
	err := until(ctx, func() (bool, error) { return p.settled(ctx) })
	if err != nil {
		return // some are still under way: the next round will do
	}
	p.fake.ClearMessages()
	p.published.Store(0)
}

// settled reports that no subscriber can still want a message. That is so when
// every subscription of its topic acknowledged it, or when it is past the
// retention: the fake offers no such message any more, and an acknowledgement
// of one that it does not know is ignored. Acknowledgements are only counted,
// not named, so a message older than the last change of the subscriptions has
// to wait for its age; and a dead-letter policy publishes past our door.
func (p *PubSub) settled(ctx context.Context) (bool, error) {
	wanted := map[string]int{} // acknowledgements that a message of a topic needs
	list, err := p.fake.GServer.ListSubscriptions(ctx, &pubsubpb.ListSubscriptionsRequest{Project: "projects/"})
	if err != nil {
		return false, err
	}
	for _, s := range list.Subscriptions {
		if s.DeadLetterPolicy != nil {
			return false, errors.New("a dead-letter policy stands")
		}
		wanted[s.Topic]++
	}
	reshaped := time.Unix(0, p.reshaped.Load())
	now := time.Now()
	for _, m := range p.fake.Messages() {
		if now.Sub(m.PublishTime) > retention {
			continue
		}
		if m.Acks < wanted[m.Topic] || m.PublishTime.Before(reshaped) {
			return false, nil
		}
	}
	return true, nil
}

// Close ends a server in this process; an emulator is left alone.
func (p *PubSub) Close() error {
	if p.fake == nil {
		return nil
	}
	var err error
	p.once.Do(func() {
		close(p.stop)
		p.server.Stop()
		err = p.fake.Close()
		p.wg.Wait()
	})
	return err
}
