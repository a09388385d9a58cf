package bff_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	bff "melmastoon.ghasi.io/bff"
)

func TestParseReceived(t *testing.T) {
	t.Parallel()
	const subject = "melmastoon.tenant.suspended.v1"
	tests := []struct {
		name string
		in   string
		want bff.Received // zero: refused
	}{
		{
			"our own envelope",
			`{"envelope":{"eventId":"evt_1","subject":"` + subject + `"},"payload":{"a":1}}`,
			bff.Received{ID: "evt_1", Subject: subject, Payload: json.RawMessage(`{"a":1}`)},
		},
		{
			"flat, with eventType and data",
			`{"eventId":"e-1","eventType":"` + subject + `","data":{"a":1}}`,
			bff.Received{ID: "e-1", Subject: subject, Payload: json.RawMessage(`{"a":1}`)},
		},
		{
			"CloudEvents",
			`{"specversion":"1.0","id":"7","type":"` + subject + `","source":"/tenants","subject":"tnt_1","data":{"a":1}}`,
			bff.Received{ID: "7", Subject: subject, Payload: json.RawMessage(`{"a":1}`)},
		},
		{
			"subject at the top",
			`{"id":"7","subject":"` + subject + `","payload":[1]}`,
			bff.Received{ID: "7", Subject: subject, Payload: json.RawMessage(`[1]`)},
		},
		{
			"the envelope's id before the others",
			`{"envelope":{"eventId":"a"},"eventId":"b","id":"c","type":"` + subject + `","payload":{}}`,
			bff.Received{ID: "a", Subject: subject, Payload: json.RawMessage(`{}`)},
		},
		{
			"empty and wrongly typed ids are passed over",
			`{"envelope":{"eventId":""},"eventId":7,"id":"c","type":"` + subject + `","payload":{}}`,
			bff.Received{ID: "c", Subject: subject, Payload: json.RawMessage(`{}`)},
		},
		{
			"foreign names are passed over",
			`{"envelope":{"subject":"tnt_1"},"id":"1","eventType":"TenantSuspended","type":"com.example","subject":"` + subject + `","payload":{}}`,
			bff.Received{ID: "1", Subject: subject, Payload: json.RawMessage(`{}`)},
		},
		{
			"payload before data",
			`{"id":"1","type":"` + subject + `","payload":{"p":1},"data":{"d":1}}`,
			bff.Received{ID: "1", Subject: subject, Payload: json.RawMessage(`{"p":1}`)},
		},
		{
			"null payload",
			`{"id":"1","type":"` + subject + `","payload":null,"data":{"d":1}}`,
			bff.Received{ID: "1", Subject: subject, Payload: json.RawMessage(`{"d":1}`)},
		},
		{
			"null envelope",
			`{"envelope":null,"id":"1","type":"` + subject + `","data":0}`,
			bff.Received{ID: "1", Subject: subject, Payload: json.RawMessage(`0`)},
		},
		{"empty", ``, bff.Received{}},
		{"null", `null`, bff.Received{}},
		{"an array", `[]`, bff.Received{}},
		{"cut off", `{"id":"1","type":"` + subject + `","payload":{`, bff.Received{}},
		{"two documents", `{"id":"1","type":"` + subject + `","payload":{}}{}`, bff.Received{}},
		{"no id", `{"type":"` + subject + `","payload":{}}`, bff.Received{}},
		{"an id of numbers only", `{"id":1,"type":"` + subject + `","payload":{}}`, bff.Received{}},
		{"an id with a zero byte", `{"id":"a\u0000","type":"` + subject + `","payload":{}}`, bff.Received{}},
		{"an id too long", `{"id":"` + strings.Repeat("x", 201) + `","type":"` + subject + `","payload":{}}`, bff.Received{}},
		{"no platform name", `{"id":"1","type":"com.example","payload":{}}`, bff.Received{}},
		{"a name that only contains ours", `{"id":"1","type":"x.melmastoon.tenant","payload":{}}`, bff.Received{}},
		{"no payload", `{"id":"1","type":"` + subject + `"}`, bff.Received{}},
		{"null payload and data", `{"id":"1","type":"` + subject + `","payload":null,"data":null}`, bff.Received{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := bff.ParseReceived([]byte(tt.in))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if refused := tt.want.ID == ""; refused != errors.Is(err, bff.ErrEvent) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func FuzzParseReceived(f *testing.F) {
	f.Add([]byte(`{"envelope":{"eventId":"evt_1","subject":"melmastoon.a.v1"},"payload":{"a":1}}`))
	f.Add([]byte(`{"id":"7","type":"melmastoon.a.v1","data":{"a":1}}`))
	f.Add([]byte(`{"eventId":"7","eventType":"melmastoon.a.v1","data":null}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := bff.ParseReceived(data)
		if err != nil {
			if !errors.Is(err, bff.ErrEvent) || r.ID != "" || r.Payload != nil {
				t.Fatalf("%v, %v", r, err)
			}
			return
		}
		if r.ID == "" || len(r.ID) > 200 || strings.ContainsRune(r.ID, 0) {
			t.Fatalf("id %q cannot be a key of the inbox", r.ID)
		}
		if !strings.HasPrefix(r.Subject, "melmastoon.") {
			t.Fatalf("subject %q", r.Subject)
		}
		if !json.Valid(r.Payload) || string(r.Payload) == "null" {
			t.Fatalf("payload %q", r.Payload)
		}
	})
}

func TestTimestamp(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 4, 22, 14, 0, 0, 123_999_999, time.FixedZone("AFT", 16200))
	const want = "2026-04-22T09:30:00.123Z"
	if got := bff.At(at).String(); got != want {
		t.Errorf("At = %s, want %s", got, want)
	}
	if !bff.At(at).Equal(at.Truncate(time.Millisecond)) {
		t.Error("At does not cut to the millisecond")
	}
	if b, err := json.Marshal(bff.At(at)); err != nil || string(b) != `"`+want+`"` {
		t.Errorf("written as %s, %v", b, err)
	}
	for in, want := range map[string]string{
		"2026-04-22T09:30:00Z":            "2026-04-22T09:30:00.000Z",
		"2026-04-22T14:00:00.123+04:30":   want,
		"2026-04-22T09:30:00.123456789Z":  want,
		"9999-12-31T23:59:59.999Z":        "9999-12-31T23:59:59.999Z",
		"0000-01-01T00:00:00Z":            "0000-01-01T00:00:00.000Z",
		"2024-02-29T23:59:59.0000-00:00":  "2024-02-29T23:59:59.000Z",
		"1969-12-31T23:59:59.9999+00:00":  "1969-12-31T23:59:59.999Z",
		"2026-04-22T09:30:00.123000001Z":  want,
		"2026-04-22T00:00:00.000+14:00":   "2026-04-21T10:00:00.000Z",
		"2026-04-22T09:30:00.1229999999Z": "2026-04-22T09:30:00.122Z",
	} {
		var got bff.Timestamp
		if err := got.UnmarshalText([]byte(in)); err != nil || got.String() != want || got.Location() != time.UTC {
			t.Errorf("%s is read as %v, %v, want %s", in, got, err, want)
		}
		var fromJSON bff.Timestamp
		if err := json.Unmarshal([]byte(`"`+in+`"`), &fromJSON); err != nil || fromJSON != got {
			t.Errorf("%s in JSON is read as %v, %v", in, fromJSON, err)
		}
	}
	for _, in := range []string{
		"", "now", "2026-04-22", "2026-04-22 09:30:00Z", "2026-04-22T09:30:00", "2026-04-22T09:30Z", "2026-02-30T00:00:00Z", "2026-04-22T24:00:00Z",
		"0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", // years that RFC 3339 cannot write in UTC
		"12026-04-22T09:30:00Z", "1776850200", "2026-04-22T09:30:00Z\n",
	} {
		before := bff.At(at)
		got := before
		if err := got.UnmarshalText([]byte(in)); err == nil || got != before {
			t.Errorf("%q is read as %v, %v", in, got, err)
		} else if in != "" && strings.Contains(err.Error(), in) {
			t.Errorf("the error quotes the input: %v", err)
		}
	}
	for _, in := range []string{`7`, `null`, `{}`, `"`} {
		var got bff.Timestamp
		if err := json.Unmarshal([]byte(in), &got); err == nil {
			t.Errorf("%s is read as %v", in, got)
		}
	}
}

func FuzzTimestamp(f *testing.F) {
	for _, s := range []string{"2026-04-22T09:30:00.123Z", "2026-04-22T14:00:00+04:30", "0000-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var ts, again bff.Timestamp
		if ts.UnmarshalText([]byte(s)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(ts.String())); err != nil || again != bff.At(ts.Time) {
			t.Fatalf("%q is written %s and read %v, %v", s, ts, again, err)
		}
	})
}

// TestEnvelope: the wire names of EVENT_SCHEMAS §2, with explicit nulls, and
// nothing of the staff's in a guest's event.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	session := "gms_" + tenantULID
	e := bff.Event{
		Envelope: bff.Envelope{
			EventID: "evt_" + tenantULID, Subject: "melmastoon.bff.consumer.session.started.v1", Version: 1,
			OccurredAt: bff.At(time.Date(2026, 4, 22, 9, 30, 0, 0, time.UTC)),
			Producer:   "bff-consumer-service", ProducerInstance: "i-1", SessionID: &session,
			SchemaURI: "schema", RetentionClass: bff.RetentionOperational, SamplingRate: 1,
		},
		Payload: json.RawMessage(`{}`),
	}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"envelope":{"eventId":"evt_01H8YN7QV4D8KZ4F8Y5CK4MV3D","subject":"melmastoon.bff.consumer.session.started.v1","version":1,` +
		`"occurredAt":"2026-04-22T09:30:00.000Z","producer":"bff-consumer-service","producerInstance":"i-1","tenantId":null,"userId":null,` +
		`"sessionId":"gms_01H8YN7QV4D8KZ4F8Y5CK4MV3D","requestId":null,"traceId":null,"causationId":null,"correlationId":null,` +
		`"schemaUri":"schema","retentionClass":"operational","samplingRate":1},"payload":{}}`
	if string(b) != want {
		t.Errorf("written as\n%s\nwant\n%s", b, want)
	}
	var back bff.Event
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e, back); diff != "" {
		t.Error(diff)
	}
	if r, err := bff.ParseReceived(b); err != nil || r.ID != e.Envelope.EventID || r.Subject != e.Envelope.Subject {
		t.Errorf("our own event is received as %v, %v", r, err)
	}
}
