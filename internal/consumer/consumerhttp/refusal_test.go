package consumerhttp

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
)

// A browser that asks not to be tracked is not tracked again when the session is lost:
// its refusal is kept apart from the session, whether it came with the first request, with
// a later one or with one after the loss. What the guest has chosen counts more.
func TestBrowsersRefusalOutlivesTheSession(t *testing.T) {
	t.Parallel()
	mine := consumer.Hash{1}
	for name, tc := range map[string]struct {
		first, later, chosen, lost bool // the header of each request; what the guest chose in between; the loss
		want                       guest.Refusal
	}{
		"never":           {},
		"from the first":  {first: true, want: guest.Refusal{Refused: true, Silent: true}},
		"later":           {later: true, want: guest.Refusal{Refused: true}},
		"after the loss":  {later: true, lost: true, want: guest.Refusal{Refused: true}},
		"but has chosen":  {later: true, chosen: true},
		"chosen and lost": {later: true, chosen: true, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sessions := consumertest.NewSessions()
				card, header := consumer.Card{}, tc.first
				send := anyVisit(t, &ledgerOfSessions{Sessions: sessions}, func() *consumer.Visit {
					return &consumer.Visit{
						Fingerprint: mine, Base: mine, Locale: bff.LocaleEnglish, Currency: bff.USD, NoTracking: header,
						At: time.Now(), SessionID: card.SessionID, Card: card,
					}
				}, sessions)
				ask := func(method, path, body string) {
					t.Helper()
					w := send(method, path, body)
					for _, c := range (&http.Response{Header: w.Header()}).Cookies() {
						if c.Name != consumer.CardCookie {
							continue
						}
						var err error
						if card, err = consumertest.NewCards(1).Verify(c.Value, time.Now()); err != nil {
							t.Fatal(err)
						}
					}
					if w.Code != http.StatusOK {
						t.Fatalf("%s: %d %s", path, w.Code, w.Body)
					}
					<-time.After(time.Second) // what is after the response
				}
				ask(http.MethodGet, "/session", "")
				if tc.chosen {
					ask(http.MethodPost, "/session/consent", `{"telemetry":true}`)
				}
				if tc.lost {
					sessions.Lose()
				}
				header = tc.later || tc.first
				ask(http.MethodGet, "/session", "")
				kept, err := sessions.FindRefusal(t.Context(), card.SessionID)
				if err != nil || kept != tc.want {
					t.Errorf("kept %+v, %v; want %+v", kept, err, tc.want)
				}
				if card.Consent.Telemetry == tc.want.Refused {
					t.Errorf("the card says %+v", card)
				}
			})
		})
	}
}
