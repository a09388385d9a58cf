package device

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Shortcut is what a key does in the app, wherever the context is on screen.
type Shortcut struct {
	Action  string          `json:"action"`
	Context ShortcutContext `json:"context"`
	// Keys is a chord such as Mod+Shift+K, or two after one another such as "G A". Mod
	// is Cmd on darwin and Ctrl elsewhere. Empty = no key does it.
	Keys string `json:"keys"`
	// Customised: the operator has chosen the keys.
	Customised bool `json:"customised"`
	// DisplacedBy is the action that an operator gave these keys to.
	DisplacedBy string `json:"displacedBy,omitempty"`
}

// ShortcutMap is what keys do in a tenant's app.
type ShortcutMap struct {
	Theme     string     `json:"themeVersion,omitempty"` // empty while it is not known
	Shortcuts []Shortcut `json:"shortcuts"`
}

// ShortcutMaps finds the shortcuts of tenants, before their operators change them.
type ShortcutMaps interface {
	FindShortcuts(ctx context.Context, tenant bff.ID) (ShortcutMap, error)
}

// ShortcutContext is a part of the app.
type ShortcutContext string

// The contexts there are.
const (
	contextGlobal       ShortcutContext = "global" // on every screen
	contextList         ShortcutContext = "list"
	contextFrontDesk    ShortcutContext = "front_desk"
	contextFolio        ShortcutContext = "folio"
	contextHousekeeping ShortcutContext = "housekeeping"
	contextMaintenance  ShortcutContext = "maintenance"
	contextInbox        ShortcutContext = "inbox"
)

// defaultShortcuts are in the order in which the app lists them.
var defaultShortcuts = []Shortcut{
	{Action: "search.open", Context: contextGlobal, Keys: "Mod+K"},
	{Action: "shortcuts.show", Context: contextGlobal, Keys: "Shift+Slash"},
	{Action: "view.refresh", Context: contextGlobal, Keys: "F5"},
	{Action: "property.switch", Context: contextGlobal, Keys: "Mod+Shift+P"},
	{Action: "session.lock", Context: contextGlobal, Keys: "Mod+Shift+L"},
	{Action: "go.dashboard", Context: contextGlobal, Keys: "G D"},
	{Action: "go.today", Context: contextGlobal, Keys: "G T"},
	{Action: "go.arrivals", Context: contextGlobal, Keys: "G A"},
	{Action: "go.departures", Context: contextGlobal, Keys: "G L"},
	{Action: "go.inHouse", Context: contextGlobal, Keys: "G I"},
	{Action: "go.housekeeping", Context: contextGlobal, Keys: "G H"},
	{Action: "go.maintenance", Context: contextGlobal, Keys: "G M"},
	{Action: "go.suggestions", Context: contextGlobal, Keys: "G S"},
	{Action: "go.alerts", Context: contextGlobal, Keys: "G N"},

	{Action: "list.next", Context: contextList, Keys: "J"},
	{Action: "list.previous", Context: contextList, Keys: "K"},
	{Action: "list.open", Context: contextList, Keys: "Enter"},
	{Action: "list.filter", Context: contextList, Keys: "Slash"},
	{Action: "date.previous", Context: contextList, Keys: "Alt+Left"},
	{Action: "date.next", Context: contextList, Keys: "Alt+Right"},
	{Action: "date.today", Context: contextList, Keys: "T"},

	{Action: "reservation.checkIn", Context: contextFrontDesk, Keys: "Mod+Enter"},
	{Action: "reservation.checkOut", Context: contextFrontDesk, Keys: "Mod+Shift+Enter"},
	{Action: "lock.issueKey", Context: contextFrontDesk, Keys: "Mod+I"},
	{Action: "lock.extendKey", Context: contextFrontDesk, Keys: "Mod+E"},
	{Action: "lock.rebindKey", Context: contextFrontDesk, Keys: "Mod+B"},
	{Action: "lock.revokeKey", Context: contextFrontDesk, Keys: "Mod+Shift+Delete"},
	{Action: "folio.open", Context: contextFrontDesk, Keys: "Mod+F"},

	{Action: "folio.charge", Context: contextFolio, Keys: "Mod+Shift+C"},
	{Action: "folio.refund", Context: contextFolio, Keys: "Mod+Shift+R"},
	{Action: "folio.print", Context: contextFolio, Keys: "Mod+P"},

	{Action: "task.start", Context: contextHousekeeping, Keys: "S"},
	{Action: "task.complete", Context: contextHousekeeping, Keys: "C"},
	{Action: "task.inspect", Context: contextHousekeeping, Keys: "I"},
	{Action: "task.reopen", Context: contextHousekeeping, Keys: "R"},

	{Action: "workOrder.new", Context: contextMaintenance, Keys: "N"},
	{Action: "workOrder.start", Context: contextMaintenance, Keys: "S"},
	{Action: "workOrder.resolve", Context: contextMaintenance, Keys: "D"},
	{Action: "workOrder.close", Context: contextMaintenance, Keys: "X"},
	{Action: "workOrder.reopen", Context: contextMaintenance, Keys: "R"},

	{Action: "suggestion.accept", Context: contextInbox, Keys: "A"},
	{Action: "suggestion.reject", Context: contextInbox, Keys: "R"},
	{Action: "suggestion.modify", Context: contextInbox, Keys: "M"},
	{Action: "suggestion.provenance", Context: contextInbox, Keys: "P"},
	{Action: "alert.acknowledge", Context: contextInbox, Keys: "E"},
}

// DefaultShortcuts are those of an operator who has chosen none.
func DefaultShortcuts() []Shortcut { return slices.Clone(defaultShortcuts) }

// shortcutsMember is the member of preferences that holds an operator's own
// shortcuts: keys by action, null for none.
const shortcutsMember = "keyboardShortcuts"

// Customise returns shortcuts with the operator's own, as its preferences have them.
// Preferences are written by apps of any age: what is not readable, and actions that
// are not known here, change nothing.
func Customise(shortcuts []Shortcut, preferences json.RawMessage) []Shortcut {
	out := slices.Clone(shortcuts)
	var payload map[string]any
	if json.Unmarshal(preferences, &payload) != nil {
		return out
	}
	own, ok := readShortcutOverrides(payload[shortcutsMember])
	if !ok {
		return out
	}
	for i := range out {
		if keys, there := own[out[i].Action]; there {
			out[i].Keys, out[i].Customised = keys, true
		}
	}
	for i := range out {
		if by := &out[i]; by.Customised && by.Keys != "" {
			displace(out, by)
		}
	}
	return out
}

// displace takes keys from the defaults that would be on screen together with the
// action that an operator gave them to.
func displace(shortcuts []Shortcut, by *Shortcut) {
	for i := range shortcuts {
		s := &shortcuts[i]
		together := s.Context == by.Context || s.Context == contextGlobal || by.Context == contextGlobal
		if !s.Customised && s.Keys == by.Keys && together {
			s.Keys, s.DisplacedBy = "", by.Action
		}
	}
}

const (
	maxShortcutOverrides = 200
	maxActionName        = 64
)

// readShortcutOverrides reads keys by action; all of them or none.
func readShortcutOverrides(v any) (map[string]string, bool) {
	members, ok := v.(map[string]any)
	if !ok || len(members) > maxShortcutOverrides {
		return nil, false
	}
	out := make(map[string]string, len(members))
	for action, v := range members {
		if action == "" || len(action) > maxActionName || !backoffice.IsWord(action) {
			return nil, false
		}
		switch v := v.(type) {
		case nil:
			out[action] = ""
		case string:
			if out[action], ok = readKeys(v); !ok {
				return nil, false
			}
		default:
			return nil, false
		}
	}
	return out, true
}

// modifiers in the order in which they are written.
var modifiers = []string{"Mod", "Ctrl", "Alt", "Shift"}

// namedKeys are those that are not one letter or digit.
var namedKeys = []string{
	"Enter", "Escape", "Space", "Tab", "Backspace", "Delete", "Insert", "Home", "End", "PageUp", "PageDown",
	"Up", "Down", "Left", "Right", "Slash", "Backslash", "Comma", "Period", "Semicolon", "Quote", "Minus", "Equal",
	"BracketLeft", "BracketRight", "Backquote",
	"F1", "F2", "F3", "F4", "F5", "F6", "F7", "F8", "F9", "F10", "F11", "F12",
}

// readKeys reads one chord or two, in any letter case and with modifiers in any
// order, into the one form that is compared.
func readKeys(s string) (string, bool) {
	const most = 64
	chords := strings.Fields(s)
	if len(s) > most || len(chords) == 0 || len(chords) > 2 {
		return "", false
	}
	for i, c := range chords {
		chord, ok := readChord(c)
		if !ok {
			return "", false
		}
		chords[i] = chord
	}
	return strings.Join(chords, " "), true
}

func readChord(s string) (string, bool) {
	parts := strings.Split(s, "+")
	key, ok := readKey(parts[len(parts)-1])
	if !ok {
		return "", false
	}
	held := make([]bool, len(modifiers))
	for _, part := range parts[:len(parts)-1] {
		i := slices.IndexFunc(modifiers, func(m string) bool { return strings.EqualFold(m, part) })
		if i < 0 || held[i] {
			return "", false
		}
		held[i] = true
	}
	var b strings.Builder
	for i, m := range modifiers {
		if held[i] {
			b.WriteString(m + "+")
		}
	}
	return b.String() + key, true
}

func readKey(s string) (string, bool) {
	if up := strings.ToUpper(s); len(up) == 1 && (up >= "A" && up <= "Z" || up >= "0" && up <= "9") {
		return up, true
	}
	for _, name := range namedKeys {
		if strings.EqualFold(name, s) {
			return name, true
		}
	}
	return "", false
}
