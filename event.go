package bff

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// RetentionClass says how long the lake keeps an event.
type RetentionClass string

// The classes of both services.
const (
	RetentionOperational RetentionClass = "operational" // 90 days
	RetentionAudit       RetentionClass = "audit"       // 1 year
	RetentionRegulated   RetentionClass = "regulated"   // 7 years
)

// Envelope is the platform's wrapping of every event. PublishedAt stays empty
// until the relay stamps it.
type Envelope struct {
	EventID          string         `json:"eventId"`
	Subject          string         `json:"subject"`
	Version          int            `json:"version"`
	OccurredAt       Timestamp      `json:"occurredAt"`
	PublishedAt      Timestamp      `json:"publishedAt,omitzero"`
	Producer         string         `json:"producer"`
	ProducerInstance string         `json:"producerInstance"`
	TenantID         *string        `json:"tenantId"`
	UserID           *string        `json:"userId"`
	SessionID        *string        `json:"sessionId"`
	RequestID        *string        `json:"requestId"`
	TraceID          *string        `json:"traceId"`
	CausationID      *string        `json:"causationId"`
	CorrelationID    *string        `json:"correlationId"`
	SchemaURI        string         `json:"schemaUri"`
	RetentionClass   RetentionClass `json:"retentionClass"`
	SamplingRate     float64        `json:"samplingRate"`

	// Only the staff service fills these.
	OperatorID  string `json:"operatorId,omitempty"`
	DeviceID    string `json:"deviceId,omitempty"`
	PropertyID  string `json:"propertyId,omitempty"`
	AppVersion  string `json:"appVersion,omitempty"`
	AppPlatform string `json:"appPlatform,omitempty"`
}

// Event is an envelope with its payload.
type Event struct {
	Envelope Envelope        `json:"envelope"`
	Payload  json.RawMessage `json:"payload"`
}

// Timestamp is a moment on the wire: RFC 3339 in UTC with milliseconds.
type Timestamp struct{ time.Time }

// TimestampFormat is the one spelling of a moment that leaves the services.
const TimestampFormat = "2006-01-02T15:04:05.000Z"

// At returns the moment cut to the milliseconds that the wire keeps.
func At(t time.Time) Timestamp { return Timestamp{t.UTC().Truncate(time.Millisecond)} }

func (t Timestamp) String() string { return t.UTC().Format(TimestampFormat) }

// MarshalText writes the wire spelling.
func (t Timestamp) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalJSON writes the wire spelling.
func (t Timestamp) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalJSON reads any RFC 3339 moment.
func (t *Timestamp) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	return t.UnmarshalText([]byte(s))
}

// UnmarshalText reads any RFC 3339 moment.
func (t *Timestamp) UnmarshalText(b []byte) error {
	got, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return fmt.Errorf("malformed timestamp: want RFC 3339")
	}
	got = got.UTC()
	if y := got.Year(); y < 0 || y > 9999 { // in UTC it is in a year that RFC 3339 cannot write
		return fmt.Errorf("malformed timestamp: want RFC 3339")
	}
	*t = Timestamp{got}
	return nil
}

// ErrEvent is wrapped by every error that refuses a received event.
var ErrEvent = errors.New("malformed event")

// Received is an event of another producer, read tolerantly: the platform's
// producers write several dialects.
type Received struct {
	ID      string
	Subject string
	Payload json.RawMessage
}

// maxEventID bounds what becomes a primary key of the inbox.
const maxEventID = 200

// ParseReceived reads the dialects: the id is envelope.eventId, eventId or id;
// the name is the first of envelope.subject, eventType, type and subject that
// belongs to the platform; the body is payload or data.
func ParseReceived(data []byte) (Received, error) {
	var m struct {
		Envelope struct {
			EventID json.RawMessage `json:"eventId"`
			Subject json.RawMessage `json:"subject"`
		} `json:"envelope"`
		EventID   json.RawMessage `json:"eventId"`
		ID        json.RawMessage `json:"id"`
		EventType json.RawMessage `json:"eventType"`
		Type      json.RawMessage `json:"type"`
		Subject   json.RawMessage `json:"subject"`
		Payload   json.RawMessage `json:"payload"`
		Data      json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return Received{}, fmt.Errorf("%w: not a JSON object", ErrEvent)
	}
	var r Received
	for _, raw := range []json.RawMessage{m.Envelope.EventID, m.EventID, m.ID} {
		if r.ID = jsonString(raw); r.ID != "" {
			break
		}
	}
	if r.ID == "" || len(r.ID) > maxEventID || strings.ContainsRune(r.ID, 0) {
		return Received{}, fmt.Errorf("%w: no usable id", ErrEvent)
	}
	for _, raw := range []json.RawMessage{m.Envelope.Subject, m.EventType, m.Type, m.Subject} {
		if s := jsonString(raw); strings.HasPrefix(s, "melmastoon.") {
			r.Subject = s
			break
		}
	}
	if r.Subject == "" {
		return Received{}, fmt.Errorf("%w: no platform subject", ErrEvent)
	}
	r.Payload = m.Payload
	if len(r.Payload) == 0 || string(r.Payload) == "null" {
		r.Payload = m.Data
	}
	if len(r.Payload) == 0 || string(r.Payload) == "null" {
		return Received{}, fmt.Errorf("%w: no payload", ErrEvent)
	}
	return r, nil
}

func jsonString(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
