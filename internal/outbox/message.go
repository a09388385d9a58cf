package outbox

import (
	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

// message wraps envelope and payload as they stand, with the one field that only
// the relay knows spliced in.
func (w *row) message(stamp string) pubsub.Message {
	envelope := w.envelope
	for len(envelope) > 0 && envelope[len(envelope)-1] != '}' {
		envelope = envelope[:len(envelope)-1]
	}
	data := make([]byte, 0, len(envelope)+len(w.payload)+len(stamp)+48)
	data = append(data, `{"envelope":`...)
	data = append(data, envelope[:max(0, len(envelope)-1)]...)
	if len(envelope) > 2 {
		data = append(data, ',')
	}
	data = append(data, `"publishedAt":"`...)
	data = append(data, stamp...)
	data = append(data, `"},"payload":`...)
	data = append(data, w.payload...)
	data = append(data, '}')
	return pubsub.Message{Topic: w.topic, Key: w.key, Data: data, Attributes: map[string]string{"eventId": w.eventID(), "subject": w.topic}}
}

// eventID is the id on the wire, whichever form the column has.
func (w *row) eventID() string {
	if id, err := bff.IDFromUUID(bff.PrefixEvent, w.id); err == nil {
		return id.String()
	}
	return w.id
}
