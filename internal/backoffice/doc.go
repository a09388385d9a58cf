// Package backoffice is the kernel of the staff service's pure domain: callers
// and their rights, what operators do and how it is committed, the second factors
// that some of it needs, and the events and notices that tell of it. The packages below
// it import it and not each other. It has no network, no clock and no third party; what
// it needs from outside are the interfaces that it declares.
package backoffice
