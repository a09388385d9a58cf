package backofficeupstream

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
)

// Every figure that a dashboard shows is the one that the upstream means: all values of
// a body differ, so that two of them cannot be taken for each other, and each source is
// asked for the place, the day and the states that it is about.
func TestEveryFigure(t *testing.T) {
	t.Parallel()
	const asOf = `"asOf":"2026-11-17T11:10:08Z"`
	items := func(text string) string { return `{` + asOf + `,"items":[` + text + `]}` }
	amount := func(minor string, c bff.Currency) board.Amount {
		return board.Amount{Minor: minor, Currency: c}
	}
	moment := func(text string) bff.Timestamp {
		var at bff.Timestamp
		if err := at.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return at
	}
	date := func(text string) bff.Date {
		d, err := bff.ParseDate(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	at := board.Place{
		Tenant: bff.NewID(bff.PrefixTenant, time.Now()), Property: bff.NewID(bff.PrefixProperty, time.Now()), Day: board.Day{Date: date("2026-11-17")},
	}
	order, operator := bff.NewID(backoffice.PrefixWorkOrder, time.Now()), bff.NewID(bff.PrefixOperator, time.Now())
	twin := &bff.LocalizedString{Default: "Twin", Localized: map[string]string{"fa": "دو تخته"}}
	const name = `"roomTypeName":{"default":"en","values":{"en":"Twin","fa":"دو تخته"}}`
	const stay = `{"reservationId":"rsv_1","guestName":"a guest","roomNumber":"101","roomTypeId":"rmt_1",` + name + `,"adults":2,"children":3,"checkIn":"2026-11-16",` +
		`"checkOut":"2026-11-19","status":"confirmed","eta":"18:30","vip":true,"channel":"direct","notes":"late","version":7}`
	wantStay := []board.Stay{{
		ReservationID: "rsv_1", GuestName: "a guest", RoomNumber: "101", RoomTypeID: "rmt_1", RoomTypeName: twin, Adults: 2, Children: 3, CheckIn: date("2026-11-16"),
		CheckOut: date("2026-11-19"), Status: "confirmed", ETA: "18:30", VIP: true, Channel: "direct", Notes: "late", Version: 7,
	}}
	const day = "date=2026-11-17"
	tests := map[board.Source]struct {
		route string // behind the property, or the tenant
		query string // beside the limit
		body  string
		want  any
	}{
		board.SourceArrivals:   {"arrivals", day + "&status=all", items(stay), wantStay},
		board.SourceDepartures: {"departures", day + "&status=all", items(stay), wantStay},
		board.SourceInHouse:    {"in-house", day + "&status=all", items(stay), wantStay},
		board.SourceOccupancy: {
			"occupancy", "from=2026-11-17&to=2026-11-24", items(`{"date":"2026-11-18","occupied":31,"total":40}`),
			[]board.Night{{Date: date("2026-11-18"), Occupied: 31, Total: 40}},
		},
		board.SourceRooms: {"rooms", "status=all", items(`{"roomNumber":"102","status":"dirty"}`), []board.Room{{RoomNumber: "102", Status: "dirty"}}},
		board.SourceRates: {
			"rates", day, items(`{"roomTypeId":"rmt_1",` + name + `,"ratePlanId":"rpl_2","nightly":"4500000000:AFN"}`),
			[]board.Rate{{RoomTypeID: "rmt_1", RoomTypeName: twin, RatePlanID: "rpl_2", Nightly: amount("450000", bff.AFN)}},
		},
		board.SourceFigures: {
			"kpis", day,
			`{` + asOf + `,"currency":"USD","adr":81.25,"revpar":62.5,"averageLengthOfStay":2.75,"cancellations":4,"noShows":3,"channelMix":{"direct":8,"agent":5}}`,
			board.Figures{
				ADR: amount("8125", bff.USD), RevPAR: amount("6250", bff.USD), AverageLengthOfStay: 2.75, Cancellations: 4, NoShows: 3,
				ChannelMix: board.Counts{"direct": 8, "agent": 5},
			},
		},
		board.SourceTasks: {
			"tasks", day + "&status=all",
			items(`{"taskId":"hkt_1","roomNumber":"103","kind":"clean","status":"started","priority":"high",` +
				`"assignedTo":"opt_1","minutes":35,"neededBy":"14:00","version":6}`),
			[]board.Task{{
				TaskID: "hkt_1", RoomNumber: "103", Kind: "clean", Status: "started", Priority: "high", AssignedTo: "opt_1", Minutes: 35, NeededBy: "14:00", Version: 6,
			}},
		},
		board.SourceProgress: {
			"progress", day, `{` + asOf + `,"total":21,"counts":{"done":12,"open":9},"percentDone":57.1,"timeToReadyMinutes":95,"pendingAtArrivalWindow":6}`,
			board.Progress{Total: 21, Counts: board.Counts{"done": 12, "open": 9}, PercentDone: 57.1, TimeToReadyMinutes: 95, PendingAtArrivalWindow: 6},
		},
		board.SourceLinen: {
			"linen", day, `{` + asOf + `,"cleanSets":120,"setsPerDay":35,"runwayDays":3.4}`,
			board.Linen{CleanSets: 120, SetsPerDay: 35, RunwayDays: 3.4},
		},
		board.SourceWorkOrders: {
			"work-orders", "status=open%2Cin_progress%2Cresolved",
			items(`{"workOrderId":"` + order.UUID() + `","roomNumber":"104","title":"a tap","severity":"high","status":"in_progress","blocksRoom":true,` +
				`"openedAt":"2026-11-15T08:00:00Z","assignedTo":"` + operator.UUID() + `","version":5}`),
			[]board.WorkOrder{{
				WorkOrderID: order.String(), RoomNumber: "104", Title: "a tap", Severity: "high", Status: "in_progress", BlocksRoom: true,
				OpenedAt: moment("2026-11-15T08:00:00Z"), AssignedTo: operator.String(), Version: 5,
			}},
		},
		board.SourceFolios: {
			"folios", day + "&status=open", `{` + asOf + `,"total":14,"balanceDue":{"amountMinor":123456,"currency":"AFN"}}`,
			board.Folios{Open: 14, BalanceDue: amount("123456", bff.AFN)},
		},
		board.SourceCashDrawer: {
			"cash-drawer", day, `{` + asOf + `,"status":"open","opening":{"amountMinor":50000,"currency":"AFN"},"taken":{"amountMinor":37500,"currency":"USD"},` +
				`"expected":{"amountMinor":87500,"currency":"EUR"}}`,
			board.CashDrawer{Status: "open", Opening: amount("50000", bff.AFN), Taken: amount("37500", bff.USD), Expected: amount("87500", bff.EUR)},
		},
		board.SourceAlerts: {
			"alerts", "propertyId=PROPERTY&status=open",
			items(`{"severity":"high","category":"a"},{"severity":"low","category":"b"},{"severity":"high","category":"b"}`),
			board.Counts{"high": 2, "low": 1},
		},
		board.SourceSuggestions: {
			"suggestions", "propertyId=PROPERTY&status=open",
			items(`{"severity":"high","category":"pricing"},{"severity":"low","category":"staffing"},{"severity":"low","category":"pricing"}`),
			board.Counts{"pricing": 2, "staffing": 1},
		},
		board.SourceAcceptance: {
			"acceptance", day, `{` + asOf + `,"days":30,"accepted":17,"rejected":8,"modified":4,"acceptanceRate":0.72}`,
			board.Acceptance{Days: 30, Accepted: 17, Rejected: 8, Modified: 4, Rate: 0.72},
		},
		board.SourceDevices: {
			"devices", "", items(`{"status":"online","lagSeconds":11},{"status":"offline","lagSeconds":900}`),
			[]board.SyncDevice{{Online: true, LagSeconds: 11}, {LagSeconds: 900}},
		},
		board.SourceShiftGaps: {
			"shifts", day, `{` + asOf + `,"gaps":[{"role":"housekeeper","from":"08:00","to":"16:00"}],"shifts":[{"role":"front_desk","from":"09:00","to":"17:00"}]}`,
			[]board.Shift{{Role: "housekeeper", From: "08:00", To: "16:00"}},
		},
		board.SourceLockFailures: {
			"failures", day, items(`{"roomNumber":"105","reason":"battery_low","at":"2026-11-17T09:15:00Z"}`),
			[]board.LockFailure{{RoomNumber: "105", Reason: "battery_low", At: moment("2026-11-17T09:15:00Z")}},
		},
		board.SourceNotes: {"notes", day, items(`{"noteId":"nte_1","text":"a wedding"}`), []board.Note{{NoteID: "nte_1", Text: "a wedding"}}},
	}
	if len(tests) != len(readers) {
		t.Errorf("%d sources are tested, %d can be read", len(tests), len(readers))
	}
	for from, test := range tests {
		t.Run(string(from), func(t *testing.T) {
			t.Parallel()
			u, last, _ := serve(t, func(string) (int, string) { return http.StatusOK, test.body })
			got, err := u.House.Read(t.Context(), from, at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Value); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
			if !got.AsOf.Equal(time.Date(2026, 11, 17, 11, 10, 8, 0, time.UTC)) {
				t.Errorf("as of %s", got.AsOf)
			}
			d := dialectOf(from.Upstream())
			query := last.URL.Query()
			query.Del("limit")
			if path := last.URL.Path; !strings.HasSuffix(path, "/"+test.route) || query.Encode() != strings.ReplaceAll(test.query, "PROPERTY", d.write(at.Property)) {
				t.Errorf("asked for %s, want %s?%s", last.URL, test.route, test.query)
			}
			if last.URL.Host != string(from.Upstream()) || last.Header.Get(d.tenant) != d.write(at.Tenant) {
				t.Errorf("asked %s for %q", last.URL.Host, last.Header.Get(d.tenant))
			}
		})
	}
}
