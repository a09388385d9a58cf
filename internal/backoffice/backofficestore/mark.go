package backofficestore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

var _ backoffice.Marks = (*Ledger)(nil)

// listMarks are the statements that read each log by the entries' ids.
var listMarks = map[backoffice.Inbox]string{
	backoffice.Suggestions: `SELECT suggestion_id, decided_by, decided_at, outcome FROM bff_backoffice.ai_decision_log
		WHERE tenant_id = $1 AND suggestion_id = ANY($2) ORDER BY decided_at, id`,
	backoffice.Alerts: `SELECT alert_id, acknowledged_by, acknowledged_at, '' FROM bff_backoffice.alert_ack_log
		WHERE tenant_id = $1 AND alert_id = ANY($2) ORDER BY acknowledged_at, id`,
}

// ListMarks returns what operators did about entries of an inbox.
func (l *Ledger) ListMarks(ctx context.Context, of backoffice.Inbox, tenant bff.ID, ids []string) (map[string][]backoffice.Mark, error) {
	out := map[string][]backoffice.Mark{}
	err := l.cfg.DB.Read(ctx, tenant, func(b *pgx.Batch) {
		clear(out) // a read that is repeated starts over
		b.Queue(listMarks[of], tenant.UUID(), ids).Query(func(rows pgx.Rows) error {
			var (
				id string
				m  backoffice.Mark
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
