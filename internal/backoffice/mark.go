package backoffice

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"time"

	"melmastoon.ghasi.io/bff"
)

const (
	// MaxNotes is how many code points are kept of what an operator writes about an
	// entry (DATA_MODEL §11).
	MaxNotes = 200
	// MaxDelta bounds the bytes of a change that an operator made to a suggestion.
	MaxDelta = 4 << 10
	// MaxDeltaDepth bounds how deep objects and lists are nested in one.
	MaxDeltaDepth = 4
	// MaxDeltaValues bounds how many values one has.
	MaxDeltaValues = 256

	// unspecified is the category or severity of an entry whose service names none.
	unspecified = "unspecified"
)

// DecisionOutcomes lists what an operator can decide.
func DecisionOutcomes() []DecisionOutcome { return []DecisionOutcome{Accepted, Rejected, Modified} }

// Decision is what an operator decided about a suggestion. There is one for each
// suggestion: the first (DATA_MODEL §4.8). What it is about is as the orchestrator says.
type Decision struct {
	ID           bff.ID // sdl_…
	Tenant       bff.ID
	Property     bff.ID
	SuggestionID string
	InboxID      bff.ID
	Category     string
	Severity     string
	Outcome      DecisionOutcome
	Delta        json.RawMessage // of a modified one; nil otherwise
	Notes        string
	At           time.Time
	Operator     string
	Device       bff.ID
	Provenance   json.RawMessage // a JSON object
}

// Acknowledgement says that an operator has seen an alert. There is one for each alert
// and operator (DATA_MODEL §4.7). What it is about is as notification-service says.
type Acknowledgement struct {
	Tenant   bff.ID
	Property bff.ID
	AlertID  string
	InboxID  bff.ID
	Category string
	Severity string
	RaisedAt time.Time
	At       time.Time
	Operator string
	Device   bff.ID
	Notes    string
}

// Receipt is what the operator is told.
func (a *Acknowledgement) Receipt() Receipt {
	return NewReceipt(map[string]any{"alertId": a.AlertID, "inboxEntryId": a.InboxID, "acknowledgedAt": bff.At(a.At)})
}

// CutNotes keeps the first MaxNotes code points.
func CutNotes(s string) string {
	n := 0
	for i := range s {
		if n == MaxNotes {
			return s[:i]
		}
		n++
	}
	return s
}

// SuggestionDecided is the payload of ai_suggestion.decided.v1, from which the
// orchestrator takes the decision.
type SuggestionDecided struct {
	DecisionID    bff.ID          `json:"decisionId"`
	SuggestionID  string          `json:"suggestionId"`
	InboxEntryID  bff.ID          `json:"inboxEntryId"`
	Category      string          `json:"category"`
	Severity      string          `json:"severity"`
	Outcome       DecisionOutcome `json:"outcome"`
	ModifiedDelta json.RawMessage `json:"modifiedDelta,omitempty"`
	DecidedAt     bff.Timestamp   `json:"decidedAt"`
}

// Subject implements Fact.
func (SuggestionDecided) Subject() Subject { return SubjectSuggestionDecided }

// AlertAcknowledged is the payload of alert.acknowledged.v1, by which
// notification-service learns of it.
type AlertAcknowledged struct {
	AlertID        string        `json:"alertId"`
	InboxEntryID   bff.ID        `json:"inboxEntryId"`
	Category       string        `json:"category"`
	Severity       string        `json:"severity"`
	RaisedAt       bff.Timestamp `json:"raisedAt"`
	AcknowledgedAt bff.Timestamp `json:"acknowledgedAt"`
}

// Subject implements Fact.
func (AlertAcknowledged) Subject() Subject { return SubjectAlertAcknowledged }

// Types of notices about entries of inboxes.
const (
	SuggestionWasDecided = "suggestion.decided"
	AlertWasAcknowledged = "alert.acknowledged"
)

// Ruling is what an operator wants to decide about a suggestion.
type Ruling struct {
	SuggestionID string
	Outcome      DecisionOutcome
	Delta        json.RawMessage
	Notes        string
}

// EntryFinder is the services that fill inboxes, asked for one entry.
type EntryFinder interface {
	// FindEntry returns an entry of a property's inbox, or CodeResourceNotFound.
	FindEntry(ctx context.Context, of Inbox, tenant, property bff.ID, id string) (InboxEntry, error)
}

// Clerk records what operators do about entries of their inboxes. It changes nothing
// itself: the services that filled them hear of it from the outbox.
type Clerk struct{ cfg ClerkConfig }

// ClerkConfig is what a Clerk works with.
type ClerkConfig struct {
	Mirrors   Mirrors
	Finder    EntryFinder // for what a mirror does not have yet
	Mutations Mutations
	Teller    *Teller
	News      *Newsroom
	Now       func() time.Time
	Digested  func() // counts decisions of whose provenance the digest alone is kept; nil = uncounted
}

// NewClerk returns a Clerk.
func NewClerk(cfg ClerkConfig) *Clerk { return &Clerk{cfg} }

const (
	categoryAI    = "ai"
	categoryAlert = "alert"
)

// Decide records a decision. It fails with CodeSuggestionAlreadyDecided if there is
// one, of whatever operator.
func (k *Clerk) Decide(ctx context.Context, v *Visit, r Ruling, o Once, now time.Time) (Answer, error) {
	did := v.Activity(categoryAI, "decide", Resource{"suggestion", r.SuggestionID}, now)
	m, earlier, err := k.cfg.Mutations.BeginMutation(ctx, Attempt{Activity: did, Once: o})
	if err != nil {
		return Answer{}, err
	}
	if earlier != nil {
		return *earlier, nil
	}
	defer m.Release()
	e, err := k.find(ctx, v, Suggestions, r.SuggestionID)
	if err == nil && !v.Member.HasAny(DecidingRoles(e.category())) {
		err = bff.Errorf(bff.CodeRoleDenied, "your role does not decide about suggestions of this category")
	}
	if err == nil {
		err = e.decidable(now)
	}
	if err == nil {
		err = e.checkDelta(r.Delta)
	}
	if err != nil {
		return m.Finish(ctx, Finished{At: k.cfg.Now(), Failure: err})
	}
	provenance, whole := e.provenance()
	d := Decision{
		ID: bff.NewID(bff.PrefixDecision, now), Tenant: v.Session.Tenant, Property: v.Property,
		SuggestionID: e.ID, InboxID: Suggestions.EntryID(v.Session.Tenant, e.ID), Category: e.category(), Severity: e.severity(),
		Outcome: r.Outcome, Delta: r.Delta, Notes: CutNotes(r.Notes), At: k.cfg.Now(), Operator: v.Session.Operator, Device: v.Session.Device,
		Provenance: provenance,
	}
	told, err := k.cfg.News.event(SuggestionDecided{
		DecisionID: d.ID, SuggestionID: d.SuggestionID, InboxEntryID: d.InboxID, Category: d.Category, Severity: d.Severity,
		Outcome: d.Outcome, ModifiedDelta: d.Delta, DecidedAt: bff.At(d.At),
	}, v.at(v.Property), v.Request, d.At)
	if err != nil {
		return Answer{}, err
	}
	answer, err := m.Finish(ctx, Finished{
		At: d.At, Decision: &d, Events: []bff.Event{told},
		Answer: Answer{Status: 200, Receipt: NewReceipt(map[string]any{"decisionId": d.ID, "outcome": string(d.Outcome), "decidedAt": bff.At(d.At)})},
	})
	if err == nil {
		if !whole && k.cfg.Digested != nil {
			k.cfg.Digested()
		}
		k.cfg.Teller.marked(ctx, v, ChannelAI, SuggestionWasDecided, map[string]string{
			"suggestionId": d.SuggestionID, "category": d.Category, "outcome": string(d.Outcome),
		}, d.At)
	}
	return answer, err
}

// Acknowledge records that the operator has seen an alert. A second time, also with
// another key, is answered as the first.
func (k *Clerk) Acknowledge(ctx context.Context, v *Visit, alert, notes string, o Once, now time.Time) (Answer, error) {
	did := v.Activity(categoryAlert, "acknowledge", Resource{"alert", alert}, now)
	m, earlier, err := k.cfg.Mutations.BeginMutation(ctx, Attempt{Activity: did, Once: o})
	if err != nil {
		return Answer{}, err
	}
	if earlier != nil {
		return *earlier, nil
	}
	defer m.Release()
	e, err := k.find(ctx, v, Alerts, alert)
	if err != nil {
		return m.Finish(ctx, Finished{At: k.cfg.Now(), Failure: err})
	}
	a := Acknowledgement{
		Tenant: v.Session.Tenant, Property: v.Property, AlertID: e.ID, InboxID: Alerts.EntryID(v.Session.Tenant, e.ID),
		Category: e.category(), Severity: e.severity(), RaisedAt: e.At, At: k.cfg.Now(), Operator: v.Session.Operator, Device: v.Session.Device,
		Notes: CutNotes(notes),
	}
	told, err := k.cfg.News.event(AlertAcknowledged{
		AlertID: a.AlertID, InboxEntryID: a.InboxID, Category: a.Category, Severity: a.Severity, RaisedAt: bff.At(a.RaisedAt), AcknowledgedAt: bff.At(a.At),
	}, v.at(v.Property), v.Request, a.At)
	if err != nil {
		return Answer{}, err
	}
	answer, err := m.Finish(ctx, Finished{
		At: a.At, Acknowledgement: &a, Events: []bff.Event{told}, Answer: Answer{Status: 200, Receipt: a.Receipt()},
	})
	if err == nil {
		k.cfg.Teller.marked(ctx, v, ChannelAlerts, AlertWasAcknowledged, map[string]string{
			"alertId": a.AlertID, "category": a.Category, "severity": a.Severity,
		}, a.At)
	}
	return answer, err
}

// find returns an entry of the property's inbox: of the mirror, which also stands in
// while its service is away, or of that service if the entry is newer.
func (k *Clerk) find(ctx context.Context, v *Visit, of Inbox, id string) (InboxEntry, error) {
	mirror, err := k.cfg.Mirrors.ListInbox(ctx, of, v.Session.Tenant, v.Property)
	if err != nil {
		return InboxEntry{}, err
	}
	for i := range mirror.Entries {
		if mirror.Entries[i].ID == id {
			return mirror.Entries[i], nil
		}
	}
	return k.cfg.Finder.FindEntry(ctx, of, v.Session.Tenant, v.Property, id)
}

// decidable refuses a suggestion that can no longer be decided about.
func (e *InboxEntry) decidable(now time.Time) error {
	var says struct {
		ExpiresAt bff.Timestamp `json:"expiresAt"`
	}
	e.read(&says)
	switch {
	case e.Status == entryExpired, !says.ExpiresAt.IsZero() && !now.Before(says.ExpiresAt.Time):
		return bff.Errorf(bff.CodeStateConflict, "the suggestion has expired: it can no longer be decided")
	case e.Status != entryOpen:
		return ErrAlreadyDecided()
	}
	return nil
}

// ErrAlreadyDecided refuses a second decision.
func ErrAlreadyDecided() error {
	return bff.Errorf(bff.CodeSuggestionAlreadyDecided, "the suggestion was decided before: read the inbox to see how")
}

// read decodes members of the entry; what is missing or of another form is left alone.
func (e *InboxEntry) read(into any) {
	_ = json.Unmarshal(append(bytes.Clone(e.Body), '}'), into) // it was read before
}

func (e *InboxEntry) category() string { return word(e.Category) }
func (e *InboxEntry) severity() string { return word(e.Severity) }

// word is a word of another service's closed set.
func word(s string) string {
	if !IsWord(s) {
		return unspecified
	}
	return cmp.Or(s, unspecified)
}
