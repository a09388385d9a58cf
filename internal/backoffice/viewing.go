package backoffice

import (
	"context"
	"time"

	"melmastoon.ghasi.io/bff"
)

// DashboardFormat is the form in which a dashboard was asked for.
type DashboardFormat string

// The formats there are.
const (
	FormatDocument DashboardFormat = "json"
	FormatLines    DashboardFormat = "ndjson"
)

// DashboardViewed is the payload of dashboard.viewed.v1.
type DashboardViewed struct {
	ViewedAt bff.Timestamp   `json:"viewedAt"`
	Format   DashboardFormat `json:"format"`
	Roles    []Role          `json:"roles"`
}

// Subject implements Fact.
func (DashboardViewed) Subject() Subject { return SubjectDashboardViewed }

// WorkbenchViewed is the payload of workbench.viewed.v1.
type WorkbenchViewed struct {
	ViewedAt bff.Timestamp `json:"viewedAt"`
	View     Part          `json:"view"`
	Date     string        `json:"date,omitempty"` // of a view that has days
	Filtered bool          `json:"filtered"`
	Roles    []Role        `json:"roles"`
}

// Subject implements Fact.
func (WorkbenchViewed) Subject() Subject { return SubjectWorkbenchViewed }

// Viewings tells what operators look at: a share of it, for operational figures. A
// viewing is no activity of the ledger, and may be lost.
type Viewings struct {
	journal Journal
	news    *Newsroom
}

// NewViewings returns Viewings.
func NewViewings(j Journal, n *Newsroom) *Viewings { return &Viewings{j, n} }

// Reports says whether the viewing of a request is one of the share that is told.
func (*Viewings) Reports(s Subject, v *Visit) bool { return s.Sampled(v.Request.RequestID) }

// Report commits a viewing.
func (w *Viewings) Report(ctx context.Context, f Fact, v *Visit, at time.Time) error {
	e, err := w.news.Event(f, v.About(v.Property), v.Request, at)
	if err != nil {
		return err
	}
	return w.journal.Record(ctx, nil, e)
}
