package guest

import (
	"context"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
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
	SearchSessionID bff.ID            `json:"searchSessionId"`
	QueryHash       consumer.Hash     `json:"queryHash"`
	Geo             consumer.GeoQuery `json:"geo"`
	Dates           bff.StayDates     `json:"dates"`
	Occupancy       bff.Occupancy     `json:"occupancy"`
	ExecutedAt      bff.Timestamp     `json:"executedAt"`
}

// HistoryOf is how a session remembers a search.
func HistoryOf(ss consumer.SearchSession) SearchHistoryEntry {
	return SearchHistoryEntry{
		SearchSessionID: ss.ID, QueryHash: ss.Query.What, Geo: ss.Query.Said, Dates: ss.Query.Dates,
		Occupancy: ss.Query.Occupancy, ExecutedAt: bff.At(ss.StartedAt),
	}
}

// EncodeHistory is the JSON of HistoryOf.
func EncodeHistory(ss consumer.SearchSession) string {
	return `{"searchSessionId":"` + ss.ID.String() + `",` + ss.Query.Remembered + `,"executedAt":"` + bff.At(ss.StartedAt).String() + `"}`
}

// Trail is where a guest has been, latest first.
type Trail struct {
	RecentlyViewed []RecentlyViewed
	SearchHistory  []SearchHistoryEntry
}

// Step is one step of a guest's way: what is to be remembered of a request.
type Step struct {
	Guest  bff.ID
	Touch  consumer.SessionChange  // of the session, if it is still there
	Search *consumer.SearchSession // a search, or one more order that the guest saw of it
	Viewed *RecentlyViewed         // a hotel's page
	New    bool                    // the session has not come back: what is kept lives as long as a new one
}

// Trails keeps where guests have been.
type Trails interface {
	// Follow writes the steps of many guests at once, in few round trips.
	Follow(ctx context.Context, steps []Step) error
	FindTrail(ctx context.Context, guest bff.ID) (Trail, error)
}
