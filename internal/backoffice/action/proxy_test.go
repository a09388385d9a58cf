package action_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
)

// counter is everything that an action goes through: the ledger, the service that has the
// resource and carries the action out, the second factor, the sum of the day.
type counter struct {
	kept backoffice.Attestation
	uses int // of it

	at      bff.ID // where the resource is
	missing error
	done    action.Done
	failure error
	sum     int64 // charged before, in minor units

	began    backoffice.Attempt
	finished []backoffice.Finished
	denied   []backoffice.Activity
	carried  []bff.ID // at which property
	counted  []action.Charged
	taken    int                   // charges taken out again
	changed  []string              // topics
	asked    []backoffice.Resource // who has done it
}

func (*counter) AddAttestation(context.Context, backoffice.Attestation) error { return nil }

func (c *counter) FindAttestation(_ context.Context, _, id bff.ID) (backoffice.Attestation, error) {
	if id != c.kept.ID {
		return backoffice.Attestation{}, backoffice.ErrNoAttestation
	}
	return c.kept, nil
}

func (c *counter) UseAttestation(_ context.Context, _ backoffice.Attestation, usedFor string) (bool, error) {
	c.uses++
	c.kept.UsedFor = usedFor
	return true, nil
}

func (c *counter) BeginMutation(_ context.Context, a backoffice.Attempt) (backoffice.Mutation, *backoffice.Answer, error) {
	c.began = a
	return c, nil, nil
}

func (c *counter) Finish(_ context.Context, f backoffice.Finished) (backoffice.Answer, error) {
	c.finished = append(c.finished, f)
	return f.Answer, f.Failure
}

func (*counter) Release() {}

func (c *counter) FindProperty(context.Context, bff.ID, *backoffice.Action, bff.ID) (bff.ID, error) {
	return c.at, c.missing
}

func (c *counter) Execute(_ context.Context, _, property bff.ID, _ *action.Command) (action.Done, error) {
	c.carried = append(c.carried, property)
	return c.done, c.failure
}

func (c *counter) CountCharge(_ context.Context, m action.Charged, within func(action.Sums) bool) (bool, error) {
	ok := within(action.Sums{m.Amount.Currency: c.sum + m.Amount.Minor})
	if ok {
		c.counted = append(c.counted, m)
	}
	return ok, nil
}

func (c *counter) UncountCharge(context.Context, action.Charged) error {
	c.taken++
	return nil
}

// FindDone has a colleague who was first.
func (c *counter) FindDone(_ context.Context, a *backoffice.Action, did backoffice.Activity) (*bff.Known, error) {
	c.asked = append(c.asked, did.Resource)
	at := bff.At(did.At.Add(-time.Minute))
	return &bff.Known{Outcome: string(backoffice.Succeeded), At: &at, OperatorID: "opt_2", Code: bff.Code(a.Name)}, nil
}

// FindKey has no trace of any key.
func (*counter) FindKey(context.Context, bff.ID, string, string) (*bff.Known, error) {
	return nil, nil //nolint:nilnil // as said there
}

func (c *counter) Record(_ context.Context, did []backoffice.Activity, _ ...bff.Event) error {
	c.denied = append(c.denied, did...)
	return nil
}

func (c *counter) Changed(_ context.Context, _ *backoffice.Visit, topic string, _ time.Time) {
	c.changed = append(c.changed, topic)
}

// unknownDay is the date of a property whose day cannot be told.
func unknownDay(context.Context, bff.ID, bff.ID, time.Time) (bff.Date, error) {
	return 0, errors.New("away")
}

const threshold = 3_500_000 // of charges, in AFN

func (c *counter) proxy(now time.Time) *action.Proxy {
	return action.NewProxy(action.ProxyConfig{
		Journal: c, Upstream: c, Mutations: c, Attestations: c, Charges: c, Traces: c,
		Thresholds: action.Thresholds{bff.AFN: threshold}, Today: unknownDay,
		Notifier: c, News: backoffice.NewEnvelopes("test"), Now: func() time.Time { return now.Add(time.Second) },
	})
}

// attest gives the operator the second factor of a command.
func (c *counter) attest(v *backoffice.Visit, command *action.Command, now time.Time) {
	c.kept = backoffice.Attestation{
		ID: bff.NewID(bff.PrefixMFA, now), Tenant: v.Session.Tenant, Operator: v.Session.Operator, Device: v.Session.Device, Session: v.Session.ID,
		Scope: command.Action.Scope, Resource: command.ID.String(), ExpiresAt: now.Add(time.Minute),
	}
	command.Attestation = c.kept.ID.String()
}

func visitBy(role backoffice.Role, now time.Time) *backoffice.Visit {
	return &backoffice.Visit{Session: backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, now), Tenant: bff.NewID(bff.PrefixTenant, now), Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, now),
	}, Member: &backoffice.Member{Roles: []backoffice.Role{role}}, Property: bff.NewID(bff.PrefixProperty, now)}
}

// Every action is carried out for each of its roles and for no other; whatever its service
// answers is what the ledger and the event say, and copies are void once it may have happened. A resource of another property is not there.
func TestActions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	for _, a := range backoffice.Actions() {
		for _, role := range backoffice.Roles() {
			for want, failure := range map[backoffice.Outcome]error{
				backoffice.Succeeded: nil,
				backoffice.Failed:    bff.Errorf(bff.CodeResourceNotFound, "gone"),
				backoffice.Denied:    bff.Errorf(bff.CodeRoleDenied, "no"),
				backoffice.Unknown:   &bff.Error{Code: bff.CodeUpstreamUnavailable, Err: backoffice.ErrOutcomeUnknown},
			} {
				v := visitBy(role, now)
				command := action.Command{
					Action: &a, ID: bff.NewID(a.ID, now), Once: backoffice.Once{Key: "key"}, Posting: &action.Posting{Amount: bff.Money{Minor: 1, Currency: bff.AFN}},
				}
				c := &counter{at: v.Property, failure: failure, done: action.Done{a.Member: command.ID.String(), "guestName": "Zarghuna Ahmadzai"}}
				if a.Scope != "" && !a.Large {
					c.attest(v, &command, now)
				}
				answer, err := c.proxy(now).Do(t.Context(), v, command, now)
				if !slices.Contains(a.Roles, role) {
					if bff.CodeOf(err) != bff.CodeRoleDenied || len(c.carried) > 0 || len(c.denied) != 1 {
						t.Errorf("%s by %s: %v, carried out %d times, %d denials recorded", a.Name, role, err, len(c.carried), len(c.denied))
					}
					continue
				}
				if (err == nil) != (failure == nil) || failure == nil && answer.Status != a.Status() || len(c.carried) != 1 || len(c.finished) != 1 {
					t.Fatalf("%s by %s: %d, %v, carried out %d times", a.Name, role, answer.Status, err, len(c.carried))
				}
				end := c.finished[0]
				var told action.MutationProxied
				if len(end.Events) != 1 || json.Unmarshal(end.Events[0].Payload, &told) != nil || told.Action != a.Name || told.Outcome != want ||
					c.began.Activity.Ended(end.Failure, end.At).Outcome != want {
					t.Fatalf("%s: %+v, %+v; want %s", a.Name, end, told, want)
				}
				if happened := want == backoffice.Succeeded || want == backoffice.Unknown; happened != slices.Equal(c.changed, []string{a.Topic}) {
					t.Errorf("%s: %s voids what %v does, want %s", a.Name, want, c.changed, a.Topic)
				}
				c.at, c.carried = bff.NewID(bff.PrefixProperty, now), nil
				if _, err := c.proxy(now).Do(t.Context(), v, command, now); !a.New && (bff.CodeOf(err) != bff.CodeResourceNotFound || len(c.carried) > 0) {
					t.Errorf("%s elsewhere: %v, carried out %d times", a.Name, err, len(c.carried))
				}
				receipt, _ := json.Marshal(answer.Receipt) // of texts
				if text := string(receipt) + string(end.Events[0].Payload); strings.Contains(text, "Zarghuna") {
					t.Errorf("%s keeps a guest's name: %s", a.Name, text)
				}
			}
		}
	}
}

// An action is carried out at the operator's property, by a role that may, with the second
// factor that it needs; what became of it is what the ledger, the event and the client are
// told, and only what may have changed is made void.
func TestProxyDoes(t *testing.T) {
	t.Parallel()
	late := &bff.Error{Code: bff.CodeUpstreamTimeout, Err: backoffice.ErrOutcomeUnknown}
	for name, tc := range map[string]struct {
		action    backoffice.ActionName
		role      backoffice.Role
		elsewhere bool // the resource is at another property
		missing   error
		amount    int64
		sum       int64
		factor    bool
		failure   error

		want        bff.Code // empty = done
		wantStatus  int
		wantOutcome backoffice.Outcome // of the event; empty = there is none
		wantCarried bool
		wantUses    int
		wantCounted int
		wantTaken   int
		wantVoid    bool
	}{
		"check-in": {
			action: backoffice.CheckIn, role: backoffice.FrontDesk, wantStatus: 200, wantOutcome: backoffice.Succeeded, wantCarried: true, wantVoid: true,
		},
		"check-in by another role": {action: backoffice.CheckIn, role: backoffice.Housekeeper, want: bff.CodeRoleDenied},
		"check-in elsewhere":       {action: backoffice.CheckIn, role: backoffice.FrontDesk, elsewhere: true, want: bff.CodeResourceNotFound},
		"check-in of nothing": {
			action: backoffice.CheckIn, role: backoffice.FrontDesk, missing: &bff.Error{Code: bff.CodeUpstreamUnavailable}, want: bff.CodeUpstreamUnavailable,
		},
		"check-in refused": {
			action: backoffice.CheckIn, role: backoffice.FrontDesk, failure: &bff.Error{Code: bff.CodeStateConflict},
			want: bff.CodeStateConflict, wantOutcome: backoffice.Failed, wantCarried: true,
		},
		"check-in, late": {
			action: backoffice.CheckIn, role: backoffice.FrontDesk, failure: late,
			want: bff.CodeUpstreamTimeout, wantOutcome: backoffice.Unknown, wantCarried: true, wantVoid: true,
		},
		"work order": {
			action: backoffice.WorkOrderOpen, role: backoffice.Housekeeper, elsewhere: true, // it has no place yet
			wantStatus: 201, wantOutcome: backoffice.Succeeded, wantCarried: true, wantVoid: true,
		},
		"small charge": {
			action: backoffice.Charge, role: backoffice.FnBManager, amount: threshold,
			wantStatus: 201, wantOutcome: backoffice.Succeeded, wantCarried: true, wantCounted: 1, wantVoid: true,
		},
		"large charge":   {action: backoffice.Charge, role: backoffice.FnBManager, amount: threshold + 1, want: bff.CodeMFARequired},
		"one too many":   {action: backoffice.Charge, role: backoffice.FnBManager, amount: 1, sum: threshold, want: bff.CodeMFARequired},
		"charge by none": {action: backoffice.Charge, role: backoffice.Maintenance, amount: 1, factor: true, want: bff.CodeRoleDenied},
		"large charge with a factor": {
			action: backoffice.Charge, role: backoffice.FnBManager, amount: threshold + 1, factor: true,
			wantStatus: 201, wantOutcome: backoffice.Succeeded, wantCarried: true, wantUses: 1, wantCounted: 1, wantVoid: true,
		},
		"charge elsewhere, with a factor": {
			action: backoffice.Charge, role: backoffice.FnBManager, amount: threshold + 1, factor: true, elsewhere: true, want: bff.CodeResourceNotFound,
		},
		"charge refused": {
			action: backoffice.Charge, role: backoffice.FnBManager, amount: 5, failure: &bff.Error{Code: bff.CodeStateConflict},
			want: bff.CodeStateConflict, wantOutcome: backoffice.Failed, wantCarried: true, wantCounted: 1, wantTaken: 1,
		},
		"charge, late": {
			action: backoffice.Charge, role: backoffice.FnBManager, amount: 5, failure: late,
			want: bff.CodeUpstreamTimeout, wantOutcome: backoffice.Unknown, wantCarried: true, wantCounted: 1, wantVoid: true,
		},
		"refund": {action: backoffice.Refund, role: backoffice.Finance, amount: 1, want: bff.CodeMFARequired},
		"refund with a factor": {
			action: backoffice.Refund, role: backoffice.Finance, amount: 1, factor: true,
			wantStatus: 201, wantOutcome: backoffice.Succeeded, wantCarried: true, wantUses: 1, wantVoid: true,
		},
		"refund refused": {
			action: backoffice.Refund, role: backoffice.Finance, amount: 1, factor: true, failure: &bff.Error{Code: bff.CodeStateConflict},
			want: bff.CodeStateConflict, wantOutcome: backoffice.Failed, wantCarried: true, wantUses: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
			act, ok := backoffice.FindAction(tc.action)
			if !ok {
				t.Fatal("there is no such action")
			}
			v := visitBy(tc.role, now)
			command := action.Command{
				Action: act, Once: backoffice.Once{Key: "key"}, Posting: &action.Posting{Amount: bff.Money{Minor: tc.amount, Currency: bff.AFN}},
			}
			made := bff.NewID(backoffice.PrefixWorkOrder, now).String()
			if !act.New {
				command.ID = bff.NewID(act.ID, now)
			}
			c := &counter{at: v.Property, missing: tc.missing, failure: tc.failure, sum: tc.sum, done: action.Done{"status": "done", "workOrderId": made}}
			if tc.elsewhere {
				c.at = bff.NewID(bff.PrefixProperty, now)
			}
			if tc.factor {
				c.attest(v, &command, now)
			}
			answer, err := c.proxy(now).Do(t.Context(), v, command, now)
			if (err != nil) != (tc.want != "") || err != nil && bff.CodeOf(err) != tc.want || answer.Status != tc.wantStatus {
				t.Errorf("%d, %v; want %d, %q", answer.Status, err, tc.wantStatus, tc.want)
			}
			if carried := len(c.carried) == 1 && c.carried[0] == v.Property; carried != tc.wantCarried {
				t.Errorf("carried out at %v", c.carried)
			}
			if c.uses != tc.wantUses || len(c.counted) != tc.wantCounted || c.taken != tc.wantTaken {
				t.Errorf("%d factors used, %d charges counted, %d taken out; want %d, %d, %d", c.uses, len(c.counted), c.taken, tc.wantUses, tc.wantCounted, tc.wantTaken)
			}
			for _, m := range c.counted {
				if m.Tenant != v.Session.Tenant || m.Operator != v.Session.Operator || m.Folio != command.ID || m.Once != command.Once ||
					m.Amount.Minor != tc.amount || m.Day != bff.DateOf(now) {
					t.Errorf("counted %+v", m)
				}
			}
			if changed := slices.Equal(c.changed, []string{act.Topic}); changed != tc.wantVoid || !changed && len(c.changed) > 0 {
				t.Errorf("told of %v", c.changed)
			}
			if tc.want == bff.CodeRoleDenied {
				if len(c.denied) != 1 || c.denied[0].Outcome != backoffice.Denied || c.denied[0].Action != string(tc.action) || c.began.Activity.Action != "" {
					t.Errorf("recorded %+v, began %+v", c.denied, c.began)
				}
				return
			}
			if a := c.began.Activity; a.Action != string(tc.action) || a.Category != act.Category || a.Resource.Kind != act.Kind ||
				a.Resource.ID != command.ID.String() {
				t.Errorf("began %+v", a)
			}
			if (tc.wantOutcome == "") != (len(c.finished[0].Events) == 0) {
				t.Fatalf("%d events", len(c.finished[0].Events))
			}
			if tc.wantOutcome == "" {
				return
			}
			var told action.MutationProxied
			if err := json.Unmarshal(c.finished[0].Events[0].Payload, &told); err != nil {
				t.Fatal(err)
			}
			if in := c.finished[0].Events[0].Envelope; in.TenantID == nil || *in.TenantID != v.Session.Tenant.String() || in.PropertyID != v.Property.String() ||
				in.DeviceID != v.Session.Device.String() || in.OperatorID != "opt_1" {
				t.Errorf("the envelope names %+v", in)
			}
			wantID := command.ID.String()
			if act.New {
				wantID = made
			}
			if told.Outcome != tc.wantOutcome || told.ErrorCode != tc.want || told.ResourceID != wantID || told.ResourceKind != act.Kind || told.LatencyMs != 1000 ||
				told.Action != tc.action || told.Category != act.Category || told.ActivityID != c.began.Activity.ID {
				t.Errorf("told %+v", told)
			}
		})
	}
}
