package consumerguard

import (
	"context"
	"errors"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	// logEvery is how often a verdict on one client is logged.
	logEvery = time.Minute
	// maxNetworkLogged is how many verdicts on the clients of one network are logged
	// in a minute: each made-up session is another client.
	maxNetworkLogged = 120
)

// occasion is what an event says of the request that caused it.
func occasion(r *http.Request) consumer.Occasion {
	req := web.From(r.Context())
	return consumer.Occasion{RequestID: req.ID, TraceParent: req.TraceParent}
}

// log keeps a verdict, in the background: one for a client and verdict a minute,
// and every hard block.
func (g *Guard) log(r *http.Request, s *sender, j *judgement, action bot.Action) {
	if j.verdict == bot.Human {
		return
	}
	c, mu := g.clients.Lock(s.key, s.ms)
	at := &c.loggedAt[j.index()-1]
	due := *at == 0 || s.ms-*at >= logEvery.Milliseconds() || action == bot.ActionHardBlock
	if due {
		*at = s.ms
	}
	mu.Unlock()
	if !due {
		return
	}
	network, mu := g.networks.Lock(s.networkKey, s.ms)
	n := network.Log(s.ms)
	mu.Unlock()
	if n > maxNetworkLogged && action != bot.ActionHardBlock || !g.cfg.Ration.Take(s.ms) {
		return
	}
	b := bot.BotSuspected{
		GuestSessionID: s.SessionID, Score: bot.Round(j.score), Verdict: string(j.verdict), Signals: g.policy.Signals(&j.evidence),
		IPHash: s.IP(), UserAgentHash: s.UserAgent, FingerprintHash: s.Fingerprint,
		EvaluatedAt: bff.At(s.At), ActionTaken: string(action),
	}
	cause := occasion(r)
	g.cfg.Background.DoFor(r.Context(), func(ctx context.Context) {
		_ = g.cfg.Memory.LogVerdict(ctx, b, g.event(ctx, b, s, cause)) // logged again when it happens again
	})
}

// event is the event of a verdict; nil when none may leave.
func (g *Guard) event(ctx context.Context, b bot.BotSuspected, s *sender, occasion consumer.Occasion) *bff.Event {
	cleared := false
	session := consumer.GuestSession{ID: s.SessionID, Consent: consumer.Consent{Telemetry: !s.NoTracking}}
	if session.ID.IsZero() { // the event's schema requires an id, the row does not
		session.ID = bot.SuspectFor(s.key, s.Fingerprint)
		b.GuestSessionID = session.ID
	} else if found, ok, err := g.cfg.Sessions.FindSession(ctx, session.ID); errors.Is(err, guest.ErrSessionCleared) {
		return nil
	} else if ok {
		session = found
	} else if !s.Card.IsZero() {
		session, cleared = guest.RestoreCard(ctx, g.cfg.Sessions, &s.Visit)
	} else {
		session, cleared = guest.RestoreSession(ctx, g.cfg.Sessions, session)
	}
	if cleared {
		return nil
	}
	e, leaves, err := g.cfg.Telemetry.Event(session, b, occasion, s.At)
	if err != nil || !leaves {
		return nil
	}
	return &e
}
