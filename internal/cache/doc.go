// Package cache is a read-through cache of finished bytes in two tiers: memory
// over Redis. It knows protocols and no hotels: keys, tags and bodies are the
// caller's.
//
// A [Store] is what the caches of one process share: the Redis client, the log
// of invalidations and the bus. A [Cache] holds one kind of body under its own
// lifetimes and limits.
//
// # Life of an entry
//
// Time counts from the moment its fill began:
//
//	0 ── refresh ── Fresh ── Fresh+Grace ── Fresh+Stale
//	│  HIT   │  HIT   │   STALE    │  only if  │ never
//	│        │ one    │ at once,   │  a fill   │ served
//	│        │ refresh│ one refresh│  fails    │
//
// The refresh point is jittered over the last part of Fresh, so that keys
// filled together are not refreshed together, and so that a key in use is
// renewed before a reader gets a stale body or has to wait.
//
// # One fill for all
//
// Callers of one process share a flight per key; flights of all processes
// elect one leader by a lease in Redis (lease.go). The lease saves upstream
// calls; correctness does not rest on it: it may expire, be evicted or be lost
// with its server, and the worst that follows is one more fill.
//
// # Invalidation
//
// Tags are compared when an entry is read, never scanned for (tags.go). An
// entry remembers how much of the invalidation log its process knew when its
// fill began, so that a fill which raced an invalidation cannot bring back old
// data, whichever process stores it and whenever it arrives.
//
// # Without Redis
//
// Every call has a deadline, and after a few failures in a row no request
// calls Redis at all until a background probe has reached it (redis.go). Memory
// is served on; misses are filled by each process for itself.
package cache
