package backofficehttp_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/action"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/local/sim"
)

// drillHouse is the house as it must be: it carries entries out one after the other.
type drillHouse struct {
	stands map[string]string // where a stay, a task or a work order stands, by its id
	stays  map[string]board.Stay
	folios map[string]string     // ids of stays
	tasks  map[string]board.Task // rooms to clean after a departure
	sums   map[string]int64      // what was charged, by folio
	lamps  int                   // work orders that were opened
	today  bff.Date
}

func newDrillHouse(today bff.Date, read func(board.Source) any) *drillHouse {
	h := &drillHouse{
		stands: map[string]string{}, stays: map[string]board.Stay{}, folios: map[string]string{}, tasks: map[string]board.Task{},
		sums: map[string]int64{}, today: today,
	}
	for _, from := range []board.Source{board.SourceArrivals, board.SourceInHouse} {
		for _, s := range read(from).([]board.Stay) {
			h.stands[s.ReservationID], h.stays[s.ReservationID], h.folios[s.FolioID] = s.Status, s, s.ReservationID
		}
	}
	for _, t := range read(board.SourceTasks).([]board.Task) {
		h.stands[t.TaskID], h.tasks[t.TaskID] = t.Status, t
	}
	for _, w := range read(board.SourceWorkOrders).([]board.WorkOrder) {
		h.stands[w.WorkOrderID] = w.Status
	}
	return h
}

// targets are things to do: with two parties that are expected, one of them where others still
// are if there is such a room, with two in the house, with three rooms and two repairs.
func (h *drillHouse) targets() (out []target) {
	left := map[string]int{"confirmed": 2, "checked_in": 2, "task": 3, "work-order": 2}
	take := func(kind, id string, verbs ...string) {
		if left[kind]--; left[kind] < 0 {
			return
		}
		for _, verb := range verbs {
			out = append(out, target{path: strings.ReplaceAll(verb, "*", id)})
		}
	}
	stay := func(id string) {
		take(h.stands[id], id, "/reservations/*/check-in", "/reservations/*/check-out", "/folios/"+h.stays[id].FolioID+"/charges")
	}
	all := slices.Sorted(maps.Keys(h.stands))
	for _, id := range all {
		if others := h.others(id); h.stands[id] == "confirmed" && others != "" && left["checked_in"] == 2 {
			stay(id)
			stay(others)
		}
	}
	for _, id := range all {
		switch {
		case slices.ContainsFunc(out, func(t target) bool { return strings.Contains(t.path, id) }):
		case h.stays[id].ReservationID != "":
			stay(id)
		case h.tasks[id].TaskID != "":
			take("task", id, "/housekeeping/tasks/*/start", "/housekeeping/tasks/*/complete", "/housekeeping/tasks/*/inspect", "/housekeeping/tasks/*/reopen")
		default:
			const order = "/maintenance/work-orders/*/"
			take("work-order", id, order+"start", order+"resolve", order+"close", order+"reopen")
		}
	}
	return out
}

// others are in the room of a stay.
func (h *drillHouse) others(id string) string {
	for other, s := range h.stays {
		if other != id && s.RoomNumber == h.stays[id].RoomNumber && h.stands[other] == "checked_in" {
			return other
		}
	}
	return ""
}

// drillMoves are what can be done to what stands where, and where it stands then.
var drillMoves = map[string]struct{ from, to string }{
	"reservations/check-in": {"confirmed", "checked_in"}, "reservations/check-out": {"checked_in", "checked_out"},
	"tasks/start": {"pending", "in_progress"}, "tasks/complete": {"pending in_progress", "done"}, "tasks/inspect": {"done", "inspected"},
	"tasks/reopen": {"in_progress done inspected", "pending"}, "work-orders/start": {"open", "in_progress"},
	"work-orders/resolve": {"open in_progress", "resolved"},
	"work-orders/close":   {"resolved", "closed"}, "work-orders/reopen": {"in_progress resolved closed", "open"},
}

// carry carries an entry out if that is possible now.
func (h *drillHouse) carry(e *drillEntry) bool {
	of, id := strings.Split(e.path, "/"), e.resource()
	if id == "" {
		h.lamps++
		return true
	}
	verb := of[len(of)-1]
	if e.minor > 0 {
		open := h.stands[h.folios[id]] == "checked_in"
		if open {
			h.sums[id] += e.minor
		}
		return open
	}
	move := drillMoves[of[len(of)-3]+"/"+verb]
	if !slices.Contains(strings.Fields(move.from), h.stands[id]) || verb == "check-in" && h.others(id) != "" {
		return false
	}
	h.stands[id] = move.to
	for task, t := range h.tasks { // the room can be cleaned now
		s := h.stays[id]
		if verb == "check-out" && s.CheckOut == h.today && t.RoomNumber == s.RoomNumber && t.Kind == "departure_clean" && h.stands[task] == "waiting" {
			h.stands[task] = "pending"
		}
	}
	return true
}

// compareHouse holds the services behind to the model, and their book.
func (d *blackout) compareHouse() {
	var did []string
	for _, s := range d.served {
		if s.done {
			did = append(did, s.key)
		}
	}
	var book []string
	for _, x := range d.platform.Book() {
		book = append(book, x.Key)
	}
	if !slices.Equal(book, did) {
		d.t.Errorf("the house's book has %v, by the model it is %v", book, did)
	}
	for _, t := range d.targets {
		switch id := (&drillEntry{target: t}).resource(); {
		case d.house.stands[id] != "":
			if now := d.ask(id).Status; now != d.house.stands[id] {
				d.t.Errorf("%s is %s, by the model it is %s", id, now, d.house.stands[id])
			}
		case d.house.folios[id] != "":
			if sum := d.ask(id).Charged.AmountMinor; sum != d.house.sums[id] {
				d.t.Errorf("%s was charged %d, by the model %d", id, sum, d.house.sums[id])
			}
		}
	}
}

// ask reads a resource at the service that has it.
func (d *blackout) ask(id string) (out sim.Folio) {
	prefix, _, _ := strings.Cut(id, "_")
	at := map[bff.Prefix][2]string{
		bff.PrefixReservation: {"reservation/api/v1/reservations/", "X-Tenant-Id"}, backoffice.PrefixTask: {"housekeeping/api/v1/tasks/", "X-Tenant-Id"},
		backoffice.PrefixWorkOrder: {"maintenance/api/v1/work-orders/", "X-Tenant"}, bff.PrefixFolio: {"billing/api/v1/folios/", "X-Billing-Tenant"},
	}[bff.Prefix(prefix)]
	tenant := d.at.Tenant.String()
	if at[1] != "X-Tenant-Id" {
		id, tenant = bff.MustParseID(bff.Prefix(prefix), id).UUID(), d.at.Tenant.UUID()
	}
	r, w := httptest.NewRequestWithContext(d.t.Context(), http.MethodGet, "/"+at[0]+id, http.NoBody), httptest.NewRecorder()
	r.Header.Set(at[1], tenant)
	d.platform.Handler().ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
		d.t.Fatalf("%s: %d %s", id, w.Code, w.Body)
	}
	return out
}

// compareOrder wants what one desk did to one resource in the order in which it was pressed.
func (d *blackout) compareOrder() {
	place := map[string]int{}
	for _, s := range d.served {
		if s.done {
			place[s.key] = s.seq
		}
	}
	for _, k := range d.desks {
		last := map[string]int{}
		for _, e := range k.entries {
			of, at := e.resource(), place[e.key]
			if at == 0 || of == "" || !k.queues || len(e.keys) > 1 {
				continue // what was sent anew after its key had expired is later
			}
			if at < last[of] {
				d.t.Errorf("%s of %s: carried out before what was pressed before", e.path, e.name)
			}
			last[of] = at
		}
	}
}

// compareCharges wants no operator to have charged more to a folio in a day of the house than
// one may without a second factor.
func (d *blackout) compareCharges() {
	sums := map[string]int64{}
	for _, s := range d.served {
		if e := d.entries[s.key]; s.done && e.minor > 0 {
			operator, _, _ := strings.Cut(e.name, "/")
			sums[fmt.Sprint(operator, e.path, d.ledger.counted[s.key].Day)] += e.minor
		}
	}
	for of, sum := range sums {
		if sum > drillThreshold {
			d.t.Errorf("%s: %d without a second factor", of, sum)
		}
	}
}

// actionOf is the action that a path stands for; nil = none.
func actionOf(path string) *backoffice.Action {
	of := strings.Split(path, "/")
	for _, a := range backoffice.Actions() {
		pattern := strings.Split(a.Path, "/")
		if len(of) == len(pattern) && of[1] == pattern[1] && of[len(of)-1] == pattern[len(pattern)-1] {
			return &a
		}
	}
	return nil
}

// words are what a line says.
func words(l action.Line) string {
	out := []string{string(l.Verdict), l.Reason, l.By}
	if l.Known != nil {
		out = append(out, l.Known.Outcome)
	}
	return strings.Join(slices.DeleteFunc(out, func(s string) bool { return s == "" }), " ")
}

// judge compares a line with what must be said by all that has happened. More than one answer is
// right only where rights changed, or a day ended, while the line was made. It returns how often
// the entry was carried out.
func (d *blackout) judge(e *drillEntry, line action.Line, w *exchange, held bool) (done int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said[string(line.Verdict)]++
	d.happens(e.name, " is told ", words(line))
	right := d.verdicts(e, line.Key, w)
	switch {
	case held != (line.Reason == string(action.PendingHeldUp)):
		d.t.Errorf("%s of %s: %s, held up by an earlier entry: %v", e.path, e.name, words(line), held)
	case held:
	case line.Verdict == action.Undecided && line.Reason != string(action.PendingAccess):
		if !d.mayBeUnknown(line, w) {
			d.t.Errorf("%s of %s: %s, and %v is known", e.path, e.name, words(line), right)
		}
	case !slices.Contains(right, words(line)):
		d.t.Errorf("%s of %s with %s: %s, want %v", e.path, e.name, line.Key, words(line), right)
	case len(right) > 1:
		d.said["(one of several)"]++
	}
	for _, key := range e.keys {
		done += d.times(key, d.seq)
	}
	return done
}

// mayBeUnknown reports whether there is no verdict for a reason.
func (d *blackout) mayBeUnknown(line action.Line, w *exchange) bool {
	rows := d.ledger.of(line.Key)
	switch action.Pending(line.Reason) {
	case action.PendingOutcome: // of an attempt of this replay
		return len(rows) > 0 && rows[len(rows)-1].begun > w.from && rows[len(rows)-1].Outcome == backoffice.Unknown && !d.calm
	case action.PendingInFlight:
		return len(rows) > 0 && w.began.Sub(rows[len(rows)-1].At) < drillTakeOver
	case action.PendingUnavailable:
		return !d.calm
	case action.PendingTime:
		return time.Since(w.began) >= 14*time.Second
	}
	return false
}

// verdicts are what may be said of an entry with a key in an exchange that ends now.
func (d *blackout) verdicts(e *drillEntry, key string, w *exchange) (out []string) {
	a, rows := actionOf(e.path), d.ledger.of(key)
	if a == nil || a.Offline != backoffice.Replayable {
		return []string{"not_possible online_only"}
	}
	operator, _, _ := strings.Cut(e.name, "/")
	known := backoffice.NoTrace
	for _, is := range []backoffice.Outcome{"", backoffice.Unknown, backoffice.Succeeded} {
		for _, row := range rows {
			if row.Outcome == is || is == "" {
				known = string(row.Outcome)
			}
		}
	}
	refused := func(why action.Why) {
		no := "not_possible " + string(why)
		out = append(out, cmp.Or(map[string]string{"success": "already_done " + operator, "unknown": no + " unknown"}[known], no))
	}
	all := d.rights[operator]
	for i, has := range all {
		member := backoffice.Member{Roles: has.roles}
		switch {
		case i+1 < len(all) && all[i+1].seq <= w.from: // over before it was sent
		case has.refused == bff.CodePropertyScopeDenied:
			refused(action.WhyScope)
		case has.refused != "":
			out = append(out, "unknown access_ended")
		case !member.HasAny(a.Roles):
			refused(action.WhyRole)
		default:
			out = append(out, d.carried(e, key, w.sent, w.began, known), d.carried(e, key, w.sent, time.Now(), known))
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(s string) bool { return s == "" })
}

// carried is what has to be said at a moment of an entry that its operator may do.
func (d *blackout) carried(e *drillEntry, key string, sent, at time.Time, known string) string {
	rows, claim := d.ledger.of(key), d.ledger.claims[key]
	age := sent.Sub(bff.MustParseID(bff.PrefixRequest, "req_"+key).Time())
	switch {
	case claim != nil && claim.done && at.Before(claim.expires):
		return d.answered(e, key, rows)
	case age >= 24*time.Hour || age < -time.Minute || len(rows) > 0 && at.Sub(rows[0].At) >= 24*time.Hour:
		return "expired " + known
	case len(rows) > 0 && rows[len(rows)-1].Code == bff.CodeMFARequired && e.minor > 0:
		return "needs_second_factor"
	}
	return ""
}

// answered is what has to be said of an entry that was carried out, or was refused by its
// service: then it is done already if the last that was done to the resource is the same.
func (d *blackout) answered(e *drillEntry, key string, rows []*drillAct) string {
	if d.times(key, d.seq) == 1 {
		return "done"
	}
	if id := e.resource(); d.house.stands[id] == "" && d.house.folios[id] == "" {
		return "not_possible not_found"
	}
	conflict := "not_possible state_conflict"
	looked := rows[len(rows)-1].looked
	at := len(d.served) - 1 // where it was refused last
	for at >= 0 && d.served[at].key != key {
		at--
	}
	if at < 0 || e.minor > 0 {
		return conflict
	}
	verb := e.path[strings.LastIndexByte(e.path, '/'):]
	for _, s := range slices.Backward(d.served[:at]) {
		before := d.entries[s.key]
		same := strings.HasSuffix(before.path, verb)
		if !s.done || before.resource() != e.resource() || !same && verb != "/reopen" && !strings.HasSuffix(before.path, "/reopen") {
			continue
		}
		own := d.ledger.of(s.key)
		if last := own[len(own)-1]; !same || last.Outcome != backoffice.Succeeded || last.ended > looked {
			return conflict // it was taken back, or that it was done is not known yet
		}
		if slices.ContainsFunc(d.ledger.did, func(back *drillAct) bool {
			undone := back.ended > 0 && back.ended < looked && back.Outcome != backoffice.Succeeded && back.Outcome != backoffice.Unknown
			takes := back.Resource.ID == e.resource() && strings.HasSuffix(back.Action, "_reopen") != (verb == "/reopen")
			return takes && back.At.After(own[0].At) && back.begun < looked && !undone
		}) {
			return conflict // it may have been taken back between two attempts
		}
		operator, _, _ := strings.Cut(e.name, "/")
		by, _, _ := strings.Cut(before.name, "/")
		if by == operator {
			return "already_done " + by
		}
		return "done_by_other " + by
	}
	return conflict
}
