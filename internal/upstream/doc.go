// Package upstream is the way to the services behind us: one resilient
// HTTP/JSON client per upstream.
//
// It knows protocols and no hotels. A call has one wall-clock cap, retries and
// hedges included, and never outlives its caller. Whatever goes wrong has one
// of a few closed reasons, and nothing of the traffic (URL, body, header) is in
// an error or in a log.
package upstream
