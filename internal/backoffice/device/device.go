// Package device deals with the computers of staff: that they are there, how far they
// have synchronised, and how their operators have set them up.
package device

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

const (
	// HeartbeatEvery is how often a device reports that it is there.
	HeartbeatEvery = time.Minute
	// OfflineAfter is the age of the last heartbeat at which a device counts as
	// offline (DATA_MODEL §9).
	OfflineAfter = 5 * time.Minute
	// MaxHints bounds the entries of one report of offline actions.
	MaxHints = 100
)

// Status is whether a device is there.
type Status string

// The statuses there are.
const (
	DeviceOnline  Status = "online"
	DeviceOffline Status = "offline"
	// DeviceUnknown: a heartbeat was received and could not be recorded.
	DeviceUnknown Status = "unknown"
)

// Platforms are the systems that the desktop app runs on.
func Platforms() []string { return []string{"win32", "darwin", "linux"} }

// NetworkProfiles are what an app says of its connection.
func NetworkProfiles() []string { return []string{"good", "flaky", "offline-recently"} }

// Heartbeat is what a device reports of itself.
type Heartbeat struct {
	App              backoffice.App
	NetworkProfile   string
	InstallerChannel string
	PendingHints     int    // actions that wait in the device's own queue
	PullCursor       string // may be empty
}

// Seen is a heartbeat with whom and when it is of.
type Seen struct {
	Heartbeat

	Tenant   bff.ID
	Device   bff.ID
	Property bff.ID // zero: as before
	Operator string
	At       time.Time
}

// Hint says of actions that wait in a device's queue what they are and how many:
// ids and counts, and nothing of a guest.
type Hint struct {
	ID         string         `json:"id,omitempty"` // of the queued action
	Kind       string         `json:"kind"`
	ResourceID string         `json:"resourceId,omitempty"`
	Count      int            `json:"count"`
	QueuedAt   *bff.Timestamp `json:"queuedAt,omitempty"` // of the oldest
}

// HintReport is what a device reports of its queue.
type HintReport struct {
	ID       bff.ID // oaq_…
	Tenant   bff.ID
	Device   bff.ID
	Operator string
	App      backoffice.App
	At       time.Time
	Hints    []Hint
}

// Records keeps what devices report.
type Records interface {
	// RecordHeartbeat marks a device as online and reports whether it was offline
	// before; then the event cameOnline is committed with it. The events of reported
	// are committed in any case.
	RecordHeartbeat(ctx context.Context, s Seen, cameOnline bff.Event, reported ...bff.Event) (wasOffline bool, err error)
	// AddHints keeps a report once per key.
	AddHints(ctx context.Context, r HintReport, o backoffice.Once) (backoffice.Answer, error)
}

// Devices deals with what devices report of themselves.
type Devices struct {
	records Records
	notices backoffice.Notifier
	news    *backoffice.Envelopes
}

// NewDevices returns Devices. Without a notifier open streams are not told.
func NewDevices(r Records, n backoffice.Notifier, news *backoffice.Envelopes) *Devices {
	return &Devices{records: r, notices: n, news: news}
}

// heartbeatTimeout caps the record of a heartbeat: a device that waits for it would
// take a slow database for a lost connection.
const heartbeatTimeout = time.Second

// Beat records a heartbeat. While it cannot be recorded the status is unknown and
// nothing has failed: the device works on, and its next heartbeat makes up for it.
func (d *Devices) Beat(ctx context.Context, v *backoffice.Visit, h Heartbeat, property bff.ID, now time.Time) (Status, error) {
	s := &v.Session
	who := v.About(property)
	who.App = h.App
	came, err := d.news.Event(DeviceCameOnline{CameOnlineAt: bff.At(now), NetworkProfile: h.NetworkProfile}, who, v.Request, now)
	if err != nil {
		return "", err
	}
	var sampled []bff.Event
	if backoffice.SubjectHeartbeatReported.Sampled(v.Request.RequestID) {
		e, err := d.news.Event(HeartbeatReported{
			ReportedAt: bff.At(now), NetworkProfile: h.NetworkProfile, InstallerChannel: h.InstallerChannel, PendingHintCount: h.PendingHints,
		}, who, v.Request, now)
		if err != nil {
			return "", err
		}
		sampled = append(sampled, e)
	}
	inTime, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	wasOffline, err := d.records.RecordHeartbeat(inTime, Seen{
		Heartbeat: h, Tenant: s.Tenant, Device: s.Device, Property: property, Operator: s.Operator, At: now,
	}, came, sampled...)
	switch {
	case err != nil && bff.CodeOf(err) == bff.CodeServiceUnavailable && ctx.Err() == nil:
		return DeviceUnknown, nil
	case err != nil:
		return "", err
	}
	if wasOffline && d.notices != nil {
		// The dashboards of other devices show it a little later without the notice.
		_ = d.notices.Notify(ctx, deviceNotice("device.came_online", s.Tenant, property, s.Device, now))
	}
	return DeviceOnline, nil
}

// AddHints keeps what a device reports of its queue.
func (d *Devices) AddHints(ctx context.Context, v *backoffice.Visit, hints []Hint, o backoffice.Once, now time.Time) (backoffice.Answer, error) {
	s := &v.Session
	return d.records.AddHints(ctx, HintReport{
		ID: bff.NewID(bff.PrefixOfflineHint, now), Tenant: s.Tenant, Device: s.Device, Operator: s.Operator,
		App: v.Caller.App, At: now, Hints: hints,
	}, o)
}

// LostDevice is a device that a sweep has found to be offline.
type LostDevice struct {
	Tenant   bff.ID
	Device   bff.ID
	Property bff.ID // may be zero
	Operator string // the last one there; may be empty
	App      backoffice.App
	// LastHeartbeat is zero if there was none.
	LastHeartbeat time.Time
}

// Event is that of a device that is offline from now on.
func (l LostDevice) Event(n *backoffice.Envelopes, now time.Time) (bff.Event, error) {
	if l.Tenant.IsZero() || l.Device.IsZero() {
		return bff.Event{}, errors.New("a device without tenant or id")
	}
	fact := DeviceWentOffline{WentOfflineAt: bff.At(now)}
	if !l.LastHeartbeat.IsZero() {
		at := bff.At(l.LastHeartbeat)
		fact.LastHeartbeatAt = &at
	}
	who := backoffice.About{Tenant: l.Tenant, Operator: l.Operator, Device: l.Device, Property: l.Property, App: l.App}
	return n.Event(fact, who, backoffice.Occasion{}, now)
}

// Notice is what open streams of the tenant are told of a lost device.
func (l LostDevice) Notice(now time.Time) backoffice.Notice {
	return deviceNotice("device.went_offline", l.Tenant, l.Property, l.Device, now)
}

// deviceNotice is for every device of the property, not only for the one that it is
// about.
func deviceNotice(kind string, tenant, property, device bff.ID, now time.Time) backoffice.Notice {
	return backoffice.Notice{
		Channel: backoffice.ChannelAlerts, Type: kind, Tenant: tenant, Property: property, At: now,
		Data: backoffice.NoticeData(map[string]bff.ID{"deviceId": device}),
	}
}

// DeviceCameOnline is the payload of device.came_online.v1.
type DeviceCameOnline struct {
	CameOnlineAt   bff.Timestamp `json:"cameOnlineAt"`
	NetworkProfile string        `json:"networkProfile"`
}

// Subject implements backoffice.Fact.
func (DeviceCameOnline) Subject() backoffice.Subject { return backoffice.SubjectDeviceCameOnline }

// DeviceWentOffline is the payload of device.went_offline.v1.
type DeviceWentOffline struct {
	WentOfflineAt   bff.Timestamp  `json:"wentOfflineAt"`
	LastHeartbeatAt *bff.Timestamp `json:"lastHeartbeatAt,omitempty"`
}

// Subject implements backoffice.Fact.
func (DeviceWentOffline) Subject() backoffice.Subject { return backoffice.SubjectDeviceWentOffline }

// HeartbeatReported is the payload of device.heartbeat_reported.v1.
type HeartbeatReported struct {
	ReportedAt       bff.Timestamp `json:"reportedAt"`
	NetworkProfile   string        `json:"networkProfile"`
	InstallerChannel string        `json:"installerChannel"`
	PendingHintCount int           `json:"pendingHintCount"`
}

// Subject implements backoffice.Fact.
func (HeartbeatReported) Subject() backoffice.Subject { return backoffice.SubjectHeartbeatReported }
