package backofficelake_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/parquet-go/parquet-go"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficelake"
	"melmastoon.ghasi.io/bff/internal/testkit"
	"melmastoon.ghasi.io/bff/migrations"
)

// readParquet reads the rows of a table's files.
func readParquet[T any](f *fixture, table string) (all []T) {
	f.t.Helper()
	for _, path := range listFiles(f.t, f.dir) {
		if !strings.HasPrefix(path, table+"/") {
			continue
		}
		rows, err := parquet.ReadFile[T](f.dir + "/" + path)
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, rows...)
	}
	return all
}

// What a superuser puts in with another moment is reported after it was sealed and signed, from the database and from the
// export alone; rows that were written late, after the sealer was away for a day, are not.
func TestForgedHistory(t *testing.T) {
	t.Parallel()
	s := newSealed(t)
	s.run(s.Lake)
	long, future := s.activity(tenantA, now.Add(-21*day), "success"), s.activity(tenantB, now.Add(400*day), "success")
	s.activity(tenantA, now.Add(-59*time.Minute), "success")
	s.run(s.Lake)
	want := []string{"inserted %s " + long.String(), "inserted %s " + future.String()}
	for where, change := range map[string]func(*backofficelake.Verifier){
		"database": databaseOnly,
		"export":   func(v *backofficelake.Verifier) { v.DB = nil },
	} {
		findings, report := s.verify(change)
		if diff := cmp.Diff([]string{fmt.Sprintf(want[0], where), fmt.Sprintf(want[1], where)}, findings); diff != "" {
			t.Errorf("%s (-want +got):\n%s\n%v", where, diff, report.Findings)
		}
	}
	// Without the word of when the sealer had been there, the entry is another.
	s.quietly(`UPDATE bff_backoffice.audit_chain SET since = NULL WHERE row_id = ` + q(long))
	findings, _ := s.verify(databaseOnly)
	if diff := cmp.Diff([]string{"changed database " + long.String(), "inserted database " + future.String()}, findings); diff != "" {
		t.Errorf("without since (-want +got):\n%s", diff)
	}

	away := newSealed(t)
	away.exec(`UPDATE bff_backoffice.audit_cursors SET passed_at = $1`, now.Add(-day))
	away.activity(tenantA, now.Add(-20*time.Hour), "success")
	away.run(away.Lake)
	if findings, report := away.verify(); findings != nil {
		t.Errorf("the sealer was away: %v", report.Findings)
	}
}

// Neither role of the service can write a row that says it happened long ago, or will.
func TestRolesWriteNoHistory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := testkit.Context(t)
	f.exec(`GRANT INSERT ON bff_backoffice.operator_activity, bff_backoffice.alert_ack_log, bff_backoffice.ai_decision_log, bff_backoffice.lock_action_proxy_audit TO bff_backoffice_jobs`)
	f.exec(`CREATE POLICY any_row ON bff_backoffice.operator_activity FOR INSERT TO bff_backoffice_jobs WITH CHECK (true)`)
	tables := map[string]string{
		"operator_activity":       `(tenant_id, operator_id, device_id, session_id, occurred_at, category, action, outcome) VALUES ($1, 'o', 'd', 's', $2, 'c', 'a', 'success')`,
		"alert_ack_log":           `(tenant_id, alert_id, category, severity, raised_at, acknowledged_at, acknowledged_by, device_id) VALUES ($1, gen_random_uuid(), 'c', 'high', $2, $2, 'o', 'd')`,
		"ai_decision_log":         `(tenant_id, suggestion_id, inbox_entry_id, category, severity, outcome, decided_at, decided_by, device_id, provenance) VALUES ($1, gen_random_uuid(), 'i', 'c', 's', 'accepted', $2, 'o', 'd', '{}')`,
		"lock_action_proxy_audit": `(tenant_id, property_id, operator_id, device_id, reservation_id, action, vendor, occurred_at, outcome, error_code, upstream_request_id, upstream_latency_ms) VALUES ($1, gen_random_uuid(), 'o', 'd', 'r', 'issue', 'v', $2, 'failure', 'LOCK_OUTCOME_UNKNOWN', gen_random_uuid(), 0)`,
	}
	for _, role := range []string{migrations.BackofficeApp, migrations.BackofficeJobs} {
		for table, values := range tables {
			if role == migrations.BackofficeJobs && table != "operator_activity" {
				continue
			}
			for moment, want := range map[string]string{
				"now() - interval '61 minutes'": "23514", "now() + interval '10 minutes'": "23514", "now() - interval '40 minutes'": "", "now()": "",
			} {
				err := pgx.BeginFunc(ctx, f.super, func(tx pgx.Tx) error {
					if _, err := tx.Exec(ctx, `SELECT set_config('app.tenant_id', $1, true), set_config('role', $2, true)`, tenantA.UUID(), role); err != nil {
						t.Fatal(err)
					}
					_, err := tx.Exec(ctx, "INSERT INTO bff_backoffice."+table+" "+strings.ReplaceAll(values, "$2", moment), tenantA.UUID())
					return err
				})
				got := ""
				if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
					got = pe.Code
				} else if err != nil {
					t.Fatal(err)
				}
				if got != want {
					t.Errorf("%s into %s at %s: %v, want %q", role, table, moment, err, want)
				}
			}
		}
	}
}

// Rows that wait for longer than two runs of the sealer, and entries without a signed head, are no audit that holds.
func TestVerifyWantsSeals(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	f.activity(tenantA, now.Add(-30*time.Minute), "success")
	after := func(d time.Duration) func(*backofficelake.Verifier) {
		return func(v *backofficelake.Verifier) { v.Now, v.Heads = now.Add(d), nil }
	}
	for d, want := range map[time.Duration][]string{time.Hour: nil, 3 * time.Hour: {"unsealed database 0"}} {
		if findings, report := f.verify(after(d), databaseOnly); !cmp.Equal(want, findings) {
			t.Errorf("never sealed, after %s: %v", d, report.Findings)
		}
	}
	f.run(f.Lake)
	if findings, report := f.verify(after(day)); findings != nil {
		t.Errorf("sealed: %v", report.Findings)
	}
	f.exec(`DELETE FROM bff_backoffice.audit_heads`)
	for d, want := range map[time.Duration][]string{time.Hour: nil, 3 * time.Hour: {"unsealed database 1"}} {
		if findings, report := f.verify(after(d), databaseOnly); !cmp.Equal(want, findings) {
			t.Errorf("never signed, after %s: %v", d, report.Findings)
		}
	}
}

// Free text is sealed and exported as its length and digest: the lake never forgets. What was sealed whole by an earlier
// release is verified and exported as it was sealed.
func TestNotesAreDigested(t *testing.T) {
	t.Parallel()
	f := &sealed{fixture: newFixture(t)}
	const note, early = "Mr. Qwertz of room 12 called twice – ۱۲", "told the night porter"
	sum := sha256.Sum256([]byte(note))
	f.sealWhole(tenantA, early)
	f.addDecision(tenantA, now, `{"a":1}`, note)
	alert, _, _ := f.one(tenantB, now)
	f.exec(`UPDATE bff_backoffice.alert_ack_log SET notes_truncated = $1 WHERE id = `+q(alert), note)
	f.run(f.Lake)
	type row struct {
		Truncated *string `parquet:"notes_truncated,optional"`
		Length    *int64  `parquet:"notes_length,optional"`
		Digest    *string `parquet:"notes_sha256,optional"`
	}
	whole, length, digest := early, int64(len([]rune(note))), hex.EncodeToString(sum[:])
	for table, want := range map[string][]row{
		"alert_ack_log":   {{Truncated: &whole}, {Length: &length, Digest: &digest}},
		"ai_decision_log": {{Length: &length, Digest: &digest}, {}},
	} {
		if diff := cmp.Diff(want, readParquet[row](f.fixture, table)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", table, diff)
		}
	}
	if findings, report := f.verify(noHeads); findings != nil {
		t.Errorf("%v", report.Findings)
	}
	f.quietly(`UPDATE bff_backoffice.alert_ack_log SET notes_truncated = notes_truncated || '.'`)
	if findings, _ := f.verify(noHeads, databaseOnly); len(findings) != 2 {
		t.Errorf("both notes were changed: %q", findings)
	}
}

// sealWhole adds an acknowledgement with notes, and its entry as the first release made it.
func (f *fixture) sealWhole(tenant bff.ID, note string) {
	f.t.Helper()
	id := bff.NewID(bff.PrefixAlertInbox, now)
	f.exec(`INSERT INTO bff_backoffice.alert_ack_log (id, tenant_id, alert_id, category, severity, raised_at, acknowledged_at, acknowledged_by, device_id, notes_truncated)
		VALUES ($1, $2, 'a', 'c', 'high', $3, $3, 'o', 'd', $4)`, id.UUID(), tenant.UUID(), now, note)
	moment := binary.BigEndian.AppendUint64(nil, uint64(now.UnixMicro())) //nolint:gosec // after 1970
	uuid := func(id bff.ID) []byte { b := id.Bytes(); return b[:] }
	encoded := "melmastoon audit row v1"
	field := func(b []byte) { encoded += string(rune(len(b))) + string(b) } // all are short
	field([]byte("alert_ack_log"))
	for _, c := range []struct {
		name  string
		value []byte
	}{
		{"id", uuid(id)},
		{"tenant_id", uuid(tenant)},
		{"acknowledged_at", moment},
		{"raised_at", moment},
		{"alert_id", []byte("a")},
		{"category", []byte("c")},
		{"severity", []byte("high")},
		{"acknowledged_by", []byte("o")},
		{"device_id", []byte("d")},
		{"notes_truncated", []byte(note)},
	} {
		field([]byte(c.name))
		field(c.value)
	}
	e := audit.Entry{
		Tenant: tenant.Bytes(), Seq: 1, Table: "alert_ack_log", Row: id.Bytes(), Version: 1, At: now, SealedAt: now, Settled: true,
		RowHash: sha256.Sum256([]byte(encoded)),
	}
	sum := e.Sum(audit.Digest{})
	f.exec(`INSERT INTO bff_backoffice.audit_chain (tenant, seq, tab, row_id, version, at, sealed_at, row_hash, hash, tx_id)
		SELECT tenant_id, 1, 'alert_ack_log', id, 1, $1, $1, $2, $3, tx_id FROM bff_backoffice.alert_ack_log`, now, e.RowHash[:], sum[:])
	f.exec(`INSERT INTO bff_backoffice.audit_tips (tenant, seq, hash) VALUES ($1, 1, $2)`, tenant.UUID(), sum[:])
}

// A head is written once: a process that died before it could say so, and a bucket that has nothing written again, are no
// reason to fail. One that was replaced holds up no other tenant's.
func TestHeadsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	s := newSealed(t)
	s.exec(`UPDATE bff_backoffice.audit_tips SET exported_seq = 0`)
	first := ""
	for _, path := range listFiles(t, s.dir) {
		if strings.HasPrefix(path, "_heads/"+tenantA.String()) {
			first = s.dir + "/" + path
		}
	}
	before := s.modified(first)
	s.run(s.Lake)
	if n := s.count(`SELECT count(*) FROM bff_backoffice.audit_tips WHERE exported_seq < seq`); n != 0 || s.modified(first) != before {
		t.Errorf("%d tenants are not done, written again: %t", n, s.modified(first) != before)
	}
	s.exec(`UPDATE bff_backoffice.audit_tips SET exported_seq = 0`)
	if err := os.WriteFile(first, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := s.Jobs()[0].Run(testkit.Context(t), s.jobs, now)
	if err == nil || !strings.Contains(err.Error(), "the bucket has another head in its place") {
		t.Errorf("a false head: %v", err)
	}
	if n := s.count(`SELECT count(*) FROM bff_backoffice.audit_tips WHERE exported_seq < seq`); n != 1 {
		t.Errorf("a false head: %d tenants are not done, want 1", n)
	}
}

func (s *sealed) modified(path string) time.Time {
	s.t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return info.ModTime()
}
