package backofficecache

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// service answers after a while, and counts.
type service struct {
	asked atomic.Int32
	err   error
}

func (s *service) FindMember(context.Context, bff.ID, string, string) (*backoffice.Member, error) {
	s.asked.Add(1)
	time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's clock
	if s.err != nil {
		return nil, s.err
	}
	return &backoffice.Member{Roles: []backoffice.Role{backoffice.Owner}}, nil
}

func TestMembers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := &service{}
		m := NewMembers(next, time.Now)
		tenant := bff.NewID(bff.PrefixTenant, time.Now())
		find := func(version string) error {
			_, err := m.FindMember(t.Context(), tenant, "opt_1", version)
			return err
		}
		want := func(step string, asked int32, err error) {
			t.Helper()
			time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
			synctest.Wait()         // for a refresh after the response
			if got := next.asked.Load(); got != asked || err != nil {
				t.Errorf("%s: asked %d times, want %d: %v", step, got, asked, err)
			}
		}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := find("1"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		want("twenty at once", 1, find("1"))
		want("another version", 2, find("2"))
		time.Sleep(memberFresh) //nolint:forbidigo // the bubble's clock
		want("refreshed after the response", 3, find("2"))
		next.err = errors.New("away")
		time.Sleep(memberFresh) //nolint:forbidigo // the bubble's clock
		want("while tenant-service is away", 4, find("2"))
		if find("3") == nil {
			t.Error("a void copy was used while tenant-service is away")
		}
		next.err = backoffice.ErrNoMember
		for range 3 {
			if err := find("4"); !errors.Is(err, backoffice.ErrNoMember) {
				t.Errorf("no member: %v", err)
			}
		}
		if n := next.asked.Load(); n != 6 {
			t.Errorf("a stranger was asked for again and again: %d", n)
		}
	})
}
