package stream

import (
	"encoding/json"
	"fmt"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// ends reports whether a stream ends with an entry.
func (e *Entry) ends() bool {
	if e.Kind != sessionKind {
		return false
	}
	switch e.Type {
	case backoffice.SessionRevoked, backoffice.SessionSignedOut, backoffice.SessionReplaced, backoffice.SessionOutgrown,
		backoffice.MembershipChanged, backoffice.TenantSuspended:
		return true
	case backoffice.FlagsChanged:
		return strings.Contains(e.Data, streamFlag)
	}
	return false
}

// streamFlag is how the flag of streams is spelled in the data of FlagsChanged.
const streamFlag = `"flag":"` + string(backoffice.FeatureStream) + `"`

var sessionKind, _ = kindOf(backoffice.ChannelSession)

// maxNotice bounds what one notice may take in every log.
const maxNotice = 4 << 10

// entryOf is a notice as a log keeps it, encoded once for all devices.
func entryOf(n *backoffice.Notice) (Entry, error) {
	kind, known := kindOf(n.Channel)
	switch {
	case !known:
		return Entry{}, fmt.Errorf("there is no channel %q", n.Channel)
	case n.Type == "" || strings.ContainsAny(n.Type+n.Operator, "\n"):
		return Entry{}, fmt.Errorf("a notice of channel %s has a bad type or operator", n.Channel)
	}
	doc := struct {
		Type     string          `json:"type"`
		At       bff.Timestamp   `json:"at"`
		Property string          `json:"propertyId,omitempty"`
		CausedBy string          `json:"causedBy,omitempty"`
		Data     json.RawMessage `json:"data,omitempty"`
	}{n.Type, bff.At(n.At), n.Property.String(), n.CausedBy, n.Data}
	data, err := json.Marshal(doc)
	if err != nil {
		return Entry{}, fmt.Errorf("encode notice: %w", err)
	}
	if len(data) > maxNotice {
		return Entry{}, fmt.Errorf("a notice of channel %s has %d bytes, at most %d are allowed", n.Channel, len(data), maxNotice)
	}
	return Entry{Kind: kind, Property: n.Property, Operator: n.Operator, Type: n.Type, Data: string(data)}, nil
}
