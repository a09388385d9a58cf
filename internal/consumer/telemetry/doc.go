// Package telemetry is what searches, pages and clients report: the payloads of events
// that belong to no other use case. What may leave decides [consumer.Telemetry].
package telemetry
