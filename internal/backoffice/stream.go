package backoffice

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
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

// ends reports whether a stream ends with an entry.
func (e *Entry) ends() bool {
	if e.Kind != sessionKind {
		return false
	}
	switch e.Type {
	case SessionRevoked, SessionSignedOut, SessionReplaced, SessionOutgrown, MembershipChanged, TenantSuspended:
		return true
	case FlagsChanged:
		return strings.Contains(e.Data, streamFlag)
	}
	return false
}

// streamFlag is how the flag of streams is spelled in the data of FlagsChanged.
const streamFlag = `"flag":"` + string(FeatureStream) + `"`

var sessionKind, _ = kindOf(ChannelSession)

// maxNotice bounds what one notice may take in every log.
const maxNotice = 4 << 10

// entry is the notice as a log keeps it, encoded once for all devices.
func (n *Notice) entry() (Entry, error) {
	kind, known := kindOf(n.Channel)
	switch {
	case !known:
		return Entry{}, fmt.Errorf("there is no channel %q", n.Channel)
	case n.Type == "" || strings.ContainsAny(n.Type+n.Operator, "\n"):
		return Entry{}, fmt.Errorf("a notice of channel %s has a bad type or operator", n.Channel)
	}
	doc := struct {
		Type     string          `json:"type"`
		At       bff.Timestamp   `json:"at"`
		Property string          `json:"propertyId,omitempty"`
		CausedBy string          `json:"causedBy,omitempty"`
		Data     json.RawMessage `json:"data,omitempty"`
	}{n.Type, bff.At(n.At), n.Property.String(), n.CausedBy, n.Data}
	data, err := json.Marshal(doc)
	if err != nil {
		return Entry{}, fmt.Errorf("encode notice: %w", err)
	}
	if len(data) > maxNotice {
		return Entry{}, fmt.Errorf("a notice of channel %s has %d bytes, at most %d are allowed", n.Channel, len(data), maxNotice)
	}
	return Entry{Kind: kind, Property: n.Property, Operator: n.Operator, Type: n.Type, Data: string(data)}, nil
}

// numberData is the data of a notice that tells one number.
func numberData(name string, n int) json.RawMessage {
	return json.RawMessage(`{"` + name + `":` + strconv.Itoa(n) + `}`)
}

// Notifier tells open streams, on every instance, what has happened.
type Notifier interface {
	Notify(ctx context.Context, n Notice) error
}
