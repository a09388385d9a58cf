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

// Notifier tells open streams, on every instance, what has happened.
type Notifier interface {
	Notify(ctx context.Context, n Notice) error
}
