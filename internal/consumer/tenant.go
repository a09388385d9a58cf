package consumer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Tenant is a hotel company.
type Tenant struct {
	ID        bff.ID
	Slug      string
	Suspended bool
	Region    string // of the platform, such as asia-south1; "" when it is not known
}

// Tenants knows the hotel companies.
type Tenants interface {
	// FindTenant returns a tenant; a CodeResourceNotFound error when there is none.
	FindTenant(ctx context.Context, id bff.ID) (Tenant, error)
}

// TenantChange says that a tenant was suspended or reinstated.
type TenantChange struct {
	Tenant    bff.ID
	Suspended bool
	Reason    string
}

// TenantStatus keeps which tenants are suspended.
type TenantStatus interface {
	// ChangeTenant records the event and its effect together. An event that is
	// older than the newest one about its tenant has none.
	ChangeTenant(ctx context.Context, in Inbound, c TenantChange) (Reception, error)
	// CorrectTenant records what was read from tenant-service, unless something
	// newer than the moment was recorded before, and reports whether it did.
	CorrectTenant(ctx context.Context, c TenantChange, at time.Time) (bool, error)
	// Announce brings every instance's list up to date and has cached answers
	// forgotten that the tenant's status concerns.
	Announce(ctx context.Context, tenant bff.ID) error
}

// SeenTenants are the tenants that this deployment ever showed.
type SeenTenants interface {
	// ListTenants returns up to limit tenants behind the given one, in the order of
	// their ids; the zero id begins.
	ListTenants(ctx context.Context, after bff.ID, limit int) ([]bff.ID, error)
}

// How a tenant's status is read.
const (
	// A reading counts as older than it is: tenant-service may answer from a replica,
	// and its clock is not ours. So an event of about the same time decides. Showing
	// a tenant that may not be shown is the worse mistake, hence the longer time.
	suspendedLag  = 10 * time.Second
	reinstatedLag = time.Minute

	statusPage    = 500
	statusCalls   = 4 // at the same time: guests' hand-offs ask the same service
	statusGivesUp = 20
)

// TenantReaderConfig is what a TenantReader stands on.
type TenantReaderConfig struct {
	Tenants   Tenants // tenant-service
	Suspended *SuspendedTenants
	Status    TenantStatus
	// Behind runs work after the response that ctx belongs to, and reports whether it will.
	Behind func(ctx context.Context, work func(context.Context)) bool
	// Failed is told of a suspension that could not be recorded or announced.
	Failed func(ctx context.Context, tenant bff.ID, err error)
	Now    func() time.Time
}

// TenantReader reads tenants from tenant-service. Where it learns that a tenant is
// suspended, every instance does: an event from before the service subscribed, or
// one that was lost, would otherwise leave hotels on show whose hand-off is
// refused.
type TenantReader struct{ cfg TenantReaderConfig }

// NewTenantReader returns a TenantReader.
func NewTenantReader(cfg TenantReaderConfig) *TenantReader { return &TenantReader{cfg: cfg} }

// FindTenant implements Tenants. A suspension has its effect in this process at
// once, and is recorded after the response. That a tenant is no longer suspended is
// left to Reconcile.
func (r *TenantReader) FindTenant(ctx context.Context, id bff.ID) (Tenant, error) {
	began := r.cfg.Now()
	t, err := r.cfg.Tenants.FindTenant(ctx, id)
	if err == nil && t.Suspended && !r.cfg.Suspended.Has(id) {
		// Once it is recorded, the next reading of the record decides: it has the
		// tenant, or something newer.
		recorded := r.cfg.Suspended.SuspendPending(id)
		taken := r.cfg.Behind(ctx, func(ctx context.Context) {
			defer recorded()
			if _, err := r.correct(ctx, t, began); err != nil {
				r.cfg.Failed(ctx, id, err)
			}
		})
		if !taken {
			recorded()
		}
	}
	return t, err
}

// Reconcile asks for the status of all tenants that were seen and corrects the
// record where it differs. A tenant that cannot be asked for stays as it is and
// holds up none of the others; with tenant-service away nothing changes.
func (r *TenantReader) Reconcile(ctx context.Context, seen SeenTenants) (changed int, err error) {
	all, err := allTenants(ctx, seen)
	if err != nil {
		return 0, err
	}
	// In another order each time: a run that gives up has not always left out the same.
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) //nolint:gosec // no secret
	var (
		wg                        sync.WaitGroup
		next, fixed, failed, down atomic.Int64
		last                      atomic.Pointer[error]
	)
	for range min(statusCalls, len(all)) {
		wg.Go(func() {
			for down.Load() < statusGivesUp && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				did, err := r.check(ctx, all[i])
				if err != nil {
					failed.Add(1)
					down.Add(1)
					last.Store(&err)
					continue
				}
				down.Store(0)
				if did {
					fixed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return int(fixed.Load()), err
	}
	if n := int(failed.Load()); n > len(all)/2 || down.Load() >= statusGivesUp {
		return int(fixed.Load()), fmt.Errorf("status of %d of %d tenants could not be read, the last one: %w", n, len(all), *last.Load())
	}
	return int(fixed.Load()), nil
}

func allTenants(ctx context.Context, seen SeenTenants) (all []bff.ID, err error) {
	for {
		var after bff.ID
		if len(all) > 0 {
			after = all[len(all)-1]
		}
		page, err := seen.ListTenants(ctx, after, statusPage)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < statusPage {
			return all, nil
		}
	}
}

// check asks for one tenant's status, and reports whether the record was wrong.
func (r *TenantReader) check(ctx context.Context, id bff.ID) (bool, error) {
	began := r.cfg.Now()
	t, err := r.cfg.Tenants.FindTenant(ctx, id)
	switch {
	case bff.CodeOf(err) == bff.CodeResourceNotFound: // gone: search-aggregation stops naming it
		return false, nil
	case err != nil:
		return false, err
	case t.Suspended == r.cfg.Suspended.Has(id):
		return false, nil
	}
	return r.correct(ctx, t, began)
}

// correct records a status that was read, and announces it if it was news.
func (r *TenantReader) correct(ctx context.Context, t Tenant, began time.Time) (bool, error) {
	at := began.Add(-reinstatedLag)
	if t.Suspended {
		at = began.Add(-suspendedLag)
	}
	changed, err := r.cfg.Status.CorrectTenant(ctx, TenantChange{Tenant: t.ID, Suspended: t.Suspended, Reason: "status of tenant-service"}, at)
	if err != nil || !changed {
		return false, err
	}
	if err := r.cfg.Status.Announce(ctx, t.ID); err != nil {
		return true, errors.Join(errors.New("recorded, but not announced"), err)
	}
	return true, nil
}
