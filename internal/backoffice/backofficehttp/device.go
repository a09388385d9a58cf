package backofficehttp

import (
	"net/http"
	"regexp"
	"slices"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	maxAppVersion = 64
	maxCursor     = 256
	maxToken      = 64
	maxPending    = 1_000_000
)

var (
	versionForm = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,3}([-+][0-9A-Za-z.+-]*)?$`)
	wordForm    = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,31}$`)
	idForm      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$`)
	cursorForm  = regexp.MustCompile(`^[!-~]+$`)
)

// ofDevice refuses a request that is not about the device that sends it. Which other
// devices there are it does not tell.
func ofDevice(r *http.Request, v *backoffice.Visit) error {
	id, err := bff.ParseID(bff.PrefixDevice, web.PathValue(r, "deviceId"))
	if err != nil {
		return bff.FieldErrors{{Field: "deviceId", Code: bff.FieldFormat}}.Err()
	}
	if id != v.Session.Device {
		return bff.Errorf(bff.CodeDeviceMismatch, "a device may report only about itself: the token belongs to another one")
	}
	return nil
}

// heartbeat records that a device is there. A repeated one does no harm: it takes no
// idempotency key.
func (a *API) heartbeat(w http.ResponseWriter, r *http.Request) error {
	v, at := visitOf(r), now(r)
	if err := ofDevice(r, v); err != nil {
		return err
	}
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("appVersion", "appPlatform", "networkProfile", "installerChannel", "pendingHintCount")
	h := device.Heartbeat{
		App:              backoffice.App{Version: formed(in, "appVersion", maxAppVersion, versionForm), Platform: in.Enum("appPlatform", device.Platforms()...)},
		NetworkProfile:   in.Enum("networkProfile", device.NetworkProfiles()...),
		InstallerChannel: formed(in, "installerChannel", maxToken, wordForm),
		PendingHints:     in.Int("pendingHintCount", 0, 0, maxPending),
		PullCursor:       formed(in, "lastPullCursor", maxCursor, cursorForm),
	}
	filled(in, "appVersion", h.App.Version, "appPlatform", h.App.Platform, "networkProfile", h.NetworkProfile, "installerChannel", h.InstallerChannel)
	if err := in.Err(); err != nil {
		return err
	}
	status, err := a.cfg.Devices.Beat(r.Context(), v, h, a.standsAt(r, v), at)
	if err != nil {
		return err
	}
	a.heartbeats.WithLabelValues(string(status)).Inc()
	return web.WriteJSON(w, http.StatusOK, struct {
		Status     device.Status `json:"status"`
		ServerTime bff.Timestamp `json:"serverTime"`
		Next       int           `json:"nextHeartbeatSeconds"`
	}{status, bff.At(at), int(device.HeartbeatEvery / time.Second)})
}

// offlineHints keeps what a device says of its queue.
func (a *API) offlineHints(w http.ResponseWriter, r *http.Request) error {
	v, at := visitOf(r), now(r)
	if err := ofDevice(r, v); err != nil {
		return err
	}
	once, err := readOnce(r)
	if err != nil {
		return err
	}
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("entries")
	in.Only("entries")
	var hints []device.Hint
	for _, e := range in.Objects("entries", device.MaxHints) {
		hints = append(hints, readHint(e))
	}
	if err := in.Err(); err != nil {
		return err
	}
	if hints == nil {
		hints = []device.Hint{}
	}
	once.Digest, err = idempotency.Digest(hints, "offline-hints", v.Session.Device.String())
	if err != nil {
		return err
	}
	kept, err := a.cfg.Devices.AddHints(r.Context(), v, hints, once, at)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, kept.Status, kept.Receipt)
}

// readHint reads one entry: ids and counts. Any other member is refused, because
// what is stored here must not hold anything of a guest.
func readHint(in *web.Input) device.Hint {
	in.Only("id", "kind", "resourceId", "count", "queuedAt")
	in.Require("kind", "count")
	h := device.Hint{
		ID: formed(in, "id", maxToken, idForm), Kind: formed(in, "kind", maxToken, wordForm),
		ResourceID: formed(in, "resourceId", maxToken, idForm), Count: in.Int("count", 1, 1, maxPending),
	}
	filled(in, "kind", h.Kind)
	if text := in.String("queuedAt", maxToken); text != "" {
		at := new(bff.Timestamp)
		if err := at.UnmarshalText([]byte(text)); err != nil {
			in.Refuse("queuedAt", bff.FieldFormat)
		}
		h.QueuedAt = at
	}
	return h
}

// formed reads a text of a form; "" if absent or refused.
func formed(in *web.Input, name string, most int, form *regexp.Regexp) string {
	text := in.String(name, most)
	if text != "" && !form.MatchString(text) {
		in.Refuse(name, bff.FieldFormat)
		return ""
	}
	return text
}

// filled refuses required members that are there and empty: names and what was read
// of them, in turn.
func filled(in *web.Input, pairs ...string) {
	if in.Err() != nil {
		return // what was refused is empty as well
	}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] == "" {
			in.Refuse(pair[0], bff.FieldRequired)
		}
	}
}

// standsAt is the property at which a device says it stands; zero without one of the
// tenant's in the operator's scope, or while that cannot be found out. A header that is
// none is as good as none.
func (a *API) standsAt(r *http.Request, v *backoffice.Visit) bff.ID {
	said := r.Header["X-Property-Id"]
	if len(said) != 1 {
		return bff.ID{}
	}
	id, err := bff.ParseID(bff.PrefixProperty, said[0])
	switch {
	case err != nil || !v.Member.Scope.Covers(id):
		return bff.ID{}
	case v.Member.Scope.Lists(id):
		return id
	}
	if _, err := a.cfg.Properties.FindProperty(r.Context(), v.Session.Tenant, id); err != nil {
		return bff.ID{}
	}
	return id
}
