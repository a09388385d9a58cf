package consumerhttp

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/web"
)

const cookieName = "gms_id"

// Guest is whoever sent a request. Who it is is known from the cookie at once;
// the session is read when somebody asks for it, or behind the answer.
type Guest struct {
	// Visitor is what the request says of itself.
	Visitor consumer.Visitor

	api *API
	w   http.ResponseWriter
	r   *http.Request
	id  bff.ID
	now time.Time

	read    func() found           // once, by the handler or behind it
	session *consumer.GuestSession // as Session returned it
}

type found struct {
	session consumer.GuestSession
	ok      bool
	err     error
}

// guestOf returns the guest of a request. A newcomer's session is saved before
// the answer; everybody else's is touched behind it.
func (a *API) guestOf(w http.ResponseWriter, r *http.Request) (*Guest, error) {
	now := a.cfg.Now()
	g := &Guest{Visitor: a.visit(r).Visitor, api: a, w: w, r: r, now: now}
	id, err := cookie(w, r)
	if err != nil {
		return nil, err
	}
	if id.IsZero() {
		g.open(bff.NewID(bff.PrefixGuestSession, now))
		a.tellBehind(r, *g.session, g.session.Started(g.Visitor), now)
		return g, nil
	}
	g.id = id
	// The store has a deadline of its own: a read that another goroutine waits
	// for must not die with the request that began it.
	ctx := context.WithoutCancel(r.Context())
	g.read = sync.OnceValue(func() found {
		s, ok, err := a.cfg.Sessions.FindSession(ctx, id)
		return found{s, ok, err}
	})
	a.behind(g.touch)
	return g, nil
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
	f := g.read()
	switch {
	case errors.Is(f.err, consumer.ErrSessionCleared):
		g.open(bff.NewID(bff.PrefixGuestSession, g.now))
		g.api.tellBehind(g.r, *g.session, g.session.Started(g.Visitor), g.now)
	case f.err != nil:
		// Without the session store a guest can still look: the session is what
		// this request says of itself, and nothing of it is kept.
		web.From(g.r.Context()).Note("sessionStore", "unavailable")
		s := consumer.NewGuestSession(g.id, g.Visitor, g.now)
		s.Unread = true
		g.session = &s
	case !f.ok:
		g.open(g.id)
	default:
		change, same := f.session.Meet(g.Visitor, g.now)
		if !same {
			g.rotate(f.session)
			break
		}
		s := f.session.Apply(change)
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

// later returns the session for work behind the answer: as the handler had it,
// or read then.
func (g *Guest) later() func() (consumer.GuestSession, bool) {
	session := g.session
	return func() (consumer.GuestSession, bool) {
		if session != nil {
			return *session, true
		}
		f := g.read()
		if f.err != nil || !f.ok {
			return consumer.GuestSession{}, false
		}
		change, same := f.session.Meet(g.Visitor, g.now)
		return f.session.Apply(change), same
	}
}

// touch records the visit behind the answer. The cookie's age is not its
// business: it does not know whether the answer carries one.
func (g *Guest) touch(ctx context.Context) {
	f := g.read()
	if f.err != nil || !f.ok {
		return
	}
	change, same := f.session.Meet(g.Visitor, g.now)
	change.CookieAt = time.Time{}
	if !same || change.IsZero() {
		return
	}
	_, _ = g.api.cfg.Sessions.UpdateSession(ctx, f.session.ID, change) // the next visit records as well
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
	a, r, v := g.api, g.r, g.Visitor
	a.tellBehind(r, *g.session, g.session.Started(v), g.now)
	if !old.Rotated { // announced once, however often the cookie is tried
		a.tellBehind(r, old, old.Ended(consumer.EndedByRotation, g.now), g.now)
		a.behind(func(ctx context.Context) {
			_, _ = a.cfg.Sessions.UpdateSession(ctx, old.ID, consumer.SessionChange{Rotated: true}) // announced again next time
		})
	}
	b := consumer.BotSuspected{
		GuestSessionID: g.id, Score: mismatchWeight, Verdict: "suspect",
		Signals: []consumer.BotSignal{{Kind: "header-anomaly", Weight: mismatchWeight, Detail: "fingerprint-mismatch"}},
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
	return s, g.Visitor, err
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
