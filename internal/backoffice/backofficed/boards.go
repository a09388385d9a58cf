package backofficed

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficehttp"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// turnEvery is how often days that have ended are looked for.
const turnEvery = time.Second

// tellTurns tells streams of days that have ended.
func (c *Config) tellTurns(turns *board.Turns) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(turnEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case now := <-tick.C:
				_ = turns.RunOnce(ctx, now.Add(c.HousesAhead)) // a client that is not told has endsAt
			}
		}
	}
}

// openLists opens what services list of tenants.
func openLists(
	hotels backofficecache.Fetch[[]board.Property], names backofficecache.Fetch[map[string]string], store *cache.Store, keys redis.Keys,
	cfg *backofficehttp.Config,
) error {
	var err1, err2 error
	cfg.Hotels, err1 = backofficecache.NewPropertyLists(store, keys, hotels, time.Now)
	cfg.Names, err2 = backofficecache.NewNames(store, keys, names, time.Now)
	return errors.Join(err1, err2)
}

// openBoards opens dashboards and views over what upstreams know.
func openBoards(house board.House, deadlines board.Deadlines, store *cache.Store, keys redis.Keys, cfg *backofficehttp.Config) error {
	kept, err := backofficecache.NewHouse(house, store, keys)
	if err != nil {
		return err
	}
	var err1, err2 error
	cfg.Dashboards, err1 = backofficehttp.NewDashboards(backofficehttp.DashboardsConfig{
		Composer: board.NewComposer(kept, deadlines), Store: store, Keys: keys, Metrics: cfg.Metrics, Namespace: cfg.Namespace,
	})
	cfg.Views, err2 = backofficehttp.NewViews(board.NewWorkbench(kept, deadlines), store, keys)
	return errors.Join(err1, err2)
}
