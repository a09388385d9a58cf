package device_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"
	backofficedevice "melmastoon.ghasi.io/bff/internal/backoffice/device"
)

// deviceRecords remember what devices reported.
type deviceRecords struct {
	offline bool
	err     error

	seen    backofficedevice.Seen
	came    bff.Event
	sampled []bff.Event
	report  backofficedevice.HintReport
}

func (r *deviceRecords) RecordHeartbeat(ctx context.Context, s backofficedevice.Seen, came bff.Event, reported ...bff.Event) (bool, error) {
	if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Second {
		return false, errors.New("not bounded")
	}
	r.seen, r.came, r.sampled = s, came, reported
	return r.offline, r.err
}

func (r *deviceRecords) AddHints(_ context.Context, report backofficedevice.HintReport, _ backoffice.Once) (backoffice.Answer, error) {
	r.report = report
	return backoffice.Answer{Status: 202}, r.err
}

// A heartbeat is recorded with whom it is of, one in a hundred is reported, and other devices
// of the property hear of one that was away. A record that is away fails nothing.
func TestBeat(t *testing.T) {
	t.Parallel()
	request := func(share byte) bff.ID {
		id := bff.NewID(bff.PrefixRequest, began).Bytes()
		id[8] = share // of 256
		return bff.IDFromBytes(bff.PrefixRequest, id)
	}
	for name, tc := range map[string]struct {
		request bff.ID
		records deviceRecords
		gone    bool // the device has left
		want    backofficedevice.Status
		code    bff.Code
		sampled bool
		told    bool
	}{
		"there":       {request: request(255), want: backofficedevice.DeviceOnline},
		"sampled":     {request: request(1), want: backofficedevice.DeviceOnline, sampled: true},
		"not sampled": {request: request(3), want: backofficedevice.DeviceOnline},
		"was away":    {request: request(255), records: deviceRecords{offline: true}, want: backofficedevice.DeviceOnline, told: true},
		"not recorded": {
			request: request(255), records: deviceRecords{offline: true, err: bff.Errorf(bff.CodeServiceUnavailable, "x")}, want: backofficedevice.DeviceUnknown,
		},
		"left meantime": {
			request: request(255), records: deviceRecords{err: bff.Errorf(bff.CodeServiceUnavailable, "x")}, gone: true, code: bff.CodeServiceUnavailable,
		},
		"bug": {request: request(255), records: deviceRecords{offline: true, err: errors.New("bug")}, code: bff.CodeInternal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, l, v := &tc.records, &ledger{}, visitor()
			v.Request.RequestID = tc.request
			beat := backofficedevice.Heartbeat{
				App: backoffice.App{Version: "2.5", Platform: "win32"}, NetworkProfile: "flaky", InstallerChannel: "beta", PendingHints: 7, PullCursor: "p",
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.gone {
				cancel()
			}
			got, err := backofficedevice.NewDevices(r, l, backoffice.NewEnvelopes("test")).Beat(ctx, v, beat, property, began)
			if got != tc.want || backofficetest.CodeOf(err) != tc.code {
				t.Fatalf("%q, %v; want %q, %q", got, err, tc.want, tc.code)
			}
			if diff := cmp.Diff(backofficedevice.Seen{
				Heartbeat: beat, Tenant: tenant, Device: backofficetest.Device, Property: property, Operator: "opt_1", At: began,
			}, r.seen, sameIDs); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
			checkDeviceEvent(t, r.came, v, backofficedevice.DeviceCameOnline{CameOnlineAt: bff.At(began), NetworkProfile: "flaky"})
			if tc.sampled != (len(r.sampled) == 1) {
				t.Fatalf("%d reports", len(r.sampled))
			}
			if tc.sampled {
				checkDeviceEvent(t, r.sampled[0], v, backofficedevice.HeartbeatReported{
					ReportedAt: bff.At(began), NetworkProfile: "flaky", InstallerChannel: "beta", PendingHintCount: 7,
				})
			}
			if !tc.told {
				if len(l.Notices) > 0 {
					t.Errorf("told %v", l.Notices)
				}
				return
			}
			backofficetest.CheckNotice(t, l, backoffice.Notice{
				Channel: backoffice.ChannelAlerts, Type: "device.came_online", Tenant: tenant, Property: property, At: began, Data: []byte(`{"deviceId":"` + backofficetest.Device.String() + `"}`),
			})
		})
	}
	// Without streams there is nothing to tell.
	if got, err := backofficedevice.NewDevices(&deviceRecords{offline: true}, nil, backoffice.NewEnvelopes("test")).
		Beat(t.Context(), visitor(), backofficedevice.Heartbeat{}, property, began); got != backofficedevice.DeviceOnline || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func checkDeviceEvent(t *testing.T, e bff.Event, v *backoffice.Visit, fact backoffice.Fact) {
	t.Helper()
	backofficetest.CheckEnvelope(t, e, v)
	want, err := json.Marshal(fact)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(e.Payload)); diff != "" || e.Envelope.Subject != string(fact.Subject()) || e.Envelope.AppVersion != "2.5" ||
		e.Envelope.AppPlatform != "win32" {
		t.Errorf("%+v (-want +got):\n%s", e.Envelope, diff)
	}
}

func TestAddHints(t *testing.T) {
	t.Parallel()
	r := &deviceRecords{}
	hints := []backofficedevice.Hint{{Kind: "check_in", Count: 2}}
	answer, err := backofficedevice.NewDevices(r, nil, backoffice.NewEnvelopes("test")).AddHints(t.Context(), visitor(), hints, backoffice.Once{Key: "key"}, began)
	if err != nil || answer.Status != 202 || r.report.ID.Prefix() != bff.PrefixOfflineHint {
		t.Errorf("%+v, %v, %+v", answer, err, r.report)
	}
	want := backofficedevice.HintReport{
		ID: r.report.ID, Tenant: tenant, Device: backofficetest.Device, Operator: "opt_1", App: backoffice.App{Version: "2.4", Platform: "linux"}, At: began, Hints: hints,
	}
	if diff := cmp.Diff(want, r.report, sameIDs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The event of a lost device names it, the last operator and, if there was one, the last
// heartbeat; the notice is for all devices of the property.
func TestLostDevice(t *testing.T) {
	t.Parallel()
	lost := backofficedevice.LostDevice{
		Tenant: tenant, Device: backofficetest.Device, Property: property, Operator: "opt_1", App: backoffice.App{Version: "2.5", Platform: "win32"},
		LastHeartbeat: began.Add(-time.Hour),
	}
	v, news := visitor(), backoffice.NewEnvelopes("test")
	for _, last := range []time.Time{{}, lost.LastHeartbeat} {
		lost.LastHeartbeat = last
		want := backofficedevice.DeviceWentOffline{WentOfflineAt: bff.At(began)}
		if !last.IsZero() {
			at := bff.At(last)
			want.LastHeartbeatAt = &at
		}
		e, err := lost.Event(news, began)
		if err != nil {
			t.Fatal(err)
		}
		checkDeviceEvent(t, e, v, want)
	}
	want := backoffice.Notice{
		Channel: backoffice.ChannelAlerts, Type: "device.went_offline", Tenant: tenant, Property: property, At: began, Data: []byte(`{"deviceId":"` + backofficetest.Device.String() + `"}`),
	}
	if diff := cmp.Diff(want, lost.Notice(began), sameIDs); diff != "" {
		t.Errorf("notice (-want +got):\n%s", diff)
	}
	for _, odd := range []backofficedevice.LostDevice{{Tenant: tenant}, {Device: backofficetest.Device}} {
		if _, err := odd.Event(news, began); err == nil {
			t.Errorf("an event of %+v", odd)
		}
	}
}
