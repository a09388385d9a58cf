package backofficehttp

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	inboxPage     = 50 // items of a page unless said
	maxInboxPage  = 200
	maxInboxWords = 20 // of a filter
	maxInboxToken = 512
)

// suggestions lists what the AI orchestrator proposes.
func (a *API) suggestions(w http.ResponseWriter, r *http.Request) error {
	return a.inbox(w, r, inbox.Suggestions, "decided", MissingDecisions)
}

// alerts lists what notification-service wants operators to know.
func (a *API) alerts(w http.ResponseWriter, r *http.Request) error {
	return a.inbox(w, r, inbox.Alerts, "acknowledged", MissingAcknowledgements)
}

// inbox answers with a page. Marked is the name of the filter by what was done about an
// entry, part the name of what is missing while our log cannot be read.
func (a *API) inbox(w http.ResponseWriter, r *http.Request, of inbox.Inbox, marked string, part MissingPart) error {
	v := visitOf(r)
	in := web.ReadQuery(r)
	q := inbox.Query{
		Severities: in.Strings("severity", maxInboxWords, maxToken), Categories: in.Strings("category", maxInboxWords, maxToken),
		Statuses: in.Enums("status", len(of.Statuses()), of.Statuses()...), Marked: in.Bool(marked),
		Limit: in.Int("limit", inboxPage, 1, maxInboxPage), Scope: v.Member.Scope,
	}
	if cursor := in.String("cursor", maxInboxToken); cursor != "" {
		var ok bool
		if q.After, ok = readInboxCursor(cursor); !ok {
			in.Refuse("cursor", bff.FieldFormat)
		}
	}
	if err := in.Err(); err != nil {
		return err
	}
	if of == inbox.Suggestions && !a.cfg.Flags.On(backoffice.FeatureAIInbox, v.Member) {
		return a.answerInbox(w, r, of, inbox.Page{}, []Missing{{Part: MissingSuggestions, Reason: SwitchedOff}})
	}
	page, err := a.cfg.Inboxes.List(r.Context(), of, v.Session.Tenant, v.Property, q)
	if err != nil {
		return err
	}
	missing := []Missing{}
	if page.Unmarked {
		missing = append(missing, Missing{Part: part, Reason: StoreAway})
	}
	return a.answerInbox(w, r, of, page, missing)
}

func (a *API) answerInbox(w http.ResponseWriter, r *http.Request, of inbox.Inbox, page inbox.Page, missing []Missing) error {
	var names map[string]string
	if slices.ContainsFunc(page.Items, func(i inbox.Item) bool { return len(i.Marks) > 0 }) {
		names = a.names(r)
	}
	body, err := writeInbox(r, of, page, names, missing)
	if err != nil {
		return err
	}
	return answerTagged(w, r, tagOf(visitOf(r), body), body)
}

// inboxFrame is a page without its items.
type inboxFrame struct {
	Total      int            `json:"total"`
	NextCursor string         `json:"nextCursor,omitempty"`
	Stale      bool           `json:"stale"`
	AsOf       *bff.Timestamp `json:"asOf,omitempty"` // of a stale page: any other is as of now
	Degraded   []Missing      `json:"degraded"`
}

// writeInbox puts a page together. The entries' own bytes are copied as they are.
func writeInbox(r *http.Request, of inbox.Inbox, page inbox.Page, names map[string]string, missing []Missing) ([]byte, error) {
	frame := inboxFrame{Total: page.Total, Stale: page.Stale, Degraded: missing}
	if page.Next != nil {
		frame.NextCursor = writeInboxCursor(*page.Next)
	}
	if page.Stale {
		at := bff.At(page.AsOf)
		frame.AsOf = &at
	}
	rest, err := json.Marshal(frame)
	if err != nil {
		return nil, err
	}
	body := []byte(`{"items":[`)
	for i := range page.Items {
		item := &page.Items[i]
		ours, err := json.Marshal(membersOf(of, item, names, item.Can(of, visitOf(r), now(r)), !page.Unmarked))
		if err != nil {
			return nil, err
		}
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, item.Body...)
		if len(item.Body) > 1 {
			body = append(body, ',')
		}
		body = append(body, ours[1:]...)
	}
	return append(append(body, "],"...), rest[1:]...), nil
}

// Members of an item that are ours ([inbox.InboxMembers]).
type (
	suggestionMembers struct {
		Status       string    `json:"status"`
		InboxEntryID bff.ID    `json:"inboxEntryId"`
		Decision     *decision `json:"decision,omitempty"`
		Can          []string  `json:"can"`
	}
	decision struct {
		Outcome   inbox.DecisionOutcome `json:"outcome"`
		DecidedBy string                `json:"decidedBy"`
		ByName    string                `json:"decidedByName,omitempty"`
		DecidedAt bff.Timestamp         `json:"decidedAt"`
	}
	alertMembers struct {
		Status           string             `json:"status"`
		InboxEntryID     bff.ID             `json:"inboxEntryId"`
		Acknowledged     *bool              `json:"acknowledged,omitempty"`
		Acknowledgements *[]acknowledgement `json:"acknowledgements,omitempty"`
		Can              []string           `json:"can"`
	}
	acknowledgement struct {
		By     string        `json:"acknowledgedBy"`
		ByName string        `json:"acknowledgedByName,omitempty"`
		At     bff.Timestamp `json:"acknowledgedAt"`
	}
)

// membersOf is what we say of an item. Unless our log is known, nothing is said of
// acknowledgements: that there are none would be a guess.
func membersOf(of inbox.Inbox, item *inbox.Item, names map[string]string, can []string, known bool) any {
	if of == inbox.Suggestions {
		m := suggestionMembers{Status: item.Status, InboxEntryID: item.InboxID, Can: can}
		if len(item.Marks) > 0 {
			mark := item.Marks[0]
			m.Decision = &decision{mark.Outcome, mark.Operator, names[mark.Operator], bff.At(mark.At)}
		}
		return m
	}
	m := alertMembers{Status: item.Status, InboxEntryID: item.InboxID, Can: can}
	if known {
		marked, list := item.Marked(), []acknowledgement{}
		for _, mark := range item.Marks {
			list = append(list, acknowledgement{mark.Operator, names[mark.Operator], bff.At(mark.At)})
		}
		m.Acknowledged, m.Acknowledgements = &marked, &list
	}
	return m
}

// A cursor is the position of the last item of a page; what it holds is no promise.

func writeInboxCursor(p inbox.Position) string {
	text := strconv.FormatInt(p.At.Unix(), 10) + "." + strconv.Itoa(p.At.Nanosecond()) + "." + p.ID
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func readInboxCursor(s string) (inbox.Position, bool) {
	text, err := base64.RawURLEncoding.DecodeString(s)
	parts := strings.SplitN(string(text), ".", 3)
	if err != nil || len(parts) != 3 || parts[2] == "" {
		return inbox.Position{}, false
	}
	seconds, err1 := strconv.ParseInt(parts[0], 10, 64)
	nanos, err2 := strconv.ParseUint(parts[1], 10, 30)
	if err1 != nil || err2 != nil {
		return inbox.Position{}, false
	}
	return inbox.Position{At: time.Unix(seconds, int64(nanos)).UTC(), ID: parts[2]}, true //nolint:gosec // 30 bits
}
