package audit_test

import (
	"testing"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

func TestParseResource(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]backoffice.Resource{
		"reservation":       {Kind: "reservation"},
		"reservation:rsv_1": {Kind: "reservation", ID: "rsv_1"},
		":rsv_1":            {ID: "rsv_1"},
		"room:a:b":          {Kind: "room", ID: "a:b"},
	} {
		if got, ok := audit.ParseResource(text); !ok || got != want {
			t.Errorf("%q: %+v, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", ":", "reservation:", "a b", "reservation:Zarghuna Ahmadzai", "ü"} {
		if got, ok := audit.ParseResource(text); ok {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}
