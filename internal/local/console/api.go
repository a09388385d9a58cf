// Package console tells the console, under /_up/, what happens on this machine's
// platform: each request as a story, events, the state of the world and how to change
// it, dashboards. It asks the parts as any other program could, and adds nothing to the
// services. Its types are the interface: every answer is JSON of one of them, errors are
// {"error":{"code","message"}}.
//
//	GET  /_up/requests                [Request], newest first, at most ?limit=1000
//	GET  /_up/requests/stream         SSE: event "request", data Request, id = seq; Last-Event-ID goes on from there
//	GET  /_up/requests/{id}           Story; by request id, trace id, or "last"
//	GET  /_up/events                  [Event], newest first
//	GET  /_up/events/stream           SSE: event "event", data Event, id = seq
//	GET  /_up/outbox                  [Outbox]
//	GET  /_up/world                   World
//	POST /_up/flags                   Flag; a control of World sends it
//	POST /_up/trigger                 Trigger; the same
//	GET  /_up/dashboards              [Dashboard]; the first is "vitals", of the first screen
//	GET  /_up/dashboards/{name}       Figures, of the last ?minutes=15
//	GET  /_up/state                   State
package console

import (
	"encoding/json"
	"time"

	"melmastoon.ghasi.io/bff/internal/doctor"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/local/trace"
)

// Event is a message of Pub/Sub.
type Event struct {
	Seq        uint64          `json:"seq"`
	ID         string          `json:"id"`
	Subject    string          `json:"subject"`
	At         time.Time       `json:"at"`
	Producer   string          `json:"producer"`   // bff-consumer, bff-backoffice or upstreams
	ReceivedBy []string        `json:"receivedBy"` // which services listen to it
	TenantID   string          `json:"tenantId,omitempty"`
	TraceID    string          `json:"traceId,omitempty"` // of the request that caused it
	Data       json.RawMessage `json:"data"`
}

// Outbox is what a service has still to publish, and what it has given up.
type Outbox struct {
	Service     string       `json:"service"`
	Waiting     int64        `json:"waiting"`
	Held        int64        `json:"held"`
	Published   int64        `json:"published"`
	LagSeconds  float64      `json:"lagSeconds"`
	DeadLetters []DeadLetter `json:"deadLetters"`
}

// DeadLetter is an event that was given up.
type DeadLetter struct {
	ID       string    `json:"id"`
	Subject  string    `json:"subject"`
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts"`
	Reason   string    `json:"reason"`
	Retry    string    `json:"retry"` // the command that has it published again
}

// Control is a button: it sends its body, and shows the command that does the same.
type Control struct {
	Name    string          `json:"name"`
	Command string          `json:"command"`
	Method  string          `json:"method"`
	Path    string          `json:"path"`
	Body    json.RawMessage `json:"body,omitempty"`
	On      bool            `json:"on,omitempty"` // what it does is so already
}

// World is the state of the platform and what can be done to it.
type World struct {
	At        time.Time  `json:"at"`
	Upstreams []Upstream `json:"upstreams"`
	Heal      Control    `json:"heal"` // all upstreams
	Events    []Control  `json:"events"`
	Rung      Rung       `json:"rung"`
	Campaign  []Control  `json:"campaign"` // on, off
	Tenants   []Tenant   `json:"tenants"`
	Devices   []Device   `json:"devices"` // those that have a stream first
	Limits    []Limit    `json:"limits"`
}

// Upstream is a simulated service, as it is and as the services see it.
type Upstream struct {
	Name     string            `json:"name"`
	Calls    int64             `json:"calls"`
	Rate     float64           `json:"rate"` // calls per second, of the last minute
	P99Ms    float64           `json:"p99Ms"`
	Breakers map[string]string `json:"breakers"` // by service
	Faults   []Fault           `json:"faults"`
	Controls []Control         `json:"controls"`
}

// Fault is one that is set.
type Fault struct {
	sim.ActiveFault
	Clear Control `json:"clear"`
}

// Rung is the step of the brownout ladder.
type Rung struct {
	Now      string    `json:"now"`
	Held     string    `json:"held,omitempty"` // by an operator
	Controls []Control `json:"controls"`       // one for each rung, and one to let go
}

// Tenant is a hotel company: one that is suspended, or one of the first of the data set.
type Tenant struct {
	TenantID  string  `json:"tenantId"`
	Slug      string  `json:"slug"`
	Name      string  `json:"name"`
	Suspended bool    `json:"suspended"`
	Control   Control `json:"control"` // suspend or reinstate
}

// Device is a hotel's computer.
type Device struct {
	DeviceID string    `json:"deviceId"`
	TenantID string    `json:"tenantId,omitempty"`      // empty: not known, as of one that opened its stream before this run
	Status   string    `json:"status"`                  // of its last sync; empty: it never reported
	SeenAt   time.Time `json:"seenAt"`                  // when it did, or opened its stream
	Stream   *Stream   `json:"stream,omitempty" db:"-"` // that is open now
}

// Stream is the one that a device has open.
type Stream struct {
	Since    time.Time `json:"since"`
	Operator string    `json:"operator"`
	Control  Control   `json:"control"` // revokes the device, which ends it
}

// Limit is what is known of one: what the last request that it decided about was told,
// and how many it has refused.
type Limit struct {
	Service string `json:"service"`
	trace.Limit
	At       time.Time `json:"at"`       // of that request; zero: there was none
	RefillMs float64   `json:"refillMs"` // from one request to the next
	FullAt   time.Time `json:"fullAt"`   // if nothing more is asked
	Count    int64     `json:"count"`    // refused
}

// Flag is a switch of a service; an empty value takes it back.
type Flag struct {
	Service string `json:"service"`
	Name    string `json:"name"`
	Value   string `json:"value"`
}

// Trigger has the platform report something.
type Trigger struct {
	Event    string            `json:"event"`
	Tenant   string            `json:"tenant,omitempty"`   // id or slug
	Operator string            `json:"operator,omitempty"` // id or user name
	Set      map[string]string `json:"set,omitempty"`      // members of its payload
}

// Dashboard is one of deploy/grafana, or the vitals.
type Dashboard struct {
	Name   string  `json:"name"`
	Title  string  `json:"title"`
	Panels []Panel `json:"panels"`
}

// Panel is one plot.
type Panel struct {
	Title   string   `json:"title"`
	Row     string   `json:"row,omitempty"`
	Text    string   `json:"text,omitempty"`
	Unit    string   `json:"unit"` // as Grafana names it: s, reqps, ops, percentunit, bytes, none
	Queries []string `json:"queries"`
}

// Figures are the values of a dashboard's panels, in their order.
type Figures struct {
	At     time.Time  `json:"at"`
	Panels [][]Series `json:"panels"`
}

// Series is one line of a plot.
type Series struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"` // seconds since 1970, value
}

// State is what status, check and doctor say.
type State struct {
	Since    time.Time `json:"since"`
	Home     string    `json:"home"`
	Versions []Version `json:"versions"`
	Parts    []Part    `json:"parts"`
	Findings []Finding `json:"findings"`
}

// Part is something that runs.
type Part struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	State   string `json:"state"` // ready, up, not ready, away
	More    string `json:"more,omitempty"`
}

// Version is that of a program or a server.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Finding is what a service's doctor says, ages of keys included.
type Finding struct {
	Service string `json:"service"`
	doctor.Finding
}
