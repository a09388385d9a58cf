package upstream

import "time"

// Option changes one call.
type Option func(*call)

// Idempotent allows retries and hedges of a call that is no GET: one that only
// reads, or one that carries an idempotency key the upstream honours.
func Idempotent() Option { return func(c *call) { c.idempotent = true } }

// Once forbids retries and hedges of a call that would have them.
func Once() Option { return func(c *call) { c.idempotent = false } }

// Within caps the call at d instead of the client's own cap.
func Within(d time.Duration) Option { return func(c *call) { c.cap = d } }

// Header sets a header of this call.
func Header(key, value string) Option { return func(c *call) { c.header.Set(key, value) } }
