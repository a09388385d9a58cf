package guest

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// NewWishlistAdded returns the payload that announces the entry.
func NewWishlistAdded(e consumer.WishlistEntry, guest bff.ID, size int) WishlistAdded {
	return WishlistAdded{
		WishlistID: e.ID, GuestSessionID: guest, TenantID: e.TenantID, PropertyID: e.PropertyID,
		Source: e.Source, AddedAt: e.AddedAt, WishlistSize: size,
	}
}

// NewWishlistRemoved returns the payload that announces that the entry is gone.
func NewWishlistRemoved(e consumer.WishlistEntry, guest bff.ID, size int, now time.Time) WishlistRemoved {
	return WishlistRemoved{
		WishlistID: e.ID, GuestSessionID: guest, TenantID: e.TenantID, PropertyID: e.PropertyID,
		RemovedAt: bff.At(now), WishlistSize: size,
	}
}

// WishlistChanged is what a guest is told after an addition.
type WishlistChanged struct {
	consumer.WishlistEntry
	Size int `json:"size"`
}

// WishlistClaim is the exclusive right to make one change to a wishlist.
type WishlistClaim interface {
	// Add adds an entry, its event and the answer in one transaction. A hotel that
	// is already there stays as it is, and the answer says so by its status; beyond
	// MaxWishlist entries it is CodeWishlistLimitExceeded.
	Add(ctx context.Context, e consumer.WishlistEntry, by consumer.Announcer) (consumer.Answer, error)
	// Remove removes a hotel in the same way. One that is not there is as good as
	// removed.
	Remove(ctx context.Context, property bff.ID, by consumer.Announcer) (consumer.Answer, error)
	// Release ends the claim; what was not changed may be tried again.
	Release()
}

// Wishlists keeps what guests want to remember.
type Wishlists interface {
	// ListWishlist returns a guest's entries, oldest first.
	ListWishlist(ctx context.Context, guest bff.ID) ([]consumer.WishlistEntry, error)
	// BeginWishlist returns a claim on a change of the guest's wishlist, or the
	// answer that an earlier attempt at it got. A duplicate of a running attempt
	// waits for it.
	BeginWishlist(ctx context.Context, once consumer.Once, now time.Time) (WishlistClaim, *consumer.Answer, error)
}

// The subject of each payload.

func (WishlistAdded) Subject() consumer.Subject   { return consumer.SubjectWishlistAdded }
func (WishlistRemoved) Subject() consumer.Subject { return consumer.SubjectWishlistRemoved }

// WishlistAdded is the payload of wishlist.added.v1. A guest's note stays here.
type WishlistAdded struct {
	WishlistID     bff.ID        `json:"wishlistId"`
	GuestSessionID bff.ID        `json:"guestSessionId"`
	TenantID       bff.ID        `json:"tenantId"`
	PropertyID     bff.ID        `json:"propertyId"`
	Source         string        `json:"source"` // detail, list, map or recently-viewed
	AddedAt        bff.Timestamp `json:"addedAt"`
	WishlistSize   int           `json:"wishlistSize"` // with this entry
}

// WishlistRemoved is the payload of wishlist.removed.v1.
type WishlistRemoved struct {
	WishlistID     bff.ID        `json:"wishlistId"`
	GuestSessionID bff.ID        `json:"guestSessionId"`
	TenantID       bff.ID        `json:"tenantId"`
	PropertyID     bff.ID        `json:"propertyId"`
	RemovedAt      bff.Timestamp `json:"removedAt"`
	WishlistSize   int           `json:"wishlistSize"` // without this entry
}
