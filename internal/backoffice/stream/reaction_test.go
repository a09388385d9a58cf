package stream

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

var (
	reactTenant   = bff.MustParseID(bff.PrefixTenant, "tnt_01HCCAJ930Q3Y811AXYN4D8YR9")
	reactProperty = bff.MustParseID(bff.PrefixProperty, "ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3E")
	reactDevice   = bff.MustParseID(bff.PrefixDevice, "dev_01M7MK9ZTR35B5VXC99GJ5AM9B")
	reactAt       = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
)

// What each event means is held to docs/events.md where the documents are
// (TestReceivedEventsAreDescribed).
func TestReactions(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range Reactions() {
		if seen[r.Topic] {
			t.Errorf("%s has two rows", r.Topic)
		}
		seen[r.Topic] = true
		if found, ok := FindReaction(r.Topic); !ok || found.Topic != r.Topic {
			t.Errorf("%s is not found", r.Topic)
		}
		if slices.Contains(r.Parts[1:], r.Parts[0]) {
			t.Errorf("%s: a part twice in %v", r.Topic, r.Parts)
		}
		if r.Type != "" && !slices.Contains(backoffice.Channels(), r.Channel) {
			t.Errorf("%s: no channel %q", r.Topic, r.Channel)
		}
	}
	if _, ok := FindReaction("melmastoon.else.v1"); ok {
		t.Error("a reaction to a topic that has none")
	}
}

// An event reaches the devices that it concerns: all of the property, or the operator
// and the device that it is about.
func TestNoticesReachWhomTheyConcern(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		topic string
		news  News
		want  []backoffice.Notice
	}{
		"an alert": {
			"melmastoon.notification.alert.raised.v1",
			News{
				Tenant: reactTenant, Property: reactProperty, Operator: "opt_1", Device: reactDevice, CausedBy: "req_1", At: reactAt,
				Details: map[string]string{"alertId": "alr_1", "severity": "critical", "guestName": "a guest"},
			},
			[]backoffice.Notice{
				{
					Channel: backoffice.ChannelAlerts, Type: "alert.raised", Tenant: reactTenant, Property: reactProperty, CausedBy: "req_1", At: reactAt,
					Data: []byte(`{"alertId":"alr_1","severity":"critical"}`),
				},
				{
					Channel: backoffice.ChannelDashboard, Type: backoffice.DashboardChanged, Tenant: reactTenant, Property: reactProperty, CausedBy: "req_1", At: reactAt,
					Data: []byte(`{"parts":["dashboard","today","alert-inbox"]}`),
				},
			},
		},
		"a check-out": {
			"melmastoon.reservation.checked_out.v1",
			News{Tenant: reactTenant, Property: reactProperty, At: reactAt},
			[]backoffice.Notice{{
				Channel: backoffice.ChannelDashboard, Type: backoffice.DashboardChanged, Tenant: reactTenant, Property: reactProperty, At: reactAt,
				Data: []byte(`{"parts":["dashboard","today","departures","in-house","housekeeping"]}`),
			}},
		},
		"another role": {
			TopicMemberChanged,
			News{Tenant: reactTenant, Operator: "opt_1", At: reactAt},
			[]backoffice.Notice{
				{Channel: backoffice.ChannelSession, Type: "membership.changed", Tenant: reactTenant, Operator: "opt_1", At: reactAt, Data: []byte(`{}`)},
				{
					Channel: backoffice.ChannelDashboard, Type: backoffice.DashboardChanged, Tenant: reactTenant, At: reactAt,
					Data: []byte(`{"parts":["dashboard","preferences","shortcuts"]}`),
				},
			},
		},
	} {
		r, ok := FindReaction(test.topic)
		if !ok {
			t.Fatalf("%s: no reaction", name)
		}
		if diff := cmp.Diff(test.want, r.Notices(test.news), cmp.Comparer(func(a, b bff.ID) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}
