package board

import (
	"slices"
	"strings"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Step is something that can be done next with an item of a view: the last word of its
// route.
type Step string

// The steps there are.
const (
	StepCheckIn   Step = "check-in"
	StepCheckOut  Step = "check-out"
	StepIssueKey  Step = "issue-key"
	StepExtendKey Step = "extend-key"
	StepRebindKey Step = "rebind-key"
	StepRevokeKey Step = "revoke-key"
	StepStart     Step = "start"
	StepComplete  Step = "complete"
	StepInspect   Step = "inspect"
	StepResolve   Step = "resolve"
	StepClose     Step = "close"
	StepReopen    Step = "reopen"
)

// move says from which states of a resource a step is possible, and who may take it.
type move struct {
	kind  string // of the resource
	step  Step
	from  []string
	roles []backoffice.Role
}

// moves is the table of what may be done next: the actions on resources of views, and
// those on keys. The service that has the resource has the last word: a room may still be
// occupied, and a key that was never issued not be revoked.
var moves = func() []move {
	var all []move
	for _, a := range backoffice.Actions() {
		if len(a.From) > 0 {
			all = append(all, move{a.Kind, Step(a.Verb()), a.From, a.Roles})
		}
	}
	for _, s := range []Step{StepIssueKey, StepExtendKey, StepRebindKey, StepRevokeKey} {
		all = append(all, move{backoffice.KindReservation, s, []string{"checked_in"}, backoffice.LockRoles()})
	}
	return all
}()

// Steps are what the roles of an operator allow at a view's items on a day of the house.
// A view depends on its reader by nothing else.
type Steps struct {
	today bff.Date
	moves []move
}

// StepsFor returns the steps of a view's items that roles allow on the house's day.
func StepsFor(part backoffice.Part, roles []backoffice.Role, today bff.Date) Steps {
	m := backoffice.Member{Roles: roles}
	out := Steps{today: today}
	for _, mv := range moves {
		if slices.Contains(kinds(part), mv.kind) && m.HasAny(mv.roles) {
			out.moves = append(out.moves, mv)
		}
	}
	return out
}

// kinds are those of the resources that a view's items are.
func kinds(p backoffice.Part) []string {
	switch p {
	case backoffice.PartToday:
		return []string{backoffice.KindReservation, backoffice.KindTask, backoffice.KindWorkOrder}
	case backoffice.PartArrivals, backoffice.PartDepartures, backoffice.PartInHouse:
		return []string{backoffice.KindReservation}
	case backoffice.PartHousekeeping:
		return []string{backoffice.KindTask}
	case backoffice.PartMaintenance:
		return []string{backoffice.KindWorkOrder}
	}
	return nil
}

// String names the steps: readers of a view who may do the same share its copy.
func (s Steps) String() string {
	var b strings.Builder
	b.WriteString(s.today.String())
	for _, m := range s.moves {
		b.WriteString(" " + m.kind + ":" + string(m.step))
	}
	return b.String()
}

// next are the steps from a state. It is never nil.
func (s Steps) next(kind, status string) []Step {
	out := []Step{}
	for _, m := range s.moves {
		if m.kind == kind && slices.Contains(m.from, status) {
			out = append(out, m.step)
		}
	}
	return out
}

// ofStay are the steps of a stay: a guest does not check in before the first day.
func (s Steps) ofStay(stay *Stay) []Step {
	out := s.next(backoffice.KindReservation, stay.Status)
	if stay.CheckIn > s.today {
		out = slices.DeleteFunc(out, func(step Step) bool { return step == StepCheckIn })
	}
	return out
}
