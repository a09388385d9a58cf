package backofficed

import (
	"cmp"

	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficestore"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficeupstream"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// deviceParts are what devices and their sync stand on.
type deviceParts struct {
	ledger   *backofficestore.Ledger
	upstream *backofficeupstream.Sync
	store    *cache.Store
	keys     redis.Keys
	news     *backoffice.Envelopes
	notices  backoffice.Notifier
}

// openDevices gives the API what it needs for devices and their sync.
func (c *Config) openDevices(on deviceParts, api *backofficehttp.Config) error {
	records := backofficestore.NewDevices(on.ledger)
	cursors, err := backofficecache.NewCursors(on.store, on.keys, on.upstream, records)
	if err != nil {
		return err
	}
	api.Sync, err = device.NewSync(device.SyncConfig{
		Cursors: cursors, Mover: on.upstream, Records: records, Mutations: on.ledger, News: on.news, Notices: on.notices, Keys: revealed(c.SyncKeys),
	})
	api.Devices = device.NewDevices(records, on.notices, on.news)
	api.SyncBaseURL = cmp.Or(c.SyncPublicURL, c.SyncURL)
	return err
}
