package upstream

import "time"

// Option changes one call.
type Option func(*call)

// Idempotent allows retries and hedges of a call that is no GET: one that only
// reads, or one that carries an idempotency key the upstream honours.
func Idempotent() Option { return func(c *call) { c.idempotent = true } }

// Within gives this call another cap than the client's.
func Within(d time.Duration) Option { return func(c *call) { c.cap = d } }

// Header sets a header of this call.
func Header(key, value string) Option { return func(c *call) { c.header.Set(key, value) } }

// Validator makes a GET conditional: the answer is sent again only if it has
// changed since the caller saw it.
type Validator struct {
	// ETag is of the answer that the caller has, "" if it has none; after the call, of
	// the newest one.
	ETag string
	// Unchanged: what the caller has is the newest. Nothing was decoded.
	Unchanged bool
}

// Unless asks for the answer only if it is another than the one that v names, and
// tells in v what came of it. V is written once, before the call returns.
func Unless(v *Validator) Option {
	return func(c *call) {
		c.unless, c.conditional = v, v.ETag != ""
		if c.conditional {
			c.header.Set("If-None-Match", v.ETag)
		}
	}
}
