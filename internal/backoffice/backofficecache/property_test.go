package backofficecache

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// registry says whose properties are, and counts who asks.
type registry struct {
	asked atomic.Int32
	owner bff.ID
	err   error
}

func (r *registry) FindProperty(_ context.Context, tenant, _ bff.ID) (board.Property, error) {
	r.asked.Add(1)
	if r.err == nil && tenant != r.owner {
		return board.Property{}, bff.Errorf(bff.CodeResourceNotFound, "there is no such property")
	}
	zone, _ := board.ReadZone("Asia/Kabul", "")
	return board.Property{Zone: zone}, r.err
}

// A tenant's property is known for ten minutes, and for half a day while
// property-service is away. That a property is not a tenant's is believed for ten
// seconds, because it may be new, and never while it cannot be asked: neither may an
// operator be let in on an old word, nor kept out of a new hotel.
func TestProperties(t *testing.T) {
	t.Parallel()
	owner, stranger := bff.NewID(bff.PrefixTenant, time.Now()), bff.NewID(bff.PrefixTenant, time.Now())
	property := bff.NewID(bff.PrefixProperty, time.Now())
	for name, tc := range map[string]struct {
		tenant    bff.ID
		after     time.Duration // of the first answer
		away      bool          // then
		sold      bool          // to the stranger, meanwhile
		want      bool
		wantAsked int32 // in all
		wantErr   bool
	}{
		"owned, at once":                {tenant: owner, want: true, wantAsked: 1},
		"owned, nearly ten minutes":     {tenant: owner, after: 10*time.Minute - 1, want: true, wantAsked: 1},
		"owned, ten minutes":            {tenant: owner, after: 10 * time.Minute, want: true, wantAsked: 2},
		"owned, sold meanwhile":         {tenant: owner, after: 10 * time.Minute, sold: true, wantAsked: 2},
		"owned, away":                   {tenant: owner, after: 12*time.Hour - 1, away: true, want: true, wantAsked: 2},
		"owned, away for too long":      {tenant: owner, after: 12 * time.Hour, away: true, wantAsked: 2, wantErr: true},
		"foreign, at once":              {tenant: stranger, wantAsked: 1},
		"foreign, nearly ten seconds":   {tenant: stranger, after: 10*time.Second - 1, sold: true, wantAsked: 1},
		"foreign, and then the owner's": {tenant: stranger, after: 10*time.Second + 1, sold: true, want: true, wantAsked: 2},
		"foreign, away":                 {tenant: stranger, after: 10*time.Second + 1, away: true, wantAsked: 2, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				next := &registry{owner: owner}
				store, err := cache.NewStore(cache.StoreConfig{Prefix: "test:"})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = store.Close(context.Background()) }() // nothing is shared
				p, err := NewProperties(store, redis.NewKeys("test", "staff"), next)
				if err != nil {
					t.Fatal(err)
				}
				owned := func(tenant bff.ID) (bool, error) {
					found, err := p.FindProperty(t.Context(), tenant, property)
					if bff.CodeOf(err) == bff.CodeResourceNotFound {
						return false, nil
					}
					return err == nil && !found.Zone.IsZero(), err
				}
				if owns, err := owned(tc.tenant); owns != (tc.tenant == owner) || err != nil {
					t.Fatalf("first: %v, %v", owns, err)
				}
				time.Sleep(tc.after) //nolint:forbidigo // the bubble's clock
				if tc.away {
					next.err = errors.New("away")
				}
				if tc.sold {
					next.owner = stranger
				}
				owns, err := owned(tc.tenant)
				if n := next.asked.Load(); owns != tc.want || (err != nil) != tc.wantErr || n != tc.wantAsked {
					t.Errorf("%v, %v, asked %d times; want %v, %d", owns, err, n, tc.want, tc.wantAsked)
				}
				// What is known of one tenant says nothing of another.
				if owns, _ := owned(bff.NewID(bff.PrefixTenant, time.Now())); owns {
					t.Error("a third tenant owns the property")
				}
			})
		})
	}
}
