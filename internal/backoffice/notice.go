package backoffice

import (
	"context"
	"encoding/json"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Channel is a kind of news on a device's stream.
type Channel string

// The channels there are.
const (
	ChannelAI        Channel = "ai"
	ChannelAlerts    Channel = "alerts"
	ChannelSync      Channel = "sync"
	ChannelLocks     Channel = "locks"
	ChannelSession   Channel = "session"
	ChannelDashboard Channel = "dashboard"
)

// Channels lists every channel.
func Channels() []Channel {
	return []Channel{ChannelAI, ChannelAlerts, ChannelSync, ChannelLocks, ChannelSession, ChannelDashboard}
}

// Notice is something that open streams are told: to the devices of a tenant, narrowed
// by property, operator and device where these are set.
type Notice struct {
	Channel  Channel
	Type     string // what happened, such as "alert.raised"
	Tenant   bff.ID
	Property bff.ID // zero: the whole tenant
	Operator string
	Device   bff.ID
	// CausedBy is the id of the request that caused it: its sender drops the echo.
	CausedBy string
	At       time.Time
	// Data is a JSON object of ids, counts and states. Guest data is never in it.
	Data json.RawMessage
}

// Types of notices on the session channel after which a stream ends: the device has to
// come again, with the rights that it has then.
const (
	SessionRevoked    = "session.revoked"
	SessionSignedOut  = "session.signed_out"
	SessionReplaced   = "session.replaced" // by another operator at the device
	SessionOutgrown   = "session.outgrown" // the oldest of an operator with too many
	MembershipChanged = "membership.changed"
	TenantSuspended   = "tenant.suspended"
)

// FlagsChanged is the type of the notice that a flag of the tenant was switched. A
// stream ends with it if the flag is that of streams.
const FlagsChanged = "flags.changed"

// DashboardChanged is the type of the notice that kept parts are void: a client that
// shows one of them fetches it again.
const DashboardChanged = "dashboard.changed"

// VoidParts is the data of DashboardChanged.
func VoidParts(parts []Part) json.RawMessage { return NoticeData(map[string][]Part{"parts": parts}) }

// NoticeData is the data of a notice: ids, counts and states.
func NoticeData(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts always encode
	}
	return b
}

// Notifier tells open streams, on every instance, what has happened.
type Notifier interface {
	Notify(ctx context.Context, n Notice) error
}
