package backofficestore

// Waiting is how many entries wait to be committed.
func (l *Ledger) Waiting() int { return l.writer.Waiting() }
