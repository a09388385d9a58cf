package backofficed

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/service"
)

// StreamSettings are those of the devices' streams.
type StreamSettings struct {
	MaxStreams    int `name:"max-streams" env:"BFF_BACKOFFICE_MAX_STREAMS" default:"8000" help:"Open streams of this instance; further devices are told to poll. Each is a connection of the public listener."`
	TenantStreams int `name:"tenant-streams" env:"BFF_BACKOFFICE_TENANT_STREAMS" default:"25" help:"Percent of the open streams of this instance that one tenant may have; its further devices are told to poll."`
}

// tenantStreams is how many streams one tenant may have.
func (s *StreamSettings) tenantStreams() int { return max(s.MaxStreams*s.TenantStreams/100, 1) }

// streams are the open streams of this process and what tells them.
type streams struct {
	*stream.Streams
	log     *backofficestore.StreamLog
	notices *stream.Notifier
}

func newStreams(sessions *backofficestore.Sessions, members backoffice.Members, most, share int) *streams {
	log := backofficestore.NewStreamLog(sessions)
	return &streams{stream.NewStreams(log, most, share), log, stream.NewNotifier(sessions, members, log)}
}

// run adds what the streams need while they are open.
func (s *streams) run(p *service.Process, flags *identity.Flags) {
	p.AddLoop("stream bus", func(ctx context.Context) error { return s.log.Run(ctx, s) })
	p.AddLoop("stream logs", s.Work)
	p.AddLoop("stream pings", func(ctx context.Context) error { return s.tick(ctx, flags) })
}

// shedShare is the part of the streams that ends with each tick while they are switched
// off: their devices begin to poll one after the other.
const shedShare = 10

func (s *streams) tick(ctx context.Context, flags *identity.Flags) error {
	every := time.NewTicker(stream.TickEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case now := <-every.C:
			s.Tick(now)
			if flags.OffForAll(backoffice.FeatureStream) {
				s.Shed(s.Len()/shedShare + 1)
			}
		}
	}
}

const (
	drainStep = 50 * time.Millisecond
	// drainShare is how much of the time that is left streams may take to end.
	drainShare = 0.5
)

// drain ends the streams one after the other: their clients must not all come to the
// other instances at once.
func (s *streams) drain(ctx context.Context) error {
	steps := 1
	if by, ok := ctx.Deadline(); ok {
		steps = max(int(drainShare*float64(time.Until(by)))/int(drainStep), 1)
	}
	share := s.Drain(0)/steps + 1
	every := time.NewTicker(drainStep)
	defer every.Stop()
	for s.Drain(share) > 0 {
		select {
		case <-every.C:
		case <-ctx.Done():
			s.Drain(s.Len())
		}
	}
	return nil
}
