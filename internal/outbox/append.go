package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"melmastoon.ghasi.io/bff"
)

// maxEvent bounds an event, as Postgres writes it: Pub/Sub would take more, the relay
// and subscribers should not have to. A number such as 1e131071 counts with all of its
// digits.
const maxEvent = 256 << 10

// ErrEvent is wrapped by every refusal of an event before it reaches the table.
var ErrEvent = errors.New("event refused by the outbox")

// Execer is a transaction, a connection or a pool.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Append adds the events in the caller's transaction. Call Wake after it has
// committed.
func (t *Table) Append(ctx context.Context, tx Execer, events ...bff.Event) error {
	if len(events) == 0 {
		return nil
	}
	sql, args, err := t.Statement(1, events...)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return fmt.Errorf("append to outbox: %w", err)
	}
	return nil
}

// Queue is Append for a pipelined batch.
func (t *Table) Queue(b *pgx.Batch, events ...bff.Event) error {
	if len(events) == 0 {
		return nil
	}
	sql, args, err := t.Statement(1, events...)
	if err != nil {
		return err
	}
	b.Queue(sql, args...)
	return nil
}

// Statement returns an INSERT of the events whose parameters are numbered from
// first, to stand alone or in a WITH clause beside the mutation that it belongs
// to. It ends in a FROM clause, so that a caller may add a condition:
//
//	WITH minted AS (INSERT … RETURNING 1), told AS (<statement> WHERE EXISTS (SELECT FROM minted)) …
//
// The text depends on first alone and the arguments are arrays: one prepared
// statement serves any number of events.
func (t *Table) Statement(first int, events ...bff.Event) (sql string, args []any, err error) {
	c := newColumns(len(events))
	for i := range events {
		if err := t.encode(c, &events[i]); err != nil {
			return "", nil, err
		}
	}
	return t.insert(first), c.args(t), nil
}

func (t *Table) insert(first int) string {
	columns, values, names, arrays := "", "", "", ""
	if t.retained {
		columns, values, names, arrays = ", retention_class", ", e.class", ", class", fmt.Sprintf(", $%d::text[]", first+5)
	}
	return fmt.Sprintf(`INSERT INTO %s (id, %s, ordering_key, payload, %s%s)
		SELECT e.id, e.topic, e.key, e.payload::jsonb, e.envelope::jsonb%s
		FROM unnest($%d::%s[], $%d::text[], $%d::text[], $%d::text[], $%d::text[]%s) AS e(id, topic, key, payload, envelope%s)`,
		t.name, t.topic, t.envelope, columns, values, first, t.idType, first+1, first+2, first+3, first+4, arrays, names)
}

// columns are events as the table's columns, ready to be unnested.
type columns struct{ ids, topics, keys, payloads, envelopes, classes []string }

// newColumns returns room for so many events, in one piece.
func newColumns(events int) *columns {
	all := make([]string, 6*events)
	column := func(i int) []string { return all[i*events : i*events : (i+1)*events] }
	return &columns{column(0), column(1), column(2), column(3), column(4), column(5)}
}

func (c *columns) args(t *Table) []any {
	args := []any{c.ids, c.topics, c.keys, c.payloads, c.envelopes}
	if t.retained {
		args = append(args, c.classes)
	}
	return args
}

func (c *columns) append(d *columns) {
	c.ids = append(c.ids, d.ids...)
	c.topics = append(c.topics, d.topics...)
	c.keys = append(c.keys, d.keys...)
	c.payloads = append(c.payloads, d.payloads...)
	c.envelopes = append(c.envelopes, d.envelopes...)
	c.classes = append(c.classes, d.classes...)
}

func (t *Table) encode(c *columns, e *bff.Event) error {
	id, err := bff.ParseID(bff.PrefixEvent, e.Envelope.EventID)
	switch {
	case err != nil:
		return fmt.Errorf("%w: event id: %w", ErrEvent, err)
	case e.Envelope.Subject == "":
		return fmt.Errorf("%w: no subject", ErrEvent)
	case len(e.Payload) <= maxEvent && !json.Valid(e.Payload):
		return fmt.Errorf("%w: payload of %s is not JSON", ErrEvent, e.Envelope.Subject)
	}
	envelope := e.Envelope
	envelope.EventID = id.String()
	envelope.PublishedAt = bff.Timestamp{} // the relay's to fill
	raw, err := json.Marshal(envelope)
	if err != nil {
		return fmt.Errorf("%w: envelope of %s: %w", ErrEvent, e.Envelope.Subject, err)
	}
	if size := len(raw) + len(e.Payload); size > maxEvent || bff.WrittenSize(e.Payload) > maxEvent-len(raw) {
		return fmt.Errorf("%w: %s is larger than %d bytes", ErrEvent, e.Envelope.Subject, maxEvent)
	}
	c.ids = append(c.ids, t.id(id))
	c.topics = append(c.topics, envelope.Subject)
	c.keys = append(c.keys, t.key(&envelope))
	c.payloads = append(c.payloads, string(storable(e.Payload)))
	c.envelopes = append(c.envelopes, string(storable(raw)))
	c.classes = append(c.classes, string(envelope.RetentionClass))
	return nil
}

// storable replaces what is valid JSON but not valid jsonb: the NUL character
// and halves of surrogate pairs, both only as escapes. A guest's text must not
// be able to fail the transaction that it is part of.
func storable(b []byte) []byte {
	if !suspicious(b) {
		return b
	}
	const replacement = `\ufffd`
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		switch {
		case b[i] != '\\' || i+1 >= len(b):
			out = append(out, b[i])
			i++
		case b[i+1] != 'u' || i+6 > len(b):
			out = append(out, b[i:i+2]...)
			i += 2
		default:
			u := unit(b[i+2 : i+6])
			switch {
			case u >= 0xd800 && u < 0xdc00 && i+12 <= len(b) && b[i+6] == '\\' && b[i+7] == 'u' && unit(b[i+8:i+12])&^0x3ff == 0xdc00:
				out = append(out, b[i:i+12]...)
				i += 12
			case u == 0 || u&^0x7ff == 0xd800:
				out = append(out, replacement...)
				i += 6
			default:
				out = append(out, b[i:i+6]...)
				i += 6
			}
		}
	}
	return out
}

// suspicious finds \u0 and \ud, which almost no event has.
func suspicious(b []byte) bool {
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '\\' && b[i+1] == 'u' && (b[i+2] == '0' || b[i+2]|0x20 == 'd') {
			return true
		}
	}
	return false
}

// unit reads four hexadecimal digits.
func unit(b []byte) int {
	n := 0
	for _, c := range b {
		n <<= 4
		switch {
		case c >= '0' && c <= '9':
			n |= int(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n |= int(c|0x20-'a') + 10
		}
	}
	return n
}
