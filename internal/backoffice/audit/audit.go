// Package audit says which tables are sealed, how their rows are hashed and signed, and
// what can be asked of the ledger.
package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Kind is how a column's value is written: in a hash and in an export.
type Kind uint8

// The kinds of columns.
const (
	AuditText Kind = iota // also arrays and JSON, as JSON text
	AuditUUID             // 16 bytes
	AuditTime             // microseconds since 1970, 8 bytes
	AuditInt              // 8 bytes
)

// Column is a column of a sealed table.
type Column struct {
	Name string
	Kind Kind
	// JSON: the value is JSON, or an array that is written as JSON.
	JSON bool
	// Texts: it is an array of texts.
	Texts bool
	// Required: it is never null.
	Required bool
	// Form is the only form of rows that has the column; zero = every form has it.
	Form Form
	// LengthOf and DigestOf name the column of free text whose number of characters or SHA-256, in hexadecimal, this is.
	LengthOf, DigestOf string
}

// Form is how a row is written for its hash.
type Form int

// The forms. An entry of the chain has that of its row's first version.
const (
	// AuditWhole has every value as it is.
	AuditWhole Form = 1
	// AuditWeighed has length and digest of free text, which a data steward may have to erase and a lake never forgets, and
	// the digest of whatever weighs more than [AuditWeight].
	AuditWeighed Form = 2
)

// AuditWeight is how many bytes of one value are sealed and exported as they are. A few bytes of jsonb can be megabytes as text (1e131071).
const AuditWeight = 256 << 10

// Table is a table whose rows are sealed and exported.
type Table struct {
	Name    string
	Prefix  bff.Prefix // of its rows' ids
	Columns []Column
	// Moment is the column that says when the row's action happened.
	Moment string
	// Unsettled is the SQL condition on rows that may still change; empty = none may.
	Unsettled string
	// Changes are the columns that may change as long as the row is unsettled.
	Changes []string
	// Keep is how long a row stays here; zero = for ever.
	Keep time.Duration
	// Months: the table has a part for each month of Moment. A row goes with its month, when all of that is past its time.
	Months bool
	// Bookkeeping are columns that are neither sealed nor exported.
	Bookkeeping []string
}

func auditColumns(kind Kind, required bool, names ...string) []Column {
	var all []Column
	for _, n := range names {
		all = append(all, Column{Name: n, Kind: kind, Required: required})
	}
	return all
}

func auditJSON(required bool, names ...string) []Column {
	all := auditColumns(AuditText, required, names...)
	for i := range all {
		all[i].JSON = true
	}
	return all
}

func auditTexts(required bool, names ...string) []Column {
	all := auditJSON(required, names...)
	for i := range all {
		all[i].Texts = true
	}
	return all
}

// auditNotes are the columns of a free text.
func auditNotes(column string) []Column {
	return []Column{
		{Name: column, Kind: AuditText, Form: AuditWhole},
		{Name: "notes_length", Kind: AuditInt, Form: AuditWeighed, LengthOf: column},
		{Name: "notes_sha256", Kind: AuditText, Form: AuditWeighed, DigestOf: column},
	}
}

func concat(parts ...[]Column) []Column {
	var all []Column
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

const auditDay = 24 * time.Hour

// AuditTables lists the tables that are sealed (DATA_MODEL §4.6–4.9). Id and tenant come
// first in each. A column that is added later must be null in the rows that are sealed
// already: null is not part of a row's hash.
func AuditTables() []Table {
	ids := auditColumns(AuditUUID, true, "id", "tenant_id")
	return []Table{
		{
			Name: "operator_activity", Prefix: bff.PrefixActivity, Moment: "occurred_at", Unsettled: "outcome = 'unknown'", Keep: 90 * auditDay,
			Months: true, Changes: []string{"outcome", "latency_ms", "error_code"}, Bookkeeping: []string{"key_hash"},
			Columns: concat(ids, auditColumns(AuditUUID, false, "property_id"), auditColumns(AuditTime, true, "occurred_at"),
				auditColumns(AuditText, true, "operator_id", "device_id", "session_id", "category", "action"),
				auditColumns(AuditText, false, "resource_kind", "resource_id"), auditColumns(AuditText, true, "outcome"),
				auditColumns(AuditInt, false, "latency_ms"), auditColumns(AuditText, false, "error_code", "context_hash"), auditTexts(true, "roles"),
				auditColumns(AuditTime, false, "pressed_at")),
		},
		{
			Name: "alert_ack_log", Prefix: bff.PrefixAlertInbox, Moment: "acknowledged_at", Keep: 365 * auditDay,
			Columns: concat(ids, auditColumns(AuditUUID, false, "property_id"), auditColumns(AuditTime, true, "acknowledged_at", "raised_at"),
				auditColumns(AuditText, true, "alert_id", "category", "severity", "acknowledged_by", "device_id"), auditNotes("notes_truncated")),
		},
		{
			Name: "ai_decision_log", Prefix: bff.PrefixDecision, Moment: "decided_at",
			Columns: concat(ids, auditColumns(AuditUUID, false, "property_id"), auditColumns(AuditTime, true, "decided_at"),
				auditColumns(AuditText, true, "suggestion_id", "inbox_entry_id", "category", "severity", "outcome", "decided_by", "device_id"),
				auditNotes("notes_truncated"), auditJSON(false, "modified_delta"), auditJSON(true, "provenance")),
		},
		{
			Name: "lock_action_proxy_audit", Prefix: bff.PrefixLockAudit, Moment: "occurred_at", Unsettled: "settled_at IS NULL",
			Changes: []string{"vendor", "outcome", "error_code", "upstream_request_id", "upstream_latency_ms", "state", "credential_id", "activity_ids", "settled_at"},
			Columns: concat(ids, auditColumns(AuditUUID, true, "property_id"), auditColumns(AuditTime, true, "occurred_at"), auditColumns(AuditTime, false, "settled_at"),
				auditColumns(AuditText, true, "operator_id", "device_id", "reservation_id", "action", "vendor", "state", "outcome"),
				auditColumns(AuditText, false, "error_code", "mfa_attestation_id", "credential_id"), auditColumns(AuditText, true, "upstream_request_id"),
				auditColumns(AuditInt, true, "upstream_latency_ms"), auditJSON(true, "activity_ids")),
			Bookkeeping: []string{"asked_at", "attempted_at"},
		},
	}
}

// Row has the values of a row's columns, each as its kind says; nil = null.
type Row [][]byte

// Digest is a SHA-256.
type Digest [sha256.Size]byte

const auditRow = "melmastoon audit row v"

// Encode writes the row for its hash: form and table, and each column that is not null
// with its name. No two rows are written alike.
func (t *Table) Encode(dst []byte, form Form, row Row) []byte {
	dst = appendField(strconv.AppendInt(append(dst, auditRow...), int64(form), 10), []byte(t.Name))
	for i := range t.Columns {
		if row[i] == nil {
			continue
		}
		dst = appendField(dst, []byte(t.Columns[i].Name))
		dst = appendField(dst, row[i])
	}
	return dst
}

// Decode reads what Encode wrote.
func (t *Table) Decode(form Form, b []byte) (Row, error) {
	bad := errors.New("malformed audit row")
	b, ok := bytes.CutPrefix(b, fmt.Appendf(nil, "%s%d", auditRow, form))
	name, b, ok2 := cutField(b)
	if !ok || !ok2 || string(name) != t.Name {
		return nil, bad
	}
	row := make(Row, len(t.Columns))
	for i := range t.Columns {
		name, rest, ok := cutField(b)
		if !ok || string(name) != t.Columns[i].Name {
			continue
		}
		if row[i], b, ok = cutField(rest); !ok {
			return nil, bad
		}
	}
	if len(b) > 0 {
		return nil, bad
	}
	return row, nil
}

// Fixed reports whether two versions of a row differ in nothing that must not change.
func (t *Table) Fixed(a, b Row) bool {
	for i, c := range t.Columns {
		if !slices.Contains(t.Changes, c.Name) && !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func appendField(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...) //nolint:gosec // a length is not negative
}

func cutField(b []byte) (field, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) { //nolint:gosec // the size is a part of b
		return nil, nil, false
	}
	end := size + int(n) //nolint:gosec // at most the length of b
	return b[size:end:end], b[end:], true
}

// Entry is one link of a tenant's chain: a row as it was sealed.
type Entry struct {
	Tenant   [16]byte
	Seq      int64
	Table    string
	Row      [16]byte
	Version  int // 1, 2, … of the same row
	At       time.Time
	SealedAt time.Time
	Settled  bool // the row may not change any more
	RowHash  Digest
	// Since is when the row's table had last been read to its end, without the row in it; zero = it is not known.
	Since time.Time
	Hash  Digest // over all of this and the entry before
}

// Sum is the entry's hash behind the previous entry.
func (e *Entry) Sum(previous Digest) Digest {
	b := make([]byte, 0, 256)
	version := "melmastoon audit entry v1"
	if !e.Since.IsZero() {
		version = "melmastoon audit entry v2"
	}
	b = append(b, version...)
	b = append(b, previous[:]...)
	b = append(b, e.Tenant[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Seq)) //nolint:gosec // from 1 upwards
	b = appendField(b, []byte(e.Table))
	b = append(b, e.Row[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Version))              //nolint:gosec // from 1 upwards
	b = binary.BigEndian.AppendUint64(b, uint64(e.At.UnixMicro()))       //nolint:gosec // the bits
	b = binary.BigEndian.AppendUint64(b, uint64(e.SealedAt.UnixMicro())) //nolint:gosec // the bits
	settled := byte(0)
	if e.Settled {
		settled = 1
	}
	b = append(b, settled)
	b = append(b, e.RowHash[:]...)
	if !e.Since.IsZero() {
		b = binary.BigEndian.AppendUint64(b, uint64(e.Since.UnixMicro())) //nolint:gosec // the bits
	}
	return sha256.Sum256(b)
}

// Head is the signed end of a tenant's chain: it pins the number and the content
// of everything before.
type Head struct {
	Tenant    bff.ID        `json:"tenantId"`
	Seq       int64         `json:"sequence"`
	Hash      string        `json:"hash"` // hexadecimal
	SealedAt  bff.Timestamp `json:"sealedAt"`
	KeyID     string        `json:"keyId"`
	Signature string        `json:"signature"` // Ed25519, base64
}

// signed is what the signature is over.
func (h *Head) signed() []byte {
	return fmt.Appendf(nil, "melmastoon audit head v1\n%s\n%d\n%s\n%d\n%s", h.Tenant, h.Seq, h.Hash, h.SealedAt.UnixMicro(), h.KeyID)
}

// Keys sign and verify heads.
type Keys struct {
	id      string // of the key that signs
	private ed25519.PrivateKey
	public  map[string]ed25519.PublicKey
}

// ParseAuditKeys reads keys as id:base64, the newest first. Base64 of 32 bytes is the
// seed of a key that signs; public:base64 after the id is a key that only verifies.
func ParseAuditKeys(lines []string) (*Keys, error) {
	k := &Keys{public: map[string]ed25519.PublicKey{}}
	for i, line := range lines {
		id, text, _ := strings.Cut(strings.TrimSpace(line), ":")
		text, verifies := strings.CutPrefix(text, "public:")
		b, err := base64.StdEncoding.DecodeString(text)
		switch {
		case err != nil || len(b) != ed25519.SeedSize || id == "" || !backoffice.IsWord(id):
			return nil, fmt.Errorf("audit key %d: want id:base64 of %d bytes", i+1, ed25519.SeedSize)
		case k.public[id] != nil:
			return nil, fmt.Errorf("audit key %d: the id %s is there twice", i+1, id)
		case verifies:
			k.public[id] = ed25519.PublicKey(b)
		default:
			key := ed25519.NewKeyFromSeed(b)
			k.public[id] = key.Public().(ed25519.PublicKey) //nolint:forcetypeassert // documented
			if k.private == nil {
				k.id, k.private = id, key
			}
		}
	}
	if len(k.public) == 0 {
		return nil, errors.New("audit keys: at least one is required")
	}
	return k, nil
}

// Public lists the keys in the form that only verifies.
func (k *Keys) Public() []string {
	var lines []string
	for id, key := range k.public {
		lines = append(lines, id+":public:"+base64.StdEncoding.EncodeToString(key))
	}
	return lines
}

// Sign returns the head of a chain.
func (k *Keys) Sign(tenant bff.ID, seq int64, hash Digest, at time.Time) (Head, error) {
	if k.private == nil {
		return Head{}, errors.New("audit keys: none of them signs")
	}
	h := Head{Tenant: tenant, Seq: seq, Hash: fmt.Sprintf("%x", hash), SealedAt: bff.At(at), KeyID: k.id}
	h.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, h.signed()))
	return h, nil
}

// Verify reports why a head is not one of ours.
func (k *Keys) Verify(h Head) error {
	key := k.public[h.KeyID]
	if key == nil {
		return fmt.Errorf("signed with an unknown key %q", h.KeyID)
	}
	sig, err := base64.StdEncoding.DecodeString(h.Signature)
	if err != nil || !ed25519.Verify(key, h.signed(), sig) {
		return fmt.Errorf("the signature of key %s does not fit", h.KeyID)
	}
	return nil
}

// ReadAuditHead reads a head as it was exported, or from an event as it was published.
func ReadAuditHead(b []byte) (Head, error) {
	all, err := ReadAuditHeads(b)
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("read audit head: there are %d of them", len(all))
	}
	if err != nil {
		return Head{}, err
	}
	return all[0], nil
}

// ReadAuditHeads reads heads that stand one after the other, as a subscription puts events into files.
func ReadAuditHeads(b []byte) (all []Head, err error) {
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var doc struct {
			Head
			Payload *Head `json:"payload"`
		}
		if err := d.Decode(&doc); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read audit head: %w", err)
		}
		h := doc.Head
		if doc.Payload != nil {
			h = *doc.Payload
		}
		if h.Tenant.IsZero() || h.Seq < 1 || h.Hash == "" {
			return nil, errors.New("read audit head: tenantId, sequence and hash are required")
		}
		all = append(all, h)
	}
}

// Sealed is the payload of audit.sealed.v1: the head, and how many entries are new.
type Sealed struct {
	Head
	Entries int64 `json:"entries"`
}

// Subject implements backoffice.Fact.
func (Sealed) Subject() backoffice.Subject { return backoffice.SubjectAuditSealed }

// Event is that of a head with so many new entries.
func (h Head) Event(n *backoffice.Envelopes, entries int64, now time.Time) (bff.Event, error) {
	return n.Event(Sealed{h, entries}, backoffice.About{Tenant: h.Tenant}, backoffice.Occasion{}, now)
}
