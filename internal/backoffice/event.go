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
	case SubjectMutationProxied, SubjectPreferencesUpdated, SubjectDeviceCameOnline, SubjectDeviceWentOffline, SubjectHeartbeatReported, SubjectHandshakeCompleted, SubjectCursorAdvanced,
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

// sampled reports whether the event of a request is published. The random part of the
// request's id decides, so that a repeated look says the same.
func (s Subject) sampled(request bff.ID) bool {
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

// SessionOpened is the payload of session.opened.v1.
type SessionOpened struct {
	SessionID       bff.ID        `json:"sessionId"`
	OpenedAt        bff.Timestamp `json:"openedAt"`
	IPHash          string        `json:"ipHash"`
	FingerprintHash string        `json:"fingerprintHash"`
	ReplacedSession *bff.ID       `json:"replacedSessionId,omitempty"`
}

// Subject implements Fact.
func (SessionOpened) Subject() Subject { return SubjectSessionOpened }

// Reasons why a session is closed.
const (
	ReasonSignedOut        = "signed_out"
	ReasonOperatorSwitched = "operator_switched"
	ReasonRevoked          = "revoked"
)

// actionOutgrown is a session's end in the ledger because its operator has opened too
// many; its event is a revocation that names the session that was opened.
const actionOutgrown = "outgrown"

// SessionClosed is the payload of session.closed.v1.
type SessionClosed struct {
	SessionID bff.ID        `json:"sessionId"`
	OpenedAt  bff.Timestamp `json:"openedAt"`
	ClosedAt  bff.Timestamp `json:"closedAt"`
	Reason    string        `json:"reason"`
	// OutgrownBy is the session whose opening was one too many for the operator; this was
	// the oldest of its sessions.
	OutgrownBy *bff.ID `json:"outgrownBy,omitempty"`
}

// Subject implements Fact.
func (SessionClosed) Subject() Subject { return SubjectSessionClosed }

// SessionForceLoggedOut is the payload of session.force_logged_out.v1.
type SessionForceLoggedOut struct {
	Reason    string        `json:"reason"`
	RevokedAt bff.Timestamp `json:"revokedAt"`
	Sessions  []bff.ID      `json:"sessionIds"`
}

// Subject implements Fact.
func (SessionForceLoggedOut) Subject() Subject { return SubjectSessionForceLoggedOut }

// StepUpCompleted is the payload of mfa.step_up_completed.v1.
type StepUpCompleted struct {
	AttestationID bff.ID           `json:"attestationId"`
	Scope         AttestationScope `json:"scope"`
	ResourceID    string           `json:"resourceId,omitempty"`
	ExpiresAt     bff.Timestamp    `json:"expiresAt"`
}

// Subject implements Fact.
func (StepUpCompleted) Subject() Subject { return SubjectStepUpCompleted }

// ReplayBlocked is the payload of dpop.replay_blocked.v1.
type ReplayBlocked struct {
	BlockedAt       bff.Timestamp `json:"blockedAt"`
	IPHash          string        `json:"ipHash"`
	FingerprintHash string        `json:"fingerprintHash"`
}

// Subject implements Fact.
func (ReplayBlocked) Subject() Subject { return SubjectReplayBlocked }

// DeviceCameOnline is the payload of device.came_online.v1.
type DeviceCameOnline struct {
	CameOnlineAt   bff.Timestamp `json:"cameOnlineAt"`
	NetworkProfile string        `json:"networkProfile"`
}

// Subject implements Fact.
func (DeviceCameOnline) Subject() Subject { return SubjectDeviceCameOnline }

// DeviceWentOffline is the payload of device.went_offline.v1.
type DeviceWentOffline struct {
	WentOfflineAt   bff.Timestamp  `json:"wentOfflineAt"`
	LastHeartbeatAt *bff.Timestamp `json:"lastHeartbeatAt,omitempty"`
}

// Subject implements Fact.
func (DeviceWentOffline) Subject() Subject { return SubjectDeviceWentOffline }

// HeartbeatReported is the payload of device.heartbeat_reported.v1.
type HeartbeatReported struct {
	ReportedAt       bff.Timestamp `json:"reportedAt"`
	NetworkProfile   string        `json:"networkProfile"`
	InstallerChannel string        `json:"installerChannel"`
	PendingHintCount int           `json:"pendingHintCount"`
}

// Subject implements Fact.
func (HeartbeatReported) Subject() Subject { return SubjectHeartbeatReported }

// HandshakeCompleted is the payload of sync.handshake_completed.v1.
type HandshakeCompleted struct {
	CompletedAt   bff.Timestamp `json:"completedAt"`
	ExpiresAt     bff.Timestamp `json:"expiresAt"`
	CursorVersion int           `json:"cursorVersion"`
	Stale         bool          `json:"stale"`
}

// Subject implements Fact.
func (HandshakeCompleted) Subject() Subject { return SubjectHandshakeCompleted }

// CursorAdvanced is the payload of sync.cursor_advanced.v1.
type CursorAdvanced struct {
	AdvancedAt    bff.Timestamp `json:"advancedAt"`
	FromVersion   int           `json:"fromVersion"`
	CursorVersion int           `json:"cursorVersion"`
	Pulled        bool          `json:"pulled"`
	Pushed        bool          `json:"pushed"`
}

// Subject implements Fact.
func (CursorAdvanced) Subject() Subject { return SubjectCursorAdvanced }

// Journal takes what operators did and the events that tell of it, all of one
// tenant. It returns nil only once they are committed: an action that cannot be
// recorded is not taken.
type Journal interface {
	Record(ctx context.Context, did []Activity, events ...bff.Event) error
}

// Newsroom wraps facts for publishing.
type Newsroom struct {
	instance string
	ids      *bff.Sequence
}

// NewNewsroom returns the one of a process. Ids come from a sequence, so that rows
// drained in id order keep the order of a device's events.
func NewNewsroom(instance string) *Newsroom {
	return &Newsroom{instance: instance, ids: bff.NewSequence(bff.PrefixEvent)}
}

// about is whom an event is about.
type about struct {
	tenant   bff.ID
	operator string
	device   bff.ID
	session  bff.ID
	property bff.ID
	app      App
}

func (s *Session) about() about {
	return about{tenant: s.Tenant, operator: s.Operator, device: s.Device, session: s.ID, app: App{s.AppVersion, s.AppPlatform}}
}

// event wraps a payload.
func (n *Newsroom) event(f Fact, who about, o Occasion, now time.Time) (bff.Event, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return bff.Event{}, err
	}
	s := f.Subject()
	return bff.Event{
		Envelope: bff.Envelope{
			EventID: n.ids.Next(now).String(), Subject: string(s), Version: 1, OccurredAt: bff.At(now),
			Producer: Producer, ProducerInstance: n.instance,
			TenantID: optional(who.tenant.String()), UserID: optional(who.operator), SessionID: optional(who.session.String()),
			RequestID: optional(o.RequestID.String()), TraceID: optional(o.TraceParent),
			CausationID: optional(o.Causation), CorrelationID: optional(o.RequestID.String()),
			SchemaURI: s.schemaURI(), RetentionClass: s.Retention(), SamplingRate: s.SamplingRate(),
			OperatorID: who.operator, DeviceID: who.device.String(), PropertyID: who.property.String(), AppVersion: who.app.Version, AppPlatform: who.app.Platform,
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
