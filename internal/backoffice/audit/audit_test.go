package audit_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// auditColumns has the columns that are sealed, in their order: rows that were sealed years
// ago are hashed with them. A star is a required one, = may change while the row is
// unsettled, and a number is the only form that has it.
const auditColumns = `
operator_activity act occurred_at 2160h [outcome = 'unknown'] -[key_hash]
id:1* tenant_id:1* property_id:1 occurred_at:2* operator_id:0* device_id:0* session_id:0* category:0* action:0* resource_kind:0 resource_id:0 outcome:0*= latency_ms:3= error_code:0= context_hash:0 roles:0*jt pressed_at:2
alert_ack_log ali acknowledged_at 8760h [] -[]
id:1* tenant_id:1* property_id:1 acknowledged_at:2* raised_at:2* alert_id:0* category:0* severity:0* acknowledged_by:0* device_id:0* notes_truncated:0(1) notes_length:3(2)#notes_truncated notes_sha256:0(2)@notes_truncated
ai_decision_log sdl decided_at 0s [] -[]
id:1* tenant_id:1* property_id:1 decided_at:2* suggestion_id:0* inbox_entry_id:0* category:0* severity:0* outcome:0* decided_by:0* device_id:0* notes_truncated:0(1) notes_length:3(2)#notes_truncated notes_sha256:0(2)@notes_truncated modified_delta:0j provenance:0*j
lock_action_proxy_audit lap occurred_at 0s [settled_at IS NULL] -[asked_at attempted_at]
id:1* tenant_id:1* property_id:1* occurred_at:2* settled_at:2= operator_id:0* device_id:0* reservation_id:0* action:0* vendor:0*= state:0*= outcome:0*= error_code:0= mfa_attestation_id:0 credential_id:0= upstream_request_id:0*= upstream_latency_ms:3*= activity_ids:0*j=
`

func TestAuditTables(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteByte('\n')
	for _, table := range audit.AuditTables() {
		fmt.Fprintf(
			&b, "%s %s %s %s [%s] -%s\n", table.Name, table.Prefix, table.Moment, strings.TrimSuffix(table.Keep.String(), "0m0s"), table.Unsettled,
			table.Bookkeeping,
		)
		for i, c := range table.Columns {
			if i > 0 {
				b.WriteByte(' ')
			}
			fmt.Fprintf(&b, "%s:%d", c.Name, c.Kind)
			if c.Required {
				b.WriteByte('*')
			}
			if c.JSON {
				b.WriteByte('j')
			}
			if c.Texts {
				b.WriteByte('t')
			}
			if slices.Contains(table.Changes, c.Name) {
				b.WriteByte('=')
			}
			if c.Form != 0 {
				fmt.Fprintf(&b, "(%d)", c.Form)
			}
			if c.LengthOf != "" {
				b.WriteString("#" + c.LengthOf)
			}
			if c.DigestOf != "" {
				b.WriteString("@" + c.DigestOf)
			}
		}
		b.WriteByte('\n')
	}
	if diff := cmp.Diff(auditColumns, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A row is read as it was written, and not as one of another table, form or length. Two
// versions of it may differ in what may change.
func TestAuditRows(t *testing.T) {
	t.Parallel()
	for _, table := range audit.AuditTables() {
		row := make(audit.Row, len(table.Columns))
		for i := range row {
			if i%3 > 0 { // some are null, and one is empty
				row[i] = bytes.Repeat([]byte{byte(i)}, (i-1)*20)
			}
		}
		written := table.Encode([]byte("before"), audit.AuditWeighed, row)[len("before"):]
		got, err := table.Decode(audit.AuditWeighed, written)
		if diff := cmp.Diff(row, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", table.Name, err, diff)
		}
		other := audit.AuditTables()[0]
		if other.Name == table.Name {
			other = audit.AuditTables()[1]
		}
		if _, err := other.Decode(audit.AuditWeighed, written); err == nil {
			t.Errorf("%s: read as %s", table.Name, other.Name)
		}
		if _, err := table.Decode(audit.AuditWhole, written); err == nil {
			t.Errorf("%s: read as another form", table.Name)
		}
		if _, err := table.Decode(audit.AuditWeighed, append(slices.Clone(written), 0)); err == nil {
			t.Errorf("%s: read with more behind it", table.Name)
		}
		for n := range written {
			if row, err := table.Decode(audit.AuditWeighed, written[:n]); err == nil && len(table.Encode(nil, audit.AuditWeighed, row)) != n {
				t.Errorf("%s: %d of %d bytes are read", table.Name, n, len(written))
			}
		}
		for i, c := range table.Columns {
			changed := slices.Clone(row)
			changed[i] = append(slices.Clone(row[i]), 'x')
			if table.Fixed(row, changed) != slices.Contains(table.Changes, c.Name) {
				t.Errorf("%s: %s may change: %t", table.Name, c.Name, table.Fixed(row, changed))
			}
		}
		if !table.Fixed(row, row) {
			t.Errorf("%s: a row differs from itself", table.Name)
		}
	}
}

// Every part of an entry is part of its hash, and the hash is what it was when the first
// chains were sealed.
func TestAuditEntrySum(t *testing.T) {
	t.Parallel()
	entry := func() audit.Entry {
		return audit.Entry{
			Tenant: [16]byte{1}, Seq: 2, Table: "t", Row: [16]byte{3}, Version: 4, At: time.UnixMicro(5), SealedAt: time.UnixMicro(6), RowHash: audit.Digest{7},
		}
	}
	since := entry()
	since.Since = time.UnixMicro(8)
	for want, e := range map[string]audit.Entry{
		"733097e603141a1a7b169105ca854b013176ba48cdd5b1d5ec395aaf1f42faa8": entry(),
		"91619b8053a583a96ffa4c6760a56693a98b122493e3a92f93ad3c797ded2ef6": since,
	} {
		if got := fmt.Sprintf("%x", e.Sum(audit.Digest{9})); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	seen := map[audit.Digest]string{}
	for name, change := range map[string]func(*audit.Entry){
		"nothing":   func(*audit.Entry) {},
		"tenant":    func(e *audit.Entry) { e.Tenant[15] = 1 },
		"seq":       func(e *audit.Entry) { e.Seq++ },
		"table":     func(e *audit.Entry) { e.Table = "u" },
		"row":       func(e *audit.Entry) { e.Row[15] = 1 },
		"version":   func(e *audit.Entry) { e.Version++ },
		"at":        func(e *audit.Entry) { e.At = time.UnixMicro(9) },
		"sealed at": func(e *audit.Entry) { e.SealedAt = time.UnixMicro(9) },
		"settled":   func(e *audit.Entry) { e.Settled = true },
		"row hash":  func(e *audit.Entry) { e.RowHash[31] = 1 },
		"since":     func(e *audit.Entry) { e.Since = time.UnixMicro(9) },
		"since, 2":  func(e *audit.Entry) { e.Since = time.UnixMicro(10) },
	} {
		e := entry()
		change(&e)
		sum := e.Sum(audit.Digest{})
		if same, twice := seen[sum]; twice {
			t.Errorf("%s and %s have one hash", name, same)
		}
		seen[sum] = name
	}
	e := entry()
	if e.Sum(audit.Digest{1}) == e.Sum(audit.Digest{2}) {
		t.Error("the entry before is not part of the hash")
	}
}

// Heads are signed with the newest key that can, and verified with every one that is known;
// nothing of a head can be changed.
func TestAuditKeys(t *testing.T) {
	t.Parallel()
	seed := func(b byte) string {
		return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, ed25519.SeedSize))
	}
	parse := func(lines ...string) *audit.Keys {
		t.Helper()
		k, err := audit.ParseAuditKeys(lines)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	old := parse("old:" + seed(1))
	sealed := began.Add(123456 * time.Microsecond)
	head, err := old.Sign(tenant, 7, audit.Digest{0xab}, sealed)
	if err != nil || head.KeyID != "old" || head.Seq != 7 || head.Tenant != tenant || !strings.HasPrefix(head.Hash, "ab00") ||
		!head.SealedAt.Equal(bff.At(sealed).Time) {
		t.Fatalf("%+v, %v", head, err)
	}
	both := parse(" new:"+seed(2)+" ", old.Public()[0])
	if err := both.Verify(head); err != nil {
		t.Error(err)
	}
	if newer, err := both.Sign(tenant, 8, audit.Digest{}, sealed); err != nil || newer.KeyID != "new" {
		t.Errorf("%+v, %v", newer, err)
	}
	if newest, err := parse("b:"+seed(3), "a:"+seed(4)).Sign(tenant, 8, audit.Digest{}, sealed); err != nil || newest.KeyID != "b" {
		t.Errorf("%+v, %v", newest, err)
	}
	if _, err := parse(old.Public()...).Sign(tenant, 8, audit.Digest{}, sealed); err == nil {
		t.Error("a key that only verifies has signed")
	}
	for name, change := range map[string]func(*audit.Head){
		"tenant":    func(h *audit.Head) { h.Tenant = bff.NewID(bff.PrefixTenant, began) },
		"sequence":  func(h *audit.Head) { h.Seq++ },
		"hash":      func(h *audit.Head) { h.Hash = strings.Replace(h.Hash, "ab", "ac", 1) },
		"time":      func(h *audit.Head) { h.SealedAt = bff.At(sealed.Add(time.Millisecond)) },
		"key":       func(h *audit.Head) { h.KeyID = "new" },
		"other key": func(h *audit.Head) { h.KeyID = "else" },
		"signature": func(h *audit.Head) { h.Signature = strings.Replace(h.Signature, h.Signature[:4], "AAAA", 1) },
		"no base64": func(h *audit.Head) { h.Signature = "!" + h.Signature },
	} {
		changed := head
		if change(&changed); both.Verify(changed) == nil {
			t.Errorf("%s was changed, and the head stands", name)
		}
	}
	for _, lines := range [][]string{
		nil,
		{""},
		{"id:"},
		{":" + seed(1)},
		{"i d:" + seed(1)},
		{"id:AAAA"},
		{"id:" + seed(1) + "AAAA"},
		{"id:public:AAAA"},
		{"id:" + seed(1), "id:" + seed(2)},
		{"id:" + seed(1), "id:public:" + seed(2)},
		{"id:!" + seed(1)[1:]},
	} {
		if _, err := audit.ParseAuditKeys(lines); err == nil {
			t.Errorf("%v are keys", lines)
		}
	}
}

// Heads are read as they were exported and as they were published, one or many, and none
// that lacks what it pins.
func TestReadAuditHeads(t *testing.T) {
	t.Parallel()
	head := audit.Head{Tenant: tenant, Seq: 1, Hash: "ab", SealedAt: bff.At(began), KeyID: "k", Signature: "s"}
	e, err := head.Event(backoffice.NewEnvelopes("test"), 3, began)
	if err != nil {
		t.Fatal(err)
	}
	if in := e.Envelope; in.Subject != string(backoffice.SubjectAuditSealed) || in.TenantID == nil || *in.TenantID != tenant.String() ||
		!bytes.Contains(e.Payload, []byte(`"entries":3`)) {
		t.Errorf("%+v %s", in, e.Payload)
	}
	exported, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	published := fmt.Sprintf(`{"eventId":"x","tenantId":%q,"payload":%s}`, bff.NewID(bff.PrefixTenant, began), e.Payload)
	for name, text := range map[string]string{"exported": string(exported), "published": published} {
		got, err := audit.ReadAuditHead([]byte(text))
		if diff := cmp.Diff(head, got, sameIDs); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	all, err := audit.ReadAuditHeads([]byte(string(exported) + "\n" + published))
	if err != nil || len(all) != 2 {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := audit.ReadAuditHeads(nil); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
	for _, text := range []string{
		"", string(exported) + string(exported), "x", string(exported) + "x", strings.Replace(string(exported), tenant.String(), "", 1),
		strings.Replace(string(exported), `"sequence":1`, `"sequence":0`, 1), strings.Replace(string(exported), `"hash":"ab"`, `"hash":""`, 1),
	} {
		if h, err := audit.ReadAuditHead([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, h)
		}
	}
}
