package outbox

import (
	"fmt"
	"hash/fnv"
	"strings"

	"melmastoon.ghasi.io/bff"
)

// Shape says how a service's outbox table looks. A table has the journal of its
// relay beside it, under its own name with _marks behind.
type Shape struct {
	Name    string // qualified
	Archive string // where pruned rows go; empty = they are deleted
	// Topic, Envelope and Created are the columns whose names differ.
	Topic, Envelope, Created string
	UUID                     bool // the id column is a uuid, else text
	Retained                 bool // has a retention_class
	// Key chooses what order is kept within.
	Key func(*bff.Envelope) string
}

// Table is the outbox of one service.
type Table struct {
	name     string
	archive  string
	idType   string
	topic    string
	envelope string
	created  string
	retained bool
	id       func(bff.ID) string // an event's id as the id column holds it
	key      func(*bff.Envelope) string

	sql statements
}

// NewTable prepares the statements of a table.
func NewTable(s Shape) *Table {
	t := &Table{
		name: s.Name, archive: s.Archive, topic: s.Topic, envelope: s.Envelope, created: s.Created, retained: s.Retained, key: s.Key,
		idType: "text", id: bff.ID.String,
	}
	if s.UUID {
		t.idType, t.id = "uuid", bff.ID.UUID
	}
	return t.prepare()
}

type statements struct {
	read, mark, fail, adopt string
	note, strike, journal   string
	stats, dead, replay     string
	drop, prune, pruneDLQ   string
}

// Name is the table's qualified name.
func (t *Table) Name() string { return t.name }

func (t *Table) prepare() *Table {
	r := strings.NewReplacer("{table}", t.name, "{archive}", t.archive, "{idtype}", t.idType,
		"{topic}", t.topic, "{envelope}", t.envelope, "{created}", t.created)
	const columns = `tx_id, id::text AS id, {topic} AS topic, ordering_key, {envelope}::text AS envelope, payload::text AS payload, attempts,
		CASE WHEN attempts > 0 THEN extract(epoch FROM next_attempt_at - clock_timestamp())::float8 ELSE 0 END AS wait`
	t.sql = statements{
		// The snapshot comes with the rows, and also when there are none.
		read: r.Replace(`WITH s AS MATERIALIZED (SELECT pg_current_snapshot()::text AS snapshot)
			SELECT s.snapshot, o.* FROM s LEFT JOIN LATERAL (
				(SELECT false AS hole, ` + columns + ` FROM {table}
				WHERE published_at IS NULL AND dlq = false AND (tx_id, id) > ($1::xid8, $2::{idtype})
				ORDER BY {table}.tx_id, {table}.id LIMIT $3)
				UNION ALL
				(SELECT true, ` + columns + ` FROM {table}
				WHERE published_at IS NULL AND dlq = false AND tx_id = ANY($4::xid8[]) AND (tx_id, id) <= ($1::xid8, $2::{idtype})
				ORDER BY {table}.tx_id, {table}.id LIMIT $3)
			) o ON true`),
		// Neither asks for published_at IS NULL: the planner would then walk one of
		// the partial indexes, and with it the whole backlog, for every batch.
		mark: r.Replace(`UPDATE {table} SET published_at = coalesce(published_at, $1), last_error = NULL
			WHERE id = ANY($2::{idtype}[])`),
		fail: r.Replace(`UPDATE {table} o SET attempts = o.attempts + 1, last_error = f.error,
				next_attempt_at = clock_timestamp() + make_interval(secs => f.wait),
				dlq = o.published_at IS NULL AND o.attempts + 1 >= $4
			FROM unnest($1::{idtype}[], $2::text[], $3::float8[]) AS f(id, error, wait)
			WHERE o.id = f.id`),
		adopt: r.Replace(`UPDATE {table} SET tx_id = pg_current_xact_id()
			WHERE published_at IS NULL AND dlq = false AND tx_id >= pg_snapshot_xmax(pg_current_snapshot())`),
		note:    r.Replace(`INSERT INTO {table}_marks (published_at, ids) VALUES ($1, $2::{idtype}[]) RETURNING seq`),
		strike:  r.Replace(`DELETE FROM {table}_marks WHERE seq = $1`),
		journal: r.Replace(`SELECT seq, published_at, ids::text[] FROM {table}_marks ORDER BY seq`),
		stats: r.Replace(`SELECT count(*) FILTER (WHERE NOT dlq), count(*) FILTER (WHERE dlq),
				coalesce(extract(epoch FROM clock_timestamp() - min({created}) FILTER (WHERE NOT dlq)), 0)::float8,
				coalesce(max(attempts) FILTER (WHERE NOT dlq), 0)
			FROM {table} WHERE published_at IS NULL AND id NOT IN (SELECT unnest(ids) FROM {table}_marks)`),
		dead: r.Replace(`SELECT id::text, {topic}, attempts, {created}, coalesce(last_error, '') FROM {table}
			WHERE dlq = true AND published_at IS NULL ORDER BY {created} DESC LIMIT $1`),
		// A replayed row takes the replaying transaction's place in the order: the
		// relay's cursor has long passed its old one.
		replay: r.Replace(`UPDATE {table} SET dlq = false, attempts = 0, last_error = NULL, next_attempt_at = now(), tx_id = pg_current_xact_id()
			WHERE id IN (SELECT id FROM {table} WHERE dlq = true AND published_at IS NULL AND ($1::{idtype}[] IS NULL OR id = ANY($1))
				ORDER BY {created} LIMIT $2 FOR UPDATE SKIP LOCKED)`),
		drop: r.Replace(`DELETE FROM {table} WHERE dlq = true AND published_at IS NULL AND id = ANY($1::{idtype}[])`),
	}
	const old = `DELETE FROM {table} WHERE id IN (SELECT id FROM {table}
		WHERE id < $1::{idtype} AND published_at < $2 ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)`
	t.sql.prune = r.Replace(old)
	if t.archive != "" {
		t.sql.prune = r.Replace(`WITH gone AS (` + old + ` RETURNING *)
			INSERT INTO {archive} (id, {topic}, payload, {envelope}, {created}, published_at, attempts, next_attempt_at, dlq, last_error, tx_id, ordering_key)
			SELECT id, {topic}, payload, {envelope}, {created}, published_at, attempts, next_attempt_at, dlq, last_error, tx_id, ordering_key FROM gone
			ON CONFLICT (id) DO NOTHING`)
	}
	t.sql.pruneDLQ = r.Replace(`DELETE FROM {table} WHERE id IN (SELECT id FROM {table}
		WHERE dlq = true AND {created} < $1 ORDER BY {created} LIMIT $2 FOR UPDATE SKIP LOCKED)`)
	return t
}

// first is the smallest value of the id column.
func (t *Table) first() string {
	if t.idType == "uuid" {
		return "00000000-0000-0000-0000-000000000000"
	}
	return ""
}

// channel is where a Notifier tells the leader of new rows.
func (t *Table) channel() string { return strings.ReplaceAll(t.name, ".", "_") }

// lock is the advisory lock of the table's leader.
func (t *Table) lock() int64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "outbox relay %s", t.name) // never fails
	return int64(h.Sum64() >> 1)
}
