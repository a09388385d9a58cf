package backofficehttp

import (
	"encoding/json"
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/inbox"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/web"
)

// maxTypedNotes is what an operator may write about an entry; the first
// [inbox.MaxNotes] characters are kept.
const maxTypedNotes = 2000

// decide records what an operator decided about a suggestion.
func (a *API) decide(w http.ResponseWriter, r *http.Request) error {
	o, in, err := readMark(w, r, "suggestionId")
	if err != nil {
		return err
	}
	in.Require("outcome")
	in.Only("outcome", "modifiedDelta", "notes")
	ruling := inbox.DecisionRequest{
		SuggestionID: web.PathValue(r, "suggestionId"), Outcome: inbox.DecisionOutcome(in.Enum("outcome", decisions()...)), Notes: in.String("notes", maxTypedNotes),
	}
	ruling.Delta, err = readDelta(in, ruling.Outcome)
	if err != nil {
		return err
	}
	if err := in.Err(); err != nil {
		return err
	}
	v := visitOf(r)
	if !a.cfg.Flags.On(backoffice.FeatureAIInbox, v.Member) { // what is hidden is not decided about either
		return &bff.Error{Code: bff.CodeServiceUnavailable, Detail: "suggestions are switched off: nothing was decided", RetryAfter: retryOff}
	}
	o.Digest, err = idempotency.Digest(ruling, "decide", v.Property.String())
	if err != nil {
		return err
	}
	done, err := a.cfg.InboxActions.Decide(r.Context(), v, ruling, o, now(r))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, done.Status, done.Receipt)
}

// deltaRule: a delta holds numbers, words and ids. Text that a person has typed could
// name a guest, and the delta is kept for years and handed on.
var deltaRule = web.Free{
	Depth: inbox.MaxDeltaDepth, Values: inbox.MaxDeltaValues, Text: backoffice.IsWord,
	Name: func(s string) bool { return s != "" && backoffice.IsWord(s) },
}

// readDelta reads the operator's change of a suggestion: a modified one has it, and no
// other.
func readDelta(in *web.Input, outcome inbox.DecisionOutcome) (json.RawMessage, error) {
	delta := in.Free("modifiedDelta", deltaRule)
	switch {
	case outcome == inbox.Modified && !in.Has("modifiedDelta"):
		in.Refuse("modifiedDelta", bff.FieldRequired)
	case outcome != inbox.Modified && outcome != "" && in.Has("modifiedDelta"):
		in.Refuse("modifiedDelta", bff.FieldConflict)
	}
	if delta == nil {
		return nil, nil
	}
	if len(delta) == 0 {
		in.Refuse("modifiedDelta", bff.FieldRequired)
	}
	raw, err := json.Marshal(delta)
	if len(raw) > inbox.MaxDelta {
		in.Refuse("modifiedDelta", bff.FieldLength)
	}
	return raw, err
}

func decisions() []string {
	var words []string
	for _, o := range inbox.DecisionOutcomes() {
		words = append(words, string(o))
	}
	return words
}

// acknowledge records that an operator has seen an alert.
func (a *API) acknowledge(w http.ResponseWriter, r *http.Request) error {
	o, in, err := readMark(w, r, "alertId")
	if err != nil {
		return err
	}
	in.Only("notes")
	notes := in.String("notes", maxTypedNotes)
	if err := in.Err(); err != nil {
		return err
	}
	v, alert := visitOf(r), web.PathValue(r, "alertId")
	o.Digest, err = idempotency.Digest(notes, "acknowledge", alert, v.Property.String())
	if err != nil {
		return err
	}
	done, err := a.cfg.InboxActions.Acknowledge(r.Context(), v, alert, notes, o, now(r))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, done.Status, done.Receipt)
}

// readMark reads what a decision and an acknowledgement have in common: the key, the
// entry's id and a body. Its digest is left to the caller.
func readMark(w http.ResponseWriter, r *http.Request, resource string) (backoffice.Once, *web.Input, error) {
	once, err := readOnce(r)
	if err != nil {
		return once, nil, err
	}
	if !idForm.MatchString(web.PathValue(r, resource)) {
		return once, nil, bff.FieldErrors{{Field: resource, Code: bff.FieldFormat}}.Err()
	}
	in, err := web.ReadBody(w, r)
	return once, in, err
}
