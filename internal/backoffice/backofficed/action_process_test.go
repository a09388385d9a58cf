package backofficed

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/desk"
	"melmastoon.ghasi.io/bff/internal/local/sim"
	"melmastoon.ghasi.io/bff/internal/postgres"
	"melmastoon.ghasi.io/bff/internal/redis"
	"melmastoon.ghasi.io/bff/internal/testkit"
)

// act sends an action until it has ended one way or the other: on a busy machine a
// service may be late, and the same key asks again.
func (s *staff) act(d *desk.Client, path, attestation string, body any) *desk.Answer {
	s.t.Helper()
	ctx := testkit.Context(s.t)
	call := desk.Call{
		Method: http.MethodPost, Path: path, Body: body, IdempotencyKey: bff.NewID(bff.PrefixRequest, time.Now()).ULID(), Header: http.Header{},
	}
	if attestation != "" {
		call.Header.Set("X-Mfa-Attestation", attestation)
	}
	for {
		a, err := d.Ask(ctx, call)
		if err != nil {
			s.t.Fatalf("%s: %v", path, err)
		}
		if a.Status < http.StatusInternalServerError && !strings.Contains(string(a.Body), "IDEMPOTENCY_IN_FLIGHT") {
			return a
		}
		if ctx.Err() != nil {
			s.t.Fatalf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}

// upstreamGet reads what a simulated service says.
func (s *staff) upstreamGet(path, header, tenant string, into any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(testkit.Context(s.t), http.MethodGet, s.SimURL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set(header, tenant)
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d, %v", path, res.StatusCode, err)
	}
}

// A shift of two operators at two instances, over the simulator: every action with
// something of a guest in it, one suggestion that both decide about at once while the
// orchestrator hears nothing, and an alert. Afterwards the services behind have all of
// it, and nothing of a guest is in our tables, streams or logs.
func TestShift(t *testing.T) {
	t.Parallel()
	const typed = "Zarghuna Ahmadzai"
	s := &staff{t: t, World: testkit.NewWorld(t, nil)}
	ctx := testkit.Context(t)
	off := map[string]string{"BFF_BACKOFFICE_LIMITS": "off"}
	d, boss := s.newDesk(s.Start("bff-backoffice", off), nil), s.newDesk(s.Start("bff-backoffice", off), nil)
	s.signIn(d, "parwana")
	s.signIn(boss, "mirwais")
	s.listen(d) // what its stream is told is searched in the end
	w := s.whoAmI(d)
	property := w.PropertyScope[0]
	of := "?propertyId=" + property
	want := func(a *desk.Answer, status int, code string) {
		t.Helper()
		if a.Status != status || !strings.Contains(string(a.Body), code) {
			t.Errorf("%d %s, want %d %s", a.Status, a.Body, status, code)
		}
	}

	// One of those who are expected, whose room is free.
	var arrivals struct{ Items []board.Stay }
	if err := s.viewed(d, "/arrivals"+of+"&status=confirmed").Into(&arrivals); err != nil {
		t.Fatal(err)
	}
	in := slices.IndexFunc(arrivals.Items, func(g board.Stay) bool {
		return s.act(d, "/reservations/"+g.ReservationID+"/check-in"+of, "", nil).Status == http.StatusOK
	})
	if in < 0 {
		t.Fatal("no party could be checked in")
	}
	guest := arrivals.Items[in]
	want(s.act(d, "/reservations/"+guest.ReservationID+"/check-in"+of, "", nil), http.StatusConflict, "STATE_CONFLICT")
	want(s.act(d, "/maintenance/work-orders"+of, "", map[string]any{"title": typed + " broke the lamp", "severity": "low"}), http.StatusCreated, "workOrderId")

	var folios struct {
		Items []struct {
			FolioID, ReservationID string
			Balance                struct{ Currency string }
		}
	}
	tenant := bff.MustParseID(bff.PrefixTenant, w.TenantID).UUID()
	s.upstreamGet("/billing/api/v1/properties/"+bff.MustParseID(bff.PrefixProperty, property).UUID()+"/folios", "X-Billing-Tenant", tenant, &folios)
	folio, err := bff.IDFromUUID(bff.PrefixFolio, folios.Items[0].FolioID)
	if err != nil {
		t.Fatal(err)
	}
	posting := map[string]any{"amount": map[string]string{"minor": "1250", "currency": folios.Items[0].Balance.Currency}, "description": "Tea of " + typed}
	want(s.act(d, "/folios/"+folio.String()+"/charges"+of, "", posting), http.StatusCreated, "entryId")
	want(s.act(d, "/folios/"+folio.String()+"/refunds"+of, "", posting), http.StatusForbidden, "MFA_REQUIRED")
	var factor struct{ AttestationID string }
	if err := s.do(d, http.StatusOK, http.MethodPost, "/auth/mfa/step-up", map[string]string{
		"scope": "folio.refund", "resourceId": folio.String(), "code": "000000",
	}).Into(&factor); err != nil {
		t.Fatal(err)
	}
	want(s.act(d, "/folios/"+folio.String()+"/refunds"+of, factor.AttestationID, posting), http.StatusCreated, "entryId")

	// The orchestrator hears nothing; both decide at once.
	s.sim(http.MethodPost, "/_sim/faults", `{"upstream":"ai-orchestrator","route":"EVENT `+sim.TopicDecided+`","status":503}`, nil)
	s.sim(http.MethodPost, "/_sim/suggestions", `{"propertyId":"`+property+`","category":"staffing"}`, nil) // which every role decides about
	var inbox, alerts struct {
		Items []struct{ SuggestionID, AlertID, Status string }
	}
	if err := s.viewed(d, "/ai/suggestions"+of+"&status=open&category=staffing").Into(&inbox); err != nil || len(inbox.Items) == 0 {
		t.Fatal(len(inbox.Items), err)
	}
	if err := s.viewed(d, "/alerts"+of+"&status=open").Into(&alerts); err != nil || len(alerts.Items) == 0 {
		t.Fatal(len(alerts.Items), err)
	}
	suggestion, alert := inbox.Items[0].SuggestionID, alerts.Items[0].AlertID
	var (
		both sync.WaitGroup
		told [2]*desk.Answer
	)
	for i, by := range []*desk.Client{d, boss} {
		both.Go(func() {
			told[i] = s.act(by, "/ai/suggestions/"+suggestion+"/decide"+of, "", map[string]any{"outcome": []string{"accepted", "rejected"}[i]})
		})
	}
	both.Wait()
	if statuses := []int{told[0].Status, told[1].Status}; !slices.Contains(statuses, http.StatusOK) || !slices.Contains(statuses, http.StatusConflict) {
		t.Fatalf("%s and %s", told[0].Body, told[1].Body)
	}
	outcome := map[bool]string{true: "accepted", false: "rejected"}[told[0].Status == http.StatusOK]
	want(s.act(d, "/alerts/"+alert+"/acknowledge"+of, "", map[string]any{}), http.StatusOK, alert)
	if err := s.viewed(d, "/ai/suggestions"+of+"&decided=true").Into(&inbox); err != nil || !slices.ContainsFunc(inbox.Items, func(i struct{ SuggestionID, AlertID, Status string }) bool {
		return i.SuggestionID == suggestion && i.Status == outcome
	}) {
		t.Errorf("the inbox does not show the decision: %v, %v", inbox.Items, err)
	}
	settled := func(path, status string) {
		t.Helper()
		for doc := (struct{ Status string }{}); doc.Status != status; {
			if s.upstreamGet(path, "X-Tenant-Id", w.TenantID, &doc); ctx.Err() != nil {
				t.Fatalf("%s is %s", path, doc.Status)
			}
		}
	}
	settled("/notification/api/v1/alerts/"+alert, "acknowledged")
	settled("/ai-orchestrator/api/v1/suggestions/"+suggestion, "open") // it was away when the alert was heard of
	s.sim(http.MethodDelete, "/_sim/faults", "", nil)
	settled("/ai-orchestrator/api/v1/suggestions/"+suggestion, outcome)

	s.readActivity(boss, of, guest.ReservationID)
	s.searchFor(typed, guest.GuestName)
}

// readActivity wants a party's check-in in the ledger, with the refusal of the second one.
func (s *staff) readActivity(by *desk.Client, of, reservation string) {
	s.t.Helper()
	var (
		got    []string
		cursor string
	)
	for page := 0; page == 0 || cursor != ""; page++ {
		var doc struct {
			Items      []struct{ Action, Outcome string }
			NextCursor string
		}
		if err := s.viewed(by, "/activity"+of+"&limit=1&resource=reservation:"+reservation+cursor).Into(&doc); err != nil {
			s.t.Fatal(err)
		}
		for _, item := range doc.Items {
			got = append(got, item.Action+" "+item.Outcome)
		}
		if cursor = ""; doc.NextCursor != "" {
			cursor = "&cursor=" + doc.NextCursor
		}
	}
	if len(got) < 2 || got[0] != "check_in failure" || !slices.Contains(got, "check_in success") {
		s.t.Errorf("the ledger says %v", got)
	}
}

// searchFor fails if something of a guest is where it must not be.
func (s *staff) searchFor(texts ...string) {
	s.t.Helper()
	ctx := testkit.Context(s.t)
	db, err := postgres.Open(s.t.Context(), testkit.Patient(s.PostgresURL))
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	var tables []string
	if err := db.QueryRow(
		ctx, `SELECT array_agg(tablename::text) FROM pg_tables WHERE schemaname = 'bff_backoffice'`,
	).Scan(&tables); err != nil || len(tables) < 10 {
		s.t.Fatal(tables, err)
	}
	rows := map[string]int{}
	for _, table := range tables {
		for _, text := range texts {
			var all, hits int
			if err := db.QueryRow(
				ctx, `SELECT count(*), count(*) FILTER (WHERE x::text LIKE '%' || $1 || '%') FROM bff_backoffice.`+table+` x`, text,
			).Scan(&all, &hits); err != nil || hits > 0 {
				s.t.Errorf("%s has %q in %d rows, %v", table, text, hits, err)
			}
			rows[table] = all
		}
	}
	if diff := cmp.Diff(map[string]int{
		"ai_decision_log": 1, "alert_ack_log": 1,
	}, map[string]int{"ai_decision_log": rows["ai_decision_log"], "alert_ack_log": rows["alert_ack_log"]}); diff != "" || rows["outbox"] < 6 {
		s.t.Errorf("%s, outbox %d", diff, rows["outbox"])
	}
	var decided int
	if err := db.QueryRow(ctx, `SELECT count(*) FROM bff_backoffice.outbox WHERE subject = $1`, sim.TopicDecided).Scan(&decided); err != nil || decided != 1 {
		s.t.Errorf("%d events of decisions, %v", decided, err)
	}
	c, err := redis.Open(redis.Config{URL: s.RedisURL, Timeout: time.Minute})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	logs, err := c.Do(ctx, c.B().Keys().Pattern(s.Name+":bff-backoffice:sse:log:*").Build()).AsStrSlice()
	if err != nil || len(logs) == 0 {
		s.t.Errorf("streams: %v, %v", logs, err)
	}
	for _, key := range logs {
		entries, err := c.Do(ctx, c.B().Xrange().Key(key).Start("-").End("+").Build()).AsXRange()
		if err != nil || len(entries) == 0 {
			s.t.Errorf("%s: %d, %v", key, len(entries), err)
		}
		for _, e := range entries {
			for _, v := range e.FieldValues {
				for _, text := range texts {
					if strings.Contains(v, text) {
						s.t.Errorf("a stream was told %s", v)
					}
				}
			}
		}
	}
	s.searchLogs(texts)
}

// searchLogs looks into what the processes of this test have logged.
func (s *staff) searchLogs(texts []string) {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.Dir(s.t.TempDir()), "*", "*.log"))
	if err != nil || len(files) == 0 {
		s.t.Errorf("%d logs, %v", len(files), err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		for _, text := range texts {
			if err != nil || strings.Contains(string(b), text) {
				s.t.Errorf("%s has %q, %v", path, text, err)
			}
		}
	}
}
