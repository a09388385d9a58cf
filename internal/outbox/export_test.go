package outbox

// Queued returns how many events wait to be committed.
func (a *Appender) Queued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.queued
}
