// Package backoffice is the pure domain of the staff service: who is calling and
// with which rights, the session of an operator on a device, and the attestations of
// a second factor. It has no network, no clock and no third party; what it needs
// from outside are the interfaces that it declares.
package backoffice
