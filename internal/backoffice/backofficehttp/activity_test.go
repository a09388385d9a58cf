package backofficehttp_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/audit"
)

// activityDoc is what tests look at of a page.
type activityDoc struct {
	Items []struct {
		ActivityID, OperatorID, Action, Outcome string
		Resource                                *struct{ Kind, ID string }
	}
	NextCursor string
}

// did puts activities into the ledger of the house, the newest first.
func (f *front) did(actions ...string) {
	at := f.clock()
	for _, action := range actions {
		at = at.Add(-time.Second)
		a := backoffice.Activity{
			ID: bff.NewID(bff.PrefixActivity, at), Operator: "opt_karim", Device: bff.NewID(bff.PrefixDevice, at), At: at.Add(345678 * time.Microsecond),
			Category: "reservation", Action: action, Resource: backoffice.Resource{Kind: "reservation", ID: "rsv_1"}, Outcome: backoffice.Succeeded, Latency: 12 * time.Millisecond,
		}
		if action == "denied" {
			a.Outcome, a.Code, a.Resource, a.Latency = backoffice.Denied, bff.CodeRoleDenied, backoffice.Resource{}, 0
		}
		if action == "check_out" {
			a.Pressed = a.At.Add(-time.Hour)
		}
		f.behindUs.with(func() { f.behindUs.recorded = append(f.behindUs.recorded, a) })
	}
}

// meetActivity meets the answers of the ledger that other operations do not have.
func meetActivity(f *front, s *sender, send func(*request, int)) {
	f.did("check_in", "denied", "check_out")
	page := "/activity?limit=2&propertyId=" + house
	var doc activityDoc
	if err := json.Unmarshal(s.get(page).Body.Bytes(), &doc); err != nil {
		f.tb.Fatal(err)
	}
	send(
		s.request(http.MethodGet, base+page+"&resource=reservation:rsv_1&operatorId=opt_karim&from=2026-11-17T00:00:00Z&to=2026-11-18T00:00:00Z", ""),
		http.StatusOK,
	)
	send(s.request(http.MethodGet, base+page+"&cursor="+doc.NextCursor, ""), http.StatusOK)
	send(s.request(http.MethodGet, base+page+"x&cursor=x", ""), http.StatusBadRequest)
	send(f.sender("opt_nadia").request(http.MethodGet, base+page, ""), http.StatusForbidden)
	send(s.request(http.MethodGet, base+"/activity?propertyId="+other, ""), http.StatusForbidden)
	send(f.sender("opt_hamida").request(http.MethodGet, base+"/activity?propertyId="+other, ""), http.StatusForbidden) // has no role
	f.employed("opt_owner", func(m *backoffice.Member) {
		m.Roles, m.Scope = []backoffice.Role{backoffice.Owner}, backoffice.ReadPropertyScope([]string{"*"})
	})
	f.house.change(func(h *houseFake) { h.foreign[foreign] = true })
	send(f.sender("opt_owner").request(http.MethodGet, base+"/activity?propertyId="+foreign, ""), http.StatusNotFound)
}

// A list is read page by page; its cursors are of use for this list alone.
func TestActivityPages(t *testing.T) {
	t.Parallel()
	f := newFront(t, frontConfig{instances: 2})
	f.employ("opt_mirwais", backoffice.GeneralManager)
	f.employ("opt_karim", backoffice.FrontDesk)
	f.did("check_in", "denied", "check_out", "charge", "refund")
	s := f.sender("opt_mirwais")
	read := func(instance int, query string) (doc activityDoc) {
		t.Helper()
		w := s.from(instance, http.MethodGet, "/activity?propertyId="+house+query, "")
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "private, no-store" {
			t.Fatalf("%s: %d %s", query, w.Code, w.Body)
		}
		return doc
	}
	var got []string
	filter := "&resource=reservation&operatorId=opt_karim&from=2026-11-01T00:00:00%2B04:30"
	cursor := ""
	for i, limit := range []string{"2", "1", "2"} { // pages may have different lengths
		doc := read(i%2, filter+"&limit="+limit+cursor)
		for _, item := range doc.Items {
			got = append(got, item.Action+" "+item.Outcome)
		}
		if (doc.NextCursor == "") != (i == 2) {
			t.Fatalf("page %d: next %q", i, doc.NextCursor)
		}
		cursor = "&cursor=" + doc.NextCursor
	}
	if diff := cmp.Diff([]string{"check_in success", "denied denied", "check_out success", "charge success", "refund success"}, got); diff != "" {
		t.Error(diff)
	}
	f.behindUs.with(func() {
		want := audit.ActivityQuery{
			Property: bff.MustParseID(bff.PrefixProperty, house), Resource: backoffice.Resource{Kind: "reservation"}, Operator: "opt_karim",
			From: time.Date(2026, 10, 31, 19, 30, 0, 0, time.UTC), Limit: 2, After: f.behindUs.asked.After,
		}
		if diff := cmp.Diff(want, f.behindUs.asked, cmp.Comparer(func(a, b bff.ID) bool { return a == b })); diff != "" {
			t.Error(diff)
		}
	})
	all := s.get("/activity?propertyId=" + house).Body.String()
	if doc := read(0, ""); len(doc.Items) != 5 || doc.NextCursor != "" || doc.Items[1].Resource != nil || doc.Items[0].Resource.ID != "rsv_1" ||
		!strings.Contains(all, `"operatorId":"opt_karim","operatorName":"Somebody"`) || !strings.Contains(all, `"latencyMs":12`) || !strings.Contains(all, `"errorCode":"MELMASTOON.BFF.BACKOFFICE.ROLE_DENIED"`) {
		t.Errorf("%s", all)
	}

	next := read(0, filter+"&limit=2").NextCursor
	tampered := []byte(next)
	tampered[5] ^= 1
	for name, query := range map[string]string{
		"tampered":         filter + "&cursor=" + url.QueryEscape(string(tampered)),
		"cut":              filter + "&cursor=" + next[:len(next)-1],
		"lengthened":       filter + "&cursor=" + next + "A",
		"another resource": strings.Replace(filter, "=reservation", "=reservation:rsv_1", 1) + "&cursor=" + next,
		"another operator": strings.Replace(filter, "karim", "nadia", 1) + "&cursor=" + next,
		"another moment":   strings.Replace(filter, "11-01", "11-02", 1) + "&cursor=" + next,
		"another end":      filter + "&to=2027-01-01T00:00:00Z&cursor=" + next,
		"without filters":  "&cursor=" + next,
	} {
		if got := badFields(t, s, "/activity?propertyId="+house+query); got != "cursor" {
			t.Errorf("cursor %s: %q", name, got)
		}
	}
}

// badFields are the fields that a refusal names.
func badFields(t *testing.T, s *sender, path string) string {
	t.Helper()
	w := s.get(path)
	var doc struct {
		Error struct {
			Errors []struct{ Field string }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != http.StatusBadRequest {
		t.Errorf("%s: %d %s", path, w.Code, w.Body)
	}
	var fields []string
	for _, e := range doc.Error.Errors {
		fields = append(fields, e.Field)
	}
	slices.Sort(fields)
	return strings.Join(fields, " ")
}
