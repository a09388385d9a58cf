package backofficehttp

import (
	"math"
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/web"
)

// handshake hands out a token for sync-service. It changes nothing that a repetition
// would double, and takes no idempotency key.
func (a *API) handshake(w http.ResponseWriter, r *http.Request) error {
	h, err := a.cfg.Sync.Shake(r.Context(), visitOf(r), now(r))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, struct {
		Token     string        `json:"syncSessionToken"`
		ExpiresAt bff.Timestamp `json:"expiresAt"`
		BaseURL   string        `json:"syncBaseUrl"`
		device.SyncCursor

		ServerTime bff.Timestamp `json:"serverTime"`
	}{h.Token, bff.At(h.ExpiresAt), a.cfg.SyncBaseURL, h.Cursor, bff.At(h.At)})
}

func (a *API) cursor(w http.ResponseWriter, r *http.Request) error {
	c, err := a.cfg.Sync.Cursor(r.Context(), visitOf(r))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, c)
}

// moveCursor moves the cursor if the device saw its newest version.
func (a *API) moveCursor(w http.ResponseWriter, r *http.Request) error {
	v, at := visitOf(r), now(r)
	once, err := readOnce(r)
	if err != nil {
		return err
	}
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("expectedVersion")
	move := device.CursorMove{
		Expected: in.Int("expectedVersion", 0, 0, math.MaxInt32),
		Pull:     formed(in, "pullCursor", maxCursor, cursorForm), Push: formed(in, "pushAck", maxCursor, cursorForm),
	}
	if move.Pull == "" && move.Push == "" {
		filled(in, "pullCursor", "")
	}
	if err := in.Err(); err != nil {
		return err
	}
	once.Digest, err = idempotency.Digest(move, "sync-cursor", v.Session.Device.String())
	if err != nil {
		return err
	}
	moved, err := a.cfg.Sync.Move(r.Context(), v, move, once, at)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, moved.Status, moved.Receipt)
}
