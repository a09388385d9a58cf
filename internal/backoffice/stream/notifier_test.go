package stream_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/stream"
)

// audience is the devices of a tenant, their operators' memberships, and their logs.
type audience struct {
	stream.Log

	signedIn []stream.SignedInDevice
	scope    map[string][]string // of operators; without one there is no member
	hangs    string              // the operator whose membership is not answered
	away     error

	mu      sync.Mutex
	asked   []string
	entries []stream.Entry
	devices []string
}

func (a *audience) ListSignedInDevices(_ context.Context, of bff.ID, operator string) ([]stream.SignedInDevice, error) {
	a.asked = append(a.asked, "signed in "+of.String()+operator)
	return a.signedIn, a.away
}

func (a *audience) FindMember(ctx context.Context, of bff.ID, operator, version string) (*backoffice.Member, error) {
	a.mu.Lock()
	a.asked = append(a.asked, "member "+operator+" "+version)
	a.mu.Unlock()
	if operator == a.hangs {
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > 500*time.Millisecond {
			return nil, backoffice.ErrNoMember
		}
		return nil, errors.New("away")
	}
	scope, ok := a.scope[operator]
	if !ok || of != tenant {
		return nil, backoffice.ErrNoMember
	}
	return &backoffice.Member{Scope: backoffice.ReadPropertyScope(scope)}, nil
}

func (a *audience) Append(_ context.Context, of bff.ID, devices []bff.ID, e stream.Entry) error {
	for _, d := range devices {
		a.devices = append(a.devices, d.ULID()[25:])
	}
	slices.Sort(a.devices)
	a.entries = append(a.entries, e)
	if of != tenant {
		return errors.New("another tenant")
	}
	return nil
}

// A notice reaches the devices of operators that work for its property, and of those whose
// rights are not known in time: every stream checks it again.
func TestNotify(t *testing.T) {
	t.Parallel()
	signed := func(last, operator string) stream.SignedInDevice {
		id := bff.MustParseID(bff.PrefixDevice, "dev_01H8YN7QV4D8KZ4F8Y5CK4MV3"+last)
		return stream.SignedInDevice{Device: id, Operator: operator, Members: "v" + last}
	}
	signedIn := []stream.SignedInDevice{signed("A", "here"), signed("B", "elsewhere"), signed("C", "all"), signed("D", "slow"), signed("E", "gone")}
	scope := map[string][]string{"here": {property.String()}, "elsewhere": {"ppt_01JXG9KMGRC638MD0V7C0ZPD0X"}, "all": {"*"}}
	good := backoffice.Notice{Channel: backoffice.ChannelAlerts, Type: "alert.raised", Tenant: tenant, Property: property, At: began, Data: []byte(`{"n":1}`)}
	with := func(change func(*backoffice.Notice)) backoffice.Notice {
		n := good
		change(&n)
		return n
	}
	for name, tc := range map[string]struct {
		notice   backoffice.Notice
		signedIn []stream.SignedInDevice
		away     error
		want     string // the last letters of devices
		fails    bool
		asked    []string
	}{
		"of a property": {
			notice: good, signedIn: signedIn, want: "ACD",
			asked: []string{"member all vC", "member elsewhere vB", "member gone vE", "member here vA", "member slow vD", "signed in " + tenant.String()},
		},
		"of the tenant": {
			notice: with(func(n *backoffice.Notice) { n.Property = bff.ID{} }), signedIn: signedIn, want: "ABCDE", asked: []string{"signed in " + tenant.String()},
		},
		"of an operator": {
			notice: with(func(n *backoffice.Notice) { n.Operator = "here" }), signedIn: signedIn[:1], want: "A",
			asked: []string{"member here vA", "signed in " + tenant.String() + "here"},
		},
		"of a device":      {notice: with(func(n *backoffice.Notice) { n.Device = signedIn[1].Device }), want: "B"},
		"of none":          {notice: good, signedIn: signedIn[1:2], asked: []string{"member elsewhere vB", "signed in " + tenant.String()}},
		"devices are away": {notice: good, away: errAway, fails: true, asked: []string{"signed in " + tenant.String()}},
		"no channel":       {notice: with(func(n *backoffice.Notice) { n.Channel = "weather" }), fails: true},
		"no type":          {notice: with(func(n *backoffice.Notice) { n.Type = "" }), fails: true},
		"a broken line":    {notice: with(func(n *backoffice.Notice) { n.Type = "a\nb" }), fails: true},
		"a broken name":    {notice: with(func(n *backoffice.Notice) { n.Operator = "a\nb" }), fails: true},
		"too much of it":   {notice: with(func(n *backoffice.Notice) { n.Data = []byte(`"` + strings.Repeat("x", 4<<10) + `"`) }), fails: true},
		"another tenant's": {notice: with(func(n *backoffice.Notice) { n.Tenant, n.Device = bff.NewID(bff.PrefixTenant, began), device }), want: "A", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &audience{signedIn: tc.signedIn, scope: scope, hangs: "slow", away: tc.away}
			err := stream.NewNotifier(a, a, a).Notify(t.Context(), tc.notice)
			slices.Sort(a.asked)
			if (err != nil) != tc.fails || strings.Join(a.devices, "") != tc.want {
				t.Errorf("%v, told %v; want %s", err, a.devices, tc.want)
			}
			if diff := cmp.Diff(tc.asked, a.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if tc.want == "" && len(a.entries) > 0 {
				t.Errorf("%+v for no device", a.entries)
			}
			if tc.want == "" || tc.fails {
				return
			}
			if e := a.entries[0]; len(a.entries) != 1 || e.Property != tc.notice.Property || e.Operator != tc.notice.Operator || e.Type != "alert.raised" ||
				!strings.Contains(e.Data, `"data":{"n":1}`) {
				t.Errorf("%+v", a.entries)
			}
		})
	}
}

// More operators than are asked about at once are all asked.
func TestNotifyMany(t *testing.T) {
	t.Parallel()
	a := &audience{}
	for n := range 40 {
		a.signedIn = append(a.signedIn, stream.SignedInDevice{Device: device, Operator: strconv.Itoa(n)})
	}
	err := stream.NewNotifier(a, a, a).Notify(t.Context(), backoffice.Notice{Channel: backoffice.ChannelAlerts, Type: "x", Tenant: tenant, Property: property})
	if err != nil || len(a.asked) != 41 || len(a.devices) > 0 {
		t.Errorf("%v, asked %d times, told %v", err, len(a.asked), a.devices)
	}
}
