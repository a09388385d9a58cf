package backofficed

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// listen follows a desk's stream until the test ends. It returns once the stream is open.
func (s *staff) listen(d *desk.Client) <-chan desk.Event {
	s.t.Helper()
	ctx, stop := context.WithCancel(testkit.Context(s.t))
	events := make(chan desk.Event, 1000)
	var wg sync.WaitGroup
	wg.Go(func() {
		err := d.Follow(ctx, "/sse/stream", func(e desk.Event) error {
			events <- e
			return nil
		})
		refused, ok := errors.AsType[*desk.Refusal](err)
		if !errors.Is(err, context.Canceled) && (!ok || !strings.HasSuffix(refused.Code, ".SESSION_REVOKED")) { // which ends it
			s.t.Errorf("stream: %v", err)
		}
	})
	s.t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	s.await(events, "")
	return events
}

// await returns the data of events up to the first whose channel is given and whose data
// have all of the texts.
func (s *staff) await(events <-chan desk.Event, channel string, texts ...string) []string {
	s.t.Helper()
	var seen []string
	for {
		select {
		case e := <-events:
			seen = append(seen, e.Data)
			found := channel == "" || e.Name == channel
			for _, text := range texts {
				found = found && strings.Contains(e.Data, text)
			}
			if found {
				return seen
			}
		case <-testkit.Context(s.t).Done():
			s.t.Fatalf("no event on %s with %q: %q", channel, texts, seen)
		}
	}
}

// fetch reads a path. On a busy machine a deadline of the service may pass: what it
// refuses for now or says to be stale is asked for again.
func (s *staff) fetch(d *desk.Client, path string, into any) {
	s.t.Helper()
	for {
		a, err := d.Do(testkit.Context(s.t), http.MethodGet, path, nil)
		if err != nil {
			s.t.Fatalf("%s: %v", path, err)
		}
		var as struct {
			Stale   bool
			Missing []string
		}
		switch a.Status {
		case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			continue
		case http.StatusOK:
		default:
			s.t.Fatalf("%s: %d: %s", path, a.Status, a.Body)
		}
		if err := errors.Join(a.Into(&as), a.Into(into)); err != nil {
			s.t.Fatalf("%s: %v", path, err)
		}
		if !as.Stale && len(as.Missing) == 0 {
			return
		}
	}
}

// stays are the parties of a view, with their states.
func (s *staff) stays(d *desk.Client, path string) map[string]string {
	s.t.Helper()
	var view struct {
		Items []struct{ ReservationID, Status string }
	}
	s.fetch(d, path, &view)
	out := map[string]string{}
	for _, r := range view.Items {
		out[r.ReservationID] = r.Status
	}
	return out
}

// A party checks in at a hotel: the desks of that hotel are told that their arrivals have
// changed, and what they then fetch no longer has the party. Alerts reach the desks of
// their hotel and no others.
func TestHouseEventsReachDesks(t *testing.T) {
	t.Parallel()
	s := &staff{t: t, World: testkit.NewWorld(t, nil)}
	p := s.Start("bff-backoffice", map[string]string{"BFF_BACKOFFICE_LIMITS": "off"})
	own, other := s.newDesk(p, nil), s.newDesk(p, nil)
	s.signIn(own, "parwana")
	s.signIn(other, "karim")
	var here, there who
	s.fetch(own, "/session", &here)
	s.fetch(other, "/session", &there)
	property, stranger := here.PropertyScope[0], ""
	for _, house := range s.Sim.Catalog().Properties {
		if house.TenantID == there.TenantID {
			stranger = house.PropertyID
		}
	}
	heard, elsewhere := s.listen(own), s.listen(other)

	guest := ""
	for id, status := range s.stays(own, "/arrivals?propertyId="+property) {
		if status == "confirmed" {
			guest = id
		}
	}
	if got := s.stays(own, "/in-house?propertyId="+property); got[guest] != "" {
		t.Errorf("a party that is expected is in the house: %v", got)
	}
	s.drill("/reservations/"+guest+"/check-in", nil, nil)
	s.await(heard, "dashboard", `"dashboard.changed"`, `"arrivals"`, `"in-house"`, property, `"req_drill"`)
	if got := s.stays(own, "/arrivals?propertyId="+property); got[guest] == "confirmed" {
		t.Errorf("a party that has checked in is still expected: %v", got)
	}
	if got := s.stays(own, "/in-house?propertyId="+property); got[guest] != "checked_in" {
		t.Errorf("a party that has checked in is not in the house: %v", got)
	}

	s.drill("/alerts", map[string]string{"propertyId": property, "severity": "critical"}, nil)
	s.await(heard, "alerts", `"alert.raised"`, `"critical"`, property)
	s.drill("/alerts", map[string]string{"propertyId": stranger}, nil)
	for _, data := range s.await(elsewhere, "alerts", `"alert.raised"`, stranger) {
		if strings.Contains(data, property) || strings.Contains(data, guest) {
			t.Errorf("another tenant heard %s", data)
		}
	}
}
