package discovery_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/consumertest"
	"melmastoon.ghasi.io/bff/internal/consumer/discovery"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// truth is pricing with a state for each hotel.
type truth struct {
	discovery.Pricer
	states map[bff.ID]hotel.RateState
	late   bool // it does not answer
}

func (p truth) Preview(context.Context, hotel.PriceRequest) (hotel.Previews, error) {
	out := hotel.Previews{}
	for id, state := range p.states {
		rate := hotel.NewRateSnapshot(consumertest.Price, consumertest.Price, "tenant", midday)
		switch state {
		case hotel.RateSoldOut:
			out[id] = nil
		case hotel.RateStale:
			rate = hotel.NewRateSnapshot(consumertest.Price, consumertest.Price, "tenant", midday.Add(-2*time.Minute))
			out[id] = &rate
		case hotel.RatePriced:
			out[id] = &rate
		}
	}
	if p.late {
		return out, context.DeadlineExceeded
	}
	return out, nil
}

// Whatever pricing says of a hotel, its card says so: two hundred cards, of which some
// are sold out, some not answered, some with an old price, and all shed under load.
// What is unanswered, and that alone, counts as degraded.
func TestRateStateIsTheTruth(t *testing.T) {
	t.Parallel()
	all := []hotel.RateState{hotel.RatePriced, hotel.RateStale, hotel.RateSoldOut, hotel.RateUnanswered}
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // repeatable
		p := truth{states: map[bff.ID]hotel.RateState{}, late: rnd.IntN(2) == 0}
		hotels, want, unanswered := make([]int, 200), map[bff.ID]hotel.RateState{}, 0
		shed := rnd.IntN(5) == 0
		for i := range hotels {
			hotels[i] = i + 1
			id := propertyID(i + 1)
			p.states[id] = all[rnd.IntN(len(all))]
			if want[id] = p.states[id]; shed {
				want[id] = hotel.RateShed
			}
			if want[id] == hotel.RateUnanswered || want[id] == hotel.RateShed {
				unanswered++
			}
		}
		rung := discovery.RungNone
		if shed {
			rung = discovery.RungListPrice
		}
		cfg := configOn(&platform{Hotels: hotels}, rung)
		cfg.Prices = p
		res, err := discovery.NewFinder(cfg).Find(t.Context(), consumer.SearchQuery{Page: consumer.Page{Limit: 200}}, midday)
		if err != nil || len(res.Results) != 200 {
			t.Fatalf("%d cards, %v", len(res.Results), err)
		}
		for _, c := range res.Results {
			has := c.RateState == hotel.RatePriced || c.RateState == hotel.RateStale
			if c.RateState != want[c.PropertyID] || (c.RateSnapshot != nil) != has || has && c.RateSnapshot.IsStale != (c.RateState == hotel.RateStale) {
				t.Fatalf("seed %d: %s with %+v, want %s", seed, c.RateState, c.RateSnapshot, want[c.PropertyID])
			}
		}
		counted := 0
		for _, d := range res.Degraded {
			if d.Part == discovery.PartRates && d.Reason != discovery.ReasonStale {
				counted += d.Affected
			}
		}
		if counted != unanswered {
			t.Fatalf("seed %d: affected %d, want %d: %+v", seed, counted, unanswered, res.Degraded)
		}
		// Kept for longer than a price lives, no card calls its price current.
		res.MarkStale(10*time.Minute, midday.Add(10*time.Minute))
		for _, c := range res.Results {
			if c.RateState == hotel.RatePriced {
				t.Fatalf("seed %d: an answer of ten minutes ago is %s", seed, c.RateState)
			}
		}
	}
}

// A hotel's own page and the pin under the cursor say it, too.
func TestRateStateOfPageAndPin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		soldOut bool
		down    error
		rung    discovery.Rung
		want    hotel.RateState
	}{
		{name: "priced", want: hotel.RatePriced},
		{name: "sold out", soldOut: true, want: hotel.RateSoldOut},
		{name: "late", down: errors.New("late"), want: hotel.RateUnanswered},
		{name: "shed", rung: discovery.RungListPrice, want: hotel.RateShed},
	} {
		p := &platform{
			Hotels: []int{10}, MapPins: []discovery.MapPin{{PropertyID: propertyID(10)}}, SoldOut: map[int]bool{10: tt.soldOut},
			Captured: func() time.Time { return midday },
		}
		p.Fail(consumertest.Failures{Pricing: tt.down})
		f := finderOn(p, tt.rung)
		page, err := f.Detail(t.Context(), discovery.DetailRequest{PropertyID: propertyID(10), Stay: discovery.DefaultStay(midday)}, midday)
		if err != nil || page.RateState != tt.want {
			t.Errorf("%s: page %s, %v", tt.name, page.RateState, err)
		}
		m, err := f.Map(t.Context(), consumer.SearchQuery{}, propertyID(10), midday)
		if err != nil || len(m.Pins) != 1 || m.Pins[0].RateState != tt.want {
			t.Errorf("%s: pins %+v, %v", tt.name, m.Pins, err)
		}
	}
}
