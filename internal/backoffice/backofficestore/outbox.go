// Package backofficestore keeps what the staff service keeps in Postgres and
// Redis. For now it describes the outbox.
package backofficestore

import (
	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/outbox"
)

// OutboxTable is the staff service's outbox, in order per device. The role of
// requests may only add to it; everything else is for the role of relay and jobs.
func OutboxTable() *outbox.Table {
	return outbox.NewTable(outbox.Shape{
		Name: "bff_backoffice.outbox", Archive: "bff_backoffice.outbox_archive", UUID: true,
		Topic: "subject", Envelope: "envelope", Created: "enqueued_at",
		Key: func(e *bff.Envelope) string { return e.DeviceID },
	})
}
