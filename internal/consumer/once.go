package consumer

import (
	"melmastoon.ghasi.io/bff"
)

// Once names a mutation, so that it happens once however often it is sent.
type Once struct {
	Guest  bff.ID
	Route  string
	Key    string
	Digest [32]byte
}

// Answer is what the first attempt was told; replays are told the same.
type Answer struct {
	Status   int
	Body     []byte
	Replayed bool
}
