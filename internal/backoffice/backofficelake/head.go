package backofficelake

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// signAll signs the ends of all chains that have grown. A tenant whose end can not be signed
// holds up no other.
func (l *Lake) signAll(ctx context.Context, db *pgxpool.Pool, keys *audit.Keys, clock clock) error {
	var (
		after [16]byte
		errs  []error
	)
	for batch := headBatch; ; {
		signed, err := l.signHeads(ctx, db, keys, clock.now(), after, batch)
		switch {
		case errors.Is(err, errBusy):
			return errors.Join(errs...)
		case err != nil && (ctx.Err() != nil || len(signed) == 0): // the keys, or the server
			return errors.Join(append(errs, fmt.Errorf("sign audit chains: %w", err))...)
		case err != nil && batch > 1: // one of them
			batch = 1
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("sign the audit chain of tenant %s: %w", bff.IDFromBytes(bff.PrefixTenant, signed[0]), err))
		}
		if len(signed) < batch {
			return errors.Join(errs...)
		}
		after = signed[len(signed)-1]
	}
}

// signHeads signs the ends of chains that have grown, with their events, and returns whose it has signed or tried to.
func (l *Lake) signHeads(ctx context.Context, db *pgxpool.Pool, keys *audit.Keys, now time.Time, after [16]byte, limit int) (tenants [][16]byte, err error) {
	err = inTx(ctx, db, func(tx pgx.Tx) error {
		tenants = nil
		var mine bool
		if err := tx.QueryRow(ctx, takeTurn).Scan(&mine); err != nil {
			return err
		}
		if !mine {
			return errBusy
		}
		rows, err := tx.Query(
			ctx, `SELECT tenant, seq, hash, head_seq FROM bff_backoffice.audit_tips WHERE seq > head_seq AND tenant > $2 ORDER BY tenant LIMIT $1`, limit, after,
		)
		if err != nil {
			return err
		}
		type grown struct {
			tip
			HeadSeq int64
		}
		ends, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (g grown, err error) {
			return g, r.Scan(&g.Tenant, &g.Seq, &g.Hash, &g.HeadSeq)
		})
		if err != nil || len(ends) == 0 {
			return err
		}
		var (
			b      pgx.Batch
			events []bff.Event
		)
		for _, end := range ends {
			tenants = append(tenants, end.Tenant)
			head, err := keys.Sign(bff.IDFromBytes(bff.PrefixTenant, end.Tenant), end.Seq, audit.Digest(end.Hash), now)
			if err != nil {
				return err
			}
			event, err := head.Event(l.cfg.News, end.Seq-end.HeadSeq, now)
			if err != nil {
				return err
			}
			events = append(events, event)
			signature, err := base64.StdEncoding.DecodeString(head.Signature)
			if err != nil {
				return err
			}
			b.Queue(`INSERT INTO bff_backoffice.audit_heads (tenant, seq, hash, sealed_at, key_id, signature) VALUES ($1, $2, $3, $4, $5, $6)`,
				end.Tenant, end.Seq, end.Hash, head.SealedAt.Time, head.KeyID, signature)
			b.Queue(`UPDATE bff_backoffice.audit_tips SET head_seq = $2 WHERE tenant = $1`, end.Tenant, end.Seq)
		}
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return err
		}
		return l.cfg.Outbox.Append(ctx, tx, events...)
	})
	return tenants, err
}

// scanHead reads a head as audit_heads has it.
func scanHead(r pgx.CollectableRow) (h audit.Head, err error) {
	var (
		tenant          [16]byte
		hash, signature []byte
		at              time.Time
	)
	if err := r.Scan(&tenant, &h.Seq, &hash, &at, &h.KeyID, &signature); err != nil {
		return h, err
	}
	h.Tenant, h.Hash, h.SealedAt = bff.IDFromBytes(bff.PrefixTenant, tenant), hex.EncodeToString(hash), bff.At(at)
	h.Signature = base64.StdEncoding.EncodeToString(signature)
	return h, nil
}
