package backoffice

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
)

// Producer is this service's name in envelopes.
const Producer = "bff-backoffice-service"

// Subject names an event.
type Subject string

// The events that this service publishes.
const (
	SubjectSessionOpened         Subject = "melmastoon.bff.backoffice.session.opened.v1"
	SubjectSessionClosed         Subject = "melmastoon.bff.backoffice.session.closed.v1"
	SubjectSessionForceLoggedOut Subject = "melmastoon.bff.backoffice.session.force_logged_out.v1"
	SubjectStepUpCompleted       Subject = "melmastoon.bff.backoffice.mfa.step_up_completed.v1"
	SubjectReplayBlocked         Subject = "melmastoon.bff.backoffice.dpop.replay_blocked.v1"
	SubjectMutationProxied       Subject = "melmastoon.bff.backoffice.mutation.proxied.v1"
	SubjectSuggestionDecided     Subject = "melmastoon.bff.backoffice.ai_suggestion.decided.v1"
	SubjectAlertAcknowledged     Subject = "melmastoon.bff.backoffice.alert.acknowledged.v1"
	SubjectPreferencesUpdated    Subject = "melmastoon.bff.backoffice.preferences.updated.v1"
	SubjectDeviceCameOnline      Subject = "melmastoon.bff.backoffice.device.came_online.v1"
	SubjectDeviceWentOffline     Subject = "melmastoon.bff.backoffice.device.went_offline.v1"
	SubjectHeartbeatReported     Subject = "melmastoon.bff.backoffice.device.heartbeat_reported.v1"
	SubjectHandshakeCompleted    Subject = "melmastoon.bff.backoffice.sync.handshake_completed.v1"
	SubjectCursorAdvanced        Subject = "melmastoon.bff.backoffice.sync.cursor_advanced.v1"
	SubjectDashboardViewed       Subject = "melmastoon.bff.backoffice.dashboard.viewed.v1"
	SubjectWorkbenchViewed       Subject = "melmastoon.bff.backoffice.workbench.viewed.v1"
	SubjectLockActionProxied     Subject = "melmastoon.bff.backoffice.lock_action.proxied.v1"
	SubjectAuditSealed           Subject = "melmastoon.bff.backoffice.audit.sealed.v1"
)

// Subjects lists every event of the service, for topics and contracts.
func Subjects() []Subject {
	return []Subject{
		SubjectSessionOpened, SubjectSessionClosed, SubjectSessionForceLoggedOut, SubjectStepUpCompleted, SubjectReplayBlocked,
		SubjectPreferencesUpdated, SubjectMutationProxied, SubjectSuggestionDecided, SubjectAlertAcknowledged,
		SubjectDeviceCameOnline, SubjectDeviceWentOffline, SubjectHeartbeatReported, SubjectHandshakeCompleted, SubjectCursorAdvanced,
		SubjectDashboardViewed, SubjectWorkbenchViewed,
		SubjectLockActionProxied,
		SubjectAuditSealed,
	}
}

// Retention is the class that the lake keeps the event in. What says who had access,
// when, is kept for seven years.
func (s Subject) Retention() bff.RetentionClass {
	switch s {
	case SubjectMutationProxied, SubjectPreferencesUpdated, SubjectDeviceCameOnline, SubjectDeviceWentOffline, SubjectHeartbeatReported,
		SubjectHandshakeCompleted, SubjectCursorAdvanced,
		SubjectDashboardViewed, SubjectWorkbenchViewed:
		return bff.RetentionOperational
	}
	return bff.RetentionRegulated
}

// SamplingRate is the share of an event's occasions that are published.
func (s Subject) SamplingRate() float64 {
	switch s {
	case SubjectHeartbeatReported:
		return 0.01
	case SubjectDashboardViewed, SubjectWorkbenchViewed:
		return 0.25
	}
	return 1
}

// Sampled reports whether the event of a request is published. The random part of the
// request's id decides, so that a repeated look says the same.
func (s Subject) Sampled(request bff.ID) bool {
	b := request.Bytes()
	return float64(binary.BigEndian.Uint64(b[8:]))/(1<<64) < s.SamplingRate()
}

// schemaURI is where the schema of the event is published.
func (s Subject) schemaURI() string {
	name := strings.TrimPrefix(string(s), "melmastoon.bff.backoffice.")
	at := strings.LastIndexByte(name, '.') // of the version
	return "https://schemas.melmastoon.ghasi.io/bff-backoffice/" + strings.NewReplacer(".", "-", "_", "-").Replace(name[:at]) + "/" + name[at+1:] + ".json"
}

// Occasion is what the envelope says of the request or event that caused an event.
type Occasion struct {
	RequestID   bff.ID
	TraceParent string
	Causation   string // id of the received event
}

// Fact is the payload of an event.
type Fact interface{ Subject() Subject }

// Journal takes what operators did and the events that tell of it, all of one
// tenant. It returns nil only once they are committed: an action that cannot be
// recorded is not taken.
type Journal interface {
	Record(ctx context.Context, did []Activity, events ...bff.Event) error
}

// Envelopes wraps facts for publishing.
type Envelopes struct {
	instance string
	ids      *bff.Sequence
}

// NewEnvelopes returns the one of a process. Ids come from a sequence, so that rows
// drained in id order keep the order of a device's events.
func NewEnvelopes(instance string) *Envelopes {
	return &Envelopes{instance: instance, ids: bff.NewSequence(bff.PrefixEvent)}
}

// About is whom an event is about.
type About struct {
	Tenant   bff.ID
	Operator string
	Device   bff.ID
	Session  bff.ID
	Property bff.ID
	App      App
}

// About is whom an event of the session is about.
func (s *Session) About() About {
	return About{Tenant: s.Tenant, Operator: s.Operator, Device: s.Device, Session: s.ID, App: App{s.AppVersion, s.AppPlatform}}
}

// About is whom an event of the visit is about, at a property.
func (v *Visit) About(property bff.ID) About {
	who := v.Session.About()
	who.Property = property
	return who
}

// Event wraps a payload.
func (n *Envelopes) Event(f Fact, who About, o Occasion, now time.Time) (bff.Event, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return bff.Event{}, err
	}
	s := f.Subject()
	return bff.Event{
		Envelope: bff.Envelope{
			EventID: n.ids.Next(now).String(), Subject: string(s), Version: 1, OccurredAt: bff.At(now),
			Producer: Producer, ProducerInstance: n.instance,
			TenantID: optional(who.Tenant.String()), UserID: optional(who.Operator), SessionID: optional(who.Session.String()),
			RequestID: optional(o.RequestID.String()), TraceID: optional(o.TraceParent),
			CausationID: optional(o.Causation), CorrelationID: optional(o.RequestID.String()),
			SchemaURI: s.schemaURI(), RetentionClass: s.Retention(), SamplingRate: s.SamplingRate(),
			OperatorID: who.Operator, DeviceID: who.Device.String(), PropertyID: who.Property.String(), AppVersion: who.App.Version, AppPlatform: who.App.Platform,
		},
		Payload: body,
	}, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
