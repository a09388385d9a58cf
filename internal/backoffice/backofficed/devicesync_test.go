package backofficed

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/device"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// settled repeats a call, with its key, for as long as a service behind does not
// answer in time, and a heartbeat until it is recorded: as an app does.
func (s *staff) settled(d *desk.Client, call desk.Call) *desk.Answer {
	s.t.Helper()
	for {
		a, err := d.Ask(testkit.Context(s.t), call)
		if err != nil {
			s.t.Error(err)
			return &desk.Answer{}
		}
		switch {
		case a.Status == http.StatusGatewayTimeout, a.Status == http.StatusServiceUnavailable, strings.Contains(string(a.Body), `"status":"unknown"`):
		default:
			return a
		}
	}
}

// A device beats, syncs, falls silent and comes back, against real servers.
func TestDeviceSync(t *testing.T) {
	t.Parallel()
	ctx := testkit.Context(t)
	s := &staff{t: t, World: testkit.NewWorld(t, nil)}
	p := s.Start("bff-backoffice", map[string]string{"BFF_BACKOFFICE_LIMITS": "off", "BFF_BACKOFFICE_SYNC_PUBLIC_URL": "https://sync.example"})
	d := s.newDesk(p, nil)
	s.signIn(d, "parwana")
	super, err := postgres.Open(t.Context(), testkit.Patient(s.PostgresURL))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(super.Close)

	beat := desk.Call{Method: http.MethodPost, Path: "/devices/" + d.Device().ID() + "/heartbeat", Body: map[string]any{
		"appVersion": "2.4.0", "appPlatform": "win32", "networkProfile": "good", "installerChannel": "stable", "pendingHintCount": 0, "lastPullCursor": "0",
	}}
	if a := s.settled(d, beat); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Body)
	}

	shaken := s.settled(d, desk.Call{Method: http.MethodPost, Path: "/sync/handshake"})
	var h struct {
		SyncSessionToken, SyncBaseURL string
		CursorVersion                 int
	}
	if err := shaken.Into(&h); err != nil || shaken.Status != http.StatusOK || strings.Count(h.SyncSessionToken, ".") != 2 ||
		h.SyncBaseURL != "https://sync.example" {
		t.Fatalf("%d %s", shaken.Status, shaken.Body)
	}

	// Of two moves from the same version one wins; the other is told the new version.
	var (
		both     sync.WaitGroup
		statuses = make([]int, 2)
		lost     = make([]string, 2)
	)
	for i := range statuses {
		both.Go(func() {
			key := strings.TrimPrefix(bff.NewID(bff.PrefixRequest, time.Now()).String(), "req_")
			move := desk.Call{
				Method: http.MethodPost, Path: "/sync/cursor", IdempotencyKey: key,
				Body: map[string]any{"expectedVersion": h.CursorVersion, "pullCursor": fmt.Sprint("p", i)},
			}
			first := s.settled(d, move)
			if again := s.settled(d, move); again.Status != first.Status {
				t.Errorf("repeated: %d %s, first %d", again.Status, again.Body, first.Status)
			}
			statuses[i] = first.Status
			if first.Status == http.StatusConflict {
				lost[i] = first.Err().Error()
			}
		})
	}
	both.Wait()
	slices.Sort(statuses)
	if !slices.Equal(statuses, []int{http.StatusOK, http.StatusConflict}) || !strings.Contains(lost[0]+lost[1], "SYNC_CURSOR_CONFLICT") {
		t.Errorf("%v %q", statuses, lost)
	}

	// Without sync-service the last that is known is shown, and marked.
	if err := s.Sim.SetFault(sim.Fault{Upstream: "sync", Status: http.StatusInternalServerError}); err != nil {
		t.Fatal(err)
	}
	shaken = s.settled(d, desk.Call{Method: http.MethodPost, Path: "/sync/handshake"})
	var c device.SyncCursor
	if err := shaken.Into(&c); err != nil || !c.Stale || c.Version != h.CursorVersion+1 {
		t.Errorf("%d %s", shaken.Status, shaken.Body)
	}
	s.Sim.ClearFaults()

	// Silent devices go offline once, whether they ever had a heartbeat or not.
	silent := func(sql string) {
		t.Helper()
		if _, err := super.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	silent(`INSERT INTO bff_backoffice.device_sync_status (tenant_id, device_id, updated_at) SELECT gen_random_uuid(), 'dev_01M7MK9ZTR35B5VXC99GJ5AM9A', now() - interval '6 minutes'`)
	silent(`INSERT INTO bff_backoffice.device_sync_status (tenant_id, device_id) SELECT gen_random_uuid(), 'dev_01M7MK9ZTR35B5VXC99GJ5AM9B'`)
	silent(`UPDATE bff_backoffice.device_sync_status SET last_heartbeat_at = now() - interval '6 minutes' WHERE device_id = '` + d.Device().ID() + `'`)
	for range 2 {
		s.run("jobs", "device-status-sweep")
	}
	if diff := cmp.Diff(
		map[string]int{"online": 1, "offline": 2}, counts(t, super, `SELECT status, count(*) FROM bff_backoffice.device_sync_status GROUP BY 1`),
	); diff != "" {
		t.Error(diff)
	}
	s.settled(d, beat)
	want := map[string]int{"device.went_offline": 2, "device.came_online": 1, "sync.cursor_advanced": 1}
	got := counts(t, super, `SELECT substring(subject FROM 'melmastoon.bff.backoffice.(.*).v1'), count(*)
		FROM (SELECT subject FROM bff_backoffice.outbox UNION ALL SELECT subject FROM bff_backoffice.outbox_archive) e
		WHERE subject ~ 'went_offline|came_online|cursor_advanced' GROUP BY 1`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// counts is a query's second column by its first.
func counts(t *testing.T, db *pgxpool.Pool, sql string) map[string]int {
	t.Helper()
	rows, err := db.Query(testkit.Context(t), sql)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]int{}
	for rows.Next() {
		var (
			name string
			n    int
		)
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		out[name] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
