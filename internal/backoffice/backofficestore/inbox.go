package backofficestore

import "melmastoon.ghasi.io/bff/internal/inbox"

// InboxTable is the staff service's inbox (DATA_MODEL §4.2). It has no rows of
// tenants, only ids of events.
func InboxTable() *inbox.Table {
	return inbox.NewTable(inbox.Shape{Name: "bff_backoffice.inbox", ID: "message_id"})
}
