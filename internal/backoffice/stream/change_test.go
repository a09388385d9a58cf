package stream_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
)

// told is what is made void, and what streams are told.
type told struct {
	void    []backoffice.Part
	notices []backoffice.Notice
}

func (t *told) Invalidate(_ context.Context, _, _ bff.ID, parts ...backoffice.Part) error {
	t.void = append(t.void, parts...)
	return nil
}

func (t *told) Notify(_ context.Context, n backoffice.Notice) error {
	t.notices = append(t.notices, n)
	return nil
}

// An operator's change has the effect of the event that its service will send, at once
// and for the property alone.
func TestChangesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	v := &backoffice.Visit{
		Session: backoffice.Session{Tenant: bff.NewID(bff.PrefixTenant, now)}, Property: bff.NewID(bff.PrefixProperty, now),
		Request: backoffice.Occasion{RequestID: bff.NewID(bff.PrefixRequest, now)},
	}
	for _, a := range backoffice.Actions() {
		var got told
		stream.NewChangeNotifier(&got, &got).Changed(t.Context(), v, a.Topic, now)
		if !slices.Contains(got.void, backoffice.PartDashboard) || len(got.notices) != 1 {
			t.Errorf("%s makes %v void and tells %v", a.Name, got.void, got.notices)
			continue
		}
		if n := got.notices[0]; n.Type != backoffice.DashboardChanged || n.Tenant != v.Session.Tenant || n.Property != v.Property ||
			n.CausedBy != v.Request.RequestID.ULID() || !n.At.Equal(now) {
			t.Errorf("%s tells %+v", a.Name, n)
		}
	}
	var got told
	if stream.NewChangeNotifier(&got, &got).Changed(t.Context(), v, "melmastoon.unknown.v1", now); len(got.void)+len(got.notices) > 0 {
		t.Errorf("an unknown topic: %+v", got)
	}
}
