package backoffice

import (
	"context"

	"melmastoon.ghasi.io/bff"
)

// Part is something that the service composes of upstream answers and keeps for a
// while (DATA_MODEL §3.2).
type Part string

// The parts there are.
const (
	PartDashboard    Part = "dashboard"
	PartToday        Part = "today"
	PartArrivals     Part = "arrivals"
	PartDepartures   Part = "departures"
	PartInHouse      Part = "in-house"
	PartHousekeeping Part = "housekeeping"
	PartMaintenance  Part = "maintenance"
	PartAIInbox      Part = "ai-inbox"
	PartAlertInbox   Part = "alert-inbox"
	PartPreferences  Part = "preferences"
	PartShortcuts    Part = "shortcuts"
	PartSyncCursor   Part = "sync-cursor"
)

// Parts lists every part.
func Parts() []Part {
	return []Part{
		PartDashboard, PartToday, PartArrivals, PartDepartures, PartInHouse, PartHousekeeping, PartMaintenance,
		PartAIInbox, PartAlertInbox, PartPreferences, PartShortcuts, PartSyncCursor,
	}
}

// Invalidator makes kept copies void.
type Invalidator interface {
	// Invalidate has no instance serve the copies of these parts that are older than
	// the call: those of one property, or with a zero property all of the tenant's.
	Invalidate(ctx context.Context, tenant, property bff.ID, parts ...Part) error
}
