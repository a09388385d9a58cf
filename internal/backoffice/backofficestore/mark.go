package backofficestore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
)

var _ inbox.Marks = (*Ledger)(nil)

// listMarks are the statements that read each log by the entries' ids.
var listMarks = map[inbox.Inbox]string{
	inbox.Suggestions: `SELECT suggestion_id, decided_by, decided_at, outcome FROM bff_backoffice.ai_decision_log
		WHERE tenant_id = $1 AND suggestion_id = ANY($2) ORDER BY decided_at, id`,
	inbox.Alerts: `SELECT alert_id, acknowledged_by, acknowledged_at, '' FROM bff_backoffice.alert_ack_log
		WHERE tenant_id = $1 AND alert_id = ANY($2) ORDER BY acknowledged_at, id`,
}

// ListMarks returns what operators did about entries of an inbox.
func (l *Ledger) ListMarks(ctx context.Context, of inbox.Inbox, tenant bff.ID, ids []string) (map[string][]inbox.Mark, error) {
	out := map[string][]inbox.Mark{}
	err := l.cfg.DB.Read(ctx, tenant, func(b *pgx.Batch) {
		clear(out) // a read that is repeated starts over
		b.Queue(listMarks[of], tenant.UUID(), ids).Query(func(rows pgx.Rows) error {
			var (
				id string
				m  inbox.Mark
				at time.Time
			)
			_, err := pgx.ForEachRow(rows, []any{&id, &m.Operator, &at, (*string)(&m.Outcome)}, func() error {
				m.At = at.UTC()
				out[id] = append(out[id], m)
				return nil
			})
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list marks of %s: %w", of, err)
	}
	return out, nil
}

const (
	insertDecision = `INSERT INTO bff_backoffice.ai_decision_log (id, tenant_id, property_id, suggestion_id, inbox_entry_id, category, severity,
			outcome, modified_delta, notes_truncated, decided_at, decided_by, device_id, provenance)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
		ON CONFLICT DO NOTHING` // of both unique keys: two attempts of one operator meet in either
	insertAcknowledgement = `INSERT INTO bff_backoffice.alert_ack_log (tenant_id, property_id, alert_id, category, severity, raised_at,
			acknowledged_at, acknowledged_by, device_id, notes_truncated)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (tenant_id, alert_id, acknowledged_by) DO NOTHING`
	findAcknowledgement = `SELECT acknowledged_at FROM bff_backoffice.alert_ack_log
		WHERE tenant_id = $1 AND alert_id = $2 AND acknowledged_by = $3`
)

// decide queues a decision. The unique keys decide which one was first, over all
// instances.
func (w *effects) decide(d inbox.Decision) error {
	if !w.answers {
		return nil
	}
	var delta any
	if d.Delta != nil {
		delta = []byte(d.Delta)
	}
	w.batch.Queue(insertDecision, d.ID.UUID(), d.Tenant.UUID(), uuidOrNull(d.Property), d.SuggestionID, d.InboxID.String(),
		d.Category, d.Severity, string(d.Outcome), delta, optional(d.Notes), d.At, d.Operator, d.Device.String(), []byte(d.Provenance)).
		Exec(func(tag pgconn.CommandTag) error {
			if tag.RowsAffected() == 0 {
				return &endsOtherwise{backoffice.Finished{At: w.at, Failure: inbox.ErrAlreadyDecided()}}
			}
			return nil
		})
	return w.publish(d.Events)
}

// acknowledge queues an acknowledgement, of which there is one for each operator.
func (w *effects) acknowledge(a inbox.Acknowledgement) error {
	if !w.answers {
		return nil
	}
	added := false
	w.batch.Queue(insertAcknowledgement, a.Tenant.UUID(), uuidOrNull(a.Property), a.AlertID, a.Category, a.Severity, a.RaisedAt,
		a.At, a.Operator, a.Device.String(), optional(a.Notes)).
		Exec(func(tag pgconn.CommandTag) error {
			added = tag.RowsAffected() == 1
			return nil
		})
	w.after = append(w.after, func(ctx context.Context, tx pgx.Tx) error {
		if added {
			return nil
		}
		if err := tx.QueryRow(ctx, findAcknowledgement, a.Tenant.UUID(), a.AlertID, a.Operator).Scan(&a.At); err != nil {
			return fmt.Errorf("find acknowledgement: %w", err)
		}
		return &endsOtherwise{backoffice.Finished{At: w.at, Answer: a.Answer()}}
	})
	return w.publish(a.Events)
}
