//go:build !race

// The race detector makes sync.Pool forget at random: nothing can be counted
// under it.

package handoff_test

import (
	"testing"

	"melmastoon.ghasi.io/bff/handoff"
)

// TestAllocations: minting allocates the token and verifying nothing, so that
// a burst of hand-offs is no burst of garbage.
func TestAllocations(t *testing.T) {
	ring, c := ring(t), claims()
	token, _ := mint(t, ring, c, minted)
	if n := testing.AllocsPerRun(100, func() { _, _, _ = handoff.Mint(ring, c, minted) }); n > 1 {
		t.Errorf("Mint allocates %v times, want 1", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = handoff.Verify(ring, token, minted) }); n > 0 {
		t.Errorf("Verify allocates %v times, want 0", n)
	}
}
