package consumerhttp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/consumer/consumerhttp/visits"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	guestroom "melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/web"
)

// spy notes what is done for sessions.
type spy struct {
	*consumertest.Sessions
	mu    sync.Mutex
	id    bff.ID // of the visit
	notes []string
}

func (s *spy) note(what string, id bff.ID, more ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, what+" "+s.name(id)+fmt.Sprint(more...))
}

func (s *spy) name(id bff.ID) string {
	switch {
	case id.IsZero():
		return "none"
	case id == s.id:
		return "same"
	}
	return "new"
}

func (s *spy) reset(id bff.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.notes = id, nil
}

func (s *spy) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.Sort(s.notes)
	return slices.Compact(s.notes)
}

func text(g consumer.GuestSession) string {
	g.ID = bff.ID{}
	campaign := ""
	if g.Campaign != nil {
		campaign = g.Campaign.Source
	}
	g.Campaign = nil
	return fmt.Sprintf(" %+v %s", g, campaign)
}

func changeText(c consumer.SessionChange) string {
	return fmt.Sprint(" ", c.SeenAt, c.CookieAt, c.Locale, c.Currency, c.Campaign, c.Consent, c.Chosen, c.Prints, c.Rotated)
}

func (s *spy) SaveSession(ctx context.Context, g consumer.GuestSession) error {
	s.note("save", g.ID, text(g))
	return s.Sessions.SaveSession(ctx, g)
}

func (s *spy) RestoreSession(_ context.Context, g consumer.GuestSession) error {
	s.note("restore", g.ID, text(g))
	return nil
}

func (s *spy) UpdateSession(_ context.Context, id bff.ID, c consumer.SessionChange) (bool, error) {
	switch {
	case c.Rotated:
		s.note("rotated", id)
	default:
		s.note("renewed", id, changeText(c))
	}
	return true, nil
}

func (s *spy) RenewSession(_ context.Context, g consumer.GuestSession, _ time.Time) error {
	s.note("renew", g.ID, text(g))
	return nil
}

func (s *spy) AddRefusal(_ context.Context, g consumer.GuestSession, _ time.Time) error {
	s.note("refuse", g.ID, g.Silent)
	return nil
}

func (s *spy) Follow(_ context.Context, steps []consumer.Step) error {
	for _, step := range steps {
		if !step.Touch.IsZero() {
			s.note("touch", step.Guest, changeText(step.Touch))
		}
		if step.Viewed != nil {
			s.note("viewed", step.Guest, step.New)
		}
	}
	return nil
}

func (s *spy) FindTrail(context.Context, bff.ID) (consumer.Trail, error) {
	return consumer.Trail{}, nil
}

func (s *spy) Record(_ context.Context, events ...bff.Event) error {
	for _, e := range events {
		id := bff.ID{}
		if e.Envelope.SessionID != nil {
			id, _ = bff.ParseID(bff.PrefixGuestSession, *e.Envelope.SessionID)
		}
		s.note("event "+e.Envelope.Subject, id)
	}
	return nil
}

func (s *spy) Suspect(_ context.Context, b consumer.BotSuspected, e *bff.Event) error {
	s.note("suspect", b.GuestSessionID, e != nil)
	return nil
}

// effects notes what a decision asks for, as the spy would.
func (s *spy) effects(v *consumer.Visit, d *guestroom.Decision) {
	tell := func(g consumer.GuestSession, subject consumer.Subject) {
		if g.Consent.Telemetry && !g.Unread {
			s.note("event "+string(subject), g.ID)
		}
	}
	for _, e := range d.Effects {
		switch e.Do {
		case guestroom.Count:
			s.note("count", bff.ID{})
		case guestroom.Save:
			s.note("save", e.Session.ID, text(e.Session))
		case guestroom.Refuse:
			s.note("refuse", e.Session.ID, e.Session.Silent)
		case guestroom.Started:
			tell(e.Session, consumer.SubjectSessionStarted)
		case guestroom.Rotated:
			tell(e.Session, consumer.SubjectSessionEnded)
			s.note("rotated", e.Session.ID)
		case guestroom.Suspect:
			s.note("suspect", e.Session.ID, e.Session.Consent.Telemetry)
		case guestroom.Renew:
			s.note("renewed", e.Session.ID, changeText(consumer.SessionChange{SeenAt: v.At, CookieAt: v.At}))
			s.note("renew", e.Session.ID, text(e.Session))
		case guestroom.Touch:
			s.note("touch", d.ID, changeText(e.Change))
		case guestroom.Restore:
			s.note("restore", e.Session.ID, text(e.Session))
			tell(e.Session, consumer.SubjectDetailViewed)
		}
	}
}

// outcome is what a visit leads to.
type outcomeOfVisit struct {
	ID, Session string
	Refused     bool
	Away        bool
	Cookies     []string
	Notes       []string
}

// Both ways of deciding come to the same, in every case.
func TestResolveAsBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stores := &spy{Sessions: consumertest.NewSessions()}
		background := web.NewBackground(web.BackgroundConfig{})
		telemetry := consumer.NewTelemetry("test", func(consumer.Subject) float64 { return 1 })
		a := New(Config{
			Sessions: stores, Cards: consumertest.NewCards(1), Trails: stores, Journal: stores, Suspicions: stores, Telemetry: telemetry, Background: background,
			Now: time.Now,
		})
		s := web.NewServer(web.Config{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Namespace: "test", Budget: 10000 * time.Hour})
		compared := 0
		err := s.Mount(web.Route{Pattern: "GET /x", Kind: web.Internal, Budget: 10000 * time.Hour, Handle: func(_ http.ResponseWriter, r *http.Request) error {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("panic: %v %s", p, debug.Stack())
				}
			}()
			compared = compareAll(t, a, stores, r)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil))
		t.Log(compared, "visits compared")
	})
}

func compareAll(t *testing.T, a *API, stores *spy, r *http.Request) (compared int) {
	mine, base, other, old := consumer.Hash{1}, consumer.Hash{2}, consumer.Hash{3}, consumer.Hash{4}
	const hour, day = time.Hour, 24 * time.Hour
	cards := map[string]func(c *consumer.Card, now time.Time) (astray bool){
		"no id": nil, "no card": nil,
		"fresh":  func(*consumer.Card, time.Time) bool { return false },
		"astray": func(*consumer.Card, time.Time) bool { return true },
		"due":    func(c *consumer.Card, now time.Time) bool { c.MadeAt = now.Add(-25 * hour); return false },
		"other":  func(c *consumer.Card, _ time.Time) bool { c.Locale = bff.LocalePashto; return true },
		"silent": func(c *consumer.Card, _ time.Time) bool { c.Consent.Telemetry, c.Silent = false, true; return false },
		"chosen": func(c *consumer.Card, now time.Time) bool {
			c.Chosen = true
			c.MadeAt = now.Add(-26 * hour)
			return false
		},
	}
	stored := map[string]func(g *consumer.GuestSession, now time.Time){
		"lost": nil, "away": nil, "cleared": nil,
		"just now":   func(g *consumer.GuestSession, now time.Time) { g.LastSeenAt = now.Add(-time.Second) },
		"a while":    func(g *consumer.GuestSession, now time.Time) { g.LastSeenAt = now.Add(-time.Minute) },
		"not yet":    func(g *consumer.GuestSession, now time.Time) { g.LastSeenAt = g.CreatedAt },
		"old cookie": func(g *consumer.GuestSession, now time.Time) { g.CookieAt = now.Add(-25 * hour) },
		"old pepper": func(g *consumer.GuestSession, now time.Time) { g.Fingerprint, g.Base = old, old },
		"bare":       func(g *consumer.GuestSession, now time.Time) { g.Fingerprint = base },
		"chosen":     func(g *consumer.GuestSession, now time.Time) { g.Chosen = true },
		"silent":     func(g *consumer.GuestSession, now time.Time) { g.Silent, g.Consent.Telemetry = true, false },
		"foreign":    func(g *consumer.GuestSession, now time.Time) { g.Fingerprint, g.Base = other, other },
		"rotated":    func(g *consumer.GuestSession, now time.Time) { g.Fingerprint, g.Base, g.Rotated = other, other, true },
	}
	failed := 0
	kept := []string{"nothing", "known", "refused", "silent", "cleared", "away"}
	for cardName, card := range cards {
		for storedName, change := range stored {
			for _, keptName := range kept {
				for flags := range 16 {
					for p := guestroom.Identify; p <= guestroom.Peek; p++ {
						name := fmt.Sprintf("card %s, stored %s, kept %s, flags %04b, purpose %d", cardName, storedName, keptName, flags, p)
						now := time.Now()
						id := bff.NewID(bff.PrefixGuestSession, now.Add(-2*day))
						v := func() *consumer.Visit {
							c := consumer.Client{
								Fingerprint: mine, Base: base, Older: []consumer.Prints{{Fingerprint: old, Base: old}}, Locale: bff.LocaleEnglish, Currency: bff.USD,
								NoTracking: flags&1 != 0,
							}
							if flags&2 != 0 {
								c.Campaign = &consumer.Campaign{Source: "news"}
							}
							v := &consumer.Visit{Client: c, Address: noAddress{}, At: now, Untracked: flags&4 != 0, NoSession: flags&8 != 0}
							if cardName == "no id" {
								return v
							}
							v.SessionID = id
							if card != nil {
								v.Card = consumer.Card{SessionID: id, Locale: bff.LocaleDari, Currency: bff.AFN, Consent: consumer.Consent{Telemetry: true}, MadeAt: now.Add(-hour).Truncate(time.Second)}
								v.Astray = card(&v.Card, now)
								v.Card.MadeAt = v.Card.MadeAt.UTC().Truncate(time.Second)
							}
							return v
						}
						world := func() {
							stores.Sessions = consumertest.NewSessions()
							if change != nil {
								g := consumer.GuestSession{
									ID: id, CreatedAt: id.Time(), LastSeenAt: now, CookieAt: now.Add(-hour), Locale: bff.LocaleDari, Currency: bff.AFN,
									Fingerprint: mine, Base: base, Consent: consumer.Consent{Telemetry: true},
								}
								change(&g, now)
								_ = stores.Sessions.SaveSession(context.Background(), g)
							}
							switch keptName {
							case "known":
								stores.Know(id)
							case "refused", "silent":
								_ = stores.Sessions.AddRefusal(context.Background(), consumer.GuestSession{ID: id, Silent: keptName == "silent"}, now)
							}
							if storedName == "cleared" || keptName == "cleared" {
								before, there := stores.Kept(id)
								_ = stores.PurgeSession(context.Background(), id, nil)
								if storedName != "cleared" {
									stores.Lose()
									if there {
										_ = stores.Sessions.SaveSession(context.Background(), before)
									}
								}
							}
							stores.Away(storedName == "away", keptName == "away")
							stores.reset(id)
						}
						// Deliberate: no session is opened for a visit that is to have none.
						cleared := keptName == "cleared" && storedName == "lost"
						if use := p == guestroom.Use || p == guestroom.Identify; use && v().NoSession && cleared {
							continue
						}
						// Nor is a card sent again that is not the guest's.
						denied := storedName == "foreign" || storedName == "rotated" || storedName == "cleared"
						if denied && cardName != "no id" && p == guestroom.Use && (v().Untracked || v().NoSession && v().Astray) {
							continue
						}
						// A refusal is kept whatever the visit is for.
						if p == guestroom.Report && v().Untracked && v().NoTracking {
							continue
						}
						world()
						want := before(a, stores, r, v(), p)
						world()
						got := after(a, stores, v(), p)
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("%s (-before +after):\n%s", name, diff)
							if failed++; failed == 6 {
								return compared
							}
						}
						compared++
					}
				}
			}
		}
	}
	return compared
}

func settle() {
	<-time.After(time.Second)
	synctest.Wait()
}

func before(a *API, stores *spy, r *http.Request, v *consumer.Visit, p guestroom.Purpose) (out outcomeOfVisit) {
	req := web.From(r.Context())
	req.Local = v
	a.guests.ration = bot.NewRation()
	w := httptest.NewRecorder()
	var session consumer.GuestSession
	var id bff.ID
	switch p {
	case guestroom.Identify:
		g := a.guests.of(w, r)
		id = g.id
		if g.session != nil {
			session = *g.session
		}
		if g.found != nil {
			if change, _ := g.found.Meet(g.Client, g.At); !change.IsZero() {
				a.guests.record(g, visits.Record{})
			}
		}
		out.Refused = g.refused != nil
	case guestroom.Use:
		g := a.guests.of(w, r)
		session = a.guests.session(w, r, g)
		id = g.id
		if g.found != nil {
			if change, _ := g.found.Meet(g.Client, g.At); !change.IsZero() {
				a.guests.record(g, visits.Record{})
			}
		}
		out.Refused = g.refused != nil
	case guestroom.Report:
		session, _ = a.reporter(r)
		id, session.CookieAt = session.ID, time.Time{} // of no interest to a report
	case guestroom.Record:
		if !v.SessionID.IsZero() && !v.Untracked {
			a.recorder.Add(visits.Record{
				Guest: v.SessionID, Visit: v, Viewed: &consumer.RecentlyViewed{},
				Fact: func(g consumer.GuestSession) consumer.Fact { return consumer.DetailViewed{GuestSessionID: g.ID} },
			})
		}
	case guestroom.Peek:
		session = a.guests.glance(r)
		session = consumer.GuestSession{Locale: session.Locale, Currency: session.Currency}
	}
	settle()
	if v.Opened() {
		stores.note("count", bff.ID{})
	}
	out.ID = stores.name(id)
	out.Session = stores.name(session.ID) + text(session)
	for _, c := range (&http.Response{Header: w.Header()}).Cookies() {
		if c.Name != consumer.CardCookie {
			continue
		}
		card, err := a.cfg.Cards.Verify(c.Value, v.At)
		if err != nil {
			panic(err)
		}
		out.Cookies = append(out.Cookies, cardText(stores, card))
	}
	out.Notes = stores.taken()
	return out
}

func cardText(stores *spy, c consumer.Card) string {
	name := stores.name(c.SessionID)
	c.SessionID = bff.ID{}
	return name + fmt.Sprintf(" %+v", c)
}

func after(a *API, stores *spy, v *consumer.Visit, p guestroom.Purpose) (out outcomeOfVisit) {
	d := guestroom.Decision{}
	if p != guestroom.Record || !v.SessionID.IsZero() && !v.Untracked {
		d = guestroom.Decide(context.Background(), stores, v, guestroom.Known{}, p)
	}
	if p == guestroom.Use && !d.Resolved() {
		panic("unresolved")
	}
	id, session := d.ID, d.Session
	switch p {
	case guestroom.Peek:
		id, session = bff.ID{}, consumer.GuestSession{Locale: session.Locale, Currency: session.Currency}
	case guestroom.Report:
		session.CookieAt = time.Time{}
	case guestroom.Record: // what of it counts is in the effects
		id, session = bff.ID{}, consumer.GuestSession{}
	}
	stores.effects(v, &d)
	if p == guestroom.Record && !v.SessionID.IsZero() && !v.Untracked { // the step is written before what is kept is read
		f := stores.FindSessions(context.Background(), []bff.ID{v.SessionID})
		if first := guestroom.Resolve(v, guestroom.Known{Stored: &f[0]}, p); !first.ID.IsZero() {
			stores.note("viewed", first.ID, first.Session.Unread || !first.Session.Returned())
		}
	}
	if p == guestroom.Record && d.Resolved() && !d.Session.Unread && d.Session.Consent.Telemetry {
		stores.note("event "+string(consumer.SubjectDetailViewed), d.Session.ID)
	}
	out.ID, out.Session, out.Refused = stores.name(id), stores.name(session.ID)+text(session), d.Refused
	if !d.Cookies.Card.IsZero() {
		out.Cookies = append(out.Cookies, cardText(stores, d.Cookies.Card))
	}
	out.Notes = stores.taken()
	return out
}
