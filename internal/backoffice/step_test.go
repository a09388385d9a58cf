package backoffice

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
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
		role Role
		want []Step
	}{
		{"arrives today", stay("confirmed", today), FrontDesk, []Step{StepCheckIn}},
		{"came yesterday", stay("confirmed", today-1), Owner, []Step{StepCheckIn}},
		{"arrives tomorrow", stay("confirmed", today+1), FrontDesk, []Step{}},
		{"arrives, for a cleaner", stay("confirmed", today), Housekeeper, []Step{}},
		{"in the house", stay("checked_in", today), GeneralManager, append([]Step{StepCheckOut}, keys...)},
		{"in the house, for a technician", stay("checked_in", today), Maintenance, []Step{}},
		{"has left", stay("checked_out", today), FrontDesk, []Step{}},
		{"cancelled", stay("cancelled", today), FrontDesk, []Step{}},
		{"never came", stay("no_show", today), FrontDesk, []Step{}},
		{"a state of tomorrow's release", stay("waitlisted", today), Owner, []Step{}},
		{"guests still in the room", of(KindTask, "waiting"), Owner, []Step{}},
		{"to clean", of(KindTask, "pending"), Housekeeper, []Step{StepStart, StepComplete}},
		{"being cleaned", of(KindTask, "in_progress"), Housekeeper, []Step{StepComplete}},
		{"being cleaned, for the lead", of(KindTask, "in_progress"), HousekeepingLead, []Step{StepComplete, StepReopen}},
		{"cleaned", of(KindTask, "done"), Housekeeper, []Step{}},
		{"cleaned, for the lead", of(KindTask, "done"), HousekeepingLead, []Step{StepInspect, StepReopen}},
		{"inspected", of(KindTask, "inspected"), HousekeepingLead, []Step{StepReopen}},
		{"to clean, for the desk", of(KindTask, "pending"), FrontDesk, []Step{}},
		{"broken", of(KindWorkOrder, "open"), Maintenance, []Step{StepStart, StepResolve}},
		{"broken, for the desk", of(KindWorkOrder, "open"), FrontDesk, []Step{}},
		{"in repair", of(KindWorkOrder, "in_progress"), Maintenance, []Step{StepResolve, StepReopen}},
		{"repaired", of(KindWorkOrder, "resolved"), Maintenance, []Step{StepClose, StepReopen}},
		{"closed", of(KindWorkOrder, "closed"), Maintenance, []Step{StepReopen}},
	} {
		if diff := cmp.Diff(tt.want, tt.next(StepsFor(PartToday, []Role{tt.role}, today))); diff != "" {
			t.Errorf("%s:\n%s", tt.name, diff)
		}
	}
}

// Readers share a copy if they may do the same with it, and only then.
func TestStepsNameCopies(t *testing.T) {
	t.Parallel()
	name := func(p Part, today bff.Date, roles ...Role) string { return StepsFor(p, roles, today).String() }
	if name(PartArrivals, 1, FrontDesk) != name(PartArrivals, 1, Owner, Housekeeper) || name(PartMaintenance, 1, FrontDesk) != name(PartMaintenance, 1) {
		t.Error("readers who may do the same have copies of their own")
	}
	for _, other := range []string{name(PartHousekeeping, 1, HousekeepingLead), name(PartHousekeeping, 1), name(PartHousekeeping, 2, Housekeeper)} {
		if other == name(PartHousekeeping, 1, Housekeeper) {
			t.Errorf("cleaners share the copy of %s", other)
		}
	}
	for _, part := range WorkbenchViews() {
		if len(StepsFor(part, Roles(), 1).moves) == 0 {
			t.Errorf("nothing can be done with items of %s", part)
		}
	}
}
