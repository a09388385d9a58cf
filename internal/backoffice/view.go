package backoffice

import (
	"context"
	"errors"
	"time"

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
	PartProperties   Part = "properties"
)

// Parts lists every part.
func Parts() []Part {
	return []Part{
		PartDashboard, PartToday, PartArrivals, PartDepartures, PartInHouse, PartHousekeeping, PartMaintenance,
		PartAIInbox, PartAlertInbox, PartPreferences, PartShortcuts, PartSyncCursor, PartProperties,
	}
}

// Tags are the tags that a copy of the part bears in caches: one of its property, if
// it has one, and one of its tenant.
func (p Part) Tags(tenant, property bff.ID) []string {
	tags := []string{p.Tag(tenant, bff.ID{})}
	if !property.IsZero() {
		tags = append(tags, p.Tag(tenant, property))
	}
	return tags
}

// Tag names the copies of the part that belong to one property, or with a zero
// property to the whole tenant.
func (p Part) Tag(tenant, property bff.ID) string {
	return string(p) + ":" + tenant.String() + ":" + property.String()
}

// ErrCopiesAway is wrapped by a failure to make copies void: an instance may serve old
// ones until they expire.
var ErrCopiesAway = errors.New("copies cannot be made void")

// Invalidator makes kept copies void.
type Invalidator interface {
	// Invalidate has no instance serve copies of these parts as current that are
	// older than the call: those of one property, or with a zero property all of the
	// tenant's. While their upstream fails they may still be shown, marked as stale.
	Invalidate(ctx context.Context, tenant, property bff.ID, parts ...Part) error
}

// WorkbenchViews lists the parts that are views of the workbench.
func WorkbenchViews() []Part {
	return []Part{PartToday, PartArrivals, PartDepartures, PartInHouse, PartHousekeeping, PartMaintenance}
}

// Listed is what a service lists of a tenant, as far as it is known.
type Listed[T any] struct {
	All   T // shared, not to be changed
	AsOf  time.Time
	Stale bool // its service could not be asked
}

// Lists knows what a service lists of tenants.
type Lists[T any] interface {
	// List returns all of a tenant's, at the latest when the context ends.
	List(ctx context.Context, tenant bff.ID) (Listed[T], error)
}
