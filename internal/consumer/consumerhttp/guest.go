package consumerhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp/visits"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/web"
)

// guests finds and opens the sessions of guests.
type guests struct {
	sessions   consumer.Sessions
	cards      *consumer.Cards
	suspicions consumer.Suspicions
	journal    consumer.Journal
	telemetry  *consumer.Telemetry
	background *web.Background
	recorder   *visits.Recorder
	ration     *bot.Ration // of verdicts that are logged
	// plainCookies leaves Secure away, and the card, which browsers do not take
	// without it.
	plainCookies bool

	// State of guests, for a moment: what each asked for last, and saw last.
	lastSearch *memo.Memo[[16]byte, lastSearch]
	lastView   *memo.Memo[[16]byte, lastView]
}

// maxGuests bounds how many guests have such state.
const maxGuests = 1 << 13

func newGuests(cfg Config, rec *visits.Recorder) *guests {
	return &guests{
		sessions: cfg.Sessions, cards: cfg.Cards, suspicions: cfg.Suspicions, journal: cfg.Journal, telemetry: cfg.Telemetry,
		background: cfg.Background, recorder: rec, ration: cfg.Ration, plainCookies: cfg.PlainCookies,
		lastSearch: memo.New[[16]byte, lastSearch](maxGuests), lastView: memo.New[[16]byte, lastView](maxGuests),
	}
}

// guest is the sender of a request. Its id is known from the cookies at once; its
// session is read when a handler needs it, or in the background.
type guest struct {
	*consumer.Visit

	id      bff.ID                 // changes when the cookie turns out to be another client's
	found   *consumer.FoundSession // as it was, once it was looked for
	session *consumer.GuestSession // as guests.session returned it
	refused error                  // why it has no session that may be changed
}

// of returns the guest of a request. A newcomer's session is saved before the
// answer, unless the visit is not tracked. A card that is old is sent again with its
// session, which is read for it: that of a session that was cleared, or of another
// browser, would otherwise be renewed without end. A card whose session's id did not
// come with it is sent again as it is. So of is for the goroutine that answers, and
// before the answer begins.
func (gs *guests) of(w http.ResponseWriter, r *http.Request) *guest {
	v := visitOf(r)
	g := &guest{Visit: v, id: v.SessionID}
	switch {
	case !g.id.IsZero() && (v.Card.IsZero() || v.Untracked):
	case !g.id.IsZero() && v.Card.Due(v.At):
		gs.session(w, r, g)
	case !g.id.IsZero():
		if v.Astray {
			gs.setCookies(w, v.Card.Session(v.Client, v.At), v.Card.MadeAt)
		}
	case g.Untracked:
		g.pretend()
	case g.NoSession:
		g.refuse()
	default:
		gs.open(w, r, g)
	}
	return g
}

// retryOpening is when the network of a guest may open sessions again.
const retryOpening = time.Minute

// refuse leaves a guest without a session, because its network has opened too
// many: what is the same for every guest it may still read.
func (g *guest) refuse() {
	g.id = bff.ID{} // the one in the cookie is another's, or none
	g.pretend()
	g.refused = &bff.Error{Code: bff.CodeRateLimited, Detail: "too many new sessions were opened from this network: wait and try again", RetryAfter: retryOpening}
}

// pretend makes a session of the card, or else of what the request says of itself;
// nothing of it is kept.
func (g *guest) pretend() {
	s := g.described()
	s.Unread = true
	g.session = &s
}

// described is the session as the request describes it.
func (g *guest) described() consumer.GuestSession {
	if !g.Card.IsZero() && g.id == g.Card.SessionID {
		return g.Card.Session(g.Client, g.At)
	}
	return consumer.NewGuestSession(g.id, g.Client, g.At)
}

// glance returns what a request's guest has chosen, for answers that only depend
// on it: no session is opened or changed for their sake. Of a client without one
// it is what the request itself suggests.
func (gs *guests) glance(r *http.Request) consumer.GuestSession {
	v := visitOf(r)
	switch {
	case v.SessionID.IsZero() || v.Untracked:
	case !v.Card.IsZero():
		return v.Card.Session(v.Client, v.At)
	default:
		// The store has a deadline of its own.
		s, found, err := gs.sessions.FindSession(r.Context(), v.SessionID)
		if err == nil && found {
			if _, same := (consumer.FoundSession{GuestSession: s, Found: true}).Meet(v.Client, v.At); same {
				return s
			}
		}
	}
	return consumer.NewGuestSession(bff.ID{}, v.Client, v.At)
}

// choice returns the language and currency of a guest: the card's, or else the
// session's, which is read for it.
func (gs *guests) choice(w http.ResponseWriter, r *http.Request, g *guest) (bff.Locale, bff.Currency) {
	if g.session == nil && !g.Card.IsZero() {
		return g.Card.Locale, g.Card.Currency
	}
	s := gs.session(w, r, g)
	return s.Locale, s.Currency
}

// session returns the guest's session. It is for the goroutine that answers the
// request and before the answer begins, because it may set the cookies.
//
// A session that was lost is restored under the same id; one that belongs to
// another browser is left alone, and the guest gets a new one.
func (gs *guests) session(w http.ResponseWriter, r *http.Request, g *guest) consumer.GuestSession {
	if g.session != nil {
		return *g.session
	}
	// The store has a deadline of its own.
	f := consumer.FoundSession{}
	f.GuestSession, f.Found, f.Err = gs.sessions.FindSession(r.Context(), g.id)
	switch {
	case errors.Is(f.Err, consumer.ErrSessionCleared) && !g.NoSession:
		gs.open(w, r, g)
	case errors.Is(f.Err, consumer.ErrSessionCleared):
		g.refuse()
	case f.Err != nil:
		// Without the session store a guest can still look.
		web.From(r.Context()).Note("sessionStore", "unavailable")
		g.pretend()
	case !f.Found && g.Untracked:
		g.pretend()
	case !f.Found:
		gs.restore(w, r, g)
	default:
		change, same := f.Meet(g.Client, g.At)
		if !same && g.NoSession {
			g.refuse()
			break
		}
		if !same {
			gs.rotate(w, r, g, f.GuestSession)
			break
		}
		g.found = &f
		s := f.Apply(change)
		s.LastSeenAt = g.At
		slides := !change.CookieAt.IsZero() || !g.Card.IsZero() && g.Card.Due(g.At)
		if slides || !gs.plainCookies && !g.Card.Describes(s) {
			gs.setCookies(w, s, g.At)
		}
		if slides {
			sent := consumer.SessionChange{SeenAt: g.At, CookieAt: g.At}
			gs.background.DoFor(r.Context(), func(ctx context.Context) {
				_, _ = gs.sessions.UpdateSession(ctx, s.ID, sent) // sent again next time
				_ = gs.sessions.RenewSession(ctx, s, g.At)        // and renewed tomorrow
			})
		}
		if change.Consent != nil {
			gs.keepRefusal(r, s, g.At)
		}
		g.session = &s
	}
	return *g.session
}

// open begins a new session.
func (gs *guests) open(w http.ResponseWriter, r *http.Request, g *guest) {
	gs.save(w, r, g, consumer.NewGuestSession(bff.NewID(bff.PrefixGuestSession, g.At), g.Client, g.At))
	gs.announce(r, *g.session, g.session.Started(g.WithIP()), g.At)
}

// restore saves a session anew that was lost: as the guest's card describes it, or
// else empty, but for the guest's refusal of telemetry. As long as that cannot be
// read the session stays unread, and nothing is saved that would count the guest.
//
// An id that counts without a card, and of which nothing is known, is not adopted: it
// may have been planted, and its planter would share the session. Nor is one whose
// guest had it cleared, with a card or without.
func (gs *guests) restore(w http.ResponseWriter, r *http.Request, g *guest) {
	if g.NoSession && g.Card.IsZero() {
		g.refuse()
		return
	}
	s, known := gs.lost(r.Context(), g.Visit)
	switch {
	case !known:
		gs.open(w, r, g)
	case s.Unread:
		web.From(r.Context()).Note("sessionStore", "unavailable")
		g.session = &s
	default:
		gs.save(w, r, g, s)
	}
}

// lost returns what is known of a session that the store does not have, and whether
// anything is.
func (gs *guests) lost(ctx context.Context, v *consumer.Visit) (s consumer.GuestSession, known bool) {
	var cleared bool
	if !v.Card.IsZero() {
		s, cleared = v.Card.Resolve(ctx, gs.sessions, v.Client, v.At)
	} else {
		s = consumer.NewGuestSession(v.SessionID, v.Client, v.At)
		known, err := gs.sessions.KnowsSession(ctx, s.ID)
		if err != nil {
			s.Unread = true
			return s, true
		}
		if !known {
			return consumer.GuestSession{}, false
		}
		s, cleared = s.Resolve(ctx, gs.sessions)
	}
	if cleared {
		return consumer.GuestSession{}, false
	}
	return s, true
}

// save saves a session and sends its cookies.
func (gs *guests) save(w http.ResponseWriter, r *http.Request, g *guest, s consumer.GuestSession) {
	if g.Card.IsZero() || g.Card.SessionID != s.ID { // it may have been made up for this
		g.Open()
	}
	g.id, g.session = s.ID, &s
	gs.setCookies(w, s, g.At)
	if err := gs.sessions.SaveSession(r.Context(), s); err != nil {
		web.From(r.Context()).Note("sessionStore", "unavailable")
	}
	if !s.Consent.Telemetry {
		gs.keepRefusal(r, s, g.At)
	}
}

// keepRefusal keeps a refusal that a browser's header made, in the background: the
// browser sends the header again.
func (gs *guests) keepRefusal(r *http.Request, s consumer.GuestSession, at time.Time) {
	gs.background.DoFor(r.Context(), func(ctx context.Context) { _ = gs.sessions.AddRefusal(ctx, s, at) }) // said above
}

// mismatchWeight is how much a cookie from another browser says about its client.
const mismatchWeight = 0.5

// rotate gives a new session to a client that sent another browser's cookie. The
// old session keeps its fingerprint and its wishlist: were it deleted, the
// thief's second request would find it gone and open it anew as its own.
func (gs *guests) rotate(w http.ResponseWriter, r *http.Request, g *guest, old consumer.GuestSession) {
	gs.open(w, r, g)
	if !old.Rotated { // announced once, however often the cookie is tried
		gs.announce(r, old, old.Ended(consumer.EndedByRotation, g.At), g.At)
		gs.background.DoFor(r.Context(), func(ctx context.Context) {
			_, _ = gs.sessions.UpdateSession(ctx, old.ID, consumer.SessionChange{Rotated: true}) // announced again next time
		})
	}
	b := consumer.BotSuspected{
		GuestSessionID: g.id, Score: mismatchWeight, Verdict: string(bot.Suspect),
		Signals: []bot.Signal{{Kind: bot.SignalHeaders, Weight: mismatchWeight, Detail: "fingerprint-mismatch"}},
		IPHash:  g.Address.Hash(), UserAgentHash: g.UserAgent, FingerprintHash: g.Fingerprint, EvaluatedAt: bff.At(g.At), ActionTaken: string(bot.ActionNone),
	}
	if e, err := gs.event(r, *g.session, b, g.At); err == nil && gs.ration.Take(g.At.UnixMilli()) {
		gs.background.DoFor(r.Context(), func(ctx context.Context) { _ = gs.suspicions.Suspect(ctx, b, e) }) // seen again when it happens again
	}
}

// record has the visit recorded in the background. A session that was opened just
// now knows of it.
func (gs *guests) record(g *guest, rec visits.Record) {
	if g.Untracked || g.id.IsZero() {
		return
	}
	rec.Guest, rec.Visit, rec.Found = g.id, g.Visit, g.found
	if g.session != nil && g.found == nil { // opened just now, or unknown
		rec.Found = &consumer.FoundSession{GuestSession: *g.session, Found: !g.session.Unread}
	}
	gs.recorder.Add(rec)
}

// event wraps a fact about a session; nil when nothing may leave for it.
func (gs *guests) event(r *http.Request, s consumer.GuestSession, f consumer.Fact, now time.Time) (*bff.Event, error) {
	e, ok, err := gs.telemetry.Event(s, f, occasion(r), now)
	if err != nil || !ok {
		return nil, err
	}
	return &e, nil
}

// announce journals telemetry that no client was promised, in the background.
func (gs *guests) announce(r *http.Request, s consumer.GuestSession, f consumer.Fact, now time.Time) {
	e, err := gs.event(r, s, f, now)
	if err != nil || e == nil {
		return
	}
	gs.background.DoFor(r.Context(), func(ctx context.Context) {
		_ = gs.journal.Record(ctx, *e) // counted by the journal
	})
}

// occasion is what an event says of the request that caused it.
func occasion(r *http.Request) consumer.Occasion {
	req := web.From(r.Context())
	return consumer.Occasion{RequestID: req.ID, TraceParent: req.TraceParent}
}

// guest returns the session of a request and its client, for routes that need
// both at once.
func (a *API) guest(w http.ResponseWriter, r *http.Request) (consumer.GuestSession, consumer.Client, error) {
	g := a.guests.of(w, r)
	s := a.guests.session(w, r, g)
	if g.refused != nil {
		return consumer.GuestSession{}, consumer.Client{}, g.refused
	}
	if g.found != nil {
		if change, _ := g.found.Meet(g.Client, g.At); !change.IsZero() {
			a.guests.record(g, visits.Record{})
		}
	}
	return s, g.WithIP(), nil
}

// reporter returns the session of a request that reports something, and its
// client; the session is zero if there is none that the report could belong to.
// Pages report by themselves and without end: no session is opened for it, or
// opened again.
func (a *API) reporter(r *http.Request) (consumer.GuestSession, consumer.Client) {
	v := visitOf(r)
	if v.SessionID.IsZero() {
		return consumer.GuestSession{}, v.WithIP()
	}
	g := &guest{Visit: v, id: v.SessionID}
	f := consumer.FoundSession{}
	f.GuestSession, f.Found, f.Err = a.guests.sessions.FindSession(r.Context(), g.id)
	change, same := f.Meet(v.Client, v.At)
	switch {
	case errors.Is(f.Err, consumer.ErrSessionCleared):
	case f.Err != nil && v.Card.IsZero():
		web.From(r.Context()).Note("sessionStore", "unavailable")
		g.pretend()
		return *g.session, v.WithIP()
	case f.Found && same:
		s := f.Apply(change)
		g.found, g.session = &f, &s
		if !change.IsZero() {
			a.guests.record(g, visits.Record{})
		}
		return s, v.WithIP()
	case !f.Found:
		// Lost or away: an accepted report is a promise, so it is kept under the id, as
		// far as the guest did not refuse.
		s, _ := a.guests.lost(r.Context(), v)
		return s, v.WithIP()
	}
	return consumer.GuestSession{}, v.WithIP()
}

// event is guests.event.
func (a *API) event(r *http.Request, s consumer.GuestSession, f consumer.Fact, now time.Time) (*bff.Event, error) {
	return a.guests.event(r, s, f, now)
}

// setCookies sends the session's id and the card, and nothing else: what was to be
// sent before describes the guest as of then.
func (gs *guests) setCookies(w http.ResponseWriter, s consumer.GuestSession, madeAt time.Time) {
	const life = int(consumer.SessionLifetime / time.Second)
	lines := []string{gs.cookie(consumer.SessionCookie, s.ID.String(), life)}
	if !gs.plainCookies {
		card, err := gs.cards.Mint(consumer.CardOf(s, madeAt))
		if err != nil { // a kept language that is no more: what the guest has stays, for an id counts for nothing without a card
			return
		}
		lines = append(lines, gs.cookie(consumer.CardCookie, card, life))
	}
	w.Header()["Set-Cookie"] = lines
}

// expireCookies takes both cookies back.
func (gs *guests) expireCookies(w http.ResponseWriter) {
	w.Header()["Set-Cookie"] = []string{gs.cookie(consumer.SessionCookie, "", -1), gs.cookie(consumer.CardCookie, "", -1)}
}

func (gs *guests) cookie(name, value string, age int) string {
	c := &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
	c.Secure = !gs.plainCookies // which a deployment refuses at start
	return c.String()
}
