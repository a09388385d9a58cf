package stream

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Topics of events that end or change the access of operators.
const (
	TopicSessionRevoked    = "melmastoon.iam.session.revoked.v1"
	TopicUserLocked        = "melmastoon.iam.user.locked.v1"
	TopicDeviceTrusted     = "melmastoon.iam.device.trusted.v1"
	TopicDeviceRevoked     = "melmastoon.iam.device.revoked.v1"
	TopicTenantSuspended   = "melmastoon.tenant.suspended.v1"
	TopicTenantReinstated  = "melmastoon.tenant.reinstated.v1"
	TopicTenantReactivated = "melmastoon.tenant.reactivated.v1"
	TopicMemberAdded       = "melmastoon.tenant.membership.added.v1"
	TopicMemberChanged     = "melmastoon.tenant.membership.changed.v1"
	TopicMemberRemoved     = "melmastoon.tenant.membership.removed.v1"
	TopicFlagToggled       = "melmastoon.tenant.feature_flag.toggled.v1"
)

// Topics of events that say what became of lock actions.
const (
	TopicKeyIssued  = "melmastoon.lock.credential.issued.v1"
	TopicKeyRevoked = "melmastoon.lock.credential.revoked.v1"
	TopicKeyFailed  = "melmastoon.lock.credential.failed.v1"
)

// Reaction is what a received event means for what the service keeps and for open
// streams.
type Reaction struct {
	Topic string
	// Parts whose copies are void now. Streams are told on the dashboard channel.
	Parts []backoffice.Part
	// Channel and Type of what streams are told besides; empty: nothing.
	Channel backoffice.Channel
	Type    string
	// Details are the members of the payload that this notice repeats.
	Details []Detail
	// Access says that the event is about access: it names operators and
	// devices and no property, and does not wait for a database that is away.
	Access bool
}

// Detail is a member of a payload: an id of the given kind, which producers write as a
// ULID or as a UUID, or without a kind a short text such as a state or an id of their
// own. Everything else that a payload says stays out of streams.
type Detail struct {
	Name string
	ID   bff.Prefix
}

// News is a received event as far as the service reads it.
type News struct {
	Tenant   bff.ID
	Property bff.ID // zero: the whole tenant
	Operator string
	Device   bff.ID
	CausedBy string // the request that caused it, if its producer says so
	At       time.Time
	Details  map[string]string // by name
}

// Notices are what streams are told. That parts are void concerns all devices of the
// property; what is about an operator or a device goes to them alone.
func (r *Reaction) Notices(n News) []backoffice.Notice {
	var out []backoffice.Notice
	notice := backoffice.Notice{Tenant: n.Tenant, Property: n.Property, CausedBy: n.CausedBy, At: n.At}
	if r.Type != "" {
		about := notice
		about.Channel, about.Type, about.Data = r.Channel, r.Type, r.data(n)
		if r.Access {
			about.Operator, about.Device = n.Operator, n.Device
		}
		out = append(out, about)
	}
	if len(r.Parts) > 0 {
		notice.Channel, notice.Type = backoffice.ChannelDashboard, backoffice.DashboardChanged
		notice.Data = backoffice.VoidParts(r.Parts)
		out = append(out, notice)
	}
	return out
}

func (r *Reaction) data(n News) json.RawMessage {
	details := map[string]string{}
	for _, d := range r.Details {
		if v := n.Details[d.Name]; v != "" {
			details[d.Name] = v
		}
	}
	return backoffice.NoticeData(details)
}

// FindReaction returns what events of a topic mean; false for a topic that the service
// does not listen to.
func FindReaction(topic string) (*Reaction, bool) {
	i, ok := slices.BinarySearchFunc(reactions, topic, func(r Reaction, topic string) int { return strings.Compare(r.Topic, topic) })
	if !ok {
		return nil, false
	}
	return &reactions[i], true
}

// Reactions lists every topic that the service listens to, by name.
func Reactions() []Reaction { return slices.Clone(reactions) }

var reactions = func() []Reaction {
	all := slices.Concat(accessReactions(), stayReactions(), workReactions(), inboxReactions(), propertyReactions())
	slices.SortFunc(all, func(a, b Reaction) int { return strings.Compare(a.Topic, b.Topic) })
	return all
}()

func parts(p ...backoffice.Part) []backoffice.Part {
	return append([]backoffice.Part{backoffice.PartDashboard}, p...)
}

// accessReactions: sessions that end are told one by one as they do (identity.Access.Revoke).
func accessReactions() []Reaction {
	own := []backoffice.Part{backoffice.PartPreferences, backoffice.PartShortcuts}
	flag := []Detail{{Name: "flag"}}
	return []Reaction{
		{Topic: TopicSessionRevoked, Access: true, Parts: parts()},
		{Topic: TopicUserLocked, Access: true, Parts: parts()},
		{Topic: TopicDeviceTrusted, Access: true, Parts: parts()},
		{Topic: TopicDeviceRevoked, Access: true, Parts: parts()},
		{Topic: TopicTenantSuspended, Access: true, Parts: backoffice.Parts(), Channel: backoffice.ChannelSession, Type: backoffice.TenantSuspended},
		{Topic: TopicTenantReinstated, Access: true, Parts: backoffice.Parts(), Channel: backoffice.ChannelSession, Type: "tenant.reinstated"},
		{Topic: TopicTenantReactivated, Access: true, Parts: backoffice.Parts(), Channel: backoffice.ChannelSession, Type: "tenant.reinstated"},
		{Topic: TopicMemberAdded, Access: true, Parts: parts(own...), Channel: backoffice.ChannelSession, Type: backoffice.MembershipChanged},
		{Topic: TopicMemberChanged, Access: true, Parts: parts(own...), Channel: backoffice.ChannelSession, Type: backoffice.MembershipChanged},
		{Topic: TopicMemberRemoved, Access: true, Parts: parts(own...)},
		{Topic: TopicFlagToggled, Access: true, Parts: parts(), Channel: backoffice.ChannelSession, Type: backoffice.FlagsChanged, Details: flag},
	}
}

// stayReactions: who comes, stays and leaves, and the rooms for them.
func stayReactions() []Reaction {
	on := func(event string, p ...backoffice.Part) Reaction {
		return Reaction{Topic: "melmastoon.reservation." + event + ".v1", Parts: parts(append([]backoffice.Part{backoffice.PartToday}, p...)...)}
	}
	return []Reaction{
		on("confirmed", backoffice.PartArrivals, backoffice.PartDepartures),
		on("cancelled", backoffice.PartArrivals, backoffice.PartDepartures, backoffice.PartHousekeeping),
		on("modified", backoffice.PartArrivals, backoffice.PartDepartures, backoffice.PartInHouse, backoffice.PartHousekeeping),
		on("dates_changed", backoffice.PartArrivals, backoffice.PartDepartures, backoffice.PartInHouse, backoffice.PartHousekeeping),
		on("checked_in", backoffice.PartArrivals, backoffice.PartDepartures, backoffice.PartInHouse, backoffice.PartHousekeeping),
		on("checked_out", backoffice.PartDepartures, backoffice.PartInHouse, backoffice.PartHousekeeping),
		{
			Topic: "melmastoon.inventory.room.status_changed.v1",
			Parts: parts(backoffice.PartToday, backoffice.PartArrivals, backoffice.PartHousekeeping, backoffice.PartMaintenance),
		},
		{
			Topic: "melmastoon.inventory.allocation.changed.v1",
			Parts: parts(backoffice.PartToday, backoffice.PartArrivals, backoffice.PartDepartures, backoffice.PartInHouse),
		},
		{Topic: "melmastoon.billing.folio", Parts: parts(backoffice.PartToday, backoffice.PartDepartures, backoffice.PartInHouse)},
		{Topic: "melmastoon.billing.cash_drawer", Parts: parts()},
	}
}

// workReactions: what housekeeping and maintenance do. A room that is clean is one that
// an arrival can have.
func workReactions() []Reaction {
	var out []Reaction
	for _, event := range []string{"created", "started", "completed", "inspected", "reopened"} {
		out = append(out, Reaction{
			Topic: "melmastoon.housekeeping.task." + event + ".v1", Parts: parts(backoffice.PartToday, backoffice.PartArrivals, backoffice.PartHousekeeping),
		})
	}
	for _, event := range []string{"opened", "started", "resolved", "closed", "reopened"} {
		out = append(out, Reaction{Topic: "melmastoon.maintenance.work_order." + event + ".v1", Parts: parts(backoffice.PartToday, backoffice.PartMaintenance)})
	}
	return out
}

// inboxReactions: what devices show by themselves.
func inboxReactions() []Reaction {
	key := []Detail{{Name: "credentialId"}, {Name: "reservationId", ID: bff.PrefixReservation}, {Name: "state"}, {Name: "vendor"}, {Name: "reason"}}
	alert := []Detail{{Name: "alertId"}, {Name: "category"}, {Name: "severity"}, {Name: "raisedAt"}}
	advice := []Detail{{Name: "suggestionId"}, {Name: "category"}, {Name: "expiresAt"}}
	var out []Reaction
	for _, event := range []string{"issued", "revoked", "failed"} {
		out = append(out, Reaction{
			Topic: "melmastoon.lock.credential." + event + ".v1", Parts: parts(), Channel: backoffice.ChannelLocks, Type: "credential." + event, Details: key,
		})
	}
	for _, event := range []string{"raised", "resolved"} {
		out = append(out, Reaction{
			Topic: "melmastoon.notification.alert." + event + ".v1", Parts: parts(backoffice.PartToday, backoffice.PartAlertInbox),
			Channel: backoffice.ChannelAlerts, Type: "alert." + event, Details: alert,
		})
	}
	for _, event := range []string{"created", "expired"} {
		out = append(out, Reaction{
			Topic: "melmastoon.ai_orchestrator.suggestion." + event + ".v1", Parts: parts(backoffice.PartAIInbox),
			Channel: backoffice.ChannelAI, Type: "suggestion." + event, Details: advice,
		})
	}
	return out
}

// propertyReactions: what a property is and looks like.
func propertyReactions() []Reaction {
	return []Reaction{
		{Topic: "melmastoon.property.lifecycle.v1", Parts: parts(append(backoffice.WorkbenchViews(), backoffice.PartProperties)...)},
		{Topic: "melmastoon.property.rooms.v1", Parts: parts(backoffice.WorkbenchViews()...)},
		{
			Topic: "melmastoon.theme.events", Parts: parts(), Channel: backoffice.ChannelDashboard, Type: "theme.changed",
			Details: []Detail{{Name: "publishedVersion", ID: bff.PrefixThemeVersion}},
		},
	}
}
