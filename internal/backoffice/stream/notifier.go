package stream

import (
	"context"
	"errors"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// SignedInDevice is a device with a session that had a stream within the hour.
type SignedInDevice struct {
	Device   bff.ID
	Operator string
	Members  string // version of the operator's membership
}

// SignedInDevices lists the devices that notices go to.
type SignedInDevices interface {
	// ListSignedInDevices returns those of a tenant, or of one operator if that is not empty.
	ListSignedInDevices(ctx context.Context, tenant bff.ID, operator string) ([]SignedInDevice, error)
}

const (
	// scopeTimeout is how long memberships are looked up before a notice is written for
	// the devices of operators that are not known yet: every stream checks it again.
	scopeTimeout = 500 * time.Millisecond
	scopeWorkers = 16
)

// Notifier appends notices to the logs of the devices concerned.
type Notifier struct {
	devices SignedInDevices
	members backoffice.Members
	log     Log
}

// NewNotifier returns a Notifier.
func NewNotifier(s SignedInDevices, m backoffice.Members, l Log) *Notifier { return &Notifier{s, m, l} }

var _ backoffice.Notifier = (*Notifier)(nil)

// Notify implements backoffice.Notifier. After an error it may be repeated: devices that were
// told are told again.
func (a *Notifier) Notify(ctx context.Context, n backoffice.Notice) error {
	e, err := entryOf(&n)
	if err != nil {
		return err
	}
	devices := []bff.ID{n.Device}
	if n.Device.IsZero() {
		signedIn, err := a.devices.ListSignedInDevices(ctx, n.Tenant, n.Operator)
		if err != nil {
			return err
		}
		devices = a.within(ctx, &n, signedIn)
	}
	if len(devices) == 0 {
		return nil
	}
	return a.log.Append(ctx, n.Tenant, devices, e)
}

// within are the devices whose operators work for the notice's property. An operator
// whose membership cannot be found out in time is not left out.
func (a *Notifier) within(ctx context.Context, n *backoffice.Notice, signedIn []SignedInDevice) []bff.ID {
	outside := map[string]bool{}
	if !n.Property.IsZero() {
		outside = a.outside(ctx, n, signedIn)
	}
	devices := make([]bff.ID, 0, len(signedIn))
	for _, s := range signedIn {
		if !outside[s.Operator] {
			devices = append(devices, s.Device)
		}
	}
	return devices
}

func (a *Notifier) outside(ctx context.Context, n *backoffice.Notice, signedIn []SignedInDevice) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, scopeTimeout)
	defer cancel()
	versions := map[string]string{}
	for _, s := range signedIn {
		versions[s.Operator] = s.Members
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		free = make(chan struct{}, scopeWorkers)
		out  = map[string]bool{}
	)
	for operator, version := range versions {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			m, err := a.members.FindMember(ctx, n.Tenant, operator, version)
			if errors.Is(err, backoffice.ErrNoMember) || err == nil && !m.Scope.Covers(n.Property) {
				mu.Lock()
				defer mu.Unlock()
				out[operator] = true
			}
		})
	}
	wg.Wait()
	return out
}
