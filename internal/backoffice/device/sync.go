package device

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// SyncTokenLifetime is how long a device may begin to sync after a handshake.
const SyncTokenLifetime = 5 * time.Minute

// SyncCursor is how far a device has synchronised. sync-service has the truth of it.
type SyncCursor struct {
	PullCursor string `json:"pullCursor"`
	PushAck    string `json:"pushAck"`
	Version    int    `json:"cursorVersion"`
	// Stale: sync-service could not be asked, and this is the last that is known.
	Stale bool `json:"stale,omitempty"`
}

// CursorMove changes what is given of a cursor, if it still has the version.
type CursorMove struct {
	Expected int    `json:"expectedVersion"`
	Pull     string `json:"pullCursor,omitempty"`
	Push     string `json:"pushAck,omitempty"`
}

// Cursors reads cursors, remembered for a short while.
type Cursors interface {
	FindCursor(ctx context.Context, tenant, device bff.ID) (SyncCursor, error)
	// ForgetCursor has the next reader, in any instance, ask again.
	ForgetCursor(ctx context.Context, tenant, device bff.ID) error
}

// CursorMover moves cursors at sync-service.
type CursorMover interface {
	// MoveCursor returns the moved cursor. Attempts with the same key move it once.
	// ErrCursorMoved says that the cursor has another version.
	MoveCursor(ctx context.Context, tenant, device bff.ID, m CursorMove, key string) (SyncCursor, error)
}

// ErrCursorMoved says that a cursor was moved since it was read.
var ErrCursorMoved = errors.New("the cursor has another version")

// CursorCopy is our copy of a device's cursor, for when sync-service is away.
type CursorCopy struct {
	Tenant bff.ID
	Device bff.ID
	Cursor SyncCursor
}

// OfTenant implements backoffice.Effect.
func (c CursorCopy) OfTenant() bff.ID { return c.Tenant }

// SyncRecords keeps what was handed out of sync.
type SyncRecords interface {
	// RecordHandshake commits that a device begins to sync, with the event.
	RecordHandshake(ctx context.Context, h Handshake, e bff.Event) error
}

// Handshake is a device's right to sync for a while.
type Handshake struct {
	Tenant    bff.ID
	Device    bff.ID
	Operator  string
	Cursor    SyncCursor
	Token     string
	At        time.Time
	ExpiresAt time.Time
}

// SyncConfig is what Sync works with.
type SyncConfig struct {
	Cursors   Cursors
	Mover     CursorMover
	Records   SyncRecords
	Mutations backoffice.Mutations
	News      *backoffice.Envelopes
	Notices   backoffice.Notifier // tells the device's own stream
	// Keys sign sync-session tokens, the newest first; sync-service has the same.
	Keys [][]byte
}

// Sync lets devices synchronise: it hands out tokens for sync-service and keeps
// cursors.
type Sync struct{ cfg SyncConfig }

// NewSync returns a Sync.
func NewSync(cfg SyncConfig) (*Sync, error) {
	if len(cfg.Keys) == 0 {
		return nil, errors.New("sync: no key to sign tokens with")
	}
	return &Sync{cfg}, nil
}

// syncRecordTimeout caps the record of a handshake on the way of its answer.
const syncRecordTimeout = time.Second

// Shake lets the visitor's device sync. It reads the cursor anew: the device may have
// moved it at sync-service itself. That it happened is recorded if it can be; a device
// is not kept from syncing because Postgres is away.
func (s *Sync) Shake(ctx context.Context, v *backoffice.Visit, now time.Time) (Handshake, error) {
	tenant, device := v.Session.Tenant, v.Session.Device
	_ = s.cfg.Cursors.ForgetCursor(ctx, tenant, device) // an older copy is refused by its version
	cursor, err := s.cfg.Cursors.FindCursor(ctx, tenant, device)
	if err != nil {
		return Handshake{}, err
	}
	h := Handshake{Tenant: tenant, Device: device, Operator: v.Session.Operator, Cursor: cursor, At: now, ExpiresAt: now.Add(SyncTokenLifetime)}
	if h.Token, err = s.token(v, h); err != nil {
		return Handshake{}, err
	}
	e, err := s.cfg.News.Event(HandshakeCompleted{
		CompletedAt: bff.At(now), ExpiresAt: bff.At(h.ExpiresAt), CursorVersion: cursor.Version, Stale: cursor.Stale,
	}, v.Session.About(), v.Request, now)
	if err != nil {
		return Handshake{}, err
	}
	inTime, cancel := context.WithTimeout(ctx, syncRecordTimeout)
	defer cancel()
	if err := s.cfg.Records.RecordHandshake(inTime, h, e); err != nil && bff.CodeOf(err) != bff.CodeServiceUnavailable {
		return Handshake{}, err
	}
	return h, nil
}

// Cursor returns the cursor of the visitor's device.
func (s *Sync) Cursor(ctx context.Context, v *backoffice.Visit) (SyncCursor, error) {
	return s.cfg.Cursors.FindCursor(ctx, v.Session.Tenant, v.Session.Device)
}

// Move moves the cursor of the visitor's device, once per key. The version of a
// cursor that was moved meanwhile is told with the refusal.
func (s *Sync) Move(ctx context.Context, v *backoffice.Visit, move CursorMove, o backoffice.Once, now time.Time) (backoffice.Answer, error) {
	tenant, device := v.Session.Tenant, v.Session.Device
	var moved SyncCursor
	did := v.Activity("sync", "move_cursor", backoffice.Resource{Kind: "device", ID: device.String()}, now)
	answer, err := backoffice.Commit(ctx, s.cfg.Mutations, backoffice.Attempt{Activity: did, Once: o}, func() (_ backoffice.Finished, err error) {
		moved, err = s.cfg.Mover.MoveCursor(ctx, tenant, device, move, o.Key)
		_ = s.cfg.Cursors.ForgetCursor(ctx, tenant, device) // a copy of before is refused by its version
		if errors.Is(err, ErrCursorMoved) {
			err = s.conflict(ctx, tenant, device, err)
		}
		if err != nil {
			return backoffice.Finished{At: now, Failure: err}, nil //nolint:nilerr // it is how the attempt ends
		}
		e, err := s.cfg.News.Event(CursorAdvanced{
			AdvancedAt: bff.At(now), FromVersion: move.Expected, CursorVersion: moved.Version, Pulled: move.Pull != "", Pushed: move.Push != "",
		}, v.Session.About(), v.Request, now)
		return backoffice.Finished{
			At: now, Events: []bff.Event{e}, Effects: []backoffice.Effect{CursorCopy{tenant, device, moved}},
			Answer: backoffice.Answer{Status: 200, Receipt: backoffice.NewReceipt(map[string]any{
				"pullCursor": moved.PullCursor, "pushAck": moved.PushAck, "cursorVersion": moved.Version,
			})},
		}, err
	})
	if err == nil && moved != (SyncCursor{}) {
		// What has happened is committed: a stream that is not told reads it with the next
		// handshake.
		_ = s.cfg.Notices.Notify(ctx, backoffice.Notice{
			Channel: backoffice.ChannelSync, Type: "cursor.advanced", Tenant: tenant, Device: device, CausedBy: v.Request.RequestID.String(), At: now,
			Data: backoffice.NoticeData(map[string]int{"cursorVersion": moved.Version}),
		})
	}
	return answer, err
}

// conflict tells which version the cursor has now.
func (s *Sync) conflict(ctx context.Context, tenant, device bff.ID, cause error) error {
	e := &bff.Error{
		Code: bff.CodeSyncCursorConflict, Detail: "the cursor was moved since it was read: read it and try again from there",
		Fields: bff.FieldErrors{{Field: "expectedVersion", Code: bff.FieldConflict}}, Err: cause,
	}
	if c, err := s.cfg.Cursors.FindCursor(ctx, tenant, device); err == nil && !c.Stale {
		e.Detail = fmt.Sprintf("the cursor is at version %d: read it and try again from there", c.Version)
	}
	return e
}

// token is a JWT signed with HS256, which sync-service verifies with the shared keys
// (docs/sync.md). It holds for this device's key alone.
func (s *Sync) token(v *backoffice.Visit, h Handshake) (string, error) {
	type binding struct {
		KeyPrint string `json:"jkt"`
	}
	key := s.cfg.Keys[0]
	head, err := json.Marshal(map[string]string{"alg": "HS256", "typ": "sync+jwt", "kid": SyncKeyID(key)})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(struct {
		Issuer   string  `json:"iss"`
		Audience string  `json:"aud"`
		Subject  string  `json:"sub"`
		Tenant   bff.ID  `json:"tid"`
		Device   bff.ID  `json:"device_id"`
		Session  bff.ID  `json:"sid"`
		ID       string  `json:"jti"`
		Issued   int64   `json:"iat"`
		Expires  int64   `json:"exp"`
		Bound    binding `json:"cnf"`
	}{
		backoffice.Producer, "sync-service", h.Operator, h.Tenant, h.Device, v.Session.ID, bff.NewID(bff.PrefixDeviceSync, h.At).String(),
		h.At.Unix(), h.ExpiresAt.Unix(),
		binding{v.Caller.KeyPrint},
	})
	if err != nil {
		return "", err
	}
	signed := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(claims)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)), nil
}

// SyncKeyID names a key in tokens without revealing it.
func SyncKeyID(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("sync key id"))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// HandshakeCompleted is the payload of sync.handshake_completed.v1.
type HandshakeCompleted struct {
	CompletedAt   bff.Timestamp `json:"completedAt"`
	ExpiresAt     bff.Timestamp `json:"expiresAt"`
	CursorVersion int           `json:"cursorVersion"`
	Stale         bool          `json:"stale"`
}

// Subject implements backoffice.Fact.
func (HandshakeCompleted) Subject() backoffice.Subject { return backoffice.SubjectHandshakeCompleted }

// CursorAdvanced is the payload of sync.cursor_advanced.v1.
type CursorAdvanced struct {
	AdvancedAt    bff.Timestamp `json:"advancedAt"`
	FromVersion   int           `json:"fromVersion"`
	CursorVersion int           `json:"cursorVersion"`
	Pulled        bool          `json:"pulled"`
	Pushed        bool          `json:"pushed"`
}

// Subject implements backoffice.Fact.
func (CursorAdvanced) Subject() backoffice.Subject { return backoffice.SubjectCursorAdvanced }
