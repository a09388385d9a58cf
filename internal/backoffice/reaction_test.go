package backoffice

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
)

// wantReactions has every topic that the service listens to: the parts that are void,
// and what streams are told besides.
const wantReactions = `
melmastoon.iam.session.revoked.v1 dashboard
melmastoon.iam.user.locked.v1 dashboard
melmastoon.iam.device.trusted.v1 dashboard
melmastoon.iam.device.revoked.v1 dashboard
melmastoon.tenant.suspended.v1 all session:tenant.suspended
melmastoon.tenant.reinstated.v1 all session:tenant.reinstated
melmastoon.tenant.reactivated.v1 all session:tenant.reinstated
melmastoon.tenant.membership.added.v1 dashboard,preferences,shortcuts session:membership.changed
melmastoon.tenant.membership.changed.v1 dashboard,preferences,shortcuts session:membership.changed
melmastoon.tenant.membership.removed.v1 dashboard,preferences,shortcuts
melmastoon.tenant.feature_flag.toggled.v1 dashboard session:flags.changed
melmastoon.reservation.confirmed.v1 dashboard,today,arrivals,departures
melmastoon.reservation.cancelled.v1 dashboard,today,arrivals,departures,housekeeping
melmastoon.reservation.modified.v1 dashboard,today,arrivals,departures,in-house,housekeeping
melmastoon.reservation.dates_changed.v1 dashboard,today,arrivals,departures,in-house,housekeeping
melmastoon.reservation.checked_in.v1 dashboard,today,arrivals,departures,in-house,housekeeping
melmastoon.reservation.checked_out.v1 dashboard,today,departures,in-house,housekeeping
melmastoon.housekeeping.task.created.v1 dashboard,today,arrivals,housekeeping
melmastoon.housekeeping.task.started.v1 dashboard,today,arrivals,housekeeping
melmastoon.housekeeping.task.completed.v1 dashboard,today,arrivals,housekeeping
melmastoon.housekeeping.task.inspected.v1 dashboard,today,arrivals,housekeeping
melmastoon.housekeeping.task.reopened.v1 dashboard,today,arrivals,housekeeping
melmastoon.maintenance.work_order.opened.v1 dashboard,today,maintenance
melmastoon.maintenance.work_order.started.v1 dashboard,today,maintenance
melmastoon.maintenance.work_order.resolved.v1 dashboard,today,maintenance
melmastoon.maintenance.work_order.closed.v1 dashboard,today,maintenance
melmastoon.maintenance.work_order.reopened.v1 dashboard,today,maintenance
melmastoon.inventory.room.status_changed.v1 dashboard,today,arrivals,housekeeping,maintenance
melmastoon.inventory.allocation.changed.v1 dashboard,today,arrivals,departures,in-house
melmastoon.lock.credential.issued.v1 dashboard locks:credential.issued
melmastoon.lock.credential.revoked.v1 dashboard locks:credential.revoked
melmastoon.lock.credential.failed.v1 dashboard locks:credential.failed
melmastoon.notification.alert.raised.v1 dashboard,today,alert-inbox alerts:alert.raised
melmastoon.notification.alert.resolved.v1 dashboard,today,alert-inbox alerts:alert.resolved
melmastoon.ai_orchestrator.suggestion.created.v1 dashboard,ai-inbox ai:suggestion.created
melmastoon.ai_orchestrator.suggestion.expired.v1 dashboard,ai-inbox ai:suggestion.expired
melmastoon.property.lifecycle.v1 dashboard,today,arrivals,departures,in-house,housekeeping,maintenance
melmastoon.property.rooms.v1 dashboard,today,arrivals,departures,in-house,housekeeping,maintenance
melmastoon.billing.folio dashboard,today,departures,in-house
melmastoon.billing.cash_drawer dashboard
melmastoon.theme.events dashboard dashboard:theme.changed
`

var (
	reactTenant   = bff.MustParseID(bff.PrefixTenant, "tnt_01HCCAJ930Q3Y811AXYN4D8YR9")
	reactProperty = bff.MustParseID(bff.PrefixProperty, "ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3E")
	reactDevice   = bff.MustParseID(bff.PrefixDevice, "dev_01M7MK9ZTR35B5VXC99GJ5AM9B")
	reactAt       = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
)

func TestReactions(t *testing.T) {
	t.Parallel()
	want := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(wantReactions)) {
		topic, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[topic] = rest
	}
	got := map[string]string{}
	all := Reactions()
	for _, r := range all {
		var names []string
		for _, p := range r.Parts {
			names = append(names, string(p))
		}
		said := strings.Join(names, ",")
		if slices.Equal(r.Parts, Parts()) {
			said = "all"
		}
		if r.Type != "" {
			said += " " + string(r.Channel) + ":" + r.Type
		}
		if got[r.Topic] != "" {
			t.Errorf("%s has two rows", r.Topic)
		}
		got[r.Topic] = said
		if found, ok := FindReaction(r.Topic); !ok || found.Topic != r.Topic {
			t.Errorf("%s is not found", r.Topic)
		}
		if slices.Contains(r.Parts[1:], r.Parts[0]) {
			t.Errorf("%s: a part twice in %v", r.Topic, r.Parts)
		}
		if r.Type != "" && !slices.Contains(Channels(), r.Channel) {
			t.Errorf("%s: no channel %q", r.Topic, r.Channel)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
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
		want  []Notice
	}{
		"an alert": {
			"melmastoon.notification.alert.raised.v1",
			News{
				Tenant: reactTenant, Property: reactProperty, Operator: "opt_1", Device: reactDevice, CausedBy: "req_1", At: reactAt,
				Details: map[string]string{"alertId": "alr_1", "severity": "critical", "guestName": "a guest"},
			},
			[]Notice{
				{
					Channel: ChannelAlerts, Type: "alert.raised", Tenant: reactTenant, Property: reactProperty, CausedBy: "req_1", At: reactAt,
					Data: []byte(`{"alertId":"alr_1","severity":"critical"}`),
				},
				{
					Channel: ChannelDashboard, Type: DashboardChanged, Tenant: reactTenant, Property: reactProperty, CausedBy: "req_1", At: reactAt,
					Data: []byte(`{"parts":["dashboard","today","alert-inbox"]}`),
				},
			},
		},
		"a check-out": {
			"melmastoon.reservation.checked_out.v1",
			News{Tenant: reactTenant, Property: reactProperty, At: reactAt},
			[]Notice{{
				Channel: ChannelDashboard, Type: DashboardChanged, Tenant: reactTenant, Property: reactProperty, At: reactAt,
				Data: []byte(`{"parts":["dashboard","today","departures","in-house","housekeeping"]}`),
			}},
		},
		"another role": {
			TopicMemberChanged,
			News{Tenant: reactTenant, Operator: "opt_1", At: reactAt},
			[]Notice{
				{Channel: ChannelSession, Type: "membership.changed", Tenant: reactTenant, Operator: "opt_1", At: reactAt, Data: []byte(`{}`)},
				{
					Channel: ChannelDashboard, Type: DashboardChanged, Tenant: reactTenant, At: reactAt,
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
