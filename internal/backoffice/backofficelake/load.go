package backofficelake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Loader loads exported files into a warehouse. It is called again for a file whose load
// was not recorded, and must then load nothing twice.
type Loader interface {
	// Load fails with a [Refusal] if it is about this file; other errors mean that no
	// file can be loaded now.
	Load(ctx context.Context, t Target, f File) error
}

// Refusal says why a warehouse has not loaded a file.
type Refusal struct {
	Detail string
	// Final: it would refuse the same file again.
	Final bool
}

func (r *Refusal) Error() string { return r.Detail }

// Target is where in a warehouse a file belongs.
type Target struct {
	Table  string
	Moment string // the column with the moments that months are of
}

// unloaded are the exports that the warehouse does not have yet.
const unloaded = `confirmed_at IS NOT NULL AND loaded_at IS NULL AND waived_at IS NULL`

// load hands the files of confirmed exports to the warehouse, the oldest first. A file
// that it refuses does not hold up the others. One that is refused for good is passed over
// from then on, and every run says so; what fails otherwise is tried again by the next run.
func (l *Lake) load(ctx context.Context, conn *pgx.Conn, t table) error {
	if l.cfg.Loader == nil {
		return nil
	}
	rows, err := conn.Query(
		ctx, `SELECT first, manifest, coalesce(refusal, '') FROM bff_backoffice.audit_exports WHERE tab = $1 AND `+unloaded+` ORDER BY first`, t.name,
	)
	if err != nil {
		return fmt.Errorf("load %s: %w", t.name, err)
	}
	type pending struct {
		First    int64
		Manifest []byte
		Refusal  string
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pending])
	if err != nil {
		return fmt.Errorf("load %s: %w", t.name, err)
	}
	var refused []string
	for _, p := range all {
		if p.Refusal != "" {
			refused = append(refused, p.Refusal)
			continue
		}
		var m Manifest
		if err := json.Unmarshal(p.Manifest, &m); err != nil {
			return fmt.Errorf("load %s: %w", t.name, err)
		}
		r, err := l.loadExport(ctx, conn, t, &m)
		if err != nil {
			return err
		}
		if r != nil {
			l.cfg.Log.ErrorContext(ctx, "warehouse refused an export, its rows are not pruned", "table", t.name, "first", m.First, "final", r.Final, "error", r.Detail)
			refused = append(refused, r.Detail)
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("%w %d exports of %s, the first: %s", ErrRefused, len(refused), t.name, refused[0])
	}
	return nil
}

// ErrRefused ends a run that has done everything else.
var ErrRefused = errors.New("the warehouse has refused")

// loadExport loads the files of one export, and writes down that they are loaded or
// refused for good.
func (l *Lake) loadExport(ctx context.Context, conn *pgx.Conn, t table, m *Manifest) (*Refusal, error) {
	var refused *Refusal
	for _, f := range m.Files {
		err := l.cfg.Loader.Load(ctx, Target{Table: t.name, Moment: t.moment}, f)
		if r, ok := errors.AsType[*Refusal](err); ok {
			if refused == nil || !r.Final { // one that may be loaded yet is tried again
				refused = &Refusal{Detail: f.Path + ": " + r.Detail, Final: r.Final}
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("load %s into the warehouse: %w", f.Path, err)
		}
	}
	var err error
	switch {
	case refused == nil:
		_, err = conn.Exec(ctx, `UPDATE bff_backoffice.audit_exports SET loaded_at = now() WHERE tab = $1 AND first = $2`, t.name, m.First)
	case refused.Final:
		_, err = conn.Exec(
			ctx, `UPDATE bff_backoffice.audit_exports SET refused_at = now(), refusal = $3 WHERE tab = $1 AND first = $2`, t.name, m.First, refused.Detail,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", t.name, err)
	}
	return refused, nil
}

// RefusedExport is an export that the warehouse has refused for good.
type RefusedExport struct {
	Table       string
	First, Last int64 // positions of the chain
	Rows        int64
	At          time.Time
	Detail      string
}

// Refused lists the exports that the warehouse has refused for good, the oldest first.
func Refused(ctx context.Context, db *pgxpool.Pool) ([]RefusedExport, error) {
	rows, err := db.Query(ctx, `SELECT tab, first, last, rows, refused_at, refusal FROM bff_backoffice.audit_exports
		WHERE refused_at IS NOT NULL AND `+unloaded+` ORDER BY refused_at, tab, first`)
	if err != nil {
		return nil, fmt.Errorf("list refused exports: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[RefusedExport])
}

// RetryRefused has the next runs try all refused exports again.
func RetryRefused(ctx context.Context, db *pgxpool.Pool) error {
	_, err := db.Exec(ctx, `UPDATE bff_backoffice.audit_exports SET refused_at = NULL, refusal = NULL WHERE refused_at IS NOT NULL AND `+unloaded)
	if err != nil {
		return fmt.Errorf("retry refused exports: %w", err)
	}
	return nil
}

// WaiveRefused gives up loading a refused export: its rows are pruned like those that
// were loaded. They stay in the lake.
func WaiveRefused(ctx context.Context, db *pgxpool.Pool, table string, first int64) error {
	tag, err := db.Exec(
		ctx, `UPDATE bff_backoffice.audit_exports SET waived_at = now() WHERE tab = $1 AND first = $2 AND refused_at IS NOT NULL AND `+unloaded, table, first,
	)
	if err != nil {
		return fmt.Errorf("waive export: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("waive export: %s/%d is not among the refused", table, first)
	}
	return nil
}
