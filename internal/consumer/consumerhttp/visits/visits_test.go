package visits

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/consumer/telemetry"
	"melmastoon.ghasi.io/bff/internal/web"
)

// diary keeps what was recorded.
type diary struct {
	mu     sync.Mutex
	steps  []guest.Step
	events []bff.Event
}

func (d *diary) Follow(_ context.Context, steps []guest.Step) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = append(d.steps, steps...)
	return nil
}

func (*diary) FindTrail(context.Context, bff.ID) (guest.Trail, error) {
	return guest.Trail{}, nil
}

func (d *diary) Record(_ context.Context, events ...bff.Event) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, events...)
	return nil
}

// The refusal that a browser's header makes is kept where it outlives the session, and
// no event of the visit leaves, unless the guest has answered the banner. Another
// client's header says nothing of the guest.
func TestBrowsersRefusalIsKept(t *testing.T) {
	t.Parallel()
	mine, other := consumer.Hash{1}, consumer.Hash{2}
	for name, tc := range map[string]struct {
		noTracking, chosen, refused bool
		from                        consumer.Hash
		wantRefused, wantTouched    bool
		wantEvents, wantSteps       int
	}{
		"no header":              {from: mine, wantEvents: 1, wantSteps: 1},
		"header":                 {from: mine, noTracking: true, wantRefused: true, wantTouched: true, wantSteps: 1},
		"header, but chosen":     {from: mine, noTracking: true, chosen: true, wantEvents: 1, wantSteps: 1},
		"header, refused before": {from: mine, noTracking: true, chosen: true, refused: true, wantSteps: 1},
		"another client's":       {from: other, noTracking: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d, sessions, background := &diary{}, consumertest.NewSessions(), web.NewBackground(web.BackgroundConfig{})
				r := New(Config{
					Sessions: sessions, Trails: d, Journal: d, Background: background,
					Telemetry: consumer.NewTelemetry("test", func(consumer.Subject) float64 { return 1 }),
				})
				first := &consumer.Visit{At: time.Now(), Fingerprint: mine, Base: mine, Locale: bff.LocaleEnglish, Currency: bff.USD}
				s := consumer.NewGuestSession(bff.NewID(bff.PrefixGuestSession, time.Now()), first)
				s.Chosen, s.Consent.Telemetry = tc.chosen, !tc.refused
				if err := sessions.SaveSession(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				<-time.After(time.Second)
				r.Add(Record{
					Guest: s.ID, Visit: &consumer.Visit{At: time.Now(), SessionID: s.ID, Fingerprint: tc.from, Base: tc.from, NoTracking: tc.noTracking},
					Fact: func(consumer.GuestSession) consumer.Fact { return telemetry.DetailViewed{GuestSessionID: s.ID} },
				})
				if err := r.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := background.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				kept, err := sessions.FindRefusal(t.Context(), s.ID)
				if err != nil || kept.Refused != tc.wantRefused {
					t.Errorf("kept %+v, %v; want refused %t", kept, err, tc.wantRefused)
				}
				if len(d.events) != tc.wantEvents || len(d.steps) != tc.wantSteps {
					t.Fatalf("%d events, %d steps; want %d, %d", len(d.events), len(d.steps), tc.wantEvents, tc.wantSteps)
				}
				for _, step := range d.steps {
					if touched := step.Touch.Consent != nil; touched != tc.wantTouched || touched && step.Touch.Consent.Telemetry {
						t.Errorf("the session's consent becomes %+v", step.Touch.Consent)
					}
				}
			})
		})
	}
}
