package board_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
)

// fakeHouse answers each source after a while.
type fakeHouse struct {
	takes map[board.Source]time.Duration // negative: never
	fails map[board.Source]error
	stale map[board.Source]time.Time // of earlier readings

	mu    sync.Mutex
	calls map[board.Source]int
}

func (h *fakeHouse) Read(ctx context.Context, from board.Source, _ board.Place) (board.Reading, error) {
	h.mu.Lock()
	if h.calls == nil {
		h.calls = map[board.Source]int{}
	}
	h.calls[from]++
	h.mu.Unlock()
	takes, known := h.takes[from]
	if !known {
		takes = 10 * time.Millisecond
	}
	var done <-chan time.Time
	if takes >= 0 {
		done = time.After(takes)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return board.Reading{}, context.Cause(ctx)
	}
	if at, old := h.stale[from]; old {
		return board.Reading{Value: valueOf(from), AsOf: at, Stale: true}, nil
	}
	return board.Reading{Value: valueOf(from), AsOf: time.Now()}, h.fails[from]
}

// valueOf is something of the source's type.
func valueOf(from board.Source) any {
	switch from {
	case board.SourceArrivals, board.SourceDepartures, board.SourceInHouse:
		return []board.Stay{
			{ReservationID: "rsv_1", GuestName: "Zarghuna", RoomNumber: "2", Status: "confirmed", ETA: "15:30", VIP: true, Adults: 2},
			{ReservationID: "rsv_2", GuestName: "Mirwais", RoomNumber: "1", Status: "checked_in", Adults: 1, Children: 1},
			{ReservationID: "rsv_3", GuestName: "Karim", RoomNumber: "3", Status: "cancelled", VIP: true},
		}
	case board.SourceOccupancy:
		return []board.Night{{Occupied: 1, Total: 3}}
	case board.SourceRooms:
		return []board.Room{{RoomNumber: "1", Status: "clean"}, {RoomNumber: "2", Status: "dirty"}}
	case board.SourceRates:
		return []board.Rate{}
	case board.SourceFigures:
		return board.Figures{}
	case board.SourceTasks:
		return []board.Task{
			{TaskID: "hkt_1", RoomNumber: "2", Status: "pending", Kind: "departure_clean", Priority: "high", NeededBy: "14:00"},
			{TaskID: "hkt_2", RoomNumber: "1", Status: "done", Kind: "stayover", Priority: "high"},
		}
	case board.SourceProgress:
		return board.Progress{}
	case board.SourceLinen:
		return board.Linen{}
	case board.SourceWorkOrders:
		return []board.WorkOrder{
			{WorkOrderID: "wko_1", RoomNumber: "3", Severity: "critical", Status: "open", BlocksRoom: true},
			{WorkOrderID: "wko_2", RoomNumber: "2", Severity: "low", Status: "in_progress"},
			{WorkOrderID: "wko_3", RoomNumber: "1", Severity: "high", Status: "resolved", BlocksRoom: true},
		}
	case board.SourceFolios:
		return board.Folios{}
	case board.SourceCashDrawer:
		return board.CashDrawer{}
	case board.SourceAlerts, board.SourceSuggestions:
		return board.Counts{"critical": 2, "info": 1}
	case board.SourceAcceptance:
		return board.Acceptance{}
	case board.SourceDevices:
		return []board.SyncDevice{{Online: true, LagSeconds: 4}, {LagSeconds: 900}}
	case board.SourceShiftGaps:
		return []board.Shift(nil)
	case board.SourceLockFailures:
		return []board.LockFailure{}
	case board.SourceNotes:
		return []board.Note{{NoteID: "nte_1", Text: "Fire drill"}}
	}
	return nil
}

// moment is an answer with the time that it took.
type moment struct {
	board.WidgetAnswer
	after time.Duration
}

func usual() board.Deadlines {
	return board.Deadlines{Widget: 450 * time.Millisecond, Whole: 550 * time.Millisecond}
}

// compose must be called inside a bubble.
func compose(t *testing.T, h *fakeHouse, roles ...backoffice.Role) (map[board.WidgetID]moment, bool) {
	t.Helper()
	began := time.Now()
	got := map[board.WidgetID]moment{}
	partial := board.NewComposer(h, usual()).Compose(t.Context(), board.Place{}, roles, began, func(a board.WidgetAnswer) {
		if _, twice := got[a.Widget]; twice {
			t.Errorf("%s was answered twice", a.Widget)
		}
		got[a.Widget] = moment{a, time.Since(began)}
	})
	if len(got) != len(board.Widgets()) {
		t.Errorf("%d widgets were answered", len(got))
	}
	return got, partial
}

// The widgets are those of the specification, and an owner sees all of them. Those of
// one source share a call.
func TestComposeAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHouse{}
		got, partial := compose(t, h, backoffice.Owner)
		if partial || len(got) != len(board.Widgets()) {
			t.Errorf("%d widgets, partial %v", len(got), partial)
		}
		for id, a := range got {
			if a.Status != board.WidgetOK || a.Data == nil || a.ErrorCode != "" || a.after != 10*time.Millisecond {
				t.Errorf("%s: %+v", id, a)
			}
		}
		for from, n := range h.calls {
			if n != 1 {
				t.Errorf("%s was asked %d times", from, n)
			}
		}
	})
}

// One hanging upstream delays its own widgets alone, and those no longer than their
// deadline.
func TestComposeWithAHangingUpstream(t *testing.T) {
	t.Parallel()
	for _, hanging := range []board.Source{board.SourceArrivals, board.SourceDevices, board.SourceLockFailures} {
		synctest.Test(t, func(t *testing.T) {
			got, partial := compose(t, &fakeHouse{takes: map[board.Source]time.Duration{hanging: -1}}, backoffice.Owner)
			if !partial {
				t.Errorf("%s hangs, and the dashboard is said to be whole", hanging)
			}
			deadline := min(hanging.Upstream().Timeout(), usual().Widget)
			for _, w := range board.Widgets() {
				a := got[w.ID]
				switch {
				case w.From != hanging && (a.Status != board.WidgetOK || a.after != 10*time.Millisecond):
					t.Errorf("%s hangs and %s came after %v: %s", hanging, w.ID, a.after, a.Status)
				case w.From == hanging && (a.Status != board.WidgetTimeout || a.after != deadline || a.ErrorCode != bff.CodeUpstreamTimeout || a.Data != nil):
					t.Errorf("%s after %v: %+v", w.ID, a.after, a.WidgetAnswer)
				}
			}
		})
	}
}

// What is late, old, refused or broken is said to be that.
func TestComposeSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		earlier := time.Now().Add(-time.Minute)
		h := &fakeHouse{
			takes: map[board.Source]time.Duration{board.SourceRooms: 400 * time.Millisecond},
			stale: map[board.Source]time.Time{board.SourceAlerts: earlier},
			fails: map[board.Source]error{
				board.SourceFolios:     &bff.Error{Code: bff.CodeUpstreamUnavailable},
				board.SourceLinen:      errors.New("away"),
				board.SourceNotes:      &bff.Error{Code: bff.CodeRoleDenied},
				board.SourceCashDrawer: &bff.Error{Code: bff.CodeUpstreamTimeout},
			},
		}
		got, partial := compose(t, h, backoffice.GeneralManager)
		if !partial {
			t.Error("not partial")
		}
		for id, want := range map[board.WidgetID]board.WidgetAnswer{
			"alerts":          {Status: board.WidgetStale, AsOf: bff.At(earlier)},
			"open-folios":     {Status: board.WidgetError, ErrorCode: bff.CodeUpstreamUnavailable},
			"balance-due":     {Status: board.WidgetError, ErrorCode: bff.CodeUpstreamUnavailable},
			"linen-runway":    {Status: board.WidgetError, ErrorCode: bff.CodeInternal},
			"notes":           {Status: board.WidgetForbidden, ErrorCode: bff.CodeRoleDenied},
			"cash-drawer":     {Status: board.WidgetTimeout, ErrorCode: bff.CodeUpstreamTimeout},
			"rooms-by-status": {Status: board.WidgetOK},
		} {
			a := got[id]
			if a.Status != want.Status || a.ErrorCode != want.ErrorCode || (a.Data != nil) != (want.ErrorCode == "") ||
				!want.AsOf.IsZero() && !a.AsOf.Equal(want.AsOf.Time) {
				t.Errorf("%s: %+v, want %+v", id, a.WidgetAnswer, want)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) { // a refusal is an answer: asking again brings no more
		if _, partial := compose(t, &fakeHouse{fails: map[board.Source]error{board.SourceNotes: &bff.Error{Code: bff.CodeRoleDenied}}}, backoffice.Owner); partial {
			t.Error("a refused widget makes the dashboard partial")
		}
	})
}

// The whole dashboard ends at its own deadline, whatever a source does with its own.
func TestComposeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		deaf := make(chan struct{})
		h := deafHouse{deaf}
		began := time.Now()
		n := 0
		partial := board.NewComposer(h, usual()).Compose(t.Context(), board.Place{}, backoffice.Roles(), began, func(a board.WidgetAnswer) {
			n++
			if a.Status != board.WidgetTimeout {
				t.Errorf("%+v", a)
			}
		})
		if took := time.Since(began); took != usual().Whole || !partial || n != len(board.Widgets()) {
			t.Errorf("%d widgets after %v, partial %v", n, took, partial)
		}
		close(deaf)
		synctest.Wait()
	})
}

// deafHouse does not heed its context.
type deafHouse struct{ end chan struct{} }

func (h deafHouse) Read(context.Context, board.Source, board.Place) (board.Reading, error) {
	<-h.end
	return board.Reading{}, errors.New("too late")
}

// A role sees its own widgets: the others are forbidden at once, and their upstreams
// are not asked for it.
func TestComposeForEachRole(t *testing.T) {
	t.Parallel()
	for _, role := range backoffice.Roles() {
		synctest.Test(t, func(t *testing.T) {
			h := &fakeHouse{}
			got, partial := compose(t, h, role)
			if partial {
				t.Errorf("%s: partial", role)
			}
			asked := map[board.Source]int{}
			for _, w := range board.Widgets() {
				a, may := got[w.ID], len(w.Roles) == 0 || slices.Contains(w.Roles, role)
				if may {
					asked[w.From] = 1
				}
				if may != (a.Status == board.WidgetOK) || may != (a.Data != nil) || !may && (a.Status != board.WidgetForbidden || a.after != 0) {
					t.Errorf("%s sees %s: %+v", role, w.ID, a)
				}
			}
			if diff := cmp.Diff(asked, h.calls); diff != "" {
				t.Errorf("%s: needed (-) and asked (+):\n%s", role, diff)
			}
		})
	}
	for _, tt := range []struct {
		role   backoffice.Role
		widget board.WidgetID
		want   bool
	}{
		{backoffice.Housekeeper, "adr", false},
		{backoffice.Housekeeper, "arrivals", false},
		{backoffice.Housekeeper, "housekeeping-progress", true},
		{backoffice.FrontDesk, "revpar", false},
		{backoffice.FrontDesk, "arrivals", true},
		{backoffice.FrontDesk, "cash-drawer", true},
		{backoffice.Finance, "balance-due", true},
		{backoffice.Finance, "arrivals", false},
		{backoffice.Maintenance, "lock-failures", true},
		{backoffice.Maintenance, "open-folios", false},
		{backoffice.FnBManager, "in-house", true},
		{backoffice.FnBManager, "cash-drawer", false},
		{backoffice.HousekeepingLead, "staffing-gaps", true},
	} {
		i := slices.IndexFunc(board.Widgets(), func(w board.Widget) bool { return w.ID == tt.widget })
		if i < 0 || board.Widgets()[i].Visible([]backoffice.Role{tt.role}) != tt.want {
			t.Errorf("%s sees %s: want %v", tt.role, tt.widget, tt.want)
		}
	}
}

// Each view is made of its sources, with states and counts.
func TestWorkbenchViews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := board.NewWorkbench(&fakeHouse{}, usual())
		for part, want := range map[backoffice.Part]struct {
			items  int
			counts map[string]int
		}{
			backoffice.PartArrivals:   {3, map[string]int{"total": 3, "vip": 2, "confirmed": 1, "checked_in": 1, "cancelled": 1}},
			backoffice.PartDepartures: {3, map[string]int{"total": 3, "vip": 2, "confirmed": 1, "checked_in": 1, "cancelled": 1}},
			backoffice.PartInHouse:    {3, map[string]int{"total": 3, "vip": 2, "confirmed": 1, "checked_in": 1, "cancelled": 1}},
			backoffice.PartHousekeeping: {2, map[string]int{
				"total": 2, "pending": 1, "done": 1, "rooms.clean": 1, "rooms.dirty": 1,
			}},
			backoffice.PartMaintenance: {3, map[string]int{
				"total": 3, "open": 1, "in_progress": 1, "resolved": 1, "severity.critical": 1, "severity.low": 1, "severity.high": 1,
			}},
			backoffice.PartToday: {4, map[string]int{
				"arrivals.confirmed": 1, "arrivals.checked_in": 1, "arrivals.cancelled": 1,
				"departures.confirmed": 1, "departures.checked_in": 1, "departures.cancelled": 1,
				"in-house.confirmed": 1, "in-house.checked_in": 1, "in-house.cancelled": 1,
				"rooms.clean": 1, "rooms.dirty": 1, "tasks.pending": 1, "tasks.done": 1,
				"workOrders.open": 1, "workOrders.in_progress": 1, "workOrders.resolved": 1,
			}},
		} {
			v, err := b.View(t.Context(), part, board.Place{Day: board.Day{Date: 20000}}, board.Steps{}, time.Now())
			if err != nil || !v.Whole() || len(v.Items) != want.items || (v.Date != nil) != (board.Dated(part) || part == backoffice.PartToday) {
				t.Errorf("%s: %+v, %v", part, v, err)
			}
			if diff := cmp.Diff(want.counts, v.Counts); diff != "" {
				t.Errorf("%s:\n%s", part, diff)
			}
		}
		if _, err := b.View(t.Context(), backoffice.PartShortcuts, board.Place{}, board.Steps{}, time.Now()); err == nil {
			t.Error("shortcuts are no view")
		}
	})
}

// failing is an upstream's failure that knows its reason.
type failing string

func (f failing) Error() string          { return string(f) }
func (f failing) DegradedReason() string { return string(f) }

// A view tells what is old or missing, and why; without its first source there is none.
func TestWorkbenchFails(t *testing.T) {
	t.Parallel()
	earlier := time.Date(1999, 12, 31, 23, 0, 0, 0, time.UTC) // bubbles begin in 2000
	for name, test := range map[string]struct {
		part    backoffice.Part
		house   *fakeHouse
		stale   bool
		missing []board.Source
		why     []board.Degradation
		err     bff.Code
	}{
		"an old reading": {
			part: backoffice.PartToday, house: &fakeHouse{stale: map[board.Source]time.Time{board.SourceRooms: earlier}}, stale: true,
			why: []board.Degradation{{Part: board.SourceRooms, Reason: bff.ReasonStale, AgeMs: time.Hour.Milliseconds(), Affected: 2}},
		},
		"parts are missing": {
			part: backoffice.PartToday, house: &fakeHouse{
				fails: map[board.Source]error{
					board.SourceDepartures: &bff.Error{Code: bff.CodeUpstreamUnavailable, Err: failing("breaker")},
					board.SourceInHouse:    &bff.Error{Code: bff.CodeUpstreamTimeout, Err: failing("budget")},
					board.SourceTasks:      &bff.Error{Code: bff.CodeUpstreamUnavailable, Err: failing("garbage")},
				},
				takes: map[board.Source]time.Duration{board.SourceWorkOrders: -1},
			},
			missing: []board.Source{board.SourceDepartures, board.SourceInHouse, board.SourceTasks, board.SourceWorkOrders},
			why: []board.Degradation{
				{Part: board.SourceDepartures, Reason: bff.ReasonBreaker, Affected: 1},
				{Part: board.SourceInHouse, Reason: bff.ReasonBudget, Affected: 1},
				{Part: board.SourceTasks, Reason: bff.ReasonError, Affected: 1},
				{Part: board.SourceWorkOrders, Reason: bff.ReasonTimeout, Affected: 1},
			},
		},
		"the first source fails": {
			part: backoffice.PartArrivals, house: &fakeHouse{fails: map[board.Source]error{board.SourceArrivals: &bff.Error{Code: bff.CodeUpstreamUnavailable}}},
			err: bff.CodeUpstreamUnavailable,
		},
		"the first source hangs": {
			part: backoffice.PartArrivals, house: &fakeHouse{takes: map[board.Source]time.Duration{board.SourceArrivals: -1}}, err: bff.CodeUpstreamTimeout,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			v, err := board.NewWorkbench(test.house, usual()).View(t.Context(), test.part, board.Place{}, board.Steps{}, time.Now())
			if (err != nil) != (test.err != "") || err != nil && bff.CodeOf(err) != test.err {
				t.Fatalf("%s: %v", name, err)
			}
			if err == nil && (v.Stale != test.stale || !slices.Equal(v.Missing, test.missing) || test.stale && !v.AsOf.Equal(bff.At(earlier).Time)) {
				t.Errorf("%s: %+v", name, v)
			}
			if diff := cmp.Diff(test.why, v.Degraded); diff != "" {
				t.Errorf("%s:\n%s", name, diff)
			}
		})
	}
}

// A view that stands in is as old as it is, in each of its parts; what was missing in it is
// still missing.
func TestViewsAge(t *testing.T) {
	t.Parallel()
	had := []board.Degradation{{Part: board.SourceTasks, Reason: bff.ReasonStale, AgeMs: 500, Affected: 3}}
	want := []board.Degradation{
		{Part: board.SourceTasks, Reason: bff.ReasonStale, AgeMs: 2500, Affected: 3},
		{Part: board.SourceRooms, Reason: bff.ReasonStale, AgeMs: 2000, Affected: 1},
	}
	if diff := cmp.Diff(want, board.Aged(had, backoffice.PartHousekeeping, 2*time.Second)); diff != "" {
		t.Error(diff)
	}
	had[0] = board.Degradation{Part: board.SourceTasks, Reason: bff.ReasonShed, Affected: 1}
	want[0] = had[0]
	if diff := cmp.Diff(want, board.Aged(had, backoffice.PartHousekeeping, 2*time.Second)); diff != "" {
		t.Error(diff)
	}
}
