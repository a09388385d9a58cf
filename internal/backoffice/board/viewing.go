package board

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// dashboardFormat is the form in which a dashboard was asked for.
type dashboardFormat string

// The formats there are.
const (
	FormatDocument dashboardFormat = "json"
	FormatLines    dashboardFormat = "ndjson"
)

// DashboardViewed is the payload of dashboard.viewed.v1.
type DashboardViewed struct {
	ViewedAt bff.Timestamp     `json:"viewedAt"`
	Format   dashboardFormat   `json:"format"`
	Roles    []backoffice.Role `json:"roles"`
}

// Subject implements backoffice.Fact.
func (DashboardViewed) Subject() backoffice.Subject { return backoffice.SubjectDashboardViewed }

// WorkbenchViewed is the payload of workbench.viewed.v1.
type WorkbenchViewed struct {
	ViewedAt bff.Timestamp     `json:"viewedAt"`
	View     backoffice.Part   `json:"view"`
	Date     string            `json:"date,omitempty"` // of a view that has days
	Filtered bool              `json:"filtered"`
	Roles    []backoffice.Role `json:"roles"`
}

// Subject implements backoffice.Fact.
func (WorkbenchViewed) Subject() backoffice.Subject { return backoffice.SubjectWorkbenchViewed }

// Viewings tells what operators look at: a share of it, for operational figures. A
// viewing is no activity of the ledger, and may be lost.
type Viewings struct {
	journal backoffice.Journal
	news    *backoffice.Envelopes
}

// NewViewings returns Viewings.
func NewViewings(j backoffice.Journal, n *backoffice.Envelopes) *Viewings {
	return &Viewings{j, n}
}

// Reports says whether the viewing of a request is one of the share that is told.
func (*Viewings) Reports(s backoffice.Subject, v *backoffice.Visit) bool {
	return s.Sampled(v.Request.RequestID)
}

// Report commits a viewing.
func (w *Viewings) Report(ctx context.Context, f backoffice.Fact, v *backoffice.Visit, at time.Time) error {
	e, err := w.news.Event(f, v.About(v.Property), v.Request, at)
	if err != nil {
		return err
	}
	return w.journal.Record(ctx, nil, e)
}

// Taken records who has taken the blackout pack of a property along: names that leave for a
// device are not let go without an entry.
func (w *Viewings) Taken(ctx context.Context, v *backoffice.Visit, at time.Time) error {
	did := v.Activity("blackout", "pack_taken", backoffice.Resource{Kind: "property", ID: v.Property.String()}, at)
	return w.journal.Record(ctx, []backoffice.Activity{did})
}
