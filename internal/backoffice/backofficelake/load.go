package backofficelake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5"
)

// Loader loads exported files into a warehouse. It is called again for a file whose load
// was not recorded, and must then load nothing twice.
type Loader interface {
	Load(ctx context.Context, t Target, f File) error
}

// Target is where in a warehouse a file belongs.
type Target struct {
	Table  string
	Moment string // the column with the moments that months are of
}

// OpenLoad makes a Loader from the addresses of the lake and of the warehouse, without
// calling either.
type OpenLoad func(lake, warehouse *url.URL) (Loader, error)

// loaders are the warehouses that the program has linked.
var loaders = map[string]OpenLoad{}

// RegisterLoader makes a kind of warehouse known by the scheme of its URL. It is for
// packages' init, as the drivers of buckets are known.
func RegisterLoader(scheme string, open OpenLoad) { loaders[scheme] = open }

// OpenLoader opens a warehouse by its URL; nil for none. What does not fit the lake is
// refused.
func OpenLoader(lake, warehouse string) (Loader, error) {
	if warehouse == "" {
		return nil, nil //nolint:nilnil // files are loaded nowhere
	}
	from, err1 := url.Parse(lake)
	to, err2 := url.Parse(warehouse)
	if err := errors.Join(err1, err2); err != nil {
		return nil, errors.New("warehouse-url: it or lake-url is no URL") // the cause quotes them
	}
	open, linked := loaders[to.Scheme]
	if !linked {
		return nil, fmt.Errorf("warehouse-url: this program can not load into %q, want bigquery://project/dataset", to.Scheme)
	}
	return open(from, to)
}

// load hands confirmed files to the warehouse, the oldest first. What fails is tried
// again by the next run.
func (l *Lake) load(ctx context.Context, conn *pgx.Conn, t table) error {
	if l.cfg.Loader == nil {
		return nil
	}
	rows, err := conn.Query(ctx, `SELECT first, manifest FROM bff_backoffice.audit_exports WHERE tab = $1 AND confirmed_at IS NOT NULL AND loaded_at IS NULL ORDER BY first`, t.name)
	if err != nil {
		return fmt.Errorf("load %s: %w", t.name, err)
	}
	type pending struct {
		First    int64
		Manifest []byte
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[pending])
	if err != nil {
		return fmt.Errorf("load %s: %w", t.name, err)
	}
	for _, p := range all {
		var m Manifest
		if err := json.Unmarshal(p.Manifest, &m); err != nil {
			return fmt.Errorf("load %s: %w", t.name, err)
		}
		for _, f := range m.Files {
			if err := l.cfg.Loader.Load(ctx, Target{Table: t.name, Moment: t.moment}, f); err != nil {
				return fmt.Errorf("load %s into the warehouse: %w", f.Path, err)
			}
		}
		if _, err := conn.Exec(ctx, `UPDATE bff_backoffice.audit_exports SET loaded_at = now() WHERE tab = $1 AND first = $2`, t.name, p.First); err != nil {
			return fmt.Errorf("load %s: %w", t.name, err)
		}
	}
	return nil
}
