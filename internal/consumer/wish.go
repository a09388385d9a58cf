package consumer

import (
	"melmastoon.ghasi.io/bff"
)

// Bounds of a wishlist (DOMAIN_MODEL §2.1, §2.3).
const (
	MaxWishlist  = 100
	MaxNoteRunes = 280
)

// WishlistSources are where a guest can add a hotel from.
func WishlistSources() []string { return []string{"detail", "list", "map", "recently-viewed"} }

// WishlistEntry is one hotel that a guest wants to remember. The tenant is a
// reference of the moment it was added and carries no right to anything.
type WishlistEntry struct {
	ID         bff.ID        `json:"wishlistId"`
	PropertyID bff.ID        `json:"propertyId"`
	TenantID   bff.ID        `json:"tenantId"`
	AddedAt    bff.Timestamp `json:"addedAt"`
	Source     string        `json:"source"`
	Note       string        `json:"note,omitempty"`
}
