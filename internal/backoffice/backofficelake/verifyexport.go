package backofficelake

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// exportedLink is an entry of the exported chain, and whether its row was found.
type exportedLink struct {
	link
	verified bool
}

// export looks at the files of an export: manifests name them, the chain among them is
// held to the heads, and the rows to the chain.
func (v *verification) export(ctx context.Context) error {
	if err := v.exportedHeads(ctx); err != nil {
		return err
	}
	chains := map[bff.ID][]link{}
	if _, err := v.files(ctx, ChainTable, chainColumns(), func(_ string, row [][]byte) {
		l := readLink(row)
		if tenant := bff.IDFromBytes(bff.PrefixTenant, l.Tenant); v.wanted(tenant) {
			chains[tenant] = append(chains[tenant], l)
		}
	}); err != nil {
		return err
	}
	for _, t := range v.tenants { // one whose files are all gone has heads
		if chains[t.Tenant] == nil {
			chains[t.Tenant] = []link{}
		}
	}
	for tenant, links := range chains {
		v.exportedChain(v.tenant(tenant), links)
	}
	for _, table := range audit.AuditTables() {
		if err := v.exportedRows(ctx, &table); err != nil {
			return err
		}
	}
	return nil
}

// exportedHeads reads the heads beside the files.
func (v *verification) exportedHeads(ctx context.Context) error {
	return v.list(ctx, "_heads/", func(path string) error {
		b, err := readDocument(ctx, v.Bucket, path)
		if err != nil {
			return err
		}
		h, err := audit.ReadAuditHead(b)
		if err != nil {
			v.find(Finding{Kind: Forged, Where: "export", Detail: path + ": " + err.Error()})
			return nil //nolint:nilerr // it is reported
		}
		if headPath(h) != path {
			v.find(Finding{Kind: Forged, Where: "export", Tenant: h.Tenant, Seq: h.Seq, Detail: path + ": is the head of another chain or sequence"})
			return nil
		}
		v.addHead(h, "export")
		return nil
	})
}

// exportedChain follows a tenant's chain as it was exported.
func (v *verification) exportedChain(t *tenantRun, links []link) {
	slices.SortStableFunc(links, func(a, b link) int { return int(a.Seq - b.Seq) })
	heads := t.heads
	if v.DB != nil && len(links) > 0 {
		// A head that is newer than the export is for the database to keep.
		heads = slices.DeleteFunc(slices.Clone(heads), func(h knownHead) bool { return h.from != "export" && h.Seq > links[len(links)-1].Seq })
	}
	w := v.walk(t, "export", slices.Clone(heads))
	w.known = func(e *link) bool {
		return slices.ContainsFunc(links, func(o link) bool { return o.Row == e.Row && o.Table == e.Table && o.Seq < e.Seq })
	}
	for _, l := range w.follow(links) {
		for int64(len(t.exported)) < l.Seq-1 {
			t.exported = append(t.exported, exportedLink{})
		}
		t.exported = append(t.exported, exportedLink{link: l})
	}
	w.end()
	t.Signed = w.signed
}

// exportedRows compares the rows of a table's files with the exported chain.
func (v *verification) exportedRows(ctx context.Context, table *audit.Table) error {
	own := len(table.Columns)
	last, err := v.files(ctx, table.Name, rowColumns(table), func(path string, row [][]byte) {
		tenant := bff.IDFromBytes(bff.PrefixTenant, [16]byte(row[1]))
		if !v.wanted(tenant) {
			return
		}
		t := v.tenant(tenant)
		seq, version := number(row[own]), int(number(row[own+1]))
		find := func(kind, detail string) {
			v.find(Finding{
				Kind: kind, Where: "export", Tenant: tenant, Table: table.Name, Row: rowID(table.Name, [16]byte(row[0])), Seq: seq,
				Detail: detail + " (" + path + ")",
			})
		}
		if seq < 1 || seq > int64(len(t.exported)) || t.exported[seq-1].Table == "" {
			find(Inserted, "the row has no entry in the chain")
			return
		}
		e := &t.exported[seq-1]
		sum := audit.Digest(sha256.Sum256(table.Encode(nil, e.form, row[:own])))
		switch same := e.Table == table.Name && e.Row == [16]byte(row[0]) && e.Version == version; {
		case same && e.RowHash == sum && e.verified:
			find(Inserted, "the row is there twice")
		case same && e.RowHash == sum:
			e.verified = true
			t.Exported++
		case same:
			e.verified = true // it is there, and named
			find(Changed, "the row is not as it was sealed")
		case slices.ContainsFunc(t.exported, func(o exportedLink) bool {
			return o.RowHash == sum && o.Table == table.Name && o.Row == [16]byte(row[0])
		}):
			find(Reordered, "the row stands at the place of "+e.rowID().String())
			e.verified = true
		default:
			find(Inserted, "the row stands at the place of "+e.rowID().String())
		}
	})
	if err != nil {
		return err
	}
	for _, t := range v.tenants {
		for i := range t.exported {
			if e := &t.exported[i]; e.Table == table.Name && e.pos <= last && !e.verified {
				v.find(Finding{Kind: Removed, Where: "export", Tenant: t.Tenant, Table: e.Table, Row: e.rowID(), Seq: e.Seq, Detail: "the row is in none of the files"})
			}
		}
	}
	return nil
}

// compareExport holds an entry of the database to the same one of the export.
func (v *verification) compareExport(t *tenantRun, l *link) {
	if l.Seq > int64(len(t.exported)) || t.exported[l.Seq-1].Table == "" {
		return
	}
	if e := &t.exported[l.Seq-1]; e.Table != l.Table || e.Row != l.Row || e.Version != l.Version || e.RowHash != l.RowHash {
		v.find(Finding{
			Kind: Changed, Where: "database", Tenant: t.Tenant, Table: l.Table, Row: l.rowID(), Seq: l.Seq,
			Detail: "its entry in the chain is another in the export, which has " + e.rowID().String(),
		})
	}
}

// files reads all files that a table's manifests name, and returns up to which position
// they reach.
func (v *verification) files(ctx context.Context, table string, columns []Column, each func(path string, row [][]byte)) (last int64, err error) {
	named := map[string]bool{}
	err = v.list(ctx, "_manifests/"+table+"/", func(path string) error {
		b, err := readDocument(ctx, v.Bucket, path)
		if err != nil {
			return err
		}
		var m Manifest
		if err := json.Unmarshal(b, &m); err != nil || m.Table != table {
			v.find(Finding{Kind: Changed, Where: "export", Table: table, Detail: "manifest " + path + " cannot be read"})
			return nil //nolint:nilerr // it is reported
		}
		if m.First != last {
			v.find(Finding{Kind: Removed, Where: "export", Table: table, Detail: fmt.Sprintf("the manifest of the positions from %d to %d is gone", last, m.First)})
		}
		last = m.Last
		for _, f := range m.Files {
			named[f.Path] = true
			size, err := f.check(ctx, v.Bucket)
			if err != nil {
				v.find(Finding{Kind: Changed, Where: "export", Table: table, Detail: "file " + f.Path + ": " + err.Error()})
			}
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err := readFile(&bucketFile{
				ctx: ctx, bucket: v.Bucket, name: f.Path,
			}, size, columns, func(row [][]byte) error { each(f.Path, row); return nil }); err != nil {
				v.find(Finding{Kind: Changed, Where: "export", Table: table, Detail: "file " + f.Path + " cannot be read: " + err.Error()})
			}
		}
		return nil
	})
	if err != nil {
		return last, err
	}
	return last, v.list(ctx, table+"/", func(path string) error {
		if strings.HasSuffix(path, ".parquet") && !named[path] {
			v.find(Finding{Kind: Inserted, Where: "export", Table: table, Detail: "file " + path + " is named by no manifest"})
		}
		return nil
	})
}

// list calls back with every path below a prefix, in their order.
func (v *verification) list(ctx context.Context, prefix string, each func(path string) error) error {
	for o, err := range v.Bucket.List(ctx, prefix) {
		if err == nil {
			err = each(o.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func number(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) } //nolint:gosec // the bits

// readLink is an entry from its row in a file.
func readLink(row [][]byte) link {
	l := link{pos: number(row[0]), form: audit.AuditWhole, Entry: audit.Entry{
		Tenant: [16]byte(row[1]), Seq: number(row[2]), Table: string(row[3]), Row: [16]byte(row[4]), Version: int(number(row[5])),
		At: time.UnixMicro(number(row[6])).UTC(), SealedAt: time.UnixMicro(number(row[7])).UTC(), Settled: number(row[8]) == 1,
		RowHash: audit.Digest(row[9]), Hash: audit.Digest(row[10]),
	}}
	if row[11] != nil { // files of earlier releases have neither
		l.form = audit.Form(number(row[11]))
	}
	if row[12] != nil {
		l.Since = time.UnixMicro(number(row[12])).UTC()
	}
	return l
}
