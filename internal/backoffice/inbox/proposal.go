package inbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// DecidingRoles are those that decide about suggestions of a category.
func DecidingRoles(category string) []backoffice.Role {
	switch category {
	case "pricing", "revenue":
		return []backoffice.Role{backoffice.GeneralManager, backoffice.Owner}
	case "housekeeping":
		return []backoffice.Role{backoffice.HousekeepingLead, backoffice.GeneralManager, backoffice.Owner}
	case "maintenance":
		return []backoffice.Role{backoffice.Maintenance, backoffice.GeneralManager, backoffice.Owner}
	}
	return backoffice.Roles()
}

// checkDelta refuses what an operator's change names beyond the suggestion's own
// proposal, or has as another kind of value. The delta is kept for years and handed on:
// a name or a number of a passport has no place that it could be put into.
func (e *Entry) checkDelta(delta json.RawMessage) error {
	if delta == nil {
		return nil
	}
	var says struct {
		Proposal any `json:"proposal"`
	}
	e.read(&says)
	var change any
	if err := json.Unmarshal(delta, &change); err != nil {
		return err
	}
	proposed, ok := says.Proposal.(map[string]any)
	if !ok {
		proposed = map[string]any{} // of one that proposes nothing, nothing can be changed
	}
	var bad bff.FieldErrors
	compareKinds(&bad, "modifiedDelta", proposed, change)
	return bad.Err()
}

// compareKinds refuses values that have no counterpart of their kind. Elements of a list
// are compared with its first.
func compareKinds(bad *bff.FieldErrors, at string, proposed, given any) {
	var same bool
	switch given := given.(type) {
	case map[string]any:
		var members map[string]any
		if members, same = proposed.(map[string]any); !same {
			break
		}
		for _, name := range slices.Sorted(maps.Keys(given)) {
			if counterpart, there := members[name]; there {
				compareKinds(bad, at+"."+name, counterpart, given[name])
			} else {
				bad.Add(at+"."+name, bff.FieldUnsupported)
			}
		}
	case []any:
		var elements []any
		if elements, same = proposed.([]any); !same {
			break
		}
		for i, element := range given {
			if inside := at + "[" + strconv.Itoa(i) + "]"; len(elements) > 0 {
				compareKinds(bad, inside, elements[0], element)
			} else {
				bad.Add(inside, bff.FieldUnsupported)
			}
		}
	case float64:
		_, same = proposed.(float64)
	case string:
		_, same = proposed.(string)
	case bool:
		_, same = proposed.(bool)
	default: // null
		same = proposed == nil
	}
	bad.Check(same, at, bff.FieldType)
}

const (
	// maxProvenance bounds what is kept of how a suggestion came about, as the database
	// writes it.
	maxProvenance      = 64 << 10
	maxProvenanceDepth = 100
)

// provenance is how the suggestion came about, as the orchestrator says: a JSON object
// that a database takes. Of anything else that the orchestrator has said, its digest and
// size are kept: what is regulated is never silently nothing.
func (e *Entry) provenance() (kept json.RawMessage, whole bool) {
	var says struct {
		Provenance json.RawMessage `json:"aiProvenance"`
	}
	e.read(&says)
	if len(says.Provenance) == 0 || string(says.Provenance) == "null" {
		return json.RawMessage(`{}`), true
	}
	var members map[string]any
	dec := json.NewDecoder(bytes.NewReader(says.Provenance))
	dec.UseNumber()
	if dec.Decode(&members) == nil && storableJSON(members, maxProvenanceDepth) {
		out, err := json.Marshal(members)
		if err == nil && bff.WrittenSize(out) <= maxProvenance {
			return out, true
		}
	}
	sum := sha256.Sum256(says.Provenance)
	digest, _ := json.Marshal(map[string]any{"sha256": hex.EncodeToString(sum[:]), "bytes": len(says.Provenance)}) // text and a number
	return digest, false
}

// storableJSON reports whether a jsonb column takes a value: no NUL, and not deeper than
// it can be read.
func storableJSON(v any, depth int) bool {
	if depth == 0 {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if strings.ContainsRune(name, 0) || !storableJSON(member, depth-1) {
				return false
			}
		}
	case []any:
		return !slices.ContainsFunc(v, func(element any) bool { return !storableJSON(element, depth-1) })
	case string:
		return !strings.ContainsRune(v, 0)
	}
	return true
}
