package outbox

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
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
	fast, careful                      reads
	mark, fail                         string
	adopt, adoptHeld                   string
	note, strike, journal              string
	hold, delay, wait, release, resume string
	retry, nextRetry, waitingTopics    string
	stats, dead, replay                string
	drop, prune, pruneRandom, pruneDLQ string
	compact, dug, restore              string
	aged, agedDLQ                      string
}

// reads are the statements that read events.
type reads struct{ read, readPastHeld string }

// A column of JSON is read as it is, or guarded: null if it is larger than maxColumn as
// Postgres writes it. The worst is found without being written: by its size in memory,
// and by numbers beyond all reason, which are thousands of times smaller there.
var (
	jsonColumn = regexp.MustCompile(`<(\w+)>`)
	guarded    = `CASE WHEN pg_column_size(jsonb_build_array($1)) > ` + strconv.Itoa(maxColumn) + `
		OR jsonb_path_exists($1, 'strict $$.** ? (@ > 1e100 || @ < -1e100 || (@ > -1e-100 && @ < 1e-100 && @ != 0))') THEN NULL
		ELSE (SELECT CASE WHEN octet_length(written) <= ` + strconv.Itoa(maxColumn) + ` THEN written END FROM (SELECT $1::text AS written OFFSET 0) AS w) END`
)

// Name is the table's qualified name.
func (t *Table) Name() string { return t.name }

func (t *Table) prepare() *Table {
	r := strings.NewReplacer("{table}", t.name, "{archive}", t.archive, "{idtype}", t.idType,
		"{topic}", t.topic, "{envelope}", t.envelope, "{created}", t.created)
	const (
		columns = `tx_id, id::text AS id, {topic} AS topic, ordering_key, <{envelope}> AS envelope, <payload> AS payload, attempts`
		pending = `published_at IS NULL AND dlq = false`
		// The snapshot comes with the rows, and also when there are none.
		read = `WITH s AS MATERIALIZED (SELECT pg_current_snapshot()::text AS snapshot)
			SELECT s.snapshot, o.*, {waits} FROM s LEFT JOIN LATERAL (
				(SELECT false AS hole, ` + columns + ` FROM {table}
				WHERE ` + pending + ` AND held = false AND (tx_id, id) > ($1::xid8, $2::{idtype})
				ORDER BY {table}.tx_id, {table}.id LIMIT $3)
				UNION ALL
				(SELECT true, ` + columns + ` FROM {table}
				WHERE ` + pending + ` AND held = false AND tx_id = ANY($4::xid8[]) AND (tx_id, id) <= ($1::xid8, $2::{idtype})
				ORDER BY {table}.tx_id, {table}.id LIMIT $3)
			) o ON true`
		lanes = `unnest($1::text[], $2::text[], $3::text[]) AS l(topic, ordering_key, event_id)`
		// Whatever the statistics say, one index probe per lane finds its row.
		theirs = `ctid = ANY(ARRAY(SELECT r.ctid FROM ` + lanes + ` CROSS JOIN LATERAL (SELECT r.ctid FROM {table}_retries r
			WHERE r.topic = l.topic AND r.ordering_key = l.ordering_key AND r.event_id = l.event_id LIMIT 1) r))`
	)
	all := reads{
		read: r.Replace(strings.ReplaceAll(read, "{waits}", "false")),
		// LIMIT 1 makes the planner look up each row's lane in the index instead of
		// reading the whole table of them for every batch.
		readPastHeld: r.Replace(strings.ReplaceAll(read, "{waits}", "w.waits IS NOT NULL") + `
			LEFT JOIN LATERAL (SELECT true AS waits FROM {table}_retries r
				WHERE o.ordering_key <> '' AND r.topic = o.topic AND r.ordering_key = o.ordering_key AND r.event_id = '' LIMIT 1
			) w ON true`),
	}
	t.sql = statements{
		fast: all.with(`$1::text`), careful: all.with(guarded),
		// Neither asks for published_at IS NULL: the planner would then walk one of
		// the partial indexes, and with it the whole backlog, for every batch.
		mark: r.Replace(`UPDATE {table} SET published_at = coalesce(published_at, $1), last_error = NULL, held = false
			WHERE id = ANY($2::{idtype}[])`),
		fail: r.Replace(`UPDATE {table} o SET attempts = o.attempts + 1, last_error = f.error,
				next_attempt_at = clock_timestamp() + make_interval(secs => f.wait),
				dlq = o.published_at IS NULL AND f.dead, held = o.published_at IS NULL AND NOT f.dead
			FROM unnest($1::{idtype}[], $2::text[], $3::float8[], $4::bool[]) AS f(id, error, wait, dead)
			WHERE o.id = f.id AND o.id = ANY($1::{idtype}[])`),
		hold: r.Replace(`UPDATE {table} SET held = published_at IS NULL AND dlq = false WHERE id = ANY($1::{idtype}[])`),
		// delay sets when a lane is tried again, wait adds one that is not there yet.
		delay: r.Replace(`INSERT INTO {table}_retries AS r (topic, ordering_key, event_id, due_at)
			SELECT l.topic, l.ordering_key, l.event_id, clock_timestamp() + make_interval(secs => l.wait)
			FROM unnest($1::text[], $2::text[], $3::text[], $4::float8[]) AS l(topic, ordering_key, event_id, wait)
			ON CONFLICT (topic, ordering_key, event_id) DO UPDATE SET due_at = excluded.due_at`),
		wait: r.Replace(`INSERT INTO {table}_retries (topic, ordering_key, event_id, due_at)
			SELECT l.topic, l.ordering_key, l.event_id, clock_timestamp() FROM ` + lanes + ` ON CONFLICT DO NOTHING`),
		// Of the lanes whose attempt is over, release forgets those without held rows
		// and resume makes the others due, behind those that are due already.
		release: r.Replace(`DELETE FROM {table}_retries r WHERE ` + theirs + `
			AND (SELECT true FROM {table} o WHERE ` + pending + ` AND held = true
				AND r.event_id = '' AND o.{topic} = r.topic AND o.ordering_key = r.ordering_key LIMIT 1) IS NULL
			AND (SELECT true FROM {table} o WHERE ` + pending + ` AND held = true
				AND o.id = nullif(r.event_id, '')::{idtype}) IS NULL`),
		resume: r.Replace(`UPDATE {table}_retries SET due_at = clock_timestamp() WHERE ` + theirs),
		// For each topic the lanes that are due, the longest due first; of each lane
		// its first rows, more if fewer lanes are due. A lane without rows comes alone. Few rows
		// are read in this way, and always carefully.
		retry: jsonColumn.ReplaceAllString(r.Replace(`WITH due AS MATERIALIZED (
				SELECT d.* FROM unnest($1::text[], $2::int[]) AS a(topic, lanes) CROSS JOIN LATERAL (
					SELECT r.topic, r.ordering_key, r.event_id FROM {table}_retries r
					WHERE r.topic = a.topic AND r.due_at <= statement_timestamp() ORDER BY r.due_at LIMIT a.lanes
				) d)
			SELECT d.topic, d.ordering_key, d.event_id, o.* FROM due d LEFT JOIN LATERAL (
				(SELECT tx_id, id::text AS id, <{envelope}> AS envelope, <payload> AS payload, attempts FROM {table} o
				WHERE `+pending+` AND held = true AND d.event_id = '' AND o.{topic} = d.topic AND o.ordering_key = d.ordering_key
				ORDER BY o.tx_id, o.id LIMIT greatest(1, $3::int / (SELECT count(*) FROM due)))
				UNION ALL
				(SELECT tx_id, id::text, <{envelope}>, <payload>, attempts FROM {table} o
				WHERE `+pending+` AND held = true AND o.id = nullif(d.event_id, '')::{idtype} LIMIT 1)
			) o ON true`), guarded),
		nextRetry: r.Replace(`SELECT a.topic, (SELECT extract(epoch FROM min(r.due_at) - clock_timestamp())::float8
				FROM {table}_retries r WHERE r.topic = a.topic)
			FROM unnest($1::text[]) AS a(topic)`),
		// One index probe per topic, whatever the number of lanes.
		waitingTopics: r.Replace(`WITH RECURSIVE t AS (
				(SELECT topic FROM {table}_retries ORDER BY topic LIMIT 1)
				UNION ALL
				SELECT (SELECT r.topic FROM {table}_retries r WHERE r.topic > t.topic ORDER BY r.topic LIMIT 1) FROM t WHERE t.topic IS NOT NULL
			) SELECT topic FROM t WHERE topic IS NOT NULL`),
		adopt: r.Replace(`UPDATE {table} SET tx_id = pg_current_xact_id()
			WHERE ` + pending + ` AND held = false AND tx_id >= pg_snapshot_xmax(pg_current_snapshot())`),
		adoptHeld: r.Replace(`UPDATE {table} SET tx_id = pg_current_xact_id()
			WHERE ` + pending + ` AND held = true AND tx_id >= pg_snapshot_xmax(pg_current_snapshot())`),
		note:    r.Replace(`INSERT INTO {table}_marks (published_at, ids) VALUES ($1, $2::{idtype}[]) RETURNING seq`),
		strike:  r.Replace(`DELETE FROM {table}_marks WHERE seq = $1`),
		journal: r.Replace(`SELECT seq, published_at, ids::text[] FROM {table}_marks ORDER BY seq`),
		stats: r.Replace(`SELECT count(*) FILTER (WHERE NOT dlq), count(*) FILTER (WHERE dlq),
				coalesce(extract(epoch FROM clock_timestamp() - min({created}) FILTER (WHERE NOT dlq)), 0)::float8,
				coalesce(max(attempts) FILTER (WHERE NOT dlq), 0), count(*) FILTER (WHERE held AND NOT dlq)
			FROM {table} WHERE published_at IS NULL AND id NOT IN (SELECT unnest(ids) FROM {table}_marks)`),
		dead: r.Replace(`SELECT id::text, {topic}, attempts, {created}, coalesce(last_error, '') FROM {table}
			WHERE dlq = true AND published_at IS NULL ORDER BY {created} DESC LIMIT $1`),
		// A replayed row takes the replaying transaction's place in the order: the
		// relay's cursor has long passed its old one.
		replay: r.Replace(`UPDATE {table} SET dlq = false, held = false, attempts = 0, last_error = NULL, next_attempt_at = now(), tx_id = pg_current_xact_id()
			WHERE id IN (SELECT id FROM {table} WHERE dlq = true AND published_at IS NULL AND ($1::{idtype}[] IS NULL OR id = ANY($1))
				ORDER BY {created} LIMIT $2 FOR UPDATE SKIP LOCKED)`),
		drop: r.Replace(`DELETE FROM {table} WHERE dlq = true AND published_at IS NULL AND id = ANY($1::{idtype}[])`),
	}
	t.prepareRetention(r)
	return t
}

// with has columns of JSON read in one way.
func (a reads) with(column string) reads {
	return reads{jsonColumn.ReplaceAllString(a.read, column), jsonColumn.ReplaceAllString(a.readPastHeld, column)}
}

// prepareRetention prepares what removes old rows, or moves them.
func (t *Table) prepareRetention(r *strings.Replacer) {
	const (
		old = `DELETE FROM {table} WHERE id IN (SELECT id FROM {table}
			WHERE id < $1::{idtype} AND published_at < $2 ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)`
		// Ids that name a moment far ahead were made at random, by the column's default: they are few, or none.
		random = `DELETE FROM {table} WHERE id IN (SELECT id FROM {table}
			WHERE id > $1::{idtype} AND published_at < $2 ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED)`
		oldDLQ = `DELETE FROM {table} WHERE id IN (SELECT id FROM {table}
			WHERE dlq = true AND {created} < $1 ORDER BY {created} LIMIT $2 FOR UPDATE SKIP LOCKED)`
		columns = `id, {topic}, payload, {envelope}, {created}, published_at, attempts, next_attempt_at, dlq, last_error, tx_id, ordering_key, held`
		// Counting ends somewhere: below the statement timeout, whatever has piled up.
		most = `LIMIT 1000000`
		dead = `dlq = true AND published_at IS NULL`
	)
	move := func(from, to string) string {
		return r.Replace(`WITH gone AS (` + from + ` RETURNING *) INSERT INTO ` + to + ` (` + columns + `) SELECT ` + columns + ` FROM gone ON CONFLICT (id) DO NOTHING`)
	}
	t.sql.prune, t.sql.pruneRandom, t.sql.pruneDLQ = r.Replace(old), r.Replace(random), r.Replace(oldDLQ)
	t.sql.aged = r.Replace(`SELECT count(*) FROM ((SELECT FROM {table} WHERE id < $1::{idtype} AND published_at < $2 ` + most + `)
		UNION ALL (SELECT FROM {table} WHERE id > $3::{idtype} AND published_at < $2 ` + most + `)) AS o`)
	t.sql.agedDLQ = r.Replace(`SELECT count(*) FROM (SELECT FROM {table} WHERE dlq = true AND {created} < $1 ` + most + `) AS o`)
	if t.archive == "" {
		return
	}
	t.sql.prune, t.sql.pruneRandom, t.sql.compact = move(old, "{archive}"), move(random, "{archive}"), move(oldDLQ, "{archive}")
	t.sql.dug = r.Replace(`SELECT id::text, {topic}, attempts, {created}, coalesce(last_error, '') FROM {archive}
		WHERE ` + dead + ` ORDER BY {created} DESC LIMIT $1`)
	t.sql.restore = move(`DELETE FROM {archive} WHERE `+dead+` AND id = ANY($1::{idtype}[])`, "{table}")
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
