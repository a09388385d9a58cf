package testkit

import "os"

// LongProof reports whether the TestProof… tests run at full length, as `make proof`
// has them. Within `make test` each is a short form of itself.
func LongProof() bool { return os.Getenv("MELMASTOON_PROOF") == "long" }

// Proof returns how much a proof does of something: less within `make test`.
func Proof[T any](short, long T) T {
	if LongProof() {
		return long
	}
	return short
}
