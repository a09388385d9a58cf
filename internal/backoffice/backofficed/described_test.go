package backofficed

import (
	"context"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/backoffice/lock"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// lastEntry is a log that keeps what was appended last.
type lastEntry struct {
	stream.Log
	stream.Entry
}

func (l *lastEntry) Append(_ context.Context, _ bff.ID, _ []bff.ID, e stream.Entry) error {
	l.Entry = e
	return nil
}

// What streams are told has a schema, told apart by its type: apps are compiled against it.
func TestStreamEventsAreDescribed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tenant, property, at := bff.NewID(bff.PrefixTenant, now), bff.NewID(bff.PrefixProperty, now), bff.NewID(bff.PrefixDevice, now)
	news := stream.News{Tenant: tenant, Property: property, CausedBy: "x", At: now, Details: map[string]string{}}
	var notices []backoffice.Notice
	for _, r := range stream.Reactions() {
		for _, d := range r.Details {
			news.Details[d.Name] = "x"
		}
		notices = append(notices, r.Notices(news)...)
	}
	row := lock.Row{}
	row.Tenant, row.Property, row.Action = tenant, property, lock.IssueKey
	notices = append(notices, device.LostDevice{Tenant: tenant, Property: property, Device: at}.Notice(now), row.Notice(lock.Result{Vendor: "salto"}, now))
	for _, kind := range []string{
		backoffice.SessionRevoked, backoffice.SessionSignedOut, backoffice.SessionReplaced, backoffice.SessionOutgrown, backoffice.MembershipChanged,
		backoffice.TenantSuspended,
	} {
		notices = append(notices, backoffice.Notice{Channel: backoffice.ChannelSession, Type: kind, Tenant: tenant, At: now})
	}
	for kind, data := range map[string]string{
		inbox.SuggestionWasDecided: `{"suggestionId":"x","category":"x","outcome":"accepted"}`, inbox.AlertWasAcknowledged: `{"alertId":"x","category":"x","severity":"x"}`,
	} {
		notices = append(notices, backoffice.Notice{Channel: backoffice.ChannelAI, Type: kind, Tenant: tenant, At: now, Data: []byte(data)})
	}
	contract := testkit.StaffContract(t)
	for _, n := range notices {
		n.Device = at
		var log lastEntry
		if err := stream.NewNotifier(nil, nil, &log).Notify(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if err := contract.Check("StreamEvent", log.Data); err != nil {
			t.Errorf("%s: %v", log.Data, err)
		}
	}
	if contract.Check("StreamEvent", `{"type":"moon.rose","at":"2026-11-18T10:00:00.000Z"}`) == nil {
		t.Error("an event of no known type is described")
	}
}
