package backofficelake

import (
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// Kinds of findings.
const (
	Changed   = "changed"   // a row is not as it was sealed, or an entry of the chain was edited
	Removed   = "removed"   // a row or an entry is gone
	Inserted  = "inserted"  // a row or an entry was never sealed
	Reordered = "reordered" // a row or an entry stands at the place of another
	Rewritten = "rewritten" // the chain is not the one that was signed
	Forged    = "forged"    // a head is not signed by us
	Unsealed  = "unsealed"  // rows are not sealed or not signed long after they should have been
)

// Finding is something that does not fit what was sealed.
type Finding struct {
	Kind   string `json:"kind"`
	Where  string `json:"where"` // database, export
	Tenant bff.ID `json:"tenantId,omitzero"`
	Table  string `json:"table,omitempty"`
	Row    bff.ID `json:"rowId,omitzero"`
	Seq    int64  `json:"sequence,omitempty"`
	Detail string `json:"detail"`
}

// String is a line for people.
func (f Finding) String() string {
	row := ""
	if !f.Row.IsZero() {
		row = " " + f.Table + " " + f.Row.String()
	}
	seq := ""
	if f.Seq > 0 {
		seq = fmt.Sprintf(" (sequence %d)", f.Seq)
	}
	return fmt.Sprintf("%s in the %s: tenant %s%s%s: %s", f.Kind, f.Where, f.Tenant, row, seq, f.Detail)
}

// link is an entry as it was read.
type link struct {
	audit.Entry
	pos  int64
	form audit.Form
}

// rowID is the row's id as people know it.
func (l *link) rowID() bff.ID { return rowID(l.Table, l.Row) }

func rowID(table string, row [16]byte) bff.ID {
	for _, t := range audit.AuditTables() {
		if t.Name == table {
			return bff.IDFromBytes(t.Prefix, row)
		}
	}
	return bff.ID{}
}

// knownHead is a verified head and where it was found.
type knownHead struct {
	audit.Head
	from string
}

// walker follows one chain from its beginning.
type walker struct {
	tenant bff.ID
	where  string
	heads  []knownHead // by seq
	report func(Finding)
	known  func(*link) bool // whether an earlier entry is about the same row, perhaps in the export alone

	seq       int64 // of the entry before, as it was sealed
	hash      audit.Digest
	shift     int64     // sealed seq of an entry less the seq that it has now
	signed    int64     // up to where a head fitted
	unsigned  time.Time // when the first entry behind that was sealed
	rewritten bool
}

// begin has the chain followed from a head on, whose entries are archived, and returns its
// place and moment. Without the head there is no such place: the entries are missing.
func (w *walker) begin(seq int64) (int64, time.Time) {
	behind := slices.IndexFunc(w.heads, func(h knownHead) bool { return h.Seq > seq })
	if behind < 0 {
		behind = len(w.heads)
	}
	if behind == 0 || w.heads[behind-1].Seq != seq {
		return 0, time.Time{}
	}
	h := w.heads[behind-1]
	sum, err := hex.DecodeString(h.Hash)
	if err != nil || len(sum) != len(w.hash) {
		return 0, time.Time{}
	}
	for _, other := range w.heads[:behind] { // of the same place, from elsewhere
		if other.Seq == seq && other.Hash != h.Hash {
			w.rewritten = true
			w.find(Rewritten, nil, seq, fmt.Sprintf("the head from the %s is not that from the %s", other.from, h.from))
		}
	}
	w.seq, w.signed, w.hash, w.heads = seq, seq, audit.Digest(sum), w.heads[behind:]
	return seq, h.SealedAt.Time
}

// follow checks the next entries, in the order of their seq. It returns those that
// belong to the chain, with the seq that they were sealed with.
func (w *walker) follow(page []link) []link {
	var out []link
	page = slices.Clone(page)
	for i := 0; i < len(page); i++ {
		stored := page[i].Seq
		e := page[i]
		e.Seq = stored + w.shift
		switch gap := e.Seq - w.seq - 1; {
		case gap > 0: // what is before it cannot be known
			w.find(Removed, nil, w.seq+1, fmt.Sprintf("%d entries of the chain are gone, up to sequence %d", gap, e.Seq-1))
		case e.Sum(w.hash) == e.Hash:
		default:
			j := w.displaced(page, i)
			if j < 0 && i+1 < len(page) && w.fits(page[i+1], -1) {
				w.find(Inserted, &e, stored, "its entry was put into the chain")
				w.shift--
				continue
			}
			if j > 0 {
				w.find(Reordered, &page[j], page[j].Seq, fmt.Sprintf("its entry belongs at sequence %d", e.Seq))
				w.find(Reordered, &e, stored, "its entry stands at the place of "+rowID(page[j].Table, page[j].Row).String())
				page[i], page[j] = page[j], page[i]
				page[i].Seq, page[j].Seq = stored, page[i].Seq
				e = page[i]
				e.Seq = stored + w.shift
				break
			}
			if d := w.removedBefore(page, i); d > 0 {
				w.find(Removed, nil, stored, fmt.Sprintf("%d entries before that of %s %s are gone, and those behind were renumbered", d, e.Table, e.rowID()))
				w.shift += d
				e.Seq = stored + w.shift
				break
			}
			w.find(Changed, &e, stored, "its entry in the chain was edited")
		}
		w.take(&e)
		w.date(&e)
		out = append(out, e)
	}
	return out
}

// displaced returns the place of the entry that was sealed where page[i] stands, and
// has changed places with it; -1 = none.
func (w *walker) displaced(page []link, i int) int {
	for j := i + 1; j < len(page); j++ {
		c := page[j]
		c.Seq = page[i].Seq + w.shift
		if c.Sum(w.hash) != c.Hash {
			continue
		}
		if j > i+1 {
			return j
		}
		// Or page[i] was put in, and the rest has moved up.
		b := page[i]
		b.Seq = page[j].Seq + w.shift
		if b.Sum(c.Hash) == b.Hash {
			return j
		}
		return -1
	}
	return -1
}

// fits reports whether an entry would follow the last one if its seq were another.
func (w *walker) fits(c link, by int64) bool {
	c.Seq += w.shift + by
	return c.Sum(w.hash) == c.Hash
}

// removedBefore returns how many entries were removed before page[i], if those behind
// it were renumbered.
func (w *walker) removedBefore(page []link, i int) int64 {
	if i+1 >= len(page) {
		return 0
	}
	const most = 10_000
	for d := int64(1); d < most; d++ {
		c := page[i+1]
		c.Seq += w.shift + d
		if c.Sum(page[i].Hash) == c.Hash {
			return d
		}
	}
	return 0
}

// soon is how much later than its sealing a row may say that it was written: clocks differ.
const soon = time.Minute

// date holds the moment of a new row to when it was sealed. A row that was put in afterwards, to be history, is signed by
// the next seal like any other; but the sealer had been there before, and had not found it.
func (w *walker) date(e *link) {
	switch {
	case e.Version > 1:
	case e.At.Before(e.Since.Add(-late)) && w.known(e):
		w.find(Changed, e, e.Seq, "the row was changed after its entry had been archived, and sealed anew")
	case e.At.Before(e.Since.Add(-late)):
		w.find(Inserted, e, e.Seq, fmt.Sprintf("the row says %s, and was not there when its table had been sealed at %s", bff.At(e.At), bff.At(e.Since)))
	case e.At.After(e.SealedAt.Add(soon)):
		w.find(Inserted, e, e.Seq, fmt.Sprintf("the row says %s, and was sealed before that, at %s", bff.At(e.At), bff.At(e.SealedAt)))
	}
}

// take makes an entry the end of what was followed, and holds it to the heads.
func (w *walker) take(e *link) {
	w.seq, w.hash = e.Seq, e.Hash
	if w.unsigned.IsZero() {
		w.unsigned = e.SealedAt
	}
	for len(w.heads) > 0 && w.heads[0].Seq <= w.seq {
		h := w.heads[0]
		w.heads = w.heads[1:]
		if h.Seq < w.seq {
			continue // its entry is among those that are gone
		}
		if hex.EncodeToString(w.hash[:]) == h.Hash {
			w.signed, w.unsigned = h.Seq, time.Time{}
			continue
		}
		if !w.rewritten {
			w.rewritten = true
			w.find(
				Rewritten, nil, h.Seq,
				fmt.Sprintf("the chain from sequence %d is not the one that was signed at %s (head from the %s, key %s)", w.signed+1, h.SealedAt, h.from, h.KeyID),
			)
		}
	}
}

// end reports what the heads promise behind the chain's end.
func (w *walker) end() {
	if n := len(w.heads); n > 0 {
		h := w.heads[n-1]
		w.find(Removed, nil, w.seq+1, fmt.Sprintf("the chain ends at sequence %d and was signed up to %d at %s (head from the %s)", w.seq, h.Seq, h.SealedAt, h.from))
	}
}

func (w *walker) find(kind string, e *link, seq int64, detail string) {
	f := Finding{Kind: kind, Where: w.where, Tenant: w.tenant, Seq: seq, Detail: detail}
	if e != nil {
		f.Table, f.Row = e.Table, e.rowID()
	}
	w.report(f)
}
