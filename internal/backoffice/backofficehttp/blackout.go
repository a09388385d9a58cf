package backofficehttp

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
)

// blackoutPack answers with what a desk works from while it has no line. Unlike a view it
// stays on the device: a tenant must want that, and the ledger says who has taken it.
func (a *API) blackoutPack(w http.ResponseWriter, r *http.Request) error {
	v, views := visitOf(r), a.cfg.Views
	if !a.cfg.Flags.On(backoffice.FeatureBlackout, v.Member) {
		return &bff.Error{
			Code: bff.CodeServiceUnavailable, Detail: "the blackout desk is not switched on for this tenant: keep nothing on the device", RetryAfter: retryOff,
		}
	}
	at, zone, err := a.today(r)
	if err != nil {
		return err
	}
	next := at
	next.Day = zone.On(at.Date + 1)
	may, names := board.StepsFor(backoffice.PartToday, v.Member.Roles, at.Date), board.PackNames(v.Member)
	keys, err := views.keys.Tenant(at.Tenant)
	if err != nil {
		return err
	}
	e, st, err := views.packs.Get(r.Context(), packKey(keys, at, may, names), views.fillPack(at, next, may, names))
	if err != nil {
		return unfilled(err)
	}
	if !e.Had(r) { // else the device has it already
		if err := a.packTaken(r); err != nil {
			return err
		}
	}
	e.Serve(w, r, st)
	return nil
}

func (v *Views) fillPack(at, next board.Place, may board.Steps, names bool) cache.FillFunc {
	return func(ctx context.Context) (cache.Fill, error) {
		pack, err := v.workbench.Pack(ctx, at, next, may, names, time.Now())
		if err != nil {
			return cache.Fill{}, err
		}
		body, err := json.Marshal(&pack)
		if err != nil {
			return cache.Fill{}, err
		}
		lasting := pack.Lasting()
		says, err := json.Marshal(&lasting)
		f := cache.Fill{Body: body, Says: says, Stale: pack.Stale, TTL: cache.TTL{Fresh: min(viewFresh, board.NamesKept)}}
		if !pack.Whole() {
			f.TTL.Fresh = partialFresh
		}
		for _, part := range board.PackViews() {
			f.Tags = append(f.Tags, part.Tags(at.Tenant, at.Property)...)
		}
		return f, err
	}
}

const (
	// takenEvery is how often the ledger says that a device goes on taking packs: each change
	// of the house brings another one.
	takenEvery = 15 * time.Minute
	maxTaken   = 16 << 10
)

// packTaken sees to the entry of the ledger that says who has the pack.
func (a *API) packTaken(r *http.Request) error {
	v, at := visitOf(r), now(r)
	by := [2]bff.ID{v.Session.ID, v.Property}
	if last, ok := a.taken.Get(by); ok && at.Sub(last) < takenEvery {
		return nil
	}
	if err := a.cfg.Viewings.Taken(r.Context(), v, at); err != nil {
		return err
	}
	a.taken.Put(by, at)
	return nil
}
