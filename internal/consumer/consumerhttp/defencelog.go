package consumerhttp

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/web"
)

// maxLogged is how many verdicts are logged in a second: a flood of made-up
// visitors must not become one of rows.
const maxLogged = 50

// rationed lets a few through each second.
type rationed struct {
	most int

	mu     sync.Mutex
	second int64
	n      int
}

func (r *rationed) take(ms int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := ms / 1000; s != r.second {
		r.second, r.n = s, 0
	}
	r.n++
	return r.n <= r.most
}

// log keeps a verdict, behind the answer: one for a visitor and verdict a
// minute, and every hard block.
func (a *API) log(r *http.Request, c *caller, j *judgement, action bot.Action) {
	if j.verdict == bot.Human {
		return
	}
	d := a.cfg.Defence
	v, mu := d.visitors.lock(c.visitor, c.ms)
	at := &v.loggedAt[j.index()-1]
	due := *at == 0 || c.ms-*at >= logEvery.Milliseconds() || action == bot.ActionHardBlock
	if due {
		*at = c.ms
	}
	mu.Unlock()
	if !due || !d.logged.take(c.ms) {
		return
	}
	seen := a.withIP(r, a.visit(r).Visitor)
	b := consumer.BotSuspected{
		GuestSessionID: c.id, Score: j.score, Verdict: string(j.verdict), Signals: d.policy.Signals(&j.evidence),
		IPHash: seen.IP, UserAgentHash: seen.UserAgent, FingerprintHash: seen.Fingerprint,
		EvaluatedAt: bff.At(c.now), ActionTaken: string(action),
	}
	req, now, id, visitor := web.From(r.Context()), c.now, c.id, c.visitor
	occasion := consumer.Occasion{RequestID: req.ID, TraceParent: req.TraceParent}
	a.behind(func(ctx context.Context) {
		told, event := b, (*bff.Event)(nil)
		s := consumer.GuestSession{ID: id, Consent: consumer.Consent{Telemetry: !seen.NoTracking}}
		if id.IsZero() { // the event's schema wants an id, the row does not
			s.ID = consumer.SuspectFor(visitor, seen.Fingerprint)
			told.GuestSessionID = s.ID
		} else if found, ok, err := a.cfg.Sessions.FindSession(ctx, id); err != nil {
			s.Unread = true // nobody knows what the guest has chosen
		} else if ok {
			s = found
		}
		if e, ok, err := a.telemetry.Event(s, told, occasion, now); err == nil && ok {
			event = &e
		}
		_ = d.cfg.Memory.LogVerdict(ctx, b, event) // seen again when it happens again
	})
}

// Run exchanges what instances know of visitors, and does the small jobs behind
// answers, until the context ends.
func (d *Defence) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	for range defenceWorkers {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case job := <-d.jobs:
					job()
				}
			}
		})
	}
	tick := time.NewTicker(exchangeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			d.Exchange(ctx)
		}
	}
}

const (
	defenceWorkers = 2
	exchangeEvery  = time.Second
	briefly        = 250 * time.Millisecond
	// maxExchanged bounds one exchange.
	maxExchanged = 512
	// newsAge is how old a count of another instance may be.
	newsAge = 10 * time.Second
)

// later does a job soon; when too many wait, it is dropped: all of them are
// about things that come again.
func (d *Defence) later(job func()) {
	select {
	case d.jobs <- job:
	default:
	}
}

func (d *Defence) brief() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), briefly)
}

// Exchange tells the other instances how often busy visitors came here, hears how
// often they came there, and who is shut out.
func (d *Defence) Exchange(ctx context.Context) {
	now := d.cfg.Now()
	ms := now.UnixMilli()
	var paces []consumer.Pace
	for _, visitor := range d.hot.take() {
		v, mu := d.visitors.lock(visitor, ms)
		// What is older than a count's window is no news.
		since := time.UnixMilli(max(v.told, ms-newsAge.Milliseconds()))
		if n, ok := v.Report(ms); ok {
			v.told = ms
			paces = append(paces, consumer.Pace{Client: visitor, Requests: n, Since: since})
		}
		mu.Unlock()
	}
	if others, err := d.cfg.Memory.ExchangePaces(ctx, paces, now); err == nil {
		for i, p := range paces {
			v, mu := d.visitors.lock(p.Client, ms)
			v.Merge(ms, others[i])
			mu.Unlock()
		}
	}
	if blocked, err := d.cfg.Memory.Blocked(ctx, now); err == nil {
		for visitor, until := range blocked {
			v, mu := d.visitors.lock(visitor, ms)
			v.blockedUntil = max(v.blockedUntil, until.UnixMilli())
			mu.Unlock()
		}
	}
}

// hotSet are the visitors whose pace other instances should hear of.
type hotSet struct {
	mu      sync.Mutex
	pending map[uint64]struct{}
}

func newHotSet() *hotSet { return &hotSet{pending: map[uint64]struct{}{}} }

func (h *hotSet) add(visitor uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pending) < maxExchanged {
		h.pending[visitor] = struct{}{}
	}
}

func (h *hotSet) take() []uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := slices.Collect(maps.Keys(h.pending))
	clear(h.pending)
	return taken
}
