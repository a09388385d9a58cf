// Package consumer is the kernel of the anonymous service's domain: visits, sessions,
// queries, tenants, and the facts that leave. Around it are rooms, which import it and
// not each other: guest (what a visit does to its session, wishlists), discovery (what
// guests see of hotels), booking (the hand-off into a hotel's own booking flow), bot and
// telemetry; hotel has the nouns that two of them share. It is pure: it names the outside world as interfaces, is
// given the time, and knows neither HTTP nor Redis nor Postgres.
package consumer
