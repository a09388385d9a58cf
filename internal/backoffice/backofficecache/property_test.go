package backofficecache

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
)

// registry says whose properties are, and counts who asks.
type registry struct {
	asked atomic.Int32
	owner bff.ID
	err   error
}

func (r *registry) OwnsProperty(_ context.Context, tenant, _ bff.ID) (bool, error) {
	r.asked.Add(1)
	return tenant == r.owner && r.err == nil, r.err
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
		"foreign, and then the owner's": {tenant: stranger, after: 10 * time.Second, sold: true, want: true, wantAsked: 2},
		"foreign, away":                 {tenant: stranger, after: 10 * time.Second, away: true, wantAsked: 2, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				next := &registry{owner: owner}
				p := NewProperties(next, time.Now)
				if owns, err := p.OwnsProperty(t.Context(), tc.tenant, property); owns != (tc.tenant == owner) || err != nil {
					t.Fatalf("first: %v, %v", owns, err)
				}
				time.Sleep(tc.after) //nolint:forbidigo // the bubble's clock
				if tc.away {
					next.err = errors.New("away")
				}
				if tc.sold {
					next.owner = stranger
				}
				owns, err := p.OwnsProperty(t.Context(), tc.tenant, property)
				if n := next.asked.Load(); owns != tc.want || (err != nil) != tc.wantErr || n != tc.wantAsked {
					t.Errorf("%v, %v, asked %d times; want %v, %d", owns, err, n, tc.want, tc.wantAsked)
				}
				// What is known of one tenant says nothing of another.
				if owns, _ := p.OwnsProperty(t.Context(), bff.NewID(bff.PrefixTenant, time.Now()), property); owns {
					t.Error("a third tenant owns the property")
				}
			})
		})
	}
}
