package consumerstore

import (
	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
)

// OutboxTable is the anonymous service's outbox, in order per guest session.
func OutboxTable() *outbox.Table {
	return outbox.NewTable(outbox.Shape{
		Name: "bff_consumer.outbox", Topic: "topic", Envelope: "headers", Created: "created_at", Retained: true,
		Key: func(e *bff.Envelope) string {
			if e.SessionID == nil {
				return ""
			}
			return *e.SessionID
		},
	})
}
