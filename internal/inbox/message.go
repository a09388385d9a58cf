package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// Message is a received event, read tolerantly: producers write several dialects,
// and members that are not asked for may be anything.
type Message struct {
	Event
	OccurredAt time.Time
	members    map[string]json.RawMessage
	envelope   map[string]json.RawMessage
}

// Text is a member of the payload that is a text; "" if it is anything else.
func (m *Message) Text(name string) string { return text(m.members[name]) }

// Has reports whether a member is there and not null.
func (m *Message) Has(name string) bool {
	raw, ok := m.members[name]
	return ok && string(raw) != "null"
}

// Envelope is a member of the envelope that is a text; "" if it is anything else or the
// producer's dialect has no envelope.
func (m *Message) Envelope(name string) string { return text(m.envelope[name]) }

func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// maxAhead is how far a producer's clock may be ahead. A moment further in the future
// would win over all that is still to come.
const maxAhead = 5 * time.Second

// Read reads a delivery. It happened when the payload says so under one of the given
// names, else when the envelope does, else when it was published.
func Read(d pubsub.Delivery, now time.Time, moments ...string) (Message, error) {
	e, err := bff.ParseReceived(d.Data)
	if err != nil {
		return Message{}, err
	}
	m := Message{Event: Event{ID: e.ID, Subject: e.Subject, Digest: Digest(e)}}
	if json.Unmarshal(e.Payload, &m.members) != nil || m.members == nil {
		return Message{}, fmt.Errorf("%w: the payload is no object", bff.ErrEvent)
	}
	var outer struct {
		Envelope   map[string]json.RawMessage `json:"envelope"`
		OccurredAt json.RawMessage            `json:"occurredAt"`
		Time       json.RawMessage            `json:"time"`
	}
	_ = json.Unmarshal(d.Data, &outer) // what cannot be read says nothing about the time
	m.envelope = outer.Envelope
	var said []json.RawMessage
	for _, name := range moments {
		said = append(said, m.members[name])
	}
	m.OccurredAt = d.PublishTime
	if m.OccurredAt.IsZero() {
		m.OccurredAt = now
	}
	for _, raw := range append(said, m.members["occurredAt"], outer.Envelope["occurredAt"], outer.OccurredAt, outer.Time) {
		var t bff.Timestamp
		if s := text(raw); s != "" && t.UnmarshalText([]byte(s)) == nil && t.Before(now.Add(maxAhead)) {
			m.OccurredAt = t.Time
			break
		}
	}
	return m, nil
}

// Digest is over what an event says, not over its envelope: a producer that
// publishes once more stamps that anew.
func Digest(e bff.Received) [sha256.Size]byte {
	var b bytes.Buffer
	b.WriteString(e.Subject)
	b.WriteByte('\n')
	if json.Compact(&b, e.Payload) != nil { // it was read before
		b.Write(e.Payload)
	}
	return sha256.Sum256(b.Bytes())
}
