package backofficestore

// Waiting is how many entries wait to be committed.
func (l *Ledger) Waiting() int { return l.writer.Waiting() }

// BusName is the name of a channel on a device's bus.
var BusName = busName

// ListActivitiesStatement is the statement of a query.
var ListActivitiesStatement = listActivities
