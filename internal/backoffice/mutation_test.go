package backoffice_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Whatever an upstream answers, nothing of a guest is kept.
func TestReceiptKeepsNoPersonalData(t *testing.T) {
	t.Parallel()
	full := map[string]any{
		"id": "rsv_1", "reservationId": bff.ID{}, "status": "checked_in", "state": "active", "outcome": "accepted", "version": 7, "rateVersion": 2.0,
		"vendor": "salto", "checkedInAt": "2026-11-17T10:00:00.000Z", "expiresAt": bff.Timestamp{},
		// None of these is kept.
		"guestName": "Zarghuna Ahmadzai", "email": "z@example.com", "phone": "+93700000000", "notes": "VIP",
		"statusText": "x", "guestId": "Zarghuna Ahmadzai", "contactAt": "house 7, street 3", "documentId": strings.Repeat("1", 200),
		"guest": map[string]any{"id": "gst_1", "name": "Zarghuna"}, "ids": []any{"a"}, "noteId": "a\x00b",
	}
	got, err := json.Marshal(backoffice.NewReceipt(full))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"checkedInAt":"2026-11-17T10:00:00.000Z","expiresAt":"0001-01-01T00:00:00.000Z","id":"rsv_1","outcome":"accepted",` +
		`"rateVersion":2,"reservationId":"","state":"active","status":"checked_in","vendor":"salto","version":7}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Also not on the way back.
	raw, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var r backoffice.Receipt
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	if got, err = json.Marshal(r); err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

// A mark of sync-service is kept as it is, if it can be one: printable, without blanks, and
// no longer than such marks are.
func TestReceiptKeepsCursors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value any
		want  bool
	}{
		"a mark": {value: "eyJ+/=|~!", want: true}, "empty": {value: "", want: true}, "the longest": {value: strings.Repeat("x", 256), want: true},
		"too long": {value: strings.Repeat("x", 257)}, "with a blank": {value: "a b"}, "with a break": {value: "a\nb"}, "not ASCII": {value: "ü"},
		"a control character": {value: "a\x7f"}, "a number": {value: 7},
	} {
		for _, member := range []string{"pullCursor", "pushAck"} {
			got, err := json.Marshal(backoffice.NewReceipt(map[string]any{member: tc.value}))
			if err != nil || (string(got) != "{}") != tc.want {
				t.Errorf("%s, %s: %s, %v", name, member, got, err)
			}
		}
	}
	for name, value := range map[string]any{"version": true, "expiresAt": int64(1), "roomId": int32(2)} {
		if got, err := json.Marshal(backoffice.NewReceipt(map[string]any{name: value})); err != nil || string(got) == "{}" {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]backoffice.Outcome{
		nil:                                 backoffice.Succeeded,
		bff.Errorf(bff.CodeRoleDenied, "x"): backoffice.Denied,
		bff.Errorf(bff.CodePropertyScopeDenied, "x"):      backoffice.Denied,
		bff.Errorf(bff.CodeMFAAttestationInvalid, "x"):    backoffice.Denied,
		bff.Errorf(bff.CodeSuggestionAlreadyDecided, "x"): backoffice.Failed,
		bff.Errorf(bff.CodeUpstreamUnavailable, "x"):      backoffice.Failed,
		bff.Errorf(bff.CodeUpstreamTimeout, "x"):          backoffice.Unknown,
		bff.Errorf(bff.CodeLockOutcomeUnknown, "x"):       backoffice.Unknown,
		errors.New("bug"): backoffice.Failed,
	} {
		if got := backoffice.OutcomeOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
	began := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	a := backoffice.Activity{At: began}.Ended(bff.Errorf(bff.CodeRoleDenied, "x"), began.Add(time.Second))
	if a.Outcome != backoffice.Denied || a.Code != bff.CodeRoleDenied || a.Latency != time.Second {
		t.Errorf("%+v", a)
	}
}
