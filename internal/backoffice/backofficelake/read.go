package backofficelake

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

const (
	// chunkTimeout and rowTimeout bound a statement that reads rows. What takes longer is heavy: others do not wait for it.
	chunkTimeout = 3 * time.Second
	rowTimeout   = 500 * time.Millisecond
)

// readFound reads the rows of keys, in their order, until a batch is full, and returns how many it has dealt with. Rows
// that can not be read are refused, each alone.
func readFound(ctx context.Context, tx pgx.Tx, t *audit.Table, keys []found) (done int, err error) {
	for start, bytes := time.Now(), 0; done < len(keys) && bytes < sealBytes && (done == 0 || time.Since(start) < batchTime); {
		n := 1
		for n < sealChunk && done+n < len(keys) && keys[done+n].form == keys[done].form {
			n++
		}
		chunk := keys[done : done+n]
		if !slices.ContainsFunc(chunk, func(f found) bool { return !f.sameTx }) {
			done += n
			continue
		}
		err := attempt(ctx, tx, chunkTimeout, func(tx pgx.Tx) error { return readBetween(ctx, tx, t, chunk) })
		if err != nil && refusalOf(ctx, err) == "" {
			return 0, err
		}
		if err != nil {
			for n = 0; n < len(chunk) && (done == 0 && n == 0 || time.Since(start) < batchTime); n++ {
				err := attempt(ctx, tx, rowTimeout, func(tx pgx.Tx) error { return readBetween(ctx, tx, t, chunk[n:n+1]) })
				if chunk[n].refused = refusalOf(ctx, err); err != nil && chunk[n].refused == "" {
					return 0, err
				}
			}
		}
		for i := range chunk[:n] {
			bytes += chunk[i].weight
		}
		done += n
	}
	return done, nil
}

// readBetween reads the rows of keys that follow each other. One that is there no longer, or was written again, is left
// unread: it is found at its new place.
func readBetween(ctx context.Context, tx pgx.Tx, t *audit.Table, keys []found) error {
	first, last := &keys[0], &keys[len(keys)-1]
	return readRows(ctx, tx, t, first.form, `(t.tx_id, t.tenant_id, t.id) >= ($1::text::xid8, $2::uuid, $3::uuid) AND (t.tx_id, t.tenant_id, t.id) <= ($4::text::xid8, $5::uuid, $6::uuid)
		ORDER BY t.tx_id, t.tenant_id, t.id`, func(f found) {
		for len(keys) > 0 && keys[0].place().before(f.place()) {
			keys = keys[1:]
		}
		if len(keys) > 0 && keys[0].place() == f.place() {
			f.version, f.sameTx, f.before, f.form = keys[0].version, keys[0].sameTx, keys[0].before, keys[0].form
			keys[0] = f
		}
	}, strconv.FormatUint(first.tx, 10), first.tenant, first.row, strconv.FormatUint(last.tx, 10), last.tenant, last.row)
}

// readRows reads rows as they are hashed, one after the other.
func readRows(ctx context.Context, tx pgx.Tx, t *audit.Table, form audit.Form, where string, each func(found), args ...any) error {
	unsettled := "false"
	if t.Unsettled != "" {
		unsettled = t.Unsettled
	}
	columns, from := source(t, form)
	rows, err := tx.Query(ctx, fmt.Sprintf(`SELECT t.tx_id::text, t.%s, %s, %s FROM %s WHERE %s`, t.Moment, unsettled, columns, from, where),
		append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	kinds := kindsOf(t)
	for rows.Next() {
		var (
			f    = found{form: form, read: true}
			txID string
			dst  = []any{&txID, &f.at, &f.unsettled}
		)
		const own = 3
		for range t.Columns {
			dst = append(dst, nil)
		}
		if err := rows.Scan(dst...); err != nil {
			return err
		}
		values := audit.Row(canonical(kinds, rows.RawValues()[own:]))
		f.tx, f.row, f.tenant = number64(txID), [16]byte(values[0]), [16]byte(values[1])
		encoded := t.Encode(nil, form, values)
		f.hash, f.weight = sha256.Sum256(encoded), len(encoded)
		if f.unsettled {
			f.encoded = encoded
		}
		each(f)
	}
	return rows.Err()
}

// attempt runs fn so that its failure undoes nothing else; with a timeout for each of its statements, if it is given.
func attempt(ctx context.Context, tx pgx.Tx, timeout time.Duration, fn func(pgx.Tx) error) error {
	part, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if timeout > 0 {
		if _, err := part.Exec(ctx, `SELECT set_config('statement_timeout', $1, true)`, strconv.FormatInt(timeout.Milliseconds(), 10)); err != nil {
			return err
		}
	}
	if err := fn(part); err != nil {
		if undo := part.Rollback(ctx); undo != nil {
			return fmt.Errorf("%w: %w", undo, err)
		}
		return err
	}
	return part.Commit(ctx)
}

// refusalOf is why rows can not be read or added, if that is for what they are: too heavy, damaged, or in the way of
// what is there. It is empty for any other failure, and for none.
func refusalOf(ctx context.Context, err error) string {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || ctx.Err() != nil {
		return ""
	}
	const canceled, memory, unique = "57014", "53200", "23505"
	data := strings.HasPrefix(pe.Code, "22") || strings.HasPrefix(pe.Code, "54") || strings.HasPrefix(pe.Code, "XX")
	if data || pe.Code == canceled || pe.Code == memory || pe.Code == unique {
		return pe.Message + " (" + pe.Code + ")" // without its detail, which has values
	}
	return ""
}

// byIndex has the transaction's statements look rows up one by one, in the index that gives the order they ask for, whatever statistics
// say: those of a chain that was empty or small when it was last analyzed would have it looked through once for every row. What is looked
// up in the chain is therefore ordered by version, although there is but one. (The price that the planner then names for what it can not do
// without would have each statement compiled, which takes a second.)
func byIndex(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `SELECT set_config(name, 'off', true)
		FROM unnest(ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_sort', 'enable_hashjoin', 'enable_mergejoin', 'jit']) AS name`)
	return err
}
