package consumerstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// PenaltyLifetime is how long a suspicion weighs on a fingerprint.
const PenaltyLifetime = 30 * time.Minute

// PenaltyKey is where the weight of a fingerprint's misdeeds stands, as a
// decimal number; absent when there are none.
func (s *Store) PenaltyKey(fingerprint consumer.Hash) string {
	return s.cfg.Keys.Key("bot", "penalty", hex.EncodeToString(fingerprint[:]))
}

// Suspect logs a verdict and its event, and weighs on the fingerprint.
func (s *Store) Suspect(ctx context.Context, b consumer.BotSuspected, e *bff.Event) error {
	signals, err := json.Marshal(b.Signals)
	if err != nil {
		return fmt.Errorf("suspect: %w", err)
	}
	logged := postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO bff_consumer.bot_score_log
			(id, guest_session_id, fingerprint_hash, ip_hash, user_agent_hash, score, verdict, signals, action_taken, evaluated_at)
			VALUES ($1, nullif($2, ''), $3, $4, $5, $6, $7, $8, $9, $10)`,
			bff.NewID(bff.PrefixBotScore, b.EvaluatedAt.Time).String(), b.GuestSessionID.String(), b.FingerprintHash[:], b.IPHash[:], b.UserAgentHash[:],
			b.Score, b.Verdict, signals, b.ActionTaken, b.EvaluatedAt.Time); err != nil {
			return fmt.Errorf("log bot score: %w", err)
		}
		if e != nil {
			return s.cfg.Outbox.Append(ctx, tx, *e)
		}
		return nil
	})
	if logged == nil && e != nil {
		s.cfg.Waker.Wake()
	}
	return errors.Join(durable(logged), s.penalise(ctx, b))
}

func (s *Store) penalise(ctx context.Context, b consumer.BotSuspected) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	c, key := s.cfg.Sessions, s.PenaltyKey(b.FingerprintHash)
	return all("penalise", c.DoMulti(ctx,
		c.B().Incrbyfloat().Key(key).Increment(b.Score).Build(),
		c.B().Expire().Key(key).Seconds(int64(PenaltyLifetime/time.Second)).Build()))
}
