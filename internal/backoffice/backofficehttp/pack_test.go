package backofficehttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/backofficecache"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
)

// fullHouse has 200 rooms with guests in nearly all of them, of whom a third comes and a
// third leaves each day.
type fullHouse struct {
	*houseFake
	stays  []board.Stay
	tasks  []board.Task
	orders []board.WorkOrder
	rooms  []board.Room
}

func newFullHouse() *fullHouse {
	chance := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	id := func(p bff.Prefix) string {
		var b [16]byte
		for i := range b {
			b[i] = byte(chance.Uint32()) //nolint:gosec // any byte
		}
		b[0], b[1] = 1, 0x9f // of these years
		return bff.IDFromBytes(p, b).String()
	}
	given := []string{"Zarghuna", "Mirwais", "Parwana", "Nadia", "Tariq", "Farida", "Jamshid", "Shukria", "Abdul Wahid", "Gulalai", "Rahmatullah", "Soraya", "Homayoun", "Laila"}
	family := []string{"Karimi", "Wardak", "Ahmadzai", "Noori", "Popalzai", "Rahimi", "Stanekzai", "Yusufzai", "Haidari", "Mohammadi", "Barakzai", "Amini", "Sultani", "Qaderi"}
	types := []string{id(bff.PrefixRoomType), id(bff.PrefixRoomType), id(bff.PrefixRoomType)}
	name := &bff.LocalizedString{Default: "Double room", Localized: map[string]string{"fa": "اتاق دونفره", "ps": "دوه کسیزه خونه"}}
	h := &fullHouse{houseFake: newHouseFake()}
	for i := range 200 {
		room := fmt.Sprint(100*(1+i/25) + i%25)
		h.rooms = append(h.rooms, board.Room{RoomNumber: room, Status: []string{"occupied", "clean", "dirty"}[i%3]})
		if i%50 != 49 {
			s := board.Stay{
				ReservationID: id(bff.PrefixReservation), GuestName: given[chance.IntN(len(given))] + " " + family[chance.IntN(len(family))], RoomNumber: room,
				RoomTypeID:   types[i%3],
				RoomTypeName: name, Adults: 1 + chance.IntN(3), Children: chance.IntN(2), Status: "checked_in", ETA: fmt.Sprintf("%02d:%02d", 12+chance.IntN(9), 15*chance.IntN(4)),
				VIP: chance.IntN(12) == 0, Channel: []string{"direct", "phone", "agency"}[chance.IntN(3)], FolioID: id(bff.PrefixFolio), Version: 1 + chance.IntN(5),
			}
			if chance.IntN(5) == 0 {
				s.Notes = "Arrives by the late bus from Herat, needs a cot"
			}
			h.stays = append(h.stays, s)
		}
		if i%4 != 0 {
			h.tasks = append(h.tasks, board.Task{
				TaskID: id(backoffice.PrefixTask), RoomNumber: room, Kind: []string{"departure_clean", "stayover"}[i%2], Status: []string{"pending", "in_progress", "done"}[chance.IntN(3)],
				Priority: "normal", AssignedTo: "opt_01HCCAJ930Q3Y811AXYN4D8YR" + fmt.Sprint(i%8), Minutes: 15 + 5*chance.IntN(8), Version: 1,
			})
		}
		if i%20 == 0 {
			h.orders = append(h.orders, board.WorkOrder{WorkOrderID: id(backoffice.PrefixWorkOrder), RoomNumber: room, Title: "Leaking tap in the bathroom", Severity: "medium", Status: "open", Version: 1})
		}
	}
	return h
}

// Read implements board.House.
func (h *fullHouse) Read(_ context.Context, from board.Source, at board.Place) (board.Reading, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fails[from]; err != nil {
		return board.Reading{}, err
	}
	third := func(n int, status string) (out []board.Stay) {
		for i, s := range h.stays {
			if s.CheckIn, s.CheckOut = at.Date-1, at.Date+2; (i+int(at.Date))%3 == n {
				s.Status = status
				out = append(out, s)
			}
		}
		return out
	}
	r := board.Reading{AsOf: time.Now()}
	switch from {
	case board.SourceArrivals:
		r.Value = third(0, "confirmed")
	case board.SourceDepartures:
		r.Value = third(1, "checked_in")
	case board.SourceInHouse:
		r.Value = slices.Concat(third(0, "checked_in"), third(1, "checked_in"), third(2, "checked_in"))
	case board.SourceRooms:
		r.Value = slices.Clone(h.rooms)
	case board.SourceTasks:
		r.Value = slices.Clone(h.tasks)
	case board.SourceWorkOrders:
		r.Value = slices.Clone(h.orders)
	}
	return r, nil
}

// packDoc is what a test looks at of a pack.
type packDoc struct {
	Day      struct{ Date string }
	Next     struct{ Day struct{ Date string } }
	Names    bool
	Missing  []string
	Degraded []struct{ Part, Reason string }
	InHouse  []struct{ RoomNumber, GuestName, Notes string }
	Arrivals []struct{ GuestName string }
	KeysDue  []struct{ Step string }
	Rooms    []any
}

// takes is a request for the pack by a device that has the one of a tag; empty = none.
func (s *sender) takes(tag string) *httptest.ResponseRecorder {
	r := s.request(http.MethodGet, base+"/blackout?propertyId="+house, "")
	r.header.Set("Accept-Encoding", "zstd")
	if tag != "" {
		r.header.Set("If-None-Match", tag)
	}
	return s.f.send(0, r)
}

// packOf reads the pack as a sender is shown it.
func (s *sender) packOf() packDoc {
	s.f.tb.Helper()
	w := s.get("/blackout?propertyId=" + house)
	var doc packDoc
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK {
		s.f.tb.Fatalf("%d %s", w.Code, w.Body)
	}
	return doc
}

// renew has the next pack made anew.
func (f *front) renew() {
	f.tb.Helper()
	err := backofficecache.NewInvalidator(f.stores[0]).Invalidate(f.tb.Context(), f.tenant, bff.MustParseID(bff.PrefixProperty, house), board.PackViews()...)
	if err != nil {
		f.tb.Fatal(err)
	}
}

// The pack of a house of 200 rooms is small, the same until the house changes, and names
// guests at the front desk alone; the ledger says who has it.
func TestBlackoutPack(t *testing.T) {
	t.Parallel()
	h := newFullHouse()
	f := newFront(t, frontConfig{limits: manyReads, upstreams: h})
	f.employ("opt_cleaner", backoffice.Housekeeper)
	s, cleaner := f.sender("opt_parwana"), f.sender("opt_cleaner")

	w := s.takes("")
	const most = 30 << 10
	if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "zstd" || w.Body.Len() > most {
		t.Errorf("%d, %d bytes of %q, want %d at most", w.Code, w.Body.Len(), w.Header().Get("Content-Encoding"), most)
	}
	doc := s.packOf()
	t.Logf("%d bytes as zstd, %d rooms, %d in the house, %d keys due", w.Body.Len(), len(doc.Rooms), len(doc.InHouse), len(doc.KeysDue))
	inOrder := slices.IsSortedFunc(doc.InHouse, func(a, b struct{ RoomNumber, GuestName, Notes string }) int {
		return bytes.Compare([]byte(a.RoomNumber), []byte(b.RoomNumber))
	})
	if len(doc.Rooms) != 200 || len(doc.InHouse) < 190 || !inOrder || len(doc.KeysDue) < 100 || !doc.Names || doc.InHouse[0].GuestName == "" ||
		doc.Day.Date >= doc.Next.Day.Date {
		t.Errorf("%+v", doc)
	}
	tag := w.Header().Get("Etag")
	for range 3 {
		f.renew()
		if again := s.takes(tag); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Fatalf("an unchanged house: %d", again.Code)
		}
	}
	h.change(func(*houseFake) { h.rooms[7].Status = "out_of_order" })
	f.renew()
	if again := s.takes(tag); again.Code != http.StatusOK || again.Header().Get("Etag") == tag {
		t.Errorf("a changed house: %d", again.Code)
	}
	doc = cleaner.packOf()
	if doc.Names || doc.Arrivals[0].GuestName != "" || slices.ContainsFunc(doc.InHouse,
		func(i struct{ RoomNumber, GuestName, Notes string }) bool { return i.GuestName+i.Notes != "" }) {
		t.Error("a housekeeper is told who sleeps where")
	}
	taken := func() (n int) {
		f.outbox.mu.Lock()
		defer f.outbox.mu.Unlock()
		for _, a := range f.outbox.did {
			if a.Action == "pack_taken" && a.Property.String() == house {
				n++
			}
		}
		return n
	}
	if n := taken(); n != 2 {
		t.Errorf("%d entries of two devices", n)
	}
	f.advance(10 * time.Minute)
	s.packOf()
	f.advance(6 * time.Minute)
	again := f.senderAt("opt_parwana", s.device)
	again.packOf()
	if n := taken(); n != 3 {
		t.Errorf("%d entries after a quarter of an hour, want 3", n)
	}
}

// Without a word of its tenant there is no pack, nor while the ledger cannot say who has it.
// What cannot be had is named, with its reason.
func TestBlackoutPackFailsClosed(t *testing.T) {
	t.Parallel()
	h := newFullHouse()
	f := newFront(t, frontConfig{limits: manyReads, upstreams: h})
	s := f.sender("opt_parwana")
	h.change(func(fake *houseFake) {
		fake.fails[board.SourceTasks], fake.fails[board.SourceArrivals] = errors.New("away"), context.DeadlineExceeded
	})
	doc := s.packOf()
	if !slices.Equal(doc.Missing, []string{"arrivals", "tasks", "next-arrivals"}) || len(doc.Degraded) != 3 || doc.Degraded[0].Reason != "timeout" || doc.Degraded[1].Reason != "error" {
		t.Errorf("missing %v, degraded %v", doc.Missing, doc.Degraded)
	}
	f.outbox.fail(&bff.Error{Code: bff.CodeServiceUnavailable})
	if w := f.sender("opt_parwana").takes(""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a ledger: %d", w.Code)
	}
	f.outbox.fail(nil)
	f.toggle(map[string]bool{"blackout_desk": false})
	if w := s.takes(""); codeOf(w) != "SERVICE_UNAVAILABLE" {
		t.Errorf("taken away by the platform: %d", w.Code)
	}
	f.toggle(map[string]bool{"blackout_desk": true})
	f.staff.set("opt_parwana", &backoffice.Member{Roles: []backoffice.Role{backoffice.FrontDesk}, Scope: backoffice.ReadPropertyScope([]string{house})})
	if w := s.takes(""); codeOf(w) != "SERVICE_UNAVAILABLE" {
		t.Errorf("a tenant that has not said yes: %d", w.Code)
	}
	h.change(func(fake *houseFake) {
		for _, from := range []board.Source{board.SourceDepartures, board.SourceInHouse, board.SourceRooms, board.SourceWorkOrders} {
			fake.fails[from] = errors.New("away")
		}
	})
	cold := newFront(t, frontConfig{limits: manyReads, upstreams: h})
	if w := cold.sender("opt_parwana").takes(""); w.Code < http.StatusInternalServerError {
		t.Errorf("with nothing to show: %d", w.Code)
	}
}
