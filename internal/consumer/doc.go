// Package consumer is the domain of the anonymous service: guest sessions,
// search, the composition of what guests see, and the hand-off into a hotel's
// own booking flow. It is pure: it names the outside world as interfaces, is
// given the time, and knows neither HTTP nor Redis nor Postgres.
package consumer
