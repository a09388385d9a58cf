package consumerhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/web"
)

// guests finds and opens the sessions of guests.
type guests struct {
	sessions   consumer.Sessions
	suspicions consumer.Suspicions
	journal    consumer.Journal
	telemetry  *consumer.Telemetry
	background *web.Background
	recorder   *recorder
	ration     *bot.Ration // of verdicts that are logged

	// State of guests, for a moment: what each asked for last, and saw last.
	lastSearch *memo.Memo[[16]byte, lastSearch]
	lastView   *memo.Memo[[16]byte, lastView]
}

// maxGuests bounds how many guests have such state.
const maxGuests = 1 << 13

func newGuests(cfg Config, rec *recorder) *guests {
	return &guests{
		sessions: cfg.Sessions, suspicions: cfg.Suspicions, journal: cfg.Journal, telemetry: cfg.Telemetry,
		background: cfg.Background, recorder: rec, ration: cfg.Ration,
		lastSearch: memo.New[[16]byte, lastSearch](maxGuests), lastView: memo.New[[16]byte, lastView](maxGuests),
	}
}

// guest is the sender of a request. Its id is known from the cookie at once; its
// session is read when a handler needs it, or in the background.
type guest struct {
	*consumer.Visit

	id      bff.ID                 // changes when the cookie turns out to be another client's
	found   *consumer.FoundSession // as it was, once it was looked for
	session *consumer.GuestSession // as guests.session returned it
	refused error                  // why it has no session that may be changed
}

// of returns the guest of a request. A newcomer's session is saved before the
// answer, unless the visit is not tracked.
func (gs *guests) of(w http.ResponseWriter, r *http.Request) (*guest, error) {
	v := visitOf(r)
	g := &guest{Visit: v, id: v.SessionID}
	switch {
	case v.BadCookie:
		return nil, refuseCookie(w)
	case !g.id.IsZero():
	case g.Untracked:
		g.pretend()
	case g.NoSession:
		g.refuse()
	default:
		gs.open(w, r, g)
	}
	return g, nil
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

// pretend makes a session of what the request says of itself; nothing of it is
// kept.
func (g *guest) pretend() {
	s := consumer.NewGuestSession(g.id, g.Client, g.At)
	s.Unread = true
	g.session = &s
}

// glance returns what a request's guest has chosen, for answers that only depend
// on it: no session is opened or changed for their sake. Of a client without one
// it is what the request itself suggests.
func (gs *guests) glance(r *http.Request) consumer.GuestSession {
	v := visitOf(r)
	if !v.SessionID.IsZero() && !v.BadCookie && !v.Untracked {
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

// session returns the guest's session. It is for the goroutine that answers the
// request and before the answer begins, because it may set the cookie.
//
// A session whose blob is gone comes back empty under the same cookie; one that
// belongs to another browser is left alone, and the guest gets a new one.
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
	case f.Err == nil && !f.Found && g.NoSession, errors.Is(f.Err, consumer.ErrSessionCleared):
		g.refuse()
	case f.Err != nil:
		// Without the session store a guest can still look.
		web.From(r.Context()).Note("sessionStore", "unavailable")
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
		if !change.CookieAt.IsZero() {
			setCookie(w, s.ID)
			sent := consumer.SessionChange{SeenAt: g.At, CookieAt: g.At}
			gs.background.Do(func(ctx context.Context) {
				_, _ = gs.sessions.UpdateSession(ctx, s.ID, sent) // sent again next time
				_ = gs.sessions.RenewSession(ctx, s, g.At)        // and renewed tomorrow
			})
		}
		if change.Consent != nil {
			gs.keepRefusal(s, g.At)
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

// restore saves a session anew whose blob is gone: empty, but for the guest's
// refusal of telemetry. As long as that cannot be read the session stays unread,
// and nothing is saved that would count the guest.
func (gs *guests) restore(w http.ResponseWriter, r *http.Request, g *guest) {
	s := consumer.NewGuestSession(g.id, g.Client, g.At).Resolve(r.Context(), gs.sessions)
	if s.Unread {
		web.From(r.Context()).Note("sessionStore", "unavailable")
		g.session = &s
		return
	}
	gs.save(w, r, g, s)
}

// save saves a session and sends its cookie.
func (gs *guests) save(w http.ResponseWriter, r *http.Request, g *guest, s consumer.GuestSession) {
	g.id, g.session = s.ID, &s
	g.Open()
	setCookie(w, s.ID)
	if err := gs.sessions.SaveSession(r.Context(), s); err != nil {
		web.From(r.Context()).Note("sessionStore", "unavailable")
	}
	if !s.Consent.Telemetry {
		gs.keepRefusal(s, g.At)
	}
}

// keepRefusal keeps a refusal that a browser's header made, in the background: the
// browser sends the header again.
func (gs *guests) keepRefusal(s consumer.GuestSession, at time.Time) {
	gs.background.Do(func(ctx context.Context) { _ = gs.sessions.AddRefusal(ctx, s, at) }) // said above
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
		gs.background.Do(func(ctx context.Context) {
			_, _ = gs.sessions.UpdateSession(ctx, old.ID, consumer.SessionChange{Rotated: true}) // announced again next time
		})
	}
	b := consumer.BotSuspected{
		GuestSessionID: g.id, Score: mismatchWeight, Verdict: string(bot.Suspect),
		Signals: []bot.Signal{{Kind: bot.SignalHeaders, Weight: mismatchWeight, Detail: "fingerprint-mismatch"}},
		IPHash:  g.Address.Hash(), UserAgentHash: g.UserAgent, FingerprintHash: g.Fingerprint, EvaluatedAt: bff.At(g.At), ActionTaken: string(bot.ActionNone),
	}
	if e, err := gs.event(r, *g.session, b, g.At); err == nil && gs.ration.Take(g.At.UnixMilli()) {
		gs.background.Do(func(ctx context.Context) { _ = gs.suspicions.Suspect(ctx, b, e) }) // seen again when it happens again
	}
}

// record has the visit recorded in the background. A session that was opened just
// now knows of it.
func (gs *guests) record(g *guest, rec visitRecord) {
	if g.Untracked || g.id.IsZero() {
		return
	}
	rec.guest, rec.visit, rec.found = g.id, g.Visit, g.found
	if g.session != nil && g.found == nil { // opened just now, or unknown
		rec.found = &consumer.FoundSession{GuestSession: *g.session, Found: !g.session.Unread}
	}
	gs.recorder.add(rec)
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
	gs.background.Do(func(ctx context.Context) {
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
	g, err := a.guests.of(w, r)
	if err != nil {
		return consumer.GuestSession{}, consumer.Client{}, err
	}
	s := a.guests.session(w, r, g)
	if g.refused != nil {
		return consumer.GuestSession{}, consumer.Client{}, g.refused
	}
	if g.found != nil {
		if change, _ := g.found.Meet(g.Client, g.At); !change.IsZero() {
			a.guests.record(g, visitRecord{})
		}
	}
	return s, g.WithIP(), nil
}

// reporter returns the session of a request that reports something, and its
// client; the session is zero if there is none that the report could belong to.
// Pages report by themselves and without end: no session is opened for it, or
// opened again.
func (a *API) reporter(w http.ResponseWriter, r *http.Request) (consumer.GuestSession, consumer.Client, error) {
	v := visitOf(r)
	switch {
	case v.BadCookie:
		return consumer.GuestSession{}, consumer.Client{}, refuseCookie(w)
	case v.SessionID.IsZero():
		return consumer.GuestSession{}, v.WithIP(), nil
	}
	g := &guest{Visit: v, id: v.SessionID}
	f := consumer.FoundSession{}
	f.GuestSession, f.Found, f.Err = a.guests.sessions.FindSession(r.Context(), g.id)
	change, same := f.Meet(v.Client, v.At)
	switch {
	case errors.Is(f.Err, consumer.ErrSessionCleared):
	case f.Err != nil:
		web.From(r.Context()).Note("sessionStore", "unavailable")
		g.pretend()
		return *g.session, v.WithIP(), nil //nolint:nilerr // the session says that it is unread
	case f.Found && same:
		s := f.Apply(change)
		g.found, g.session = &f, &s
		if !change.IsZero() {
			a.guests.record(g, visitRecord{})
		}
		return s, v.WithIP(), nil
	case !f.Found:
		// Lost with Redis, or made up: an accepted report is a promise, so it is kept
		// under the id, as far as the guest did not refuse.
		s := consumer.NewGuestSession(g.id, v.Client, v.At).Resolve(r.Context(), a.guests.sessions)
		return s, v.WithIP(), nil
	}
	return consumer.GuestSession{}, v.WithIP(), nil
}

// event is guests.event.
func (a *API) event(r *http.Request, s consumer.GuestSession, f consumer.Fact, now time.Time) (*bff.Event, error) {
	return a.guests.event(r, s, f, now)
}

// refuseCookie refuses a malformed cookie and takes it back, so that the next
// request begins anew instead of failing for thirty days.
func refuseCookie(w http.ResponseWriter) error {
	expireCookie(w)
	return bff.FieldErrors{{Field: "cookie." + consumer.SessionCookie, Code: bff.FieldFormat}}.Err()
}

func setCookie(w http.ResponseWriter, id bff.ID) {
	http.SetCookie(w, &http.Cookie{
		Name: consumer.SessionCookie, Value: id.String(), Path: "/", MaxAge: int(consumer.SessionLifetime / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

func expireCookie(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{
		Name: consumer.SessionCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}
