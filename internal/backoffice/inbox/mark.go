package inbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
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
// suggestion: the first (DATA_MODEL §4.8). An attempt at another ends with
// [ErrAlreadyDecided]. What it is about is as the orchestrator says.
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
	Events       []bff.Event
}

// OfTenant implements backoffice.Effect.
func (d Decision) OfTenant() bff.ID { return d.Tenant }

// Acknowledgement says that an operator has seen an alert. There is one for each alert
// and operator (DATA_MODEL §4.7): an attempt at another ends with the answer to the
// first. What it is about is as notification-service says.
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
	Events   []bff.Event
}

// OfTenant implements backoffice.Effect.
func (a Acknowledgement) OfTenant() bff.ID { return a.Tenant }

// Answer is what the operator is told.
func (a Acknowledgement) Answer() backoffice.Answer {
	return backoffice.Answer{Status: 200, Receipt: backoffice.NewReceipt(map[string]any{
		"alertId": a.AlertID, "inboxEntryId": a.InboxID, "acknowledgedAt": bff.At(a.At),
	})}
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

// Subject implements backoffice.Fact.
func (SuggestionDecided) Subject() backoffice.Subject { return backoffice.SubjectSuggestionDecided }

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

// Subject implements backoffice.Fact.
func (AlertAcknowledged) Subject() backoffice.Subject { return backoffice.SubjectAlertAcknowledged }

// Types of notices about entries of inboxes.
const (
	SuggestionWasDecided = "suggestion.decided"
	AlertWasAcknowledged = "alert.acknowledged"
)

// DecisionRequest is what an operator wants to decide about a suggestion.
type DecisionRequest struct {
	SuggestionID string
	Outcome      DecisionOutcome
	Delta        json.RawMessage
	Notes        string
}

// EntryFinder is the services that fill inboxes, asked for one entry.
type EntryFinder interface {
	// FindEntry returns an entry of a property's inbox, or CodeResourceNotFound.
	FindEntry(ctx context.Context, of Inbox, tenant, property bff.ID, id string) (Entry, error)
}

// Actions records what operators do about entries of their inboxes. It changes nothing
// itself: the services that filled them hear of it from the outbox.
type Actions struct{ cfg ActionsConfig }

// ActionsConfig is what Actions works with.
type ActionsConfig struct {
	Mirrors   Mirrors
	Finder    EntryFinder // for what a mirror does not have yet
	Mutations backoffice.Mutations
	Notices   backoffice.Notifier // tells streams
	News      *backoffice.Envelopes
	Now       func() time.Time
	Digested  func() // counts decisions of whose provenance the digest alone is kept; nil = uncounted
}

// NewActions returns the actions on inboxes.
func NewActions(cfg ActionsConfig) *Actions { return &Actions{cfg} }

const (
	categoryAI    = "ai"
	categoryAlert = "alert"
)

// Decide records a decision. It fails with CodeSuggestionAlreadyDecided if there is
// one, of whatever operator.
func (k *Actions) Decide(ctx context.Context, v *backoffice.Visit, r DecisionRequest, o backoffice.Once, now time.Time) (backoffice.Answer, error) {
	var (
		d     Decision
		whole bool
	)
	did := v.Activity(categoryAI, "decide", backoffice.Resource{Kind: "suggestion", ID: r.SuggestionID}, now)
	answer, err := backoffice.Commit(ctx, k.cfg.Mutations, backoffice.Attempt{Activity: did, Once: o}, func() (backoffice.Finished, error) {
		e, err := k.find(ctx, v, Suggestions, r.SuggestionID)
		if err == nil {
			err = e.check(v.Member, r, now)
		}
		at := k.cfg.Now()
		if err != nil {
			return backoffice.Finished{At: at, Failure: err}, nil //nolint:nilerr // it is how the attempt ends
		}
		d, whole = e.decision(v, r, now, at)
		event, err := k.cfg.News.Event(d.decided(), v.About(v.Property), v.Request, at)
		d.Events = []bff.Event{event}
		return backoffice.Finished{At: at, Effects: []backoffice.Effect{d}, Answer: d.answer()}, err
	})
	if err == nil && !d.ID.IsZero() {
		if !whole && k.cfg.Digested != nil {
			k.cfg.Digested()
		}
		k.tell(ctx, v, backoffice.ChannelAI, SuggestionWasDecided, map[string]string{
			"suggestionId": d.SuggestionID, "category": d.Category, "outcome": string(d.Outcome),
		}, d.At)
	}
	return answer, err
}

// check refuses what a member may not decide about a suggestion.
func (e *Entry) check(m *backoffice.Member, r DecisionRequest, now time.Time) error {
	if !m.HasAny(DecidingRoles(e.category())) {
		return bff.Errorf(bff.CodeRoleDenied, "your role does not decide about suggestions of this category")
	}
	if err := e.decidable(now); err != nil {
		return err
	}
	return e.checkDelta(r.Delta)
}

// decision is what a visitor decides about a suggestion; whole reports whether all of its
// provenance is kept.
func (e *Entry) decision(v *backoffice.Visit, r DecisionRequest, began, at time.Time) (d Decision, whole bool) {
	d = Decision{
		ID: bff.NewID(bff.PrefixDecision, began), Tenant: v.Session.Tenant, Property: v.Property,
		SuggestionID: e.ID, InboxID: Suggestions.EntryID(v.Session.Tenant, e.ID), Category: e.category(), Severity: e.severity(),
		Outcome: r.Outcome, Delta: r.Delta, Notes: CutNotes(r.Notes), At: at, Operator: v.Session.Operator, Device: v.Session.Device,
	}
	d.Provenance, whole = e.provenance()
	return d, whole
}

func (d *Decision) decided() SuggestionDecided {
	return SuggestionDecided{
		DecisionID: d.ID, SuggestionID: d.SuggestionID, InboxEntryID: d.InboxID, Category: d.Category, Severity: d.Severity,
		Outcome: d.Outcome, ModifiedDelta: d.Delta, DecidedAt: bff.At(d.At),
	}
}

func (d *Decision) answer() backoffice.Answer {
	return backoffice.Answer{Status: 200, Receipt: backoffice.NewReceipt(map[string]any{
		"decisionId": d.ID, "outcome": string(d.Outcome), "decidedAt": bff.At(d.At),
	})}
}

// Acknowledge records that the operator has seen an alert. A second time, also with
// another key, is answered as the first.
func (k *Actions) Acknowledge(ctx context.Context, v *backoffice.Visit, alert, notes string, o backoffice.Once, now time.Time) (backoffice.Answer, error) {
	var a Acknowledgement
	did := v.Activity(categoryAlert, "acknowledge", backoffice.Resource{Kind: "alert", ID: alert}, now)
	answer, err := backoffice.Commit(ctx, k.cfg.Mutations, backoffice.Attempt{Activity: did, Once: o}, func() (backoffice.Finished, error) {
		e, err := k.find(ctx, v, Alerts, alert)
		at := k.cfg.Now()
		if err != nil {
			return backoffice.Finished{At: at, Failure: err}, nil //nolint:nilerr // it is how the attempt ends
		}
		a = Acknowledgement{
			Tenant: v.Session.Tenant, Property: v.Property, AlertID: e.ID, InboxID: Alerts.EntryID(v.Session.Tenant, e.ID),
			Category: e.category(), Severity: e.severity(), RaisedAt: e.At, At: at, Operator: v.Session.Operator, Device: v.Session.Device,
			Notes: CutNotes(notes),
		}
		event, err := k.cfg.News.Event(AlertAcknowledged{
			AlertID: a.AlertID, InboxEntryID: a.InboxID, Category: a.Category, Severity: a.Severity, RaisedAt: bff.At(a.RaisedAt), AcknowledgedAt: bff.At(a.At),
		}, v.About(v.Property), v.Request, at)
		a.Events = []bff.Event{event}
		return backoffice.Finished{At: at, Effects: []backoffice.Effect{a}, Answer: a.Answer()}, err
	})
	if err == nil && a.AlertID != "" {
		k.tell(ctx, v, backoffice.ChannelAlerts, AlertWasAcknowledged, map[string]string{
			"alertId": a.AlertID, "category": a.Category, "severity": a.Severity,
		}, a.At)
	}
	return answer, err
}

// tellTimeout caps how long an answer waits for streams to be told.
const tellTimeout = time.Second

// tell tells streams what an operator did about an entry. Our own log, which every
// reading of the inbox asks, has it already.
func (k *Actions) tell(ctx context.Context, v *backoffice.Visit, c backoffice.Channel, what string, data any, at time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
	defer cancel()
	_ = k.cfg.Notices.Notify(ctx, backoffice.Notice{ // a stream that misses it shows the entry as it was until it is fetched again
		Channel: c, Type: what, Tenant: v.Session.Tenant, Property: v.Property, CausedBy: v.Request.RequestID.ULID(), At: at, Data: backoffice.NoticeData(data),
	})
}

// find returns an entry of the property's inbox: of the mirror, which also stands in
// while its service is away, or of that service if the entry is newer.
func (k *Actions) find(ctx context.Context, v *backoffice.Visit, of Inbox, id string) (Entry, error) {
	mirror, err := k.cfg.Mirrors.ListInbox(ctx, of, v.Session.Tenant, v.Property)
	if err != nil {
		return Entry{}, err
	}
	for i := range mirror.Entries {
		if mirror.Entries[i].ID == id {
			return mirror.Entries[i], nil
		}
	}
	return k.cfg.Finder.FindEntry(ctx, of, v.Session.Tenant, v.Property, id)
}

// decidable refuses a suggestion that can no longer be decided about.
func (e *Entry) decidable(now time.Time) error {
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
func (e *Entry) read(into any) {
	_ = json.Unmarshal(append(bytes.Clone(e.Body), '}'), into) // it was read before
}

func (e *Entry) category() string { return word(e.Category) }
func (e *Entry) severity() string { return word(e.Severity) }

// word is a word of another service's closed set.
func word(s string) string {
	if !backoffice.IsWord(s) {
		return unspecified
	}
	return cmp.Or(s, unspecified)
}
