package discovery

import (
	"context"
	"sync"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
)

// WishlistItem is an entry as a guest sees it.
type WishlistItem struct {
	consumer.WishlistEntry
	Card *ListingCard `json:"card,omitempty"`
}

// Wishlist is a guest's whole wishlist.
type Wishlist struct {
	Items    []WishlistItem `json:"items"`
	Size     int            `json:"size"`
	Degraded Degradations   `json:"degraded"`
	Shed     Rung           `json:"-"` // the rung that brands were shed at; RungNone when they were not
}

// UnreadWishlist stands in for a list that cannot be read right now: pages are drawn
// without Postgres, and the list says that it may not be empty at all.
func UnreadWishlist() Wishlist {
	return Wishlist{Items: []WishlistItem{}, Degraded: Degradations{{Part: PartWishlist, Reason: ReasonError}}}
}

// Bounds of looking up the hotels of one wishlist.
const (
	cardLookups = 8
	cardsBudget = time.Second
)

// Wishlist shows entries with the cards of their hotels. The entries are the
// guest's own and always shown; a card that cannot be had is left out.
func (f *Finder) Wishlist(ctx context.Context, entries []consumer.WishlistEntry, locale bff.Locale, now time.Time) Wishlist {
	out := Wishlist{Items: make([]WishlistItem, len(entries)), Size: len(entries), Degraded: Degradations{}}
	listings, missing := f.listings(ctx, entries, locale)
	items := make([]hotel.Listing, 0, len(listings))
	for _, l := range listings {
		if !f.cfg.Suspended.Has(l.TenantID) {
			items = append(items, l)
		}
	}
	// A list of remembered hotels has no stay, and so no prices.
	rung := f.Rung()
	with := f.extras(ctx, nil, items, rung)
	for i, e := range entries {
		out.Items[i].WishlistEntry = e
		if l, ok := listings[e.PropertyID]; ok && !f.cfg.Suspended.Has(l.TenantID) {
			card := f.card(l, with, now)
			out.Items[i].Card = &card
		}
	}
	out.Degraded.join(missing)
	out.Degraded.join(with.missing(items, rung, now))
	if rung >= RungBrand && len(items) > 0 {
		out.Shed = rung
	}
	return out
}

// TenantOf returns whose hotel a property is. A hotel of a suspended tenant is
// as good as none: it is shown nowhere.
func (f *Finder) TenantOf(ctx context.Context, property bff.ID) (bff.ID, error) {
	notFound := bff.Errorf(bff.CodeResourceNotFound, "no such hotel")
	p, err := f.cfg.Search.FindProperty(ctx, property)
	switch {
	case bff.CodeOf(err) == bff.CodeResourceNotFound:
		return bff.ID{}, notFound
	case err != nil:
		return bff.ID{}, consumer.Unavailable(err)
	case f.cfg.Suspended.Has(p.Listing.TenantID):
		return bff.ID{}, notFound
	}
	return p.Listing.TenantID, nil
}

// listings looks up the hotels of entries. A hotel that is no more is absent;
// one that could not be looked up counts as missing.
func (f *Finder) listings(
	ctx context.Context, entries []consumer.WishlistEntry, locale bff.Locale,
) (found map[bff.ID]hotel.Listing, missing Degradations) {
	ctx, cancel := context.WithTimeout(ctx, cardsBudget)
	defer cancel()
	found = make(map[bff.ID]hotel.Listing, len(entries))
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		todo = make(chan bff.ID)
	)
	for range min(cardLookups, len(entries)) {
		wg.Go(func() {
			for id := range todo {
				p, err := f.cfg.Search.FindProperty(ctx, id)
				mu.Lock()
				switch {
				case err == nil:
					found[id] = p.In(locale)
					if p.StaleAge > 0 {
						missing.old(PartProperty, p.StaleAge, 1)
					}
				case bff.CodeOf(err) != bff.CodeResourceNotFound:
					missing.add(PartProperty, bff.ReasonOf(err), 1)
				}
				mu.Unlock()
			}
		})
	}
	for _, e := range entries {
		todo <- e.PropertyID
	}
	close(todo)
	wg.Wait()
	return found, missing
}
