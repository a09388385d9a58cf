package consumerstore

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
)

// PenaltyLifetime is how long a suspicion is remembered of a fingerprint; it
// weighs less and less meanwhile.
const PenaltyLifetime = 30 * time.Minute

// PenaltyKey is where the weight of a fingerprint's misdeeds stands; absent when
// there are none.
func (s *Store) PenaltyKey(fingerprint consumer.Hash) string {
	return s.cfg.Keys.Key("bot", "penalty", hex.EncodeToString(fingerprint[:]))
}

// Suspect logs a verdict and its event, and weighs on the fingerprint.
func (s *Store) Suspect(ctx context.Context, b bot.BotSuspected, e *bff.Event) error {
	return errors.Join(s.LogVerdict(ctx, b, e), s.penalise(ctx, b))
}
