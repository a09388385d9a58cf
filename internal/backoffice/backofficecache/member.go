// Package backofficecache is what the staff service reads, remembered: it wraps what
// asks upstreams and knows none of them.
package backofficecache

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/singleflight"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/memo"
)

// Members remembers operators in this process alone: their names are personal and
// are not stored (DATA_MODEL §11). The version that a request brings from the session
// tier makes a copy void in every instance at once.
type Members struct {
	next  backoffice.Members
	now   func() time.Time
	known *memo.Memo[memberKey, *member]
	asked singleflight.Group
}

type memberKey struct {
	tenant   bff.ID
	operator string
}

type member struct {
	*backoffice.Member // nil if there is none

	version string
	at      time.Time
}

const (
	maxMembers = 8 << 10
	// memberFresh is how long a copy is used without asking; memberStale how long it
	// is used while it is refreshed after the response, or while tenant-service is away.
	memberFresh = 5 * time.Minute
	memberStale = time.Hour
	// strangerFresh is how long an operator without a membership is not asked for.
	strangerFresh = 10 * time.Second
	memberTimeout = 2 * time.Second
)

// NewMembers returns a memory in front of next.
func NewMembers(next backoffice.Members, now func() time.Time) *Members {
	return &Members{next: next, now: now, known: memo.New[memberKey, *member](maxMembers)}
}

// FindMember implements backoffice.Members.
func (m *Members) FindMember(ctx context.Context, tenant bff.ID, operator, version string) (*backoffice.Member, error) {
	key := memberKey{tenant, operator}
	if k, ok := m.known.Get(key); ok && k.version == version {
		age := m.now().Sub(k.at)
		switch {
		case k.Member == nil && age < strangerFresh:
			return nil, backoffice.ErrNoMember
		case k.Member != nil && age < memberFresh:
			return k.Member, nil
		case k.Member != nil && age < memberStale:
			m.ask(ctx, key, version)
			return k.Member, nil
		}
	}
	select {
	case r := <-m.ask(ctx, key, version):
		found, _ := r.Val.(*backoffice.Member)
		return found, r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ask has one call serve all that wait for the same.
func (m *Members) ask(ctx context.Context, key memberKey, version string) <-chan singleflight.Result {
	return m.asked.DoChan(key.tenant.String()+" "+key.operator+" "+version, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), memberTimeout)
		defer cancel()
		found, err := m.next.FindMember(ctx, key.tenant, key.operator, version)
		if err == nil || errors.Is(err, backoffice.ErrNoMember) {
			m.known.Put(key, &member{Member: found, version: version, at: m.now()})
		}
		return found, err
	})
}
