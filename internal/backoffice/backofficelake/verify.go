package backofficelake

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// Verifier holds the database and exports to the signed heads of the chains. It takes
// nothing on trust but the keys, and the heads that it is given.
type Verifier struct {
	DB     *pgxpool.Pool // as the role of jobs; nil = only the export is looked at
	Bucket Bucket        // of an export; nil = none
	Keys   *audit.Keys
	// Heads were kept elsewhere, such as published events.
	Heads []audit.Head
	// Tenant restricts it to one; zero = all.
	Tenant bff.ID
	Now    time.Time
}

// Report is what a Verifier found.
type Report struct {
	Tenants  []TenantReport `json:"tenants"`
	Findings []Finding      `json:"findings"`
}

// TenantReport is what was verified of one tenant.
type TenantReport struct {
	Tenant  bff.ID `json:"tenantId"`
	Entries int64  `json:"entries"` // of the chain in the database
	Rows    int64  `json:"rows"`    // in the database, as they were sealed
	// Exported are rows that were verified in the export.
	Exported int64 `json:"exported"`
	// Pruned are rows that are past their time and no longer in the database; without an
	// export they are not verified.
	Pruned int64 `json:"pruned"`
	// Signed is up to where a signed head pins the chain.
	Signed int64 `json:"signedUpTo"`
	// Archived is up to where the chain is in the export; Unverified are rows whose entries are there alone, without an export to look at.
	Archived   int64 `json:"archivedUpTo"`
	Unverified int64 `json:"unverified"`
	// Unsealed are rows that are newer than the last seal, and rows that have changed
	// since as they may.
	Unsealed       int64         `json:"unsealed"`
	OldestUnsealed time.Duration `json:"oldestUnsealedNs"`
}

// unsealedFor is how long rows may wait for a signed head: two runs of the sealer. It proves nothing that they are as they were
// written, and a sealer that stands still must not look like an audit that holds.
const unsealedFor = 2 * sealEvery

// late is how long a row may take from its moment to its commit. One that is older than
// the last seal by more, and not sealed, was not written by the service.
const late = time.Hour

// verification is one run of a Verifier.
type verification struct {
	*Verifier
	report  Report
	tenants map[bff.ID]*tenantRun
}

// tenantRun is what is known of one tenant.
type tenantRun struct {
	TenantReport
	heads    []knownHead
	exported []exportedLink // by seq-1
	// here are rows that were compared with an entry, of tables whose entries are archived, and archivedAt is when the last of those was signed.
	here       map[[16]byte]bool
	archivedAt time.Time
	lastSeal   time.Time
}

// Verify looks at everything and reports what does not fit. An error means that it
// could not look.
func (v *Verifier) Verify(ctx context.Context) (Report, error) {
	run := &verification{Verifier: v, tenants: map[bff.ID]*tenantRun{}}
	for _, h := range v.Heads {
		run.addHead(h, "given head")
	}
	if v.Bucket != nil {
		if err := run.export(ctx); err != nil {
			return run.report, fmt.Errorf("verify export: %w", err)
		}
	}
	if v.DB != nil {
		if err := run.database(ctx); err != nil {
			return run.report, fmt.Errorf("verify database: %w", err)
		}
	}
	for _, t := range run.tenants {
		run.report.Tenants = append(run.report.Tenants, t.TenantReport)
	}
	slices.SortFunc(run.report.Tenants, func(a, b TenantReport) int { return strings.Compare(a.Tenant.String(), b.Tenant.String()) })
	return run.report, nil
}

func (v *verification) find(f Finding) { v.report.Findings = append(v.report.Findings, f) }

func (v *verification) tenant(id bff.ID) *tenantRun {
	t := v.tenants[id]
	if t == nil {
		t = &tenantRun{TenantReport: TenantReport{Tenant: id}, here: map[[16]byte]bool{}}
		v.tenants[id] = t
	}
	return t
}

// wanted reports whether a tenant is looked at.
func (v *verification) wanted(tenant bff.ID) bool { return v.Tenant.IsZero() || v.Tenant == tenant }

// addHead takes a head if we have signed it.
func (v *verification) addHead(h audit.Head, from string) {
	if !v.wanted(h.Tenant) {
		return
	}
	if err := v.Keys.Verify(h); err != nil {
		v.find(Finding{Kind: Forged, Where: from, Tenant: h.Tenant, Seq: h.Seq, Detail: "head: " + err.Error()})
		return
	}
	t := v.tenant(h.Tenant)
	t.heads = append(t.heads, knownHead{h, from})
	if h.SealedAt.After(t.lastSeal) {
		t.lastSeal = h.SealedAt.Time
	}
}

// walk returns a walker with the heads that it can be held to.
func (v *verification) walk(t *tenantRun, where string, heads []knownHead) *walker {
	slices.SortFunc(heads, func(a, b knownHead) int { return int(a.Seq - b.Seq) })
	return &walker{tenant: t.Tenant, where: where, heads: heads, report: v.find}
}

// database looks at the tables.
func (v *verification) database(ctx context.Context) error {
	rows, err := v.DB.Query(ctx, `SELECT tenant, seq, hash, sealed_at, key_id, signature FROM bff_backoffice.audit_heads ORDER BY tenant, seq`)
	if err != nil {
		return err
	}
	heads, err := pgx.CollectRows(rows, scanHead)
	if err != nil {
		return err
	}
	for _, h := range heads {
		v.addHead(h, "database")
	}
	ids, err := v.tenantsOfTables(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if v.wanted(id) {
			v.tenant(id)
		}
	}
	for _, t := range v.tenants {
		if err := v.chain(ctx, t); err != nil {
			return err
		}
		if err := v.archived(ctx, t); err != nil {
			return err
		}
		if err := v.unsealed(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// tenantsOfTables lists the tenants that the chain or an audited table names, one index
// probe each.
func (v *verification) tenantsOfTables(ctx context.Context) ([]bff.ID, error) {
	columns := map[string]string{"audit_chain": "tenant"}
	for _, t := range audit.AuditTables() {
		columns[t.Name] = "tenant_id"
	}
	var all []bff.ID
	for table, column := range columns {
		rows, err := v.DB.Query(ctx, fmt.Sprintf(`WITH RECURSIVE t AS (
			(SELECT %[2]s AS tenant FROM %[1]s ORDER BY 1 LIMIT 1)
			UNION ALL SELECT (SELECT %[2]s FROM %[1]s WHERE %[2]s > t.tenant ORDER BY 1 LIMIT 1) FROM t WHERE t.tenant IS NOT NULL)
			SELECT tenant FROM t WHERE tenant IS NOT NULL`, schema+table, column))
		if err != nil {
			return nil, err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			all = append(all, bff.IDFromBytes(bff.PrefixTenant, id))
		}
	}
	return all, nil
}

const verifyPage = 2000

// stored is an entry with what the database says of its neighbours.
type stored struct {
	link
	body     []byte // of an unsettled row
	newest   int    // version
	previous *previous
}

// previous is the version before.
type previous struct {
	settled bool
	hash    []byte
}

const readChain = `SELECT c.pos, c.seq, c.tab, c.row_id, c.version, c.at, c.sealed_at, c.row_hash, c.hash, c.unsettled, n.newest, p.settled, p.row_hash, c.form, c.since
	FROM bff_backoffice.audit_chain c
	CROSS JOIN LATERAL (SELECT version AS newest FROM bff_backoffice.audit_chain n WHERE n.tenant = c.tenant AND n.tab = c.tab AND n.row_id = c.row_id ORDER BY n.version DESC LIMIT 1) n
	LEFT JOIN LATERAL (SELECT p.unsettled IS NULL AS settled, p.row_hash FROM bff_backoffice.audit_chain p
		WHERE p.tenant = c.tenant AND p.tab = c.tab AND p.row_id = c.row_id AND p.version < c.version AND p.version >= c.version - 1 ORDER BY p.version LIMIT 1) p ON true
	WHERE c.tenant = $1 AND c.seq > $2 ORDER BY c.seq LIMIT $3`

// read runs a query that goes by indexes.
func (v *verification) read(ctx context.Context, sql string, args []any, collect func(pgx.Rows) error) error {
	return inTx(ctx, v.DB, func(tx pgx.Tx) error {
		if err := byIndex(ctx, tx); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		return errors.Join(collect(rows), rows.Err())
	})
}

func (t *tenantRun) scanStored(r pgx.CollectableRow) (s stored, err error) {
	var (
		rowHash, hash, before []byte
		settled               *bool
		since                 *time.Time
	)
	if err := r.Scan(
		&s.pos, &s.Seq, &s.Table, &s.Row, &s.Version, &s.At, &s.SealedAt, &rowHash, &hash, &s.body, &s.newest, &settled, &before, &s.form, &since,
	); err != nil {
		return s, err
	}
	if since != nil {
		s.Since = *since
	}
	if len(rowHash) == sha256.Size && len(hash) == sha256.Size { // else it fits nothing
		s.RowHash, s.Hash = audit.Digest(rowHash), audit.Digest(hash)
	}
	s.Tenant, s.Settled = t.Tenant.Bytes(), s.body == nil
	if settled != nil {
		s.previous = &previous{*settled, before}
	}
	return s, nil
}

// chain follows a tenant's chain and compares the rows with it.
func (v *verification) chain(ctx context.Context, t *tenantRun) error {
	w := v.walk(t, "database", slices.Clone(t.heads))
	var archived int64
	if err := v.DB.QueryRow(ctx, `SELECT coalesce(max(pruned_seq), 0) FROM bff_backoffice.audit_tips WHERE tenant = $1`, t.Tenant.UUID()).Scan(&archived); err != nil {
		return err
	}
	t.Archived, t.archivedAt = w.begin(archived)
	w.known = func(e *link) bool {
		return slices.ContainsFunc(t.exported[:min(t.Archived, int64(len(t.exported)))], func(o exportedLink) bool { return o.Row == e.Row && o.Table == e.Table })
	}
	for at := int64(0); ; {
		var page []stored
		err := v.read(ctx, readChain, []any{t.Tenant.UUID(), at, verifyPage}, func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, t.scanStored)
			return err
		})
		if err != nil {
			return err
		}
		var links []link
		for i := range page {
			if at = page[i].Seq; at > t.Archived {
				links = append(links, page[i].link)
			} else { // its neighbours may be gone
				v.compareExport(t, &page[i].link)
			}
			if t.Archived > 0 && byMonth(page[i].Table) {
				t.here[page[i].Row] = true
			}
		}
		for _, l := range w.follow(links) {
			v.compareExport(t, &l)
		}
		t.Entries += int64(len(page))
		if err := v.rows(ctx, t, page); err != nil {
			return err
		}
		if len(page) < verifyPage {
			break
		}
	}
	w.end()
	t.Signed = w.signed
	if !w.unsigned.IsZero() && v.Now.Sub(w.unsigned) > unsealedFor {
		v.find(Finding{
			Kind: Unsealed, Where: "database", Tenant: t.Tenant, Seq: w.signed + 1,
			Detail: fmt.Sprintf("no signed head pins the chain from here on, although it was sealed at %s", bff.At(w.unsigned)),
		})
	}
	return nil
}

// byMonth reports whether a table is kept by month, and its entries are archived.
func byMonth(name string) bool {
	return slices.ContainsFunc(audit.AuditTables(), func(t audit.Table) bool { return t.Name == name && t.Months })
}

// rows compares the rows of a page's entries with their hashes.
func (v *verification) rows(ctx context.Context, t *tenantRun, page []stored) error {
	for _, table := range audit.AuditTables() {
		for _, form := range []audit.Form{audit.AuditWhole, audit.AuditWeighed} {
			var own []*stored
			for i := range page {
				if page[i].Table == table.Name && page[i].form == form {
					own = append(own, &page[i])
				}
			}
			if err := v.compareRows(ctx, t, &table, form, own, sealChunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareRows reads the rows of entries, some at a time, and compares them. What takes too long together is read one by one.
func (v *verification) compareRows(ctx context.Context, t *tenantRun, table *audit.Table, form audit.Form, entries []*stored, size int) error {
	for part := range slices.Chunk(entries, size) {
		timeout := chunkTimeout
		if size == 1 {
			timeout = deferredTimeout
		}
		found, err := v.readRows(ctx, t, table, form, part, timeout)
		why := refusalOf(ctx, err)
		switch {
		case err != nil && why == "":
			return err
		case err != nil && size > 1:
			if err := v.compareRows(ctx, t, table, form, part, 1); err != nil {
				return err
			}
			continue
		case err != nil:
			v.find(Finding{
				Kind: Changed, Where: "database", Tenant: t.Tenant, Table: table.Name, Row: part[0].rowID(), Seq: part[0].Seq,
				Detail: "the row can not be read: " + why,
			})
			continue
		}
		for _, e := range part {
			v.compare(t, table, e, found[e.Row])
		}
	}
	return nil
}

func (v *verification) readRows(ctx context.Context, t *tenantRun, table *audit.Table, form audit.Form, entries []*stored,
	timeout time.Duration,
) (found map[[16]byte]audit.Row, err error) {
	ids := make([][16]byte, 0, len(entries))
	for _, e := range entries {
		ids = append(ids, e.Row)
	}
	columns, from := source(table, form)
	err = inTx(ctx, v.DB, func(tx pgx.Tx) error {
		found = map[[16]byte]audit.Row{}
		if err := byIndex(ctx, tx); err != nil {
			return err
		}
		return attempt(ctx, tx, timeout, func(tx pgx.Tx) error {
			rows, err := collect(ctx, tx, kindsOf(table), `SELECT `+columns+` FROM `+from+` WHERE t.tenant_id = $1 AND t.id = ANY($2)`, t.Tenant.UUID(), ids)
			for _, row := range rows {
				found[[16]byte(row[0])] = row
			}
			return err
		})
	})
	return found, err
}

// compare holds a row to one of its entries.
func (v *verification) compare(t *tenantRun, table *audit.Table, e *stored, row audit.Row) {
	find := func(kind, detail string) {
		v.find(Finding{Kind: kind, Where: "database", Tenant: t.Tenant, Table: e.Table, Row: e.rowID(), Seq: e.Seq, Detail: detail})
	}
	if p := e.previous; e.Version > 1 && p == nil && (!table.Months || t.Archived == 0) {
		find(Removed, fmt.Sprintf("version %d of the row is gone from the chain", e.Version-1))
	} else if p != nil && p.settled && string(p.hash) != string(e.RowHash[:]) {
		find(Changed, fmt.Sprintf("was changed after it was settled, and sealed again as version %d", e.Version))
	}
	if row == nil {
		v.compareMissing(t, table, e, find)
		return
	}
	if e.body != nil {
		before, err := table.Decode(e.form, e.body)
		if err != nil || sha256.Sum256(e.body) != e.RowHash {
			find(Changed, "what the chain keeps of the unsettled row was edited")
		} else if !table.Fixed(before, row) {
			find(Changed, "a column was changed that never changes")
		}
	}
	if e.Version < e.newest {
		return
	}
	switch sum := sha256.Sum256(table.Encode(nil, e.form, row)); {
	case sum == e.RowHash:
		t.Rows++
	case !e.Settled: // it has ended since
		v.note(t, e.At)
	default:
		find(Changed, "the row is not as it was sealed at "+bff.At(e.SealedAt).String())
	}
}

// compareMissing decides whether a row may be gone.
func (v *verification) compareMissing(t *tenantRun, table *audit.Table, e *stored, find func(kind, detail string)) {
	if e.Version < e.newest {
		return
	}
	if table.Keep == 0 || e.At.After(v.Now.Add(-table.Keep)) {
		find(Removed, "the row was sealed at "+bff.At(e.SealedAt).String()+" and is gone")
		return
	}
	t.Pruned++
	if v.Bucket != nil && (e.Seq > int64(len(t.exported)) || !t.exported[e.Seq-1].verified) {
		find(Removed, "the row is past its time, and the export does not have it")
	}
}

// archived compares rows with the entries that only the export has.
func (v *verification) archived(ctx context.Context, t *tenantRun) error {
	newest := map[[16]byte]*exportedLink{}
	for i := range t.exported[:min(t.Archived, int64(len(t.exported)))] {
		if e := &t.exported[i]; !t.here[e.Row] {
			newest[e.Row] = e
		}
	}
	for _, table := range audit.AuditTables() {
		for _, form := range []audit.Form{audit.AuditWhole, audit.AuditWeighed} {
			var own []*stored
			for row, e := range newest {
				if table.Months && e.Table == table.Name && e.form == form {
					own, t.here[row] = append(own, &stored{link: e.link, newest: e.Version}), true
				}
			}
			slices.SortFunc(own, func(a, b *stored) int { return int(a.Seq - b.Seq) })
			if err := v.compareRows(ctx, t, &table, form, own, sealChunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// note counts a row that is not sealed as it stands.
func (v *verification) note(t *tenantRun, at time.Time) {
	t.Unsealed++
	t.OldestUnsealed = max(t.OldestUnsealed, v.Now.Sub(at))
}

// unsealed finds rows without an entry: new ones, ones that can not be sealed, and ones that were put in.
func (v *verification) unsealed(ctx context.Context, t *tenantRun) error {
	var waiting int64
	oldest := v.Now
	for _, table := range audit.AuditTables() {
		sql := fmt.Sprintf(`SELECT t.id, t.%[3]s, EXISTS (SELECT FROM %[1]saudit_cursors k WHERE k.tab = '%[2]s' AND t.tx_id < %[4]s AND NOT t.tx_id = ANY(k.holes)),
				(SELECT passed_at FROM %[1]saudit_cursors k WHERE k.tab = '%[2]s'), d.reason
			FROM %[1]s%[2]s t LEFT JOIN %[1]saudit_deferred d ON d.tab = '%[2]s' AND d.tenant = t.tenant_id AND d.row_id = t.id
			WHERE t.tenant_id = $1 AND t.id > $2
			AND (SELECT version FROM %[1]saudit_chain c WHERE c.tenant = t.tenant_id AND c.tab = '%[2]s' AND c.row_id = t.id ORDER BY c.version LIMIT 1) IS NULL
			ORDER BY t.id LIMIT $3`,
			schema, table.Name, table.Moment, reach("t."+table.Moment))
		for after, n := ([16]byte{}), verifyPage; n == verifyPage; {
			n = 0
			if err := v.read(ctx, sql, []any{t.Tenant.UUID(), after, verifyPage}, func(rows pgx.Rows) error {
				for rows.Next() {
					var (
						at     time.Time
						passed bool
						pass   *time.Time
						reason *string
					)
					if err := rows.Scan(&after, &at, &passed, &pass, &reason); err != nil {
						return errors.Join(err, rows.Err())
					}
					n++
					if pass == nil {
						pass = &t.lastSeal
					}
					f := Finding{Where: "database", Tenant: t.Tenant, Table: table.Name, Row: rowID(table.Name, after)}
					switch {
					case t.here[after]: // its entries are in the export alone
					case v.Bucket == nil && passed && table.Months && at.Before(t.archivedAt):
						t.Unverified++
					case reason != nil:
						f.Kind, f.Detail = Unsealed, "the row can not be sealed: "+*reason
						v.find(f)
						v.note(t, at)
					case passed || at.Before(pass.Add(-late)):
						f.Kind, f.Detail = Inserted, fmt.Sprintf("the row says %s, and was not there when the table was sealed at %s", bff.At(at), bff.At(*pass))
						v.find(f)
					default:
						v.note(t, at)
						waiting++
						if at.Before(oldest) {
							oldest = at
						}
					}
				}
				return rows.Err()
			}); err != nil {
				return err
			}
		}
	}
	if v.Now.Sub(oldest) > unsealedFor {
		v.find(Finding{
			Kind: Unsealed, Where: "database", Tenant: t.Tenant,
			Detail: fmt.Sprintf("%d rows are not sealed, the oldest of %s: the sealer does not run", waiting, bff.At(oldest)),
		})
	}
	return nil
}
