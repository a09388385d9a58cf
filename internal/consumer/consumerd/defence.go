package consumerd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/challenge"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerguard"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerstore"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/daemon"
	"melmastoon.ghasi.io/bff/internal/ratelimit"
	"melmastoon.ghasi.io/bff/internal/recaptcha"
	"melmastoon.ghasi.io/bff/internal/service"
	"melmastoon.ghasi.io/bff/internal/useragent"
	"melmastoon.ghasi.io/bff/internal/web"
)

// DefenceSettings say how much a client may ask, and who counts as a program.
type DefenceSettings struct {
	Limits        string             `name:"limits" env:"BFF_CONSUMER_LIMITS" help:"Requests per minute of one session by class, and how many times that an address and a fingerprint may share: search=60,detail=120,handoff=10,wishlist=30,session=60,telemetry=240,challenge=60,ip=5,fingerprint=5. off lifts them all."`
	Instances     int                `name:"instances" env:"BFF_CONSUMER_INSTANCES" default:"3" help:"About how many instances share the limits; counts while Redis is away."`
	BotDefence    string             `name:"bot-defence" env:"BFF_CONSUMER_BOT_DEFENCE" default:"on" help:"on, watch (verdicts are logged, nothing follows) or off."`
	BotWeights    map[string]float64 `name:"bot-weights" env:"BFF_CONSUMER_BOT_WEIGHTS" help:"Weights of signs and thresholds that differ from docs/bots.md, such as library=0.2;suspect=0.6"`
	CrawlerRanges map[string]string  `name:"crawler-ranges" env:"BFF_CONSUMER_CRAWLER_RANGES" help:"Files with the addresses that search engines publish, such as google=/etc/ranges/googlebot.json;…"`
	NoCrawlerDNS  bool               `name:"no-crawler-dns" env:"BFF_CONSUMER_NO_CRAWLER_DNS" help:"Do not ask the domain name system who a search engine is."`
	AppAgents     []string           `name:"app-agents" env:"BFF_CONSUMER_APP_AGENTS" default:"Melmastoon/" help:"How the user agents of our own apps begin."`

	RecaptchaProject string `name:"recaptcha-project" env:"BFF_CONSUMER_RECAPTCHA_PROJECT" help:"Google Cloud project whose reCAPTCHA Enterprise judges X-Recaptcha-Token; without, our own challenges are the only ones."`
	RecaptchaSiteKey string `name:"recaptcha-site-key" env:"BFF_CONSUMER_RECAPTCHA_SITE_KEY" help:"Site key of the pages."`
}

// validate reports everything that is wrong.
func (s *DefenceSettings) validate() []error {
	var errs []error
	in := func(name string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	_, err := consumerhttp.Limits().Override(s.Limits)
	in("limits", err)
	_, err = bot.DefaultPolicy().Override(s.BotWeights)
	in("bot-weights", err)
	switch consumerguard.Mode(s.BotDefence) {
	case consumerguard.ModeOn, consumerguard.ModeWatch, consumerguard.ModeOff:
	default:
		in("bot-defence", errors.New("want on, watch or off"))
	}
	if s.Instances < 1 || s.Instances > 1000 {
		in("instances", errors.New("want 1 to 1000"))
	}
	if (s.RecaptchaProject == "") != (s.RecaptchaSiteKey == "") {
		in("recaptcha-project and recaptcha-site-key", errors.New("both or neither"))
	}
	return errs
}

// guarded is what the guard works with.
type guarded struct {
	redis      rueidis.Client
	store      *consumerstore.Store
	campaign   func() bool
	telemetry  *consumer.Telemetry
	background *web.Background
	ration     *bot.Ration
	cards      *guest.Cards
}

// campaignScale is what campaign mode leaves of the hand-off's limit.
const campaignScale = 0.8

// openGuard opens what stands in front of the public routes.
func (c *Config) openGuard(ctx context.Context, p *service.Process, on guarded) (*consumerguard.Guard, error) {
	limits, err := consumerhttp.Limits().Override(c.Limits)
	if err != nil {
		return nil, err
	}
	policy, err := bot.DefaultPolicy().Override(c.BotWeights)
	if err != nil {
		return nil, err
	}
	bots := consumerstore.NewBots(on.store)
	cfg := consumerguard.Config{
		Clients: c.clients(), Limits: limits, Mode: consumerguard.Mode(c.BotDefence), Policy: policy,
		Memory: bots, Sessions: on.store, Cards: on.cards, Cardless: c.cardless(), ChallengePath: consumerhttp.Base + "/challenge",
		Telemetry: on.telemetry, Background: on.background, Ration: on.ration, Log: p.Log, Now: time.Now, Metrics: p.Metrics, Namespace: p.Namespace,
		Scale: map[web.Limit]func() float64{consumerhttp.LimitHandoff: func() float64 {
			if on.campaign() {
				return campaignScale
			}
			return 1
		}},
	}
	if !limits.Off {
		keys := p.Keys()
		cfg.Limiter, err = ratelimit.New(ratelimit.Config{
			Limits: limits.Limits(), Source: ratelimit.NewRedis(on.redis, func(bucket string) string { return keys.Key("rl", bucket) }),
			Pepper: []byte(c.Pepper.Reveal()), Instances: c.Instances,
		})
		if err != nil {
			return nil, err
		}
		cfg.Limiter.Register(p.Metrics, p.Namespace)
		p.AddLoop("rate limits", cfg.Limiter.Run)
	}
	if cfg.UserAgents, err = useragent.New(useragent.Config{Apps: c.AppAgents}); err != nil {
		return nil, err
	}
	if cfg.Verifier, err = c.openVerifier(); err != nil {
		return nil, err
	}
	if cfg.Challenger, err = challenge.New(challenge.Config{Keys: c.challengeKeys(), Burner: bots}); err != nil {
		return nil, err
	}
	if c.RecaptchaProject != "" {
		google, err := recaptcha.New(ctx, recaptcha.Config{Project: c.RecaptchaProject, SiteKey: c.RecaptchaSiteKey})
		if err != nil {
			return nil, err
		}
		p.Add("recaptcha", nil, func(context.Context) error { return google.Close() })
		cfg.Recaptcha = google
	}
	guard, err := consumerguard.New(cfg)
	if err != nil {
		return nil, err
	}
	p.Add("guard", nil, guard.Close)
	p.AddLoop("guard exchange", guard.Run)
	return guard, nil
}

// clients says how clients are recognised.
func (c *Config) clients() consumerguard.Clients {
	clients := consumerguard.Clients{Pepper: []byte(c.Pepper.Reveal()), CountryHeader: c.CountryHeader}
	for _, p := range c.OldPeppers {
		clients.OldPeppers = append(clients.OldPeppers, []byte(p.Reveal()))
	}
	return clients
}

// challengeKeys follow from the peppers: they are as secret, and rotate with them.
func (c Config) challengeKeys() [][]byte {
	derive := func(pepper daemon.Secret) []byte {
		sum := sha256.Sum256([]byte("melmastoon challenge key\x00" + pepper.Reveal()))
		return sum[:]
	}
	keys := [][]byte{derive(c.Pepper)}
	for _, old := range c.OldPeppers {
		keys = append(keys, derive(old))
	}
	return keys
}

func (c Config) openVerifier() (*useragent.Verifier, error) {
	cfg := useragent.VerifierConfig{Ranges: map[string][]netip.Prefix{}}
	var errs []error
	for operator, file := range c.CrawlerRanges {
		ranges, err := readRanges(file)
		errs = append(errs, err)
		cfg.Ranges[operator] = ranges
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if !c.NoCrawlerDNS {
		cfg.Resolver = net.DefaultResolver
	}
	return useragent.NewVerifier(cfg)
}

func readRanges(file string) ([]netip.Prefix, error) {
	f, err := os.Open(file) //nolint:gosec // an operator's own setting
	if err != nil {
		return nil, fmt.Errorf("crawler-ranges: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	ranges, err := useragent.ParseRanges(f)
	if err != nil {
		return nil, fmt.Errorf("crawler-ranges: %s: %w", file, err)
	}
	return ranges, nil
}
