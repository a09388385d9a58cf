package upstream

// Option changes one call.
type Option func(*call)

// Idempotent allows retries and hedges of a call that is no GET: one that only
// reads, or one that carries an idempotency key the upstream honours.
func Idempotent() Option { return func(c *call) { c.idempotent = true } }

// Header sets a header of this call.
func Header(key, value string) Option { return func(c *call) { c.header.Set(key, value) } }
