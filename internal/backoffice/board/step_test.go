package board

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// What may be done next follows from the state of an item and from the roles, by the table
// of actions.
func TestSteps(t *testing.T) {
	t.Parallel()
	const today = bff.Date(20000)
	keys := []Step{StepIssueKey, StepExtendKey, StepRebindKey, StepRevokeKey}
	stay := func(status string, in bff.Date) func(Steps) []Step {
		return func(s Steps) []Step { return s.ofStay(&Stay{Status: status, CheckIn: in}) }
	}
	of := func(kind, status string) func(Steps) []Step {
		return func(s Steps) []Step { return s.next(kind, status) }
	}
	for _, tt := range []struct {
		name string
		next func(Steps) []Step
		role backoffice.Role
		want []Step
	}{
		{"arrives today", stay("confirmed", today), backoffice.FrontDesk, []Step{StepCheckIn}},
		{"came yesterday", stay("confirmed", today-1), backoffice.Owner, []Step{StepCheckIn}},
		{"arrives tomorrow", stay("confirmed", today+1), backoffice.FrontDesk, []Step{}},
		{"arrives, for a cleaner", stay("confirmed", today), backoffice.Housekeeper, []Step{}},
		{"in the house", stay("checked_in", today), backoffice.GeneralManager, append([]Step{StepCheckOut}, keys...)},
		{"in the house, for a technician", stay("checked_in", today), backoffice.Maintenance, []Step{}},
		{"has left", stay("checked_out", today), backoffice.FrontDesk, []Step{}},
		{"cancelled", stay("cancelled", today), backoffice.FrontDesk, []Step{}},
		{"never came", stay("no_show", today), backoffice.FrontDesk, []Step{}},
		{"a state of tomorrow's release", stay("waitlisted", today), backoffice.Owner, []Step{}},
		{"guests still in the room", of(backoffice.KindTask, "waiting"), backoffice.Owner, []Step{}},
		{"to clean", of(backoffice.KindTask, "pending"), backoffice.Housekeeper, []Step{StepStart, StepComplete}},
		{"being cleaned", of(backoffice.KindTask, "in_progress"), backoffice.Housekeeper, []Step{StepComplete}},
		{"being cleaned, for the lead", of(backoffice.KindTask, "in_progress"), backoffice.HousekeepingLead, []Step{StepComplete, StepReopen}},
		{"cleaned", of(backoffice.KindTask, "done"), backoffice.Housekeeper, []Step{}},
		{"cleaned, for the lead", of(backoffice.KindTask, "done"), backoffice.HousekeepingLead, []Step{StepInspect, StepReopen}},
		{"inspected", of(backoffice.KindTask, "inspected"), backoffice.HousekeepingLead, []Step{StepReopen}},
		{"to clean, for the desk", of(backoffice.KindTask, "pending"), backoffice.FrontDesk, []Step{}},
		{"broken", of(backoffice.KindWorkOrder, "open"), backoffice.Maintenance, []Step{StepStart, StepResolve}},
		{"broken, for the desk", of(backoffice.KindWorkOrder, "open"), backoffice.FrontDesk, []Step{}},
		{"in repair", of(backoffice.KindWorkOrder, "in_progress"), backoffice.Maintenance, []Step{StepResolve, StepReopen}},
		{"repaired", of(backoffice.KindWorkOrder, "resolved"), backoffice.Maintenance, []Step{StepClose, StepReopen}},
		{"closed", of(backoffice.KindWorkOrder, "closed"), backoffice.Maintenance, []Step{StepReopen}},
	} {
		if diff := cmp.Diff(tt.want, tt.next(StepsFor(backoffice.PartToday, []backoffice.Role{tt.role}, today))); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
}

// Readers share a copy if they may do the same with it, and only then.
func TestStepsNameCopies(t *testing.T) {
	t.Parallel()
	name := func(p backoffice.Part, today bff.Date, roles ...backoffice.Role) string {
		return StepsFor(p, roles, today).String()
	}
	if name(
		backoffice.PartArrivals, 1, backoffice.FrontDesk,
	) != name(
		backoffice.PartArrivals, 1, backoffice.Owner, backoffice.Housekeeper,
	) || name(backoffice.PartMaintenance, 1, backoffice.FrontDesk) != name(backoffice.PartMaintenance, 1) {
		t.Error("readers who may do the same have copies of their own")
	}
	for _, other := range []string{
		name(backoffice.PartHousekeeping, 1, backoffice.HousekeepingLead), name(backoffice.PartHousekeeping, 1),
		name(backoffice.PartHousekeeping, 2, backoffice.Housekeeper),
	} {
		if other == name(backoffice.PartHousekeeping, 1, backoffice.Housekeeper) {
			t.Errorf("cleaners share the copy of %s", other)
		}
	}
	for _, part := range backoffice.WorkbenchViews() {
		if len(StepsFor(part, backoffice.Roles(), 1).moves) == 0 {
			t.Errorf("nothing can be done with items of %s", part)
		}
	}
}
