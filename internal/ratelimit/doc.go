// Package ratelimit decides, in general without a round trip, whether a client
// has asked too often. It knows buckets and nothing of the product.
//
// The truth is one theoretical arrival time (TAT) per bucket, kept in Redis and
// moved by GCRA. A process does not ask for every request: it leases a run of
// slots from the bucket, spends them locally and fetches the next run behind the
// caller's back. A quiet bucket has no lease: its few requests are admitted on
// trust, noted as a debt and charged later, in one go.
//
// How wrong can that be?
//
//   - A leased slot is a stretch of the bucket's own time line. It is spent once,
//     by one process, and lapses when GCRA would have lost it to a full bucket.
//     Leases therefore admit nothing that a single bucket would not.
//   - Trust is a fraction of what the bucket had left when Redis last answered:
//     one eighth over all processes, none when little is left, one request where
//     the bucket is unknown. It is charged afterwards, so that the long-run rate is
//     exact; only a caller who drains one process and then turns to the others
//     sees it, once per refill.
//   - With neither lease nor trust the caller waits for the answer that is already
//     under way, for at most [Config.MaxWait].
//
// Redis gone means the local share: every process grants its part of the limit, so
// that the service is neither open nor shut.
package ratelimit
