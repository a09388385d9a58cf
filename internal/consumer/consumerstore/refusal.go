package consumerstore

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// What is kept by the hash of a session's id.
const (
	aRefusal  = "telemetry refusal"
	aClearing = "cleared session"
)

// sessionHash is how a refusal or a clearing knows its session: nothing else that is
// kept of the guest can be joined with it.
func sessionHash(pepper []byte, what string, guestID bff.ID) []byte {
	mac := hmac.New(sha256.New, pepper)
	mac.Write([]byte(what + "\x00" + guestID.String()))
	return mac.Sum(nil)
}

func refusalHash(pepper []byte, guestID bff.ID) []byte { return sessionHash(pepper, aRefusal, guestID) }

func (s *Store) hashes(what string, guestID bff.ID) [][]byte {
	all := make([][]byte, len(s.cfg.Peppers))
	for i, p := range s.cfg.Peppers {
		all[i] = sessionHash(p, what, guestID)
	}
	return all
}

func (s *Store) refusalHashes(guestID bff.ID) [][]byte { return s.hashes(aRefusal, guestID) }

const addRefusal = `INSERT INTO bff_consumer.telemetry_refusals (session_hash, silent, seen_at) VALUES ($1, $2, $3)
	ON CONFLICT (session_hash) DO UPDATE SET silent = excluded.silent, seen_at = greatest(telemetry_refusals.seen_at, excluded.seen_at)`

// AddRefusal keeps a refusal under the current pepper.
func (s *Store) AddRefusal(ctx context.Context, g consumer.GuestSession, now time.Time) error {
	return s.refusalExec(ctx, "add refusal", addRefusal, refusalHash(s.cfg.Peppers[0], g.ID), g.Silent, now)
}

// RemoveRefusal forgets a refusal.
func (s *Store) RemoveRefusal(ctx context.Context, guestID bff.ID) error {
	return s.refusalExec(ctx, "remove refusal", `DELETE FROM bff_consumer.telemetry_refusals WHERE session_hash = ANY($1)`, s.refusalHashes(guestID))
}

func (s *Store) refusalExec(ctx context.Context, doing, sql string, args ...any) error {
	return durable(postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		return nil
	}))
}

// refusalTimeout caps the look for a refusal where a guest waits for it whose
// session is lost: after that the guest is served as one who cannot be read.
const refusalTimeout = 250 * time.Millisecond

// FindRefusal looks for a refusal.
func (s *Store) FindRefusal(ctx context.Context, guestID bff.ID) (guest.Refusal, error) {
	ctx, cancel := s.within(ctx, refusalTimeout)
	defer cancel()
	return s.findRefusal(ctx, s.cfg.DB, guestID)
}

// findRefusal reads with a pool or in a transaction.
func (s *Store) findRefusal(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, guestID bff.ID,
) (guest.Refusal, error) {
	var r guest.Refusal
	err := db.QueryRow(ctx, `SELECT count(*) > 0, coalesce(bool_and(silent), false),
			EXISTS (SELECT FROM bff_consumer.cleared_sessions WHERE session_hash = ANY($2))
		FROM bff_consumer.telemetry_refusals WHERE session_hash = ANY($1)`,
		s.refusalHashes(guestID), s.hashes(aClearing, guestID)).Scan(&r.Refused, &r.Silent, &r.Cleared)
	if err != nil {
		return guest.Refusal{}, fmt.Errorf("find refusal: %w", err)
	}
	return r, nil
}

// addClearing keeps that a session was purged, under the current pepper.
func (s *Store) addClearing(ctx context.Context, tx pgx.Tx, guestID bff.ID) error {
	_, err := tx.Exec(ctx, `INSERT INTO bff_consumer.cleared_sessions (session_hash) VALUES ($1)
		ON CONFLICT (session_hash) DO UPDATE SET cleared_at = excluded.cleared_at`, sessionHash(s.cfg.Peppers[0], aClearing, guestID))
	if err != nil {
		return fmt.Errorf("keep clearing: %w", err)
	}
	return nil
}

// KnowsSession looks for what Postgres keeps of a session.
func (s *Store) KnowsSession(ctx context.Context, id bff.ID) (known bool, err error) {
	ctx, cancel := s.within(ctx, refusalTimeout)
	defer cancel()
	err = s.cfg.DB.QueryRow(ctx, `SELECT EXISTS (SELECT FROM bff_consumer.wishlist_anonymous WHERE guest_session_id = $1 AND removed_at IS NULL)
		OR EXISTS (SELECT FROM bff_consumer.telemetry_refusals WHERE session_hash = ANY($2))
		OR EXISTS (SELECT FROM bff_consumer.handoff_replay_log WHERE guest_session_id = $1)`, id.String(), s.refusalHashes(id)).Scan(&known)
	if err != nil {
		return false, fmt.Errorf("know session: %w", err)
	}
	return known, nil
}

// RenewSession slides what Postgres keeps for a session: its wishlist, and its
// refusal. The cookie is sent again once a day, so this is a write a day.
func (s *Store) RenewSession(ctx context.Context, g consumer.GuestSession, now time.Time) error {
	return durable(postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE bff_consumer.wishlist_anonymous SET seen_at = $2
			WHERE guest_session_id = $1 AND removed_at IS NULL AND seen_at < $2`, g.ID.String(), now)
		if err == nil && !g.Consent.Telemetry {
			_, err = tx.Exec(ctx, addRefusal, refusalHash(s.cfg.Peppers[0], g.ID), g.Silent, now)
		}
		if err != nil {
			return fmt.Errorf("renew session: %w", err)
		}
		return nil
	}))
}
