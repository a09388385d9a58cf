package inbox

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

func TestCutNotes(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]int{"": 0, "abc": 3, strings.Repeat("ü", 200): 200, strings.Repeat("😀", 201): 200} {
		if got := []rune(CutNotes(given)); len(got) != want || !strings.HasPrefix(given, string(got)) {
			t.Errorf("%d code points of %d", len(got), len([]rune(given)))
		}
	}
}

// What a suggestion says of itself decides whether it can be decided about, and what is
// kept of its provenance is what a database takes.
func TestSuggestionSays(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		status, body string
		want         bff.Code
	}{
		{"open", `{"a":1`, ""},
		{"open", `{"expiresAt":"2026-11-17T10:00:01Z"`, ""},
		{"open", `{"expiresAt":"2026-11-17T10:00:00Z"`, bff.CodeStateConflict},
		{"expired", `{`, bff.CodeStateConflict},
		{"accepted", `{`, bff.CodeSuggestionAlreadyDecided},
	} {
		e := Entry{Status: test.status, Body: []byte(test.body)}
		if err := e.decidable(now); (err == nil) != (test.want == "") || err != nil && bff.CodeOf(err) != test.want {
			t.Errorf("%s %s: %v", test.status, test.body, err)
		}
	}
	long := strings.Repeat("x", 64<<10-8)
	for body, want := range map[string]string{
		`{"aiProvenance": {"model":"m","score":12345678901234567890,"p":1.5e-45}`: `{"model":"m","p":1.5e-45,"score":12345678901234567890}`,
		`{"x":1`:                                `{}`,
		`{"aiProvenance":null`:                  `{}`,
		`{"aiProvenance":{}`:                    `{}`,
		`{"aiProvenance":{"m":"` + long + `"}`:  `{"m":"` + long + `"}`,
		`{"aiProvenance":{"m":"` + long + `x"}`: digestOf(`{"m":"` + long + `x"}`),
		`{"aiProvenance":"m"`:                   digestOf(`"m"`),
		`{"aiProvenance":[]`:                    digestOf(`[]`),
		`{"aiProvenance":{"m":"a\u0000b"}`:      digestOf(`{"m":"a\u0000b"}`),
		`{"aiProvenance":{"\u0000":[]}`:         digestOf(`{"\u0000":[]}`),
		`{"aiProvenance":{"n":[1e131071]}`:      digestOf(`{"n":[1e131071]}`),
		`{"aiProvenance":{"n":1E-20000}`:        digestOf(`{"n":1E-20000}`),
		`{"aiProvenance":{"d":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`: digestOf(`{"d":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`),
	} {
		e := Entry{Body: []byte(body)}
		got, whole := e.provenance()
		if string(got) != want || whole == strings.Contains(want, "sha256") {
			t.Errorf("%.60s: %.200s", body, got)
		}
	}
	if e := (Entry{Category: "", Severity: "a guest's name"}); e.category() != unspecified || e.severity() != unspecified {
		t.Errorf("%s %s", e.category(), e.severity())
	}
}

func digestOf(raw string) string {
	return fmt.Sprintf(`{"bytes":%d,"sha256":"%x"}`, len(raw), sha256.Sum256([]byte(raw)))
}

// A delta changes what the suggestion proposes, and nothing else.
func TestDeltaIsOfTheProposal(t *testing.T) {
	t.Parallel()
	e := Entry{
		Body: []byte(`{"proposal":{"ratePercent":4,"room":{"type":"rmt_1","floor":2},"days":["2026-11-17"],"now":true,"none":null,"empty":[],"rules":[{"min":1}]}`),
	}
	for delta, want := range map[string]string{
		`{"ratePercent":5.5,"room":{"floor":3},"days":[],"now":false,"none":null,"empty":[]}`: "",
		`{"days":["2026-11-18","2026-11-19"],"rules":[{"min":2},{"min":3}]}`:                  "",
		`{"guest":"Ahmad.Karimi","phone":"+93701234567"}`:                                     "modifiedDelta.guest unsupported, modifiedDelta.phone unsupported",
		`{"ratePercent":"5","room":1,"days":{},"now":1,"none":5}`: "modifiedDelta.days type, modifiedDelta.none type, modifiedDelta.now type, " +
			"modifiedDelta.ratePercent type, modifiedDelta.room type",
		`{"room":{"guest":"x"},"days":["x",5],"empty":["x"],"rules":[{"max":1}],"ratePercent":null}`: "modifiedDelta.days[1] type, modifiedDelta.empty[0] unsupported, " +
			"modifiedDelta.ratePercent type, modifiedDelta.room.guest unsupported, modifiedDelta.rules[0].max unsupported",
	} {
		got := ""
		if err := e.checkDelta(json.RawMessage(delta)); err != nil {
			_, got, _ = strings.Cut(err.Error(), ": ")
		}
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", delta, got, want)
		}
	}
	for _, body := range []string{`{`, `{"proposal":null`, `{"proposal":["ratePercent"]`} {
		if err := (&Entry{Body: []byte(body)}).checkDelta(json.RawMessage(`{"ratePercent":5}`)); bff.CodeOf(err) != bff.CodeValidationFailed {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestDecidingRoles(t *testing.T) {
	t.Parallel()
	for category, want := range map[string][]backoffice.Role{
		"pricing": {
			backoffice.GeneralManager, backoffice.Owner,
		}, "revenue": {backoffice.GeneralManager, backoffice.Owner}, "housekeeping": {backoffice.HousekeepingLead, backoffice.GeneralManager, backoffice.Owner},
		"maintenance": {backoffice.Maintenance, backoffice.GeneralManager, backoffice.Owner}, "upsell": backoffice.Roles(), unspecified: backoffice.Roles(),
	} {
		if got := DecidingRoles(category); !slices.Equal(got, want) {
			t.Errorf("%s: %v", category, got)
		}
	}
}
