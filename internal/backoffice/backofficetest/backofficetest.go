// Package backofficetest plays what stands around the staff domain, in memory and at
// once, for tests of its rooms.
package backofficetest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// A visit's surroundings. FinishedAt is what the clock shows when an attempt ends.
var (
	Began      = time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	FinishedAt = Began.Add(time.Second)
	Tenant     = bff.MustParseID(bff.PrefixTenant, "tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3A")
	Device     = bff.MustParseID(bff.PrefixDevice, "dev_01H8YN7QV4D8KZ4F8Y5CK4MV3A")
	Property   = bff.MustParseID(bff.PrefixProperty, "ppt_01JXG9KMGRC638MD0V7C0ZPD0W")
	SameIDs    = cmp.Comparer(func(a, b bff.ID) bool { return a == b })
)

// Ledger plays the ledger of mutations, and the streams that are told of them.
type Ledger struct {
	Earlier *backoffice.Answer // the key was used before
	Refused error              // nothing can be begun
	Kept    error              // why the end of an attempt is not kept
	Ends    time.Time          // when attempts end; zero = at FinishedAt
	// EventsOf are those that an effect publishes; nil = none does.
	EventsOf func(backoffice.Effect) []bff.Event

	Began    []backoffice.Attempt
	Finished []backoffice.Finished
	Released int
	Notices  []backoffice.Notice
}

// BeginMutation implements backoffice.Mutations.
func (l *Ledger) BeginMutation(_ context.Context, a backoffice.Attempt) (backoffice.Mutation, *backoffice.Answer, error) {
	l.Began = append(l.Began, a)
	return l, l.Earlier, l.Refused
}

// Finish implements backoffice.Mutation.
func (l *Ledger) Finish(_ context.Context, f backoffice.Finished) (backoffice.Answer, error) {
	l.Finished = append(l.Finished, f)
	if l.Kept != nil {
		return backoffice.Answer{}, l.Kept
	}
	return f.Answer, f.Failure
}

// Release implements backoffice.Mutation.
func (l *Ledger) Release() { l.Released++ }

// Notify implements backoffice.Notifier.
func (l *Ledger) Notify(_ context.Context, n backoffice.Notice) error {
	l.Notices = append(l.Notices, n)
	return errors.New("streams that are not told do not matter")
}

// Check holds an attempt to its one begin, its one end, and the one event of a success.
func (l *Ledger) Check(t *testing.T, v *backoffice.Visit, category, action string, on backoffice.Resource, failed bff.Code, payload any) {
	t.Helper()
	if len(l.Began) != 1 || len(l.Finished) != 1 || l.Released != 1 {
		t.Fatalf("began %d, finished %d, released %d", len(l.Began), len(l.Finished), l.Released)
	}
	a, end, at := l.Began[0].Activity, l.Finished[0], FinishedAt
	if !l.Ends.IsZero() {
		at = l.Ends
	}
	if a.Category != category || a.Action != action || a.Resource != on || a.Property != v.Property || a.Tenant != v.Session.Tenant ||
		a.Operator != v.Session.Operator || a.Session != v.Session.ID || !a.At.Equal(Began) || l.Began[0].Once.Key != "key" {
		t.Errorf("began %+v", l.Began[0])
	}
	if code := CodeOf(end.Failure); code != failed || !end.At.Equal(at) {
		t.Errorf("ended at %s with %q, want %q", end.At, code, failed)
	}
	events := end.Events
	for _, e := range end.Effects {
		if l.EventsOf != nil {
			events = append(events, l.EventsOf(e)...)
		}
		if e.OfTenant() != Tenant {
			t.Errorf("an effect of %s", e.OfTenant())
		}
	}
	if failed != "" {
		if len(events)+len(end.Effects) > 0 {
			t.Errorf("%v and %v of a failure", events, end.Effects)
		}
		return
	}
	if len(events) != 1 || len(end.Effects) != 1 {
		t.Fatalf("%d events, %d effects", len(events), len(end.Effects))
	}
	CheckEnvelope(t, events[0], v)
	want, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	if in := events[0].Envelope; !in.OccurredAt.Equal(at) || in.RequestID == nil || *in.RequestID != v.Request.RequestID.String() {
		t.Errorf("envelope %+v", in)
	}
	if diff := cmp.Diff(string(want), string(events[0].Payload)); diff != "" {
		t.Errorf("payload (-want +got):\n%s", diff)
	}
}

// Effect is what an attempt was finished with; the zero value if there was none.
func Effect[E backoffice.Effect](l *Ledger) (e E) {
	if len(l.Finished) == 1 && len(l.Finished[0].Effects) == 1 {
		e, _ = l.Finished[0].Effects[0].(E)
	}
	return e
}

// CodeOf is the code of an error; empty = there is none.
func CodeOf(err error) bff.Code {
	if err == nil {
		return ""
	}
	return bff.CodeOf(err)
}

// Visitor is a visit of an operator with roles.
func Visitor(roles ...backoffice.Role) *backoffice.Visit {
	return &backoffice.Visit{
		Caller: backoffice.Caller{Tenant: Tenant, Operator: "opt_1", Device: Device, KeyPrint: "print", App: backoffice.App{Version: "2.4", Platform: "linux"}},
		Session: backoffice.Session{
			ID: bff.NewID(bff.PrefixBackofficeLogin, Began), Tenant: Tenant, Operator: "opt_1", Device: Device, AppVersion: "2.4", AppPlatform: "linux",
		},
		Member: &backoffice.Member{Roles: roles}, Property: Property, Request: backoffice.Occasion{RequestID: bff.NewID(bff.PrefixRequest, Began)},
	}
}

// CheckReceipt holds an answer to a receipt.
func CheckReceipt(t *testing.T, a backoffice.Answer, want string) {
	t.Helper()
	got, err := json.Marshal(a.Receipt)
	if err != nil || string(got) != want || a.Status != 200 {
		t.Errorf("%d %s, %v; want %s", a.Status, got, err, want)
	}
}

// CheckNotice holds what streams were told to one notice.
func CheckNotice(t *testing.T, l *Ledger, want backoffice.Notice) {
	t.Helper()
	if diff := cmp.Diff([]backoffice.Notice{want}, l.Notices, SameIDs); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// CheckEnvelope holds the envelope of an event to whom it is about.
func CheckEnvelope(t *testing.T, e bff.Event, v *backoffice.Visit) {
	t.Helper()
	if in := e.Envelope; in.TenantID == nil || *in.TenantID != v.Session.Tenant.String() || in.PropertyID != v.Property.String() ||
		in.DeviceID != v.Session.Device.String() || in.OperatorID != "opt_1" {
		t.Errorf("the envelope names %+v", in)
	}
}
