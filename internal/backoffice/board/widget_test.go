package board

import (
	"encoding/json"
	"testing"

	"melmastoon.ghasi.io/bff"
)

// Every widget shows the figures of its source and no other: all values of a reading
// differ, so that two of them cannot be taken for each other.
func TestEveryWidgetShowsItsFigures(t *testing.T) {
	t.Parallel()
	amount := func(minor string) Amount { return Amount{Minor: minor, Currency: bff.AFN} }
	readings := map[Source]any{
		SourceArrivals: []Stay{
			{ReservationID: "rsv_1", RoomNumber: "101", Status: "confirmed", ETA: "18:30", VIP: true, Adults: 2, Children: 1},
			{ReservationID: "rsv_2", Status: "confirmed"},
			{ReservationID: "rsv_3", Status: "cancelled", VIP: true},
			{ReservationID: "rsv_4", Status: "no_show", VIP: true},
		},
		SourceDepartures: []Stay{{Status: "checked_out"}, {Status: "checked_in"}, {Status: "checked_in"}},
		SourceInHouse:    []Stay{{Adults: 2, Children: 3}, {Adults: 5, Children: 4}},
		SourceOccupancy:  []Night{{Date: 20774, Occupied: 31, Total: 48}, {Date: 20775, Occupied: 7, Total: 47}},
		SourceFigures: Figures{
			ADR: amount("8125"), RevPAR: amount("6250"), AverageLengthOfStay: 2.75, Cancellations: 4, NoShows: 3, ChannelMix: Counts{"direct": 8, "agent": 5},
		},
		SourceRates:      []Rate{{RoomTypeID: "rmt_1", RatePlanID: "rpl_2", Nightly: amount("450000")}},
		SourceRooms:      []Room{{"101", "dirty"}, {"102", "clean"}, {"103", "dirty"}},
		SourceProgress:   Progress{Total: 21, Counts: Counts{"done": 12, "open": 9}, PercentDone: 57.1, TimeToReadyMinutes: 95, PendingAtArrivalWindow: 6},
		SourceLinen:      Linen{CleanSets: 120, SetsPerDay: 35, RunwayDays: 3.4},
		SourceFolios:     Folios{Open: 14, BalanceDue: amount("123456")},
		SourceCashDrawer: CashDrawer{Status: "open", Opening: amount("1"), Taken: amount("2"), Expected: amount("3")},
		SourceWorkOrders: []WorkOrder{
			{WorkOrderID: "wko_1", RoomNumber: "104", Severity: "high", Status: "open", BlocksRoom: true},
			{WorkOrderID: "wko_2", RoomNumber: "105", Severity: "low", Status: "in_progress"},
			{WorkOrderID: "wko_3", RoomNumber: "106", Severity: "low", Status: "in_progress", BlocksRoom: true},
			{WorkOrderID: "wko_4", RoomNumber: "107", Severity: "high", Status: "resolved", BlocksRoom: true},
		},
		SourceAlerts:       Counts{"high": 2, "low": 1},
		SourceSuggestions:  Counts(nil),
		SourceAcceptance:   Acceptance{Days: 30, Accepted: 17, Rejected: 8, Modified: 4, Rate: 0.72},
		SourceDevices:      []SyncDevice{{Online: true, LagSeconds: 11}, {LagSeconds: 900}, {LagSeconds: 30}},
		SourceShiftGaps:    []Shift{{"housekeeper", "08:00", "16:00"}},
		SourceLockFailures: []LockFailure{},
		SourceNotes:        make([]Note, maxItems+1),
	}
	want := map[WidgetID]string{
		"arrivals":              `{"count":4,"counts":{"cancelled":1,"confirmed":2,"no_show":1}}`,
		"departures":            `{"count":3,"counts":{"checked_in":2,"checked_out":1}}`,
		"in-house":              `{"rooms":2,"adults":7,"children":7}`,
		"occupancy-today":       `{"occupied":31,"total":48,"percent":64.5}`,
		"occupancy-7-days":      `{"count":2,"items":[{"date":"2026-11-17","occupied":31,"total":48},{"date":"2026-11-18","occupied":7,"total":47}]}`,
		"adr":                   `{"amount":{"minor":"8125","currency":"AFN"}}`,
		"revpar":                `{"amount":{"minor":"6250","currency":"AFN"}}`,
		"alos":                  `{"nights":2.75}`,
		"cancellations":         `{"count":4}`,
		"no-shows":              `{"count":3}`,
		"channel-mix":           `{"count":13,"counts":{"agent":5,"direct":8}}`,
		"rate-snapshot":         `{"count":1,"items":[{"roomTypeId":"rmt_1","ratePlanId":"rpl_2","nightly":{"minor":"450000","currency":"AFN"}}]}`,
		"rooms-by-status":       `{"count":3,"counts":{"clean":1,"dirty":2}}`,
		"housekeeping-progress": `{"total":21,"counts":{"done":12,"open":9},"percentDone":57.1}`,
		"time-to-ready":         `{"minutes":95}`,
		"pending-at-arrival":    `{"count":6}`,
		"linen-runway":          `{"cleanSets":120,"setsPerDay":35,"runwayDays":3.4}`,
		"open-work-orders":      `{"count":3,"counts":{"high":1,"low":2}}`,
		"blocked-rooms":         `{"count":2,"items":[{"roomNumber":"104","workOrderId":"wko_1","severity":"high"},{"roomNumber":"106","workOrderId":"wko_3","severity":"low"}]}`,
		"open-folios":           `{"count":14}`,
		"balance-due":           `{"amount":{"minor":"123456","currency":"AFN"}}`,
		"cash-drawer":           `{"status":"open","opening":{"minor":"1","currency":"AFN"},"taken":{"minor":"2","currency":"AFN"},"expected":{"minor":"3","currency":"AFN"}}`,
		"alerts":                `{"count":3,"counts":{"high":2,"low":1}}`,
		"ai-suggestions":        `{"count":0,"counts":{}}`,
		"ai-acceptance":         `{"days":30,"accepted":17,"rejected":8,"modified":4,"rate":0.72}`,
		"devices":               `{"online":1,"offline":2}`,
		"sync-lag":              `{"worstSeconds":900}`,
		"staffing-gaps":         `{"count":1,"items":[{"role":"housekeeper","from":"08:00","to":"16:00"}]}`,
		"lock-failures":         `{"count":0,"items":[]}`,
		"vip-arrivals":          `{"count":1,"items":[{"reservationId":"rsv_1","roomNumber":"101","status":"confirmed","eta":"18:30"}]}`,
	}
	for _, w := range Widgets() {
		value, ok := readings[w.From]
		if !ok {
			t.Errorf("%s: no reading of %s", w.ID, w.From)
			continue
		}
		shown, err := w.show(value)
		if err != nil {
			t.Errorf("%s: %v", w.ID, err)
			continue
		}
		if w.ID == "notes" { // a part of a long list, and how many there are
			if l, ok := shown.(listOf[Note]); !ok || l.Count != maxItems+1 || len(l.Items) != maxItems {
				t.Errorf("%s: %+v", w.ID, shown)
			}
			continue
		}
		if got, err := json.Marshal(shown); err != nil || string(got) != want[w.ID] {
			t.Errorf("%s: %s, %v\nwant %s", w.ID, got, err, want[w.ID])
		}
		if _, err := w.show("something else"); err == nil {
			t.Errorf("%s shows a reading of another type", w.ID)
		}
	}
	empty := `{"occupied":0,"total":0,"percent":0}`
	for _, nights := range [][]Night{nil, {{Occupied: 3}}} {
		if got, err := json.Marshal(occupancyToday(nights)); err != nil || string(got) != empty {
			t.Errorf("a house without rooms: %s, %v", got, err)
		}
	}
}
