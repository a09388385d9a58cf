package device_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficetest"
	backofficedevice "melmastoon.ghasi.io/bff/internal/backoffice/device"
)

// cursors play sync-service, the memory of its answers, and the record of handshakes.
type cursors struct {
	cursor  backofficedevice.SyncCursor
	missing error // of a read
	failure error // of a move
	record  error

	calls []string
	shook []backofficedevice.Handshake
	told  []bff.Event
}

func (c *cursors) FindCursor(_ context.Context, t, d bff.ID) (backofficedevice.SyncCursor, error) {
	c.calls = append(c.calls, "find "+t.String()+" "+d.String())
	return c.cursor, c.missing
}

func (c *cursors) ForgetCursor(_ context.Context, t, d bff.ID) error {
	c.calls = append(c.calls, "forget "+t.String()+" "+d.String())
	return nil
}

func (c *cursors) MoveCursor(_ context.Context, t, d bff.ID, m backofficedevice.CursorMove, key string) (backofficedevice.SyncCursor, error) {
	c.calls = append(c.calls, "move "+t.String()+" "+d.String()+" "+key)
	return backofficedevice.SyncCursor{PullCursor: m.Pull, PushAck: "ack", Version: m.Expected + 1}, c.failure
}

func (c *cursors) RecordHandshake(ctx context.Context, h backofficedevice.Handshake, e bff.Event) error {
	if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Second {
		return errors.New("not bounded")
	}
	c.shook, c.told = append(c.shook, h), append(c.told, e)
	return c.record
}

func newSync(t *testing.T, c *cursors, l *ledger) *backofficedevice.Sync {
	t.Helper()
	s, err := backofficedevice.NewSync(backofficedevice.SyncConfig{
		Cursors: c, Mover: c, Records: c, Mutations: l, News: backoffice.NewEnvelopes("test"), Notices: l, Keys: [][]byte{[]byte("the newest key"), []byte("old")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A handshake reads the cursor anew and hands out a token for this device, operator, session
// and key alone, which ends in time. A ledger that is away does not keep a device from it.
func TestShake(t *testing.T) {
	t.Parallel()
	stale := backofficedevice.SyncCursor{PullCursor: "p", PushAck: "a", Version: 4, Stale: true}
	for name, tc := range map[string]struct {
		cursors cursors
		want    bff.Code
	}{
		"shaken":    {cursors: cursors{cursor: stale}},
		"away":      {cursors: cursors{cursor: stale, record: bff.Errorf(bff.CodeServiceUnavailable, "x")}},
		"not taken": {cursors: cursors{cursor: stale, record: errors.New("bug")}, want: bff.CodeInternal},
		"no cursor": {cursors: cursors{missing: bff.Errorf(bff.CodeUpstreamTimeout, "x")}, want: bff.CodeUpstreamTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, v := &tc.cursors, visitor()
			v.Property = bff.ID{}
			h, err := newSync(t, c, &ledger{}).Shake(t.Context(), v, began)
			if backofficetest.CodeOf(err) != tc.want {
				t.Fatalf("%v, want %q", err, tc.want)
			}
			at := tenant.String() + " " + backofficetest.Device.String()
			if diff := cmp.Diff([]string{"forget " + at, "find " + at}, c.calls); diff != "" {
				t.Errorf("called (-want +got):\n%s", diff)
			}
			if tc.want != "" {
				if h.Token != "" {
					t.Errorf("handed out %+v", h)
				}
				return
			}
			want := backofficedevice.Handshake{
				Tenant: tenant, Device: backofficetest.Device, Operator: "opt_1", Cursor: stale, Token: h.Token, At: began, ExpiresAt: began.Add(5 * time.Minute),
			}
			if diff := cmp.Diff(want, h, sameIDs); diff != "" {
				t.Errorf("handed out (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]backofficedevice.Handshake{h}, c.shook, sameIDs); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
			backofficetest.CheckEnvelope(t, c.told[0], v)
			var told backofficedevice.HandshakeCompleted
			if err := json.Unmarshal(c.told[0].Payload, &told); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(backofficedevice.HandshakeCompleted{
				CompletedAt: bff.At(began), ExpiresAt: bff.At(h.ExpiresAt), CursorVersion: 4, Stale: true,
			}, told); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
			checkSyncToken(t, h.Token, v)
		})
	}
	if _, err := backofficedevice.NewSync(backofficedevice.SyncConfig{}); err == nil {
		t.Error("a Sync without a key")
	}
}

func checkSyncToken(t *testing.T, token string, v *backoffice.Visit) {
	t.Helper()
	signed, signature := token[:strings.LastIndexByte(token, '.')], token[strings.LastIndexByte(token, '.')+1:]
	mac := hmac.New(sha256.New, []byte("the newest key"))
	mac.Write([]byte(signed))
	if base64.RawURLEncoding.EncodeToString(mac.Sum(nil)) != signature {
		t.Error("not signed with the newest key")
	}
	part := func(text string) (doc map[string]any) {
		t.Helper()
		raw, err := base64.RawURLEncoding.DecodeString(text)
		if err == nil {
			err = json.Unmarshal(raw, &doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	head, body, _ := strings.Cut(signed, ".")
	if diff := cmp.Diff(map[string]any{"alg": "HS256", "typ": "sync+jwt", "kid": backofficedevice.SyncKeyID([]byte("the newest key"))}, part(head)); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	claims := part(body)
	if id, _ := claims["jti"].(string); !strings.HasPrefix(id, string(bff.PrefixDeviceSync)+"_") {
		t.Errorf("jti %v", claims["jti"])
	}
	delete(claims, "jti")
	want := map[string]any{
		"iss": "bff-backoffice-service", "aud": "sync-service", "sub": "opt_1", "tid": tenant.String(), "device_id": backofficetest.Device.String(), "sid": v.Session.ID.String(),
		"iat": float64(began.Unix()), "exp": float64(began.Add(5 * time.Minute).Unix()), "cnf": map[string]any{"jkt": "print"},
	}
	if diff := cmp.Diff(want, claims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	if a, b := backofficedevice.SyncKeyID([]byte("a")), backofficedevice.SyncKeyID([]byte("b")); a == b || len(a) != 16 {
		t.Errorf("keys are named %s, %s", a, b)
	}
}

// A cursor is moved once per key, for the visitor's own device. What became of it is
// committed and told; a cursor that was moved meanwhile is refused with its version.
func TestMoveCursor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		move    backofficedevice.CursorMove
		cursors cursors
		ledger  ledger
		want    bff.Code
		detail  string
		begun   bool
	}{
		"pulled": {move: backofficedevice.CursorMove{Expected: 3, Pull: "p"}, begun: true},
		"pushed": {move: backofficedevice.CursorMove{Expected: 3, Push: "a"}, begun: true},
		"moved meanwhile": {
			move: backofficedevice.CursorMove{Expected: 3}, cursors: cursors{failure: backofficedevice.ErrCursorMoved, cursor: backofficedevice.SyncCursor{Version: 9}},
			want: bff.CodeSyncCursorConflict, detail: "version 9", begun: true,
		},
		"moved meanwhile, by an old copy": {
			move: backofficedevice.CursorMove{Expected: 3}, cursors: cursors{
				failure: backofficedevice.ErrCursorMoved, cursor: backofficedevice.SyncCursor{Version: 9, Stale: true},
			},
			want: bff.CodeSyncCursorConflict, detail: "since it was read", begun: true,
		},
		"moved meanwhile, and away": {
			move: backofficedevice.CursorMove{Expected: 3}, cursors: cursors{failure: backofficedevice.ErrCursorMoved, missing: errors.New("away")},
			want: bff.CodeSyncCursorConflict, detail: "since it was read", begun: true,
		},
		"late":    {cursors: cursors{failure: bff.Errorf(bff.CodeUpstreamTimeout, "x")}, want: bff.CodeUpstreamTimeout, begun: true},
		"again":   {ledger: ledger{Earlier: &backoffice.Answer{Status: 200, Replayed: true}}},
		"refused": {ledger: ledger{Refused: bff.Errorf(bff.CodeServiceUnavailable, "x")}, want: bff.CodeServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, l, v := &tc.cursors, &tc.ledger, visitor()
			v.Property, l.Ends = bff.ID{}, began
			answer, err := newSync(t, c, l).Move(t.Context(), v, tc.move, backoffice.Once{Key: "key"}, began)
			if backofficetest.CodeOf(err) != tc.want {
				t.Fatalf("%v, want %q", err, tc.want)
			}
			if !tc.begun {
				if len(c.calls)+len(l.Finished) > 0 || err == nil && !answer.Replayed {
					t.Errorf("%+v, called %v", answer, c.calls)
				}
				return
			}
			at := tenant.String() + " " + backofficetest.Device.String()
			calls := []string{"move " + at + " key", "forget " + at}
			if tc.want == bff.CodeSyncCursorConflict {
				calls = append(calls, "find "+at)
			}
			if diff := cmp.Diff(calls, c.calls); diff != "" {
				t.Errorf("called (-want +got):\n%s", diff)
			}
			l.Check(t, v, "sync", "move_cursor", backoffice.Resource{Kind: "device", ID: backofficetest.Device.String()}, tc.want, backofficedevice.CursorAdvanced{
				AdvancedAt: bff.At(began), FromVersion: 3, CursorVersion: 4, Pulled: tc.move.Pull != "", Pushed: tc.move.Push != "",
			})
			if tc.want != "" {
				e, ok := errors.AsType[*bff.Error](err)
				if !ok || !strings.Contains(e.Detail, tc.detail) || len(l.Notices) > 0 {
					t.Errorf("%v, told %v", err, l.Notices)
				}
				if tc.want == bff.CodeSyncCursorConflict && (!errors.Is(err, backofficedevice.ErrCursorMoved) || !cmp.Equal(e.Fields, bff.FieldErrors{
					{Field: "expectedVersion", Code: bff.FieldConflict},
				})) {
					t.Errorf("%+v", e)
				}
				return
			}
			kept := backofficedevice.CursorCopy{
				Tenant: tenant, Device: backofficetest.Device, Cursor: backofficedevice.SyncCursor{PullCursor: tc.move.Pull, PushAck: "ack", Version: 4},
			}
			if diff := cmp.Diff(kept, backofficetest.Effect[backofficedevice.CursorCopy](l), sameIDs); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			backofficetest.CheckReceipt(t, answer, `{"cursorVersion":4,"pullCursor":"`+tc.move.Pull+`","pushAck":"ack"}`)
			backofficetest.CheckNotice(t, l, backoffice.Notice{
				Channel: backoffice.ChannelSync, Type: "cursor.advanced", Tenant: tenant, Device: backofficetest.Device, CausedBy: v.Request.RequestID.String(), At: began,
				Data: []byte(`{"cursorVersion":4}`),
			})
		})
	}
	l := &ledger{Kept: errors.New("away")}
	if _, err := newSync(t, &cursors{}, l).Move(
		t.Context(), visitor(), backofficedevice.CursorMove{}, backoffice.Once{Key: "key"}, began,
	); err == nil || len(l.Notices) > 0 {
		t.Errorf("%v, told %v", err, l.Notices)
	}
	c := &cursors{cursor: backofficedevice.SyncCursor{Version: 4}}
	if got, err := newSync(t, c, l).Cursor(t.Context(), visitor()); err != nil || got.Version != 4 ||
		c.calls[0] != "find "+tenant.String()+" "+backofficetest.Device.String() {
		t.Errorf("%+v, %v, called %v", got, err, c.calls)
	}
}
