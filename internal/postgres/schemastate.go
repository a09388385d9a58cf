package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff/migrations"
)

// SchemaState is how far a database has come, compared with the files of a set.
type SchemaState struct {
	Newest  int64   // of the files
	Beyond  []int64 // what a later release has applied
	Missing []int64

	// Illegible says that the role may not read what is applied: the release that has
	// migrated last did not grant it, or another tool has.
	Illegible bool
}

// Ahead says in one line what a later release has applied, with which this one works;
// empty = nothing.
func (s SchemaState) Ahead() string {
	switch n := len(s.Beyond); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("ahead by migration %04d", s.Beyond[0])
	default:
		return fmt.Sprintf("ahead by migrations %04d to %04d, %d in all", s.Beyond[0], s.Beyond[n-1], n)
	}
}

// Lack says in one line what is missing; empty = nothing.
func (s SchemaState) Lack() string {
	switch n := len(s.Missing); {
	case s.Illegible:
		return "which migrations are applied can not be read: run migrate"
	case n == 0:
		return ""
	case n == 1:
		return fmt.Sprintf("migration %04d is missing: run migrate", s.Missing[0])
	default:
		return fmt.Sprintf("migrations %04d to %04d are missing, %d in all: run migrate", s.Missing[0], s.Missing[n-1], n)
	}
}

// InspectMigrations compares what is applied with the files of a set, as any of the
// set's login roles.
func InspectMigrations(ctx context.Context, db *pgxpool.Pool, set migrations.Set) (SchemaState, error) {
	files, err := versions(set.FS)
	if err != nil {
		return SchemaState{}, err
	}
	s := SchemaState{Newest: files[len(files)-1]}
	rows, _ := db.Query(ctx, "SELECT version_id FROM "+versionTable(set)+" WHERE is_applied ORDER BY version_id") // its error is that of the rows
	applied, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	pe, refused := errors.AsType[*pgconn.PgError](err)
	switch {
	case isMissing(err):
		s.Missing = files
		return s, nil
	case refused && pe.Code == "42501":
		s.Illegible = true
		return s, nil
	case err != nil:
		return s, fmt.Errorf("read migrations: %w", err)
	}
	for _, f := range files {
		if !slices.Contains(applied, f) {
			s.Missing = append(s.Missing, f)
		}
	}
	for _, a := range applied {
		if a > s.Newest {
			s.Beyond = append(s.Beyond, a)
		}
	}
	return s, nil
}
