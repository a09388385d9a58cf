package consumerd

import (
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/flags"
	"melmastoon.ghasi.io/bff/internal/loadshed"
	"melmastoon.ghasi.io/bff/internal/service"
)

// The service's flags.
const (
	// FlagCampaign keeps search lists longer and lowers the hand-off limit, to
	// absorb the spike of a campaign.
	FlagCampaign = "bff.consumer.campaign_mode.v1"
	// FlagBrownout holds the service on a rung of the brownout ladder, by name.
	FlagBrownout = "bff.consumer.brownout_rung.v1"
	// flagSampleRate and a subject name the flag of the share of an event's kind
	// that leaves.
	flagSampleRate = "bff.consumer.sample_rate.v1:"
)

// switches are what an operator, or the load, changes while the service runs.
type switches struct {
	flags *flags.Flags
	gates *loadshed.Shedder
	rate  func(consumer.Subject) float64 // of a deployment's own configuration
}

// openSwitches reads flags from a file and from the hash
// {env}:bff-consumer:flags in Redis, which wins.
func (c *Config) openSwitches(p *service.Process, client rueidis.Client) (*switches, error) {
	sources := []flags.Source{flags.NewRedis(client, p.Keys().Key("flags"))}
	if c.FlagsFile != "" {
		sources = append([]flags.Source{flags.NewFile(c.FlagsFile)}, sources...)
	}
	f, err := p.Flags(0, sources...)
	if err != nil {
		return nil, err
	}
	gates, err := loadshed.New(loadshed.Config{Classes: consumerhttp.Gates()})
	if err != nil {
		return nil, err
	}
	return &switches{flags: f, gates: gates, rate: c.rate}, nil
}

// campaign reports campaign mode.
func (s *switches) campaign() bool { return s.flags.Bool(FlagCampaign, false) }

// rung is the step of the brownout ladder: where the operator holds it, else
// as deep as the load asks for, and at least one in campaign mode.
func (s *switches) rung() discovery.Rung {
	if held, ok := discovery.ParseRung(s.flags.String(FlagBrownout, "")); ok {
		return held
	}
	if level := s.gates.Level(); level > 0 {
		return discovery.RungCampaign + discovery.Rung(level)
	}
	if s.campaign() {
		return discovery.RungCampaign
	}
	return discovery.RungNone
}

// sampling is the share of an event's kind that leaves.
func (s *switches) sampling(subject consumer.Subject) float64 {
	return s.flags.Float(sampleFlags[subject], s.rate(subject))
}

// sampleFlags are the flags by what they sample: each request asks for one.
var sampleFlags = func() map[consumer.Subject]string {
	all := map[consumer.Subject]string{}
	for _, s := range consumer.Subjects() {
		all[s] = flagSampleRate + string(s)
	}
	return all
}()
