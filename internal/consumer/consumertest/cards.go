package consumertest

import (
	"bytes"
	"time"

	"melmastoon.ghasi.io/bff/handoff"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
)

// NewCards returns a maker of cards with one key; all that have the same secret
// read each other's cards.
func NewCards(secret byte) *guest.Cards {
	set, err := handoff.NewKeySet("card-test", bytes.Repeat([]byte{secret}, 32), time.Unix(0, 0))
	if err != nil {
		panic(err) // the key is a constant
	}
	return guest.NewCards(handoff.NewKeyring(set))
}
