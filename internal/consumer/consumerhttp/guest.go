package consumerhttp

import (
	"context"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp/visits"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/memo"
	"melmastoon.ghasi.io/bff/internal/web"
)

// guests carries out what requests do to sessions.
type guests struct {
	sessions   guest.Sessions
	cards      *guest.Cards
	suspicions bot.Suspicions
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

// resolve decides what a request does to its guest's session and carries it out, but
// for what record writes. It is for the goroutine that answers, and before the answer
// begins, because it may set the cookies.
func (gs *guests) resolve(w http.ResponseWriter, r *http.Request, p guest.Purpose) guest.Decision {
	v := visitOf(r)
	d := guest.Decide(r.Context(), gs.sessions, v, guest.Known{}, p)
	if d.Away { // without the session store a guest can still look
		web.From(r.Context()).Note("sessionStore", "unavailable")
	}
	if !d.Cookies.Card.IsZero() && !(gs.plainCookies && d.Cookies.CardOnly) {
		gs.setCookies(w, d.Cookies.Card)
	}
	for i := range d.Effects {
		gs.carryOut(r, v, d.Effects[i])
	}
	return d
}

// carryOut does what a decision asks for. What is done in the background happens again
// with the guest's next request, if it fails.
func (gs *guests) carryOut(r *http.Request, v *consumer.Visit, e guest.Effect) {
	s, at := e.Session, v.At
	switch e.Do {
	case guest.Count:
		v.Open()
	case guest.Save:
		if err := gs.sessions.SaveSession(r.Context(), s); err != nil {
			web.From(r.Context()).Note("sessionStore", "unavailable")
		}
	case guest.Refuse:
		gs.background.DoFor(r.Context(), func(ctx context.Context) { _ = gs.sessions.AddRefusal(ctx, s, at) })
	case guest.Started:
		gs.announce(r, s, guest.NewSessionStarted(s, v), at)
	case guest.Rotated:
		gs.announce(r, s, guest.NewSessionEnded(s, guest.EndedByRotation, at), at)
		gs.background.DoFor(r.Context(), func(ctx context.Context) {
			_, _ = gs.sessions.UpdateSession(ctx, s.ID, consumer.SessionChange{Rotated: true})
		})
	case guest.Suspect:
		gs.suspect(r, v, s)
	case guest.Renew:
		gs.background.DoFor(r.Context(), func(ctx context.Context) {
			_, _ = gs.sessions.UpdateSession(ctx, s.ID, consumer.SessionChange{SeenAt: at, CookieAt: at})
			_ = gs.sessions.RenewSession(ctx, s, at)
		})
	case guest.Touch, guest.Restore: // the recorder's
	}
}

// mismatchWeight is how much a cookie from another browser says about its client.
const mismatchWeight = 0.5

// suspect logs a client that sent another browser's cookie, and got a session of its own.
func (gs *guests) suspect(r *http.Request, v *consumer.Visit, s consumer.GuestSession) {
	b := bot.BotSuspected{
		GuestSessionID: s.ID, Score: mismatchWeight, Verdict: string(bot.Suspect),
		Signals: []bot.Signal{{Kind: bot.SignalHeaders, Weight: mismatchWeight, Detail: "fingerprint-mismatch"}},
		IPHash:  v.IP(), UserAgentHash: v.UserAgent, FingerprintHash: v.Fingerprint, EvaluatedAt: bff.At(v.At), ActionTaken: string(bot.ActionNone),
	}
	if e, err := gs.event(r, s, b, v.At); err == nil && gs.ration.Take(v.At.UnixMilli()) {
		gs.background.DoFor(r.Context(), func(ctx context.Context) { _ = gs.suspicions.Suspect(ctx, b, e) }) // seen again when it happens again
	}
}

// choice returns the language and currency of a guest: the card's, or else the
// session's, which is read for it.
func (gs *guests) choice(w http.ResponseWriter, r *http.Request, d *guest.Decision) (bff.Locale, bff.Currency) {
	if !d.Resolved() {
		if card := visitOf(r).Card; !card.IsZero() {
			return card.Locale, card.Currency
		}
		*d = gs.resolve(w, r, guest.Use)
	}
	return d.Session.Locale, d.Session.Currency
}

// record has the visit recorded in the background.
func (gs *guests) record(v *consumer.Visit, d *guest.Decision, rec visits.Record) {
	if v.Untracked || d.ID.IsZero() {
		return
	}
	rec.Guest, rec.Visit = d.ID, v
	if d.Resolved() {
		made := *d
		rec.Decision = &made
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

// retryOpening is when the network of a guest may open sessions again.
const retryOpening = time.Minute

// guest returns the session of a request that shows or changes it.
func (a *API) guest(w http.ResponseWriter, r *http.Request) (consumer.GuestSession, error) {
	d := a.guests.resolve(w, r, guest.Use)
	if d.Refused {
		return consumer.GuestSession{}, &bff.Error{
			Code: bff.CodeRateLimited, Detail: "too many new sessions were opened from this network: wait and try again", RetryAfter: retryOpening,
		}
	}
	a.touched(r, &d)
	return d.Session, nil
}

// reporter returns the session of a request that reports something; it is zero if
// there is none that the report could belong to.
func (a *API) reporter(w http.ResponseWriter, r *http.Request) consumer.GuestSession {
	d := a.guests.resolve(w, r, guest.Report)
	a.touched(r, &d)
	return d.Session
}

// touched has it recorded that a session was used, if that is worth a write.
func (a *API) touched(r *http.Request, d *guest.Decision) {
	if touch := d.Touch(); !touch.IsZero() {
		a.guests.record(visitOf(r), d, visits.Record{})
	}
}

// event is guests.event.
func (a *API) event(r *http.Request, s consumer.GuestSession, f consumer.Fact, now time.Time) (*bff.Event, error) {
	return a.guests.event(r, s, f, now)
}

// setCookies sends the session's id and the card, and nothing else: what was to be
// sent before describes the guest as of then.
func (gs *guests) setCookies(w http.ResponseWriter, c consumer.Card) {
	const life = int(consumer.SessionLifetime / time.Second)
	lines := []string{gs.cookie(consumer.SessionCookie, c.SessionID.String(), life)}
	if !gs.plainCookies {
		card, err := gs.cards.Mint(c)
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
