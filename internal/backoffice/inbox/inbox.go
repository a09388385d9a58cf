// Package inbox shows what other services want staff to look at, and records what
// operators do about it.
package inbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Inbox names one of the two lists of what staff should look at.
type Inbox string

// The inboxes there are.
const (
	Suggestions Inbox = "ai"     // of the AI orchestrator; operators decide about them
	Alerts      Inbox = "alerts" // of notification-service; operators acknowledge them
)

// Entry is a suggestion or an alert, as the service that made it has it.
type Entry struct {
	ID       string    `json:"id"`
	Category string    `json:"category"`
	Severity string    `json:"severity"`
	Status   string    `json:"status"`
	At       time.Time `json:"at"` // it was made or raised
	Property bff.ID    `json:"property"`
	// Body is the entry's JSON object as the service wrote it, without its closing
	// brace and without the members that are ours to say (see InboxMembers). What the
	// service says of its provenance is thereby shown to the byte.
	Body []byte `json:"body"`
}

// InboxMembers are the members of an item that this service says.
func InboxMembers() []string {
	return []string{"status", "inboxEntryId", "decision", "acknowledged", "acknowledgements", "can"}
}

// Mirror is a copy of an inbox, the newest entry first.
type Mirror struct {
	Entries []Entry
	AsOf    time.Time
	Stale   bool // its service could not be asked
}

// SortInbox puts the newest entry first. The order is total, so that pages neither
// repeat nor skip an entry.
func SortInbox(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		return a.position().compare(b.position())
	})
}

// Mark is what an operator did about an entry, by our own log.
type Mark struct {
	Operator string
	At       time.Time
	Outcome  DecisionOutcome // of a decision; empty for an acknowledgement
}

// DecisionOutcome is what an operator decided about a suggestion.
type DecisionOutcome string

// The outcomes there are.
const (
	Accepted DecisionOutcome = "accepted"
	Rejected DecisionOutcome = "rejected"
	Modified DecisionOutcome = "modified"
)

// The states of entries, beside the outcomes of decisions.
const (
	entryOpen         = "open"
	entryExpired      = "expired"
	entryAcknowledged = "acknowledged"
	entryResolved     = "resolved"
)

// Statuses are the states that an entry of the inbox can have.
func (of Inbox) Statuses() []string {
	if of == Suggestions {
		return []string{entryOpen, string(Accepted), string(Rejected), string(Modified), entryExpired}
	}
	return []string{entryOpen, entryAcknowledged, entryResolved}
}

// Position is a place in an inbox: behind the entry of that moment and id.
type Position struct {
	At time.Time
	ID string
}

func (e *Entry) position() Position { return Position{e.At, e.ID} }

// compare is negative if p comes first.
func (p Position) compare(q Position) int {
	return cmp.Or(q.At.Compare(p.At), strings.Compare(q.ID, p.ID))
}

// Query is what an operator wants to see of an inbox. Empty lists take all.
type Query struct {
	Severities, Categories, Statuses []string
	Marked                           *bool // decided, or acknowledged
	Limit                            int
	After                            Position // zero = from the start
	// Scope is whose entries are shown where no property is named.
	Scope backoffice.PropertyScope
}

// Item is an entry with what was done about it.
type Item struct {
	*Entry

	InboxID bff.ID
	Status  string // in the light of our own log, which knows of a decision first
	Marks   []Mark
}

// Marked reports whether the entry was decided about, or acknowledged.
func (i *Item) Marked() bool {
	switch DecisionOutcome(i.Status) {
	case Accepted, Rejected, Modified, entryAcknowledged:
		return true
	}
	return len(i.Marks) > 0
}

// Can are the steps that a visitor may take with the item of an inbox: the last word of
// their routes. It is a hint, as in views, and never nil.
func (i *Item) Can(of Inbox, v *backoffice.Visit, now time.Time) []string {
	switch {
	case of == Suggestions && i.Status == entryOpen && v.Member.HasAny(DecidingRoles(i.category())) && i.decidable(now) == nil:
		return []string{"decide"}
	case of == Alerts && i.Status != entryResolved &&
		!slices.ContainsFunc(i.Marks, func(m Mark) bool { return m.Operator == v.Session.Operator }):
		return []string{"acknowledge"}
	}
	return []string{}
}

// Page is a part of an inbox.
type Page struct {
	Items []Item
	Total int       // of all pages
	Next  *Position // nil on the last page
	AsOf  time.Time
	Stale bool
	// Unmarked: our log could not be read. Items may have been decided about or
	// acknowledged without saying so.
	Unmarked bool
}

// Mirrors reads inboxes of other services.
type Mirrors interface {
	// ListInbox returns what a property's inbox holds, or CodeResourceNotFound if the
	// property is not the tenant's; with a zero property what all of the tenant's hold.
	ListInbox(ctx context.Context, of Inbox, tenant, property bff.ID) (Mirror, error)
}

// Feed is the service that fills an inbox.
type Feed interface {
	// FetchInbox returns what a property's inbox holds, or with a zero property what all
	// of the tenant's hold; etag names what the caller has of it already. A property that
	// is not the tenant's is CodeResourceNotFound.
	FetchInbox(ctx context.Context, of Inbox, tenant, property bff.ID, etag string) (Fetched, error)
}

// Fetched is an inbox as its service has it, the newest entry first.
type Fetched struct {
	Entries []Entry
	ETag    string // empty = it has none
	// Unchanged: the caller has it already, and there are no entries here.
	Unchanged bool
}

// MaxInbox bounds the entries of an inbox; older ones are left out.
const MaxInbox = 1000

// Marks reads our own log of decisions and acknowledgements.
type Marks interface {
	// ListMarks returns what was done about entries, by their ids, the oldest first.
	ListMarks(ctx context.Context, of Inbox, tenant bff.ID, ids []string) (map[string][]Mark, error)
}

// marksTimeout caps the look into our log: an inbox is readable without it.
const marksTimeout = 500 * time.Millisecond

// Inboxes shows operators what other services want them to look at.
type Inboxes struct {
	mirrors Mirrors
	marks   Marks
	// MarksTimeout caps the look into our own log.
	MarksTimeout time.Duration
}

// NewInboxes returns the inboxes over mirrors and our own log.
func NewInboxes(mirrors Mirrors, marks Marks) *Inboxes {
	return &Inboxes{mirrors: mirrors, marks: marks, MarksTimeout: marksTimeout}
}

// List returns a page of a property's inbox; with a zero property, of the inboxes of all
// properties in the query's scope.
func (b *Inboxes) List(ctx context.Context, of Inbox, tenant, property bff.ID, q Query) (Page, error) {
	all := property.IsZero()
	if only, one := q.Scope.Only(); all && one {
		property, all = only, false
	}
	mirror, err := b.mirrors.ListInbox(ctx, of, tenant, property)
	if err != nil {
		return Page{}, err
	}
	page := Page{AsOf: mirror.AsOf, Stale: mirror.Stale, Items: []Item{}}
	ids := make([]string, 0, len(mirror.Entries))
	wanted := make([]*Entry, 0, len(mirror.Entries))
	for i := range mirror.Entries {
		if e := &mirror.Entries[i]; (!all || q.Scope.Covers(e.Property)) && among(q.Severities, e.Severity) && among(q.Categories, e.Category) {
			wanted, ids = append(wanted, e), append(ids, e.ID)
		}
	}
	marks, err := b.listMarks(ctx, of, tenant, ids)
	if ctx.Err() != nil {
		return Page{}, context.Cause(ctx)
	}
	if err != nil {
		page.Unmarked, marks = true, nil
	}
	for _, e := range wanted {
		item := of.item(tenant, e, marks[e.ID])
		if !among(q.Statuses, item.Status) || q.Marked != nil && *q.Marked != item.Marked() {
			continue
		}
		page.Total++
		switch {
		case q.After != (Position{}) && e.position().compare(q.After) <= 0: // on an earlier page
		case len(page.Items) < q.Limit:
			page.Items = append(page.Items, item)
		case page.Next == nil:
			last := page.Items[len(page.Items)-1].position()
			page.Next = &last
		}
	}
	return page, nil
}

func (b *Inboxes) listMarks(ctx context.Context, of Inbox, tenant bff.ID, ids []string) (map[string][]Mark, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.MarksTimeout)
	defer cancel()
	return b.marks.ListMarks(ctx, of, tenant, ids)
}

// item is an entry in the light of our own log. The service is told of decisions
// later, through the outbox: until then it still calls them open.
func (of Inbox) item(tenant bff.ID, e *Entry, marks []Mark) Item {
	item := Item{Entry: e, InboxID: of.EntryID(tenant, e.ID), Status: e.Status, Marks: marks}
	switch {
	case len(marks) == 0:
	case of == Suggestions:
		item.Status = string(marks[0].Outcome)
	case e.Status == entryOpen:
		item.Status = entryAcknowledged
	}
	return item
}

// EntryID is the id under which our log and events know an entry. It follows from
// the entry, so that no table has to remember it.
func (of Inbox) EntryID(tenant bff.ID, id string) bff.ID {
	prefix := bff.PrefixAlertInbox
	if of == Suggestions {
		prefix = bff.PrefixAIInbox
	}
	if _, ulid, ok := strings.Cut(id, "_"); ok {
		if same, err := bff.ParseID(prefix, string(prefix)+"_"+ulid); err == nil {
			return same
		}
	}
	sum := sha256.Sum256([]byte(tenant.String() + " " + id))
	return bff.IDFromBytes(prefix, [16]byte(sum[:16]))
}

// among reports whether a list is empty or has the word.
func among(words []string, word string) bool {
	return len(words) == 0 || slices.Contains(words, word)
}
