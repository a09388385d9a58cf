package consumer

import (
	"context"

	"melmastoon.ghasi.io/bff"
)

// Bounds of what a session remembers (DOMAIN_MODEL §2.1); the oldest gives way.
const (
	MaxRecentlyViewed = 50
	MaxSearchHistory  = 25
)

// ViewSources are the ways to a hotel's page; the first is the usual one.
func ViewSources() []string { return []string{"detail-link", "search-list", "search-map", "wishlist"} }

// RecentlyViewed is a hotel that a guest looked at. One that is seen again moves
// to the front.
type RecentlyViewed struct {
	PropertyID bff.ID        `json:"propertyId"`
	TenantID   bff.ID        `json:"tenantId"`
	ViewedAt   bff.Timestamp `json:"viewedAt"`
	Source     string        `json:"source"`
}

// SearchHistoryEntry is a search that a guest made. The same query, on whatever
// page, moves to the front.
type SearchHistoryEntry struct {
	SearchSessionID bff.ID        `json:"searchSessionId"`
	QueryHash       Hash          `json:"queryHash"`
	Geo             GeoQuery      `json:"geo"`
	Dates           bff.StayDates `json:"dates"`
	Occupancy       bff.Occupancy `json:"occupancy"`
	ExecutedAt      bff.Timestamp `json:"executedAt"`
}

// HistoryOf is how a session remembers a search.
func HistoryOf(ss SearchSession) SearchHistoryEntry {
	return SearchHistoryEntry{
		SearchSessionID: ss.ID, QueryHash: ss.Query.Hash(), Geo: ss.Query.Geo, Dates: ss.Query.Dates,
		Occupancy: ss.Query.Occupancy, ExecutedAt: bff.At(ss.StartedAt),
	}
}

// Trail is where a guest has been, latest first.
type Trail struct {
	RecentlyViewed []RecentlyViewed
	SearchHistory  []SearchHistoryEntry
}

// Trails keeps where guests have been.
type Trails interface {
	PushViewed(ctx context.Context, guest bff.ID, v RecentlyViewed) error
	PushSearch(ctx context.Context, guest bff.ID, e SearchHistoryEntry) error
	FindTrail(ctx context.Context, guest bff.ID) (Trail, error)
}
