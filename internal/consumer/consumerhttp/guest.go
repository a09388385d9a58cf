package consumerhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/web"
)

const cookieName = "gms_id"

// Guest is whoever sent a request. Who it is is known from the cookie at once;
// the session is read when somebody asks for it, or behind the answer.
type Guest struct {
	*visit

	api *API
	w   http.ResponseWriter
	r   *http.Request
	id  bff.ID
	now time.Time

	found   *consumer.FoundSession // as it was, once somebody looked
	session *consumer.GuestSession // as Session returned it
}

// guestOf returns the guest of a request. A newcomer's session is saved before
// the answer, unless the visit is to leave no trace.
func (a *API) guestOf(w http.ResponseWriter, r *http.Request) (*Guest, error) {
	v := a.visit(r)
	now := v.now
	g := &Guest{visit: v, api: a, w: w, r: r, now: now, id: v.guest}
	if g.id.IsZero() {
		var err error
		if g.id, err = cookie(w, r); err != nil {
			return nil, err
		}
	}
	switch {
	case !g.id.IsZero():
	case g.unsung:
		g.pretend()
	default:
		g.open(bff.NewID(bff.PrefixGuestSession, now))
		a.tellBehind(r, *g.session, g.session.Started(a.withIP(r, g.Visitor)), now)
	}
	return g, nil
}

// pretend makes do with what the request says of itself, and nothing of it is
// kept.
func (g *Guest) pretend() {
	s := consumer.NewGuestSession(g.id, g.Visitor, g.now)
	s.Unread = true
	g.session = &s
}

// remember notes the visit, to be recorded behind the answer. A session that
// was opened just now knows of it.
func (g *Guest) remember(n note) {
	if g.unsung || g.id.IsZero() {
		return
	}
	n.guest, n.visit, n.found, n.at = g.id, g.visit, g.found, g.now
	switch {
	case g.session == nil: // to be read behind the answer
	case g.found == nil: // opened just now, or nobody knows
		n.found = &consumer.FoundSession{GuestSession: *g.session, Found: !g.session.Unread}
	}
	g.api.recorder.add(n)
}

// ID is the guest's session id. It may change when Session finds that the
// cookie is somebody else's.
func (g *Guest) ID() bff.ID { return g.id }

// Session returns the guest's session. It is for the goroutine that answers
// the request and before the answer begins, because it may set the cookie.
//
// A session whose blob is gone comes back empty under the same cookie; one that
// belongs to another browser is left alone, and the guest gets a new one.
func (g *Guest) Session(context.Context) (consumer.GuestSession, error) {
	if g.session != nil {
		return *g.session, nil
	}
	// The store has a deadline of its own.
	f := consumer.FoundSession{}
	f.GuestSession, f.Found, f.Err = g.api.cfg.Sessions.FindSession(g.r.Context(), g.id)
	switch {
	case errors.Is(f.Err, consumer.ErrSessionCleared):
		g.open(bff.NewID(bff.PrefixGuestSession, g.now))
		g.api.tellBehind(g.r, *g.session, g.session.Started(g.api.withIP(g.r, g.Visitor)), g.now)
	case f.Err != nil:
		// Without the session store a guest can still look.
		web.From(g.r.Context()).Note("sessionStore", "unavailable")
		g.pretend()
	case !f.Found:
		g.open(g.id)
	default:
		change, same := f.Meet(g.Visitor, g.now)
		if !same {
			g.rotate(f.GuestSession)
			break
		}
		g.found = &f
		s := f.Apply(change)
		s.LastSeenAt = g.now
		if !change.CookieAt.IsZero() {
			setCookie(g.w, s.ID)
			g.api.behind(func(ctx context.Context) {
				_, _ = g.api.cfg.Sessions.UpdateSession(ctx, s.ID, consumer.SessionChange{SeenAt: g.now, CookieAt: g.now}) // sent again next time
			})
		}
		g.session = &s
	}
	return *g.session, nil
}

// open saves a new session and sends its cookie.
func (g *Guest) open(id bff.ID) {
	s := consumer.NewGuestSession(id, g.Visitor, g.now)
	g.id, g.session = id, &s
	setCookie(g.w, id)
	if err := g.api.cfg.Sessions.SaveSession(g.r.Context(), s); err != nil {
		web.From(g.r.Context()).Note("sessionStore", "unavailable")
	}
}

// mismatchWeight is how much a cookie from another browser says about its bearer.
const mismatchWeight = 0.5

// rotate gives a new session to whoever came with another browser's cookie.
// The old session keeps its fingerprint and its wishlist: were it deleted, the
// thief's second request would find it gone and open it anew as their own.
func (g *Guest) rotate(old consumer.GuestSession) {
	g.open(bff.NewID(bff.PrefixGuestSession, g.now))
	a, r := g.api, g.r
	v := a.withIP(r, g.Visitor)
	a.tellBehind(r, *g.session, g.session.Started(v), g.now)
	if !old.Rotated { // announced once, however often the cookie is tried
		a.tellBehind(r, old, old.Ended(consumer.EndedByRotation, g.now), g.now)
		a.behind(func(ctx context.Context) {
			_, _ = a.cfg.Sessions.UpdateSession(ctx, old.ID, consumer.SessionChange{Rotated: true}) // announced again next time
		})
	}
	b := consumer.BotSuspected{
		GuestSessionID: g.id, Score: mismatchWeight, Verdict: "suspect",
		Signals: []bot.Signal{{Kind: "header-anomaly", Weight: mismatchWeight, Detail: "fingerprint-mismatch"}},
		IPHash:  v.IP, UserAgentHash: v.UserAgent, FingerprintHash: v.Fingerprint, EvaluatedAt: bff.At(g.now), ActionTaken: "none",
	}
	if e, err := a.event(r, *g.session, b, g.now); err == nil {
		a.behind(func(ctx context.Context) { _ = a.cfg.Suspicions.Suspect(ctx, b, e) }) // seen again when it happens again
	}
}

// guest is guestOf and its session, for routes that need both at once.
func (a *API) guest(w http.ResponseWriter, r *http.Request) (consumer.GuestSession, consumer.Visitor, error) {
	g, err := a.guestOf(w, r)
	if err != nil {
		return consumer.GuestSession{}, consumer.Visitor{}, err
	}
	s, err := g.Session(r.Context())
	if g.found != nil {
		if change, _ := g.found.Meet(g.Visitor, g.now); !change.IsZero() {
			g.remember(note{})
		}
	}
	return s, a.withIP(r, g.Visitor), err
}

// tellBehind journals telemetry that no client was promised, behind the answer.
func (a *API) tellBehind(r *http.Request, s consumer.GuestSession, f consumer.Fact, now time.Time) {
	e, err := a.event(r, s, f, now)
	if err != nil || e == nil {
		return
	}
	a.behind(func(ctx context.Context) {
		_ = a.cfg.Journal.Record(ctx, *e) // counted by the journal
	})
}

// cookie reads the session id. A malformed one is refused and taken back, so
// that the next request begins anew instead of failing for thirty days.
func cookie(w http.ResponseWriter, r *http.Request) (bff.ID, error) {
	cookies := r.CookiesNamed(cookieName)
	if len(cookies) == 0 {
		return bff.ID{}, nil
	}
	id, err := bff.ParseID(bff.PrefixGuestSession, cookies[0].Value)
	for _, c := range cookies[1:] {
		if c.Value != cookies[0].Value { // two sessions in one request: somebody planted one
			err = bff.ErrID
		}
	}
	if err != nil {
		expireCookie(w)
		return bff.ID{}, bff.FieldErrors{{Field: "cookie." + cookieName, Code: bff.FieldFormat}}.Err()
	}
	return id, nil
}

func setCookie(w http.ResponseWriter, id bff.ID) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: id.String(), Path: "/", MaxAge: int(consumer.SessionLifetime / time.Second),
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}

func expireCookie(w http.ResponseWriter) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}
