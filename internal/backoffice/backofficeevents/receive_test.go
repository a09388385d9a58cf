package backofficeevents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
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
	identity.Sessions

	did []string
	err error
}

func (s *tier) Revoke(_ context.Context, r identity.Revocation) ([]backoffice.Session, error) {
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

// house notes what was made void and what streams were told.
type house struct {
	void, told []string
	err        error
}

func (h *house) Invalidate(_ context.Context, tenant, property bff.ID, parts ...backoffice.Part) error {
	h.void = append(h.void, fmt.Sprint(tenant, " ", property, " ", parts))
	return h.err
}

func (h *house) Notify(_ context.Context, n backoffice.Notice) error {
	h.told = append(h.told, fmt.Sprintf("%s %s %s %s %s %s %s %s", n.Channel, n.Type, n.Tenant, n.Property, n.Operator, n.Device, n.CausedBy, n.Data))
	return nil
}

func newReceiver(t *testing.T) (*Receiver, *tier, *memory, *house) {
	t.Helper()
	s, m, h := &tier{}, &memory{}, &house{}
	access := identity.NewAccess(s, nil, journal{}, backoffice.NewEnvelopes("test"))
	return NewReceiver(Config{
		Inbox: m, Access: access, Sessions: s, Kept: h, Streams: h, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return noon },
	}), s, m, h
}

func delivery(t *testing.T, topic string, payload map[string]any) pubsub.Delivery {
	t.Helper()
	b, err := json.Marshal(map[string]any{
		"envelope": map[string]any{"eventId": "evt_1", "subject": topic, "occurredAt": "2026-11-17T11:59:00Z", "requestId": "req_1"}, "payload": payload,
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
		"a device's session": {
			stream.TopicSessionRevoked,
			object{"tenantId": tenant, "operatorId": "o", "deviceId": device, "revokedAt": "2026-11-17T11:58:00Z"},
			[]string{"revoke " + tenant + " o " + device + " 2026-11-17T11:58:00.000Z"},
		},
		"all of an operator": {
			stream.TopicSessionRevoked, object{"tenantId": tenant, "operatorId": "o"}, []string{"revoke " + tenant + " o  2026-11-17T11:59:00.000Z"},
		},
		"the whole tenant": {
			stream.TopicSessionRevoked, object{"tenantId": tenant, "deviceId": nil}, []string{"revoke " + tenant + "   2026-11-17T11:59:00.000Z"},
		},
		"of the far future": {
			stream.TopicSessionRevoked,
			object{"tenantId": tenant, "operatorId": "o", "revokedAt": "2036-01-01T00:00:00Z"},
			[]string{"revoke " + tenant + " o  2026-11-17T11:59:00.000Z"},
		},
		"a locked user": {stream.TopicUserLocked, object{"tenantId": tenant, "operatorId": "o"}, []string{"revoke " + tenant + " o  2026-11-17T11:59:00.000Z"}},
		"a revoked device": {
			stream.TopicDeviceRevoked, object{"tenantId": tenant, "deviceId": device}, []string{"revoke " + tenant + "  " + device + " 2026-11-17T11:59:00.000Z"},
		},
		"a suspended tenant":  {stream.TopicTenantSuspended, object{"tenantId": tenant}, []string{"suspend " + tenant + " 2026-11-17T11:59:00.000Z"}},
		"a reinstated tenant": {stream.TopicTenantReinstated, object{"tenantId": tenant}, []string{"reinstate " + tenant + " 2026-11-17T11:59:00.000Z"}},
		"reactivated":         {stream.TopicTenantReactivated, object{"tenantId": tenant}, []string{"reinstate " + tenant + " 2026-11-17T11:59:00.000Z"}},
		"a new member":        {stream.TopicMemberAdded, object{"tenantId": tenant, "operatorId": "o"}, []string{"outdate " + tenant + " o"}},
		"another role":        {stream.TopicMemberChanged, object{"tenantId": tenant, "operatorId": "o"}, []string{"outdate " + tenant + " o"}},
		"a member who left": {
			stream.TopicMemberRemoved,
			object{"tenantId": tenant, "operatorId": "o"},
			[]string{"outdate " + tenant + " o", "revoke " + tenant + " o  2026-11-17T11:59:00.000Z"},
		},
		"a flag": {stream.TopicFlagToggled, object{"tenantId": tenant, "flag": "beta", "enabled": true}, []string{"outdate " + tenant + " "}},

		// What cannot be read must not widen to all.
		"no tenant":               {stream.TopicSessionRevoked, object{"operatorId": "o"}, nil},
		"an unreadable device":    {stream.TopicSessionRevoked, object{"tenantId": tenant, "deviceId": "x"}, nil},
		"an unreadable operator":  {stream.TopicSessionRevoked, object{"tenantId": tenant, "operatorId": 7}, nil},
		"a lock of nobody":        {stream.TopicUserLocked, object{"tenantId": tenant}, nil},
		"a revocation of nothing": {stream.TopicDeviceRevoked, object{"tenantId": tenant}, nil},
		"nobody left":             {stream.TopicMemberRemoved, object{"tenantId": tenant}, nil},
		"another topic":           {"melmastoon.else.v1", object{"tenantId": tenant}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s, m, _ := newReceiver(t)
			d := delivery(t, test.topic, test.payload)
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

// What happens in a house makes copies of that house void and is told to its devices
// once; what cannot be read is refused.
func TestReact(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	const (
		property    = "ppt_01H8YN7QV4D8KZ4F8Y5CK4MV3E"
		reservation = "rsv_01H8YN7QV4D8KZ4F8Y5CK4MV3E"
		raised      = "melmastoon.notification.alert.raised.v1"
		folio       = "melmastoon.billing.folio"
		key         = "melmastoon.lock.credential.issued.v1"
		checkedIn   = "melmastoon.reservation.checked_in.v1"
	)
	uuid := func(p bff.Prefix, id string) string { return bff.MustParseID(p, id).UUID() }
	folioParts := "[dashboard today departures in-house]"
	folioTold := []string{"dashboard dashboard.changed " + tenant + " " + property + `   req_1 {"parts":["dashboard","today","departures","in-house"]}`}
	for name, test := range map[string]struct {
		topic   string
		payload object
		void    string // empty: the event is refused
		told    []string
	}{
		"an alert": {
			raised,
			object{"tenantId": tenant, "propertyId": property, "alertId": "alr_1", "severity": "critical", "title": "of a guest", "operatorId": 7},
			tenant + " " + property + " [dashboard today alert-inbox]",
			[]string{
				"alerts alert.raised " + tenant + " " + property + `   req_1 {"alertId":"alr_1","severity":"critical"}`,
				"dashboard dashboard.changed " + tenant + " " + property + `   req_1 {"parts":["dashboard","today","alert-inbox"]}`,
			},
		},
		"an alert of the whole tenant": {
			raised,
			object{"tenantId": tenant, "propertyId": nil, "alertId": "alr_1"},
			tenant + "  [dashboard today alert-inbox]",
			[]string{
				"alerts alert.raised " + tenant + `    req_1 {"alertId":"alr_1"}`,
				"dashboard dashboard.changed " + tenant + `    req_1 {"parts":["dashboard","today","alert-inbox"]}`,
			},
		},
		"a folio, with UUIDs": {
			folio,
			object{"tenantId": uuid(bff.PrefixTenant, tenant), "propertyId": uuid(bff.PrefixProperty, property)},
			tenant + " " + property + " " + folioParts, folioTold,
		},
		"ids by another prefix": {
			folio, object{"tenantId": "ten" + tenant[3:], "propertyId": "prp" + property[3:]}, tenant + " " + property + " " + folioParts, folioTold,
		},
		"members of other types": {
			folio,
			object{"tenantId": tenant, "propertyId": property, "folioId": []int{1}, "change": object{}},
			tenant + " " + property + " " + folioParts,
			folioTold,
		},
		"a key": {
			key,
			object{"tenantId": tenant, "propertyId": property, "reservationId": uuid(bff.PrefixReservation, reservation), "state": "active", "vendor": 3},
			tenant + " " + property + " [dashboard]",
			[]string{
				"locks credential.issued " + tenant + " " + property + `   req_1 {"reservationId":"` + reservation + `","state":"active"}`,
				"dashboard dashboard.changed " + tenant + " " + property + `   req_1 {"parts":["dashboard"]}`,
			},
		},
		"another role": {
			stream.TopicMemberChanged,
			object{"tenantId": tenant, "operatorId": "o", "propertyId": property},
			tenant + "  [dashboard preferences shortcuts]",
			[]string{
				"session membership.changed " + tenant + "  o  req_1 {}",
				"dashboard dashboard.changed " + tenant + `    req_1 {"parts":["dashboard","preferences","shortcuts"]}`,
			},
		},
		"no tenant":              {checkedIn, object{"propertyId": property}, "", nil},
		"an unreadable tenant":   {checkedIn, object{"tenantId": property, "propertyId": property}, "", nil},
		"an unreadable property": {checkedIn, object{"tenantId": tenant, "propertyId": "x"}, "", nil},
		"a number as property":   {checkedIn, object{"tenantId": tenant, "propertyId": 7}, "", nil},
		"an unknown device":      {stream.TopicDeviceTrusted, object{"tenantId": tenant}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _, _, h := newReceiver(t)
			d := delivery(t, test.topic, test.payload)
			for range 3 { // once is enough
				err := r.Receive(t.Context(), d)
				if (err == nil) != (test.void != "") || err != nil && !errors.Is(err, bff.ErrEvent) {
					t.Errorf("%v", err)
				}
			}
			var want []string
			if test.void != "" {
				want = []string{test.void}
			}
			if diff := cmp.Diff(want, h.void); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.told, h.told); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Without caches that can be reached streams are told, and the event comes again; without
// Postgres it has no effect before it could be recorded.
func TestReactionsInOutages(t *testing.T) {
	t.Parallel()
	r, _, m, h := newReceiver(t)
	d := delivery(t, "melmastoon.billing.cash_drawer", map[string]any{"tenantId": tenant})
	m.err = errors.New("postgres is away")
	if err := r.Receive(t.Context(), d); err == nil || h.void != nil || h.told != nil {
		t.Errorf("%v, %v, %v", err, h.void, h.told)
	}
	m.err, h.err = nil, errors.New("redis is away")
	if err := r.Receive(t.Context(), d); !errors.Is(err, backoffice.ErrCopiesAway) || len(h.told) != 1 || len(m.processed) != 0 {
		t.Errorf("%v, %v, %v", err, h.told, m.processed)
	}
	h.err = nil
	if err := r.Receive(t.Context(), d); err != nil || len(h.void) != 2 || len(m.processed) != 1 {
		t.Errorf("%v, %v, %v", err, h.void, m.processed)
	}
}

// A revocation works also while Postgres is away, and the event comes again
// until it was recorded; without the session tier it has had no effect.
func TestOutages(t *testing.T) {
	t.Parallel()
	r, s, m, _ := newReceiver(t)
	d := delivery(t, stream.TopicSessionRevoked, map[string]any{"tenantId": tenant, "operatorId": "o"})
	m.err = errors.New("postgres is away")
	if err := r.Receive(t.Context(), d); err == nil || len(s.did) != 1 {
		t.Errorf("%v, %v", err, s.did)
	}
	m.err, m.processed, s.err = nil, nil, identity.ErrSessionsAway
	if err := r.Receive(t.Context(), d); !errors.Is(err, identity.ErrSessionsAway) || len(m.processed) != 0 {
		t.Errorf("%v, %v", err, m.processed)
	}
}

type journal struct{}

func (journal) Record(context.Context, []backoffice.Activity, ...bff.Event) error { return nil }
