package backoffice

import (
	"encoding/json"
	"slices"
	"testing"

	"melmastoon.ghasi.io/bff"
)

func TestReadRoles(t *testing.T) {
	t.Parallel()
	got := ReadRoles([]string{"owner", "wizard", "front_desk", "owner"})
	if !slices.Equal(got, []Role{FrontDesk, Owner}) {
		t.Errorf("%v", got)
	}
	if got := ReadRoles(nil); got == nil || len(got) != 0 {
		t.Errorf("no roles: %#v", got)
	}
}

func TestPropertyScope(t *testing.T) {
	t.Parallel()
	const first, second = "ppt_01JXG9KMGRC638MD0V7C0ZPD0W", "ppt_01JXG9KMGRC638MD0V7C0ZPD0X"
	id := func(s string) bff.ID { return bff.MustParseID(bff.PrefixProperty, s) }
	for name, test := range map[string]struct {
		given       []string
		one, two    bool
		wantWritten string
	}{
		"one":      {[]string{first, first}, true, false, `["` + first + `"]`},
		"all":      {[]string{"*"}, true, true, `["*"]`},
		"none":     {nil, false, false, `[]`},
		"nonsense": {[]string{"x", "", "tnt_01JXG9KMGRC638MD0V7C0ZPD0W"}, false, false, `[]`},
	} {
		s := ReadPropertyScope(test.given)
		if s.Covers(id(first)) != test.one || s.Covers(id(second)) != test.two {
			t.Errorf("%s: covers %v %v", name, s.Covers(id(first)), s.Covers(id(second)))
		}
		if b, err := json.Marshal(s); err != nil || string(b) != test.wantWritten {
			t.Errorf("%s: %s, %v", name, b, err)
		}
	}
}

func TestSchemaURI(t *testing.T) {
	t.Parallel()
	if got := SubjectSessionForceLoggedOut.schemaURI(); got != "https://schemas.melmastoon.ghasi.io/bff-backoffice/session-force-logged-out/v1.json" {
		t.Error(got)
	}
}
