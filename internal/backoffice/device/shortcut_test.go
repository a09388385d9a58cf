package device

import (
	"encoding/json"
	"testing"

	"melmastoon.ghasi.io/bff/internal/backoffice"
)

func TestReadKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"k": "K", "shift+mod+K": "Mod+Shift+K", "g a": "G A", " ALT+left ": "Alt+Left", "f12": "F12", "ctrl+alt+shift+Slash": "Ctrl+Alt+Shift+Slash", "9": "9",
		"": "", "mod": "", "mod+": "", "mod+mod+k": "", "kk": "", "hyper+k": "", "k+mod": "", "a b c": "", "é": "", "+": "",
	} {
		if got, ok := readKeys(text); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v, want %q", text, got, ok, want)
		}
	}
}

// The defaults are readable, and no two that are on screen together have the same keys.
func TestDefaultShortcuts(t *testing.T) {
	t.Parallel()
	actions := map[string]bool{}
	all := DefaultShortcuts()
	for i, s := range all {
		if keys, ok := readKeys(s.Keys); !ok || keys != s.Keys || actions[s.Action] || !backoffice.IsWord(s.Action) {
			t.Errorf("%+v", s)
		}
		actions[s.Action] = true
		for _, o := range all[:i] {
			if o.Keys == s.Keys && (o.Context == s.Context || o.Context == contextGlobal || s.Context == contextGlobal) {
				t.Errorf("%s and %s share %s", o.Action, s.Action, s.Keys)
			}
		}
	}
}

// What is not readable changes nothing.
func TestCustomiseToleratesAnything(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{
		``, `[]`, `{}`, `{"keyboardShortcuts":1}`, `{"keyboardShortcuts":{"view.refresh":"mod"}}`, `{"keyboardShortcuts":{"no.such":"K"}}`,
	} {
		for i, s := range Customise(defaultShortcuts, json.RawMessage(payload)) {
			if s != defaultShortcuts[i] {
				t.Errorf("%s: %+v", payload, s)
			}
		}
	}
	if defaultShortcuts[0].Customised {
		t.Error("the defaults were changed")
	}
}
