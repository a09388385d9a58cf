package consumerstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/booking"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// AddHandoff writes a row of the ledger alone, without claim and event: of a tenant
// that is no hotel, to be attacked and removed again.
func (s *Store) AddHandoff(ctx context.Context, h booking.Handoff) error {
	return postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) error { return insertHandoff(ctx, tx, h) })
}

// RemoveHandoff removes a row of the ledger.
func (s *Store) RemoveHandoff(ctx context.Context, id bff.ID) error {
	_, err := s.cfg.DB.Exec(ctx, `DELETE FROM bff_consumer.handoff_replay_log WHERE id = $1`, id.String())
	return err
}
