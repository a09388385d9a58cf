package backofficeupstream

import (
	"context"
	"errors"
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// Sync is sync-service: how far devices have synchronised.
type Sync struct{ client *upstream.Client }

var _ device.CursorMover = (*Sync)(nil)

const routeCursor = "/api/v1/devices/{deviceId}/cursor"

// cursor is the wire form.
type cursor struct {
	PullCursor    string `json:"pullCursor"`
	PushAck       string `json:"pushAck"`
	CursorVersion int    `json:"cursorVersion" upstream:"required"`
}

func (c cursor) domain() device.SyncCursor {
	return device.SyncCursor{PullCursor: c.PullCursor, PushAck: c.PushAck, Version: c.CursorVersion}
}

// FetchCursor asks for a device's cursor.
func (s *Sync) FetchCursor(ctx context.Context, tenant, device bff.ID) (device.SyncCursor, error) {
	var out cursor
	d := dialectOf(backoffice.UpstreamSync)
	err := s.client.Get(ctx, routeCursor, upstream.Path(routeCursor, d.write(device)), nil, &out, d.of(tenant))
	return out.domain(), failed(err)
}

// MoveCursor implements device.CursorMover.
func (s *Sync) MoveCursor(ctx context.Context, tenant, dev bff.ID, m device.CursorMove, key string) (device.SyncCursor, error) {
	var out cursor
	d := dialectOf(backoffice.UpstreamSync)
	err := s.client.Post(ctx, routeCursor, upstream.Path(routeCursor, d.write(dev)), m, &out,
		d.of(tenant), d.once(key))
	e, ok := errors.AsType[*upstream.Error](err)
	switch {
	case ok && e.Status == http.StatusConflict:
		return device.SyncCursor{}, errors.Join(device.ErrCursorMoved, err)
	case ok && e.Status == http.StatusBadRequest:
		return device.SyncCursor{}, &bff.Error{Code: bff.CodeValidationFailed, Detail: "sync-service refuses this cursor", Err: err}
	}
	return out.domain(), failed(err)
}
