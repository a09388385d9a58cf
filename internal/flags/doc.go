// Package flags switches features while the service runs.
//
// Values come from layered sources (a file, Redis) into one
// snapshot that is read without locks, so that a flag may be asked on every
// request. A source that fails keeps its last good values: losing the place
// where a switch is kept must not flip it.
package flags
