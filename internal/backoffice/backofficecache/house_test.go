package backofficecache

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// arrivals answers once, and fails from then on.
type arrivals struct{ answered bool }

func (a *arrivals) Read(context.Context, board.Source, board.Place) (board.Reading, error) {
	if a.answered {
		return board.Reading{}, errors.New("away")
	}
	a.answered = true
	return board.Reading{Value: []board.Stay{{ReservationID: "rsv_1", GuestName: "Zarghuna", Notes: "her birthday", RoomNumber: "204", VIP: true}}}, nil
}

// A reading that stands in names guests for as long as a view may, and then no more.
func TestOldReadingsNameNoGuest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, err := cache.NewStore(cache.StoreConfig{Prefix: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := store.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		h, err := NewHouse(new(arrivals), store, redis.NewKeys("test", "bff-backoffice"))
		if err != nil {
			t.Fatal(err)
		}
		at := board.Place{Tenant: bff.NewID(bff.PrefixTenant, time.Now()), Property: bff.NewID(bff.PrefixProperty, time.Now())}
		full := board.Stay{ReservationID: "rsv_1", GuestName: "Zarghuna", Notes: "her birthday", RoomNumber: "204", VIP: true}
		nameless := full
		nameless.GuestName, nameless.Notes = "", ""
		for _, step := range []struct {
			wait  time.Duration
			stale bool
			want  board.Stay
		}{
			{0, false, full},
			{board.NamesKept - time.Second, true, full},
			{2 * time.Second, true, nameless},
			{4 * time.Minute, true, nameless},
		} {
			<-time.After(step.wait)
			r, err := h.Read(t.Context(), board.SourceArrivals, at)
			if err != nil || r.Stale != step.stale {
				t.Fatalf("after %v more: stale %v, %v", step.wait, r.Stale, err)
			}
			if diff := cmp.Diff([]board.Stay{step.want}, r.Value); diff != "" {
				t.Errorf("after %v more: %s", step.wait, diff)
			}
			synctest.Wait() // for a refresh after the response
		}
	})
}
