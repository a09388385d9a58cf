package outbox

// Queued returns how many events wait to be committed.
func (a *Appender) Queued() int { return a.writer.Waiting() }

// Scanned returns how many rows the main scan has read.
func (r *Relay) Scanned() uint64 { return r.scanned.Load() }
