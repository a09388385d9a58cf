package postgres_test

import (
	"strconv"
	"testing"

	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// Indexes of the consumer's tables at the numbers of rows that DATA_MODEL §9 has, and
// their retentions: as rows come in, and measured with a part of them. What two tables
// take beyond it, and why, is in docs/performance.md.
func TestFootprints(t *testing.T) {
	t.Parallel()
	conn := connect(t, migrated(t, migrations.Consumer()))
	const rows, mb = 20_000, 1 << 20
	const id = `_0' || lpad(upper(to_hex(n)), 8, '0') || upper(substr(md5(n::text), 1, 17))`
	const guest, digest = `'gms_' || upper(md5((n / 2)::text))`, `sha256(int8send(n))`
	for table, c := range map[string]struct {
		columns, values string
		kept            int // rows at once
		most            int // MB of its indexes
	}{
		"outbox": {
			"id, topic, payload, headers, retention_class, published_at", `'evt` + id + `, 'melmastoon.bff.consumer.search.performed.v1', '{}', '{}', 'operational', now()`,
			30 * 2_000_000, 3_200,
		},
		"handoff_replay_log": {
			"id, guest_session_id, tenant_id, property_id, check_in, check_out, adults, children, rooms, currency, locale, hmac_key_id, fingerprint_hash, ip_hash, minted_at, expires_at",
			`'bhd` + id + `, ` + guest + `, gen_random_uuid(), gen_random_uuid(), '2026-10-01', '2026-10-02', 2, 0, 1, 'AFN', 'fa-AF', 'k', ` + digest + `, ` + digest +
				`, now() + n * interval '1 s', now() + n * interval '1 s' + interval '10 min'`,
			2 * 100_000, 100,
		},
		"wishlist_anonymous": {
			"id, guest_session_id, tenant_id, property_id, source", `'wsh` + id + `, ` + guest + `, gen_random_uuid(), gen_random_uuid(), 'list'`, 1_000_000, 300,
		},
		"bot_score_log": {
			"id, fingerprint_hash, ip_hash, user_agent_hash, score, verdict, signals, action_taken, evaluated_at",
			`'bsl` + id + `, ` + digest + `, ` + digest + `, ` + digest + `, 0.7, 'suspect', '{}', 'challenge', now() + n * interval '1 s'`, 7 * 50_000, 60,
		},
		"idempotency_keys": {
			"composite_key, guest_session_id, route, request_digest, response_status, response_body, expires_at",
			guest + ` || ':POST /handoff:' || gen_random_uuid(), ` + guest + `, 'POST /handoff', ` + digest + `, 201, '{}', now() + n * interval '1 s'`, 100_000, 100,
		},
	} {
		if _, err := conn.Exec(testkit.Context(t), `INSERT INTO bff_consumer.`+table+` (`+c.columns+`) SELECT `+c.values+` FROM generate_series(1, $1::int) AS n`, rows); err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		size, err := strconv.Atoi(strs(t, conn, `SELECT pg_indexes_size('bff_consumer.`+table+`')::text`)[0])
		t.Logf("%s: %d bytes of a row in indexes, %d MB for %d rows", table, size/rows, size/rows*c.kept/mb, c.kept)
		if err != nil || size/rows*c.kept/mb > c.most {
			t.Errorf("%s: %d MB of indexes for %d rows, %v, want at most %d", table, size/rows*c.kept/mb, c.kept, err, c.most)
		}
	}
}
