package backofficeevents

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/inbox"
	"melmastoon.ghasi.io/bff/internal/pubsub"
)

const (
	tenant = "tnt_01HCCAJ930Q3Y811AXYN4D8YR9"
	device = "dev_01M7MK9ZTR35B5VXC99GJ5AM9B"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

// tier notes what was done to the session tier.
type tier struct {
	backoffice.Sessions

	did []string
	err error
}

func (s *tier) Revoke(_ context.Context, r backoffice.Revocation) ([]backoffice.Session, error) {
	s.did = append(s.did, "revoke "+r.Tenant.String()+" "+r.Operator+" "+r.Device.String()+" "+bff.At(r.At).String())
	return nil, s.err
}
func (s *tier) RemoveSessions(context.Context, []backoffice.Session) error { return s.err }
func (s *tier) OutdateMembers(_ context.Context, tenant bff.ID, operator string) error {
	s.did = append(s.did, "outdate "+tenant.String()+" "+operator)
	return s.err
}

func (s *tier) SuspendTenant(_ context.Context, tenant bff.ID, suspended bool, at time.Time) error {
	s.did = append(s.did, map[bool]string{true: "suspend ", false: "reinstate "}[suspended]+tenant.String()+" "+bff.At(at).String())
	return s.err
}

// memory is an inbox.
type memory struct {
	processed []string
	err       error
}

func (m *memory) Receive(_ context.Context, e inbox.Event) (inbox.Reception, error) {
	if slices.Contains(m.processed, e.ID) {
		return inbox.Again, m.err
	}
	return inbox.First, m.err
}

func (m *memory) Processed(_ context.Context, e inbox.Event) error {
	m.processed = append(m.processed, e.ID)
	return m.err
}

func newReceiver(t *testing.T) (*Receiver, *tier, *memory) {
	t.Helper()
	s, m := &tier{}, &memory{}
	access := backoffice.NewAccess(s, nil, journal{}, backoffice.NewNewsroom("test"))
	return NewReceiver(Config{Inbox: m, Access: access, Sessions: s, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon }}), s, m
}

func delivery(t *testing.T, topic, id string, payload map[string]any) pubsub.Delivery {
	t.Helper()
	b, err := json.Marshal(map[string]any{
		"envelope": map[string]any{"eventId": id, "subject": topic, "occurredAt": "2026-11-17T11:59:00Z"}, "payload": payload,
	})
	if err != nil {
		t.Fatal(err)
	}
	return pubsub.Delivery{ID: "1", Topic: topic, Data: b, PublishTime: noon}
}

func TestReceive(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	for name, test := range map[string]struct {
		topic   string
		payload object
		want    []string // nil: the event is refused
	}{
		"a device's session":  {topicSessionRevoked, object{"tenantId": tenant, "operatorId": "o", "deviceId": device, "revokedAt": "2026-11-17T11:58:00Z"}, []string{"revoke " + tenant + " o " + device + " 2026-11-17T11:58:00.000Z"}},
		"all of an operator":  {topicSessionRevoked, object{"tenantId": tenant, "operatorId": "o"}, []string{"revoke " + tenant + " o  2026-11-17T11:59:00.000Z"}},
		"the whole tenant":    {topicSessionRevoked, object{"tenantId": tenant, "deviceId": nil}, []string{"revoke " + tenant + "   2026-11-17T11:59:00.000Z"}},
		"of the far future":   {topicSessionRevoked, object{"tenantId": tenant, "operatorId": "o", "revokedAt": "2036-01-01T00:00:00Z"}, []string{"revoke " + tenant + " o  2026-11-17T11:59:00.000Z"}},
		"a locked user":       {topicUserLocked, object{"tenantId": tenant, "operatorId": "o"}, []string{"revoke " + tenant + " o  2026-11-17T11:59:00.000Z"}},
		"a revoked device":    {topicDeviceRevoked, object{"tenantId": tenant, "deviceId": device}, []string{"revoke " + tenant + "  " + device + " 2026-11-17T11:59:00.000Z"}},
		"a suspended tenant":  {topicTenantSuspended, object{"tenantId": tenant}, []string{"suspend " + tenant + " 2026-11-17T11:59:00.000Z"}},
		"a reinstated tenant": {topicTenantReinstated, object{"tenantId": tenant}, []string{"reinstate " + tenant + " 2026-11-17T11:59:00.000Z"}},
		"reactivated":         {topicTenantReactivated, object{"tenantId": tenant}, []string{"reinstate " + tenant + " 2026-11-17T11:59:00.000Z"}},
		"a new member":        {topicMemberAdded, object{"tenantId": tenant, "operatorId": "o"}, []string{"outdate " + tenant + " o"}},
		"another role":        {topicMemberChanged, object{"tenantId": tenant, "operatorId": "o"}, []string{"outdate " + tenant + " o"}},
		"a member who left":   {topicMemberRemoved, object{"tenantId": tenant, "operatorId": "o"}, []string{"outdate " + tenant + " o", "revoke " + tenant + " o  2026-11-17T11:59:00.000Z"}},
		"a flag":              {topicFlagToggled, object{"tenantId": tenant, "flag": "beta", "enabled": true}, []string{"outdate " + tenant + " "}},

		// What cannot be read must not widen to all.
		"no tenant":               {topicSessionRevoked, object{"operatorId": "o"}, nil},
		"an unreadable device":    {topicSessionRevoked, object{"tenantId": tenant, "deviceId": "x"}, nil},
		"an unreadable operator":  {topicSessionRevoked, object{"tenantId": tenant, "operatorId": 7}, nil},
		"a lock of nobody":        {topicUserLocked, object{"tenantId": tenant}, nil},
		"a revocation of nothing": {topicDeviceRevoked, object{"tenantId": tenant}, nil},
		"nobody left":             {topicMemberRemoved, object{"tenantId": tenant}, nil},
		"another topic":           {"melmastoon.else.v1", object{"tenantId": tenant}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s, m := newReceiver(t)
			d := delivery(t, test.topic, "evt_1", test.payload)
			for range 2 { // the second has no effect
				if err := r.Receive(t.Context(), d); (err == nil) != (test.want != nil) {
					t.Errorf("%v", err)
				}
			}
			if diff := cmp.Diff(test.want, s.did); diff != "" {
				t.Error(diff)
			}
			if (len(m.processed) == 1) != (test.want != nil) {
				t.Errorf("processed: %v", m.processed)
			}
		})
	}
}

// A revocation works also while Postgres is away, and the event comes again
// until it was recorded; without the session tier it has had no effect.
func TestOutages(t *testing.T) {
	t.Parallel()
	r, s, m := newReceiver(t)
	d := delivery(t, topicSessionRevoked, "evt_1", map[string]any{"tenantId": tenant, "operatorId": "o"})
	m.err = errors.New("postgres is away")
	if err := r.Receive(t.Context(), d); err == nil || len(s.did) != 1 {
		t.Errorf("%v, %v", err, s.did)
	}
	m.err, m.processed, s.err = nil, nil, backoffice.ErrSessionsAway
	if err := r.Receive(t.Context(), d); !errors.Is(err, backoffice.ErrSessionsAway) || len(m.processed) != 0 {
		t.Errorf("%v, %v", err, m.processed)
	}
}

type journal struct{}

func (journal) Record(context.Context, []backoffice.Activity, ...bff.Event) error { return nil }
