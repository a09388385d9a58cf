package audit

import (
	"context"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// ParseResource reads which resources are asked for: "kind", "kind:id", or ":id" of
// whatever kind. A kind has no colon.
func ParseResource(s string) (backoffice.Resource, bool) {
	kind, id, one := strings.Cut(s, ":")
	return backoffice.Resource{Kind: kind, ID: id}, backoffice.IsWord(kind) && backoffice.IsWord(id) && one == (id != "") && kind+id != ""
}

// ActivityQuery is what is asked of the ledger; what is zero narrows nothing.
type ActivityQuery struct {
	Property bff.ID
	Resource backoffice.Resource
	Operator string
	From, To time.Time // From is included, To is not
	Limit    int
	After    ActivityPosition // zero = from the newest
}

// OperatorToken reports whether a text may be an operator's id.
func OperatorToken(s string) bool { return backoffice.IsWord(s) }

// ActivityPosition is a place in the ledger: behind the activity of that moment and id.
// Neither ever changes, nor does anything that a query asks for, so that no activity
// leaves a list or moves in it.
type ActivityPosition struct {
	At time.Time
	ID bff.ID
}

// ActivityPage is a part of the ledger, the newest first.
type ActivityPage struct {
	Items []backoffice.Activity
	Next  *ActivityPosition // nil on the last page
}

// Activities reads the ledger.
type Activities interface {
	// ListActivities returns a page of a property's activities. Sessions, devices and
	// whatever else is about no single property are in none.
	ListActivities(ctx context.Context, tenant bff.ID, q ActivityQuery) (ActivityPage, error)
}

// ActivityRoles are those that may read what others did.
func ActivityRoles() []backoffice.Role {
	return []backoffice.Role{backoffice.GeneralManager, backoffice.Owner}
}
