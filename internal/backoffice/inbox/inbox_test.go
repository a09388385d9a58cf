package inbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// board is both sides of an inbox in memory.
type board struct {
	mirror Mirror
	marks  map[string][]Mark
	err    error
	asked  bff.ID // the property of the last question
}

func (b *board) ListInbox(_ context.Context, _ Inbox, _, property bff.ID) (Mirror, error) {
	b.asked = property
	return b.mirror, nil
}

func (b *board) ListMarks(_ context.Context, _ Inbox, _ bff.ID, ids []string) (map[string][]Mark, error) {
	out := map[string][]Mark{}
	for _, id := range ids {
		out[id] = b.marks[id]
	}
	return out, b.err
}

func TestInboxesMerge(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)
	entry := func(id, category, status string, minutes int) Entry {
		return Entry{ID: id, Category: category, Severity: "info", Status: status, At: at.Add(time.Duration(minutes) * time.Minute)}
	}
	b := &board{
		mirror: Mirror{Entries: []Entry{
			entry("a", "power", "open", 1), entry("b", "power", "open", 3), entry("c", "lock", "resolved", 2), entry("d", "lock", "acknowledged", 3),
		}},
		marks: map[string][]Mark{"a": {{Operator: "opt_1", At: at}}, "c": {{Operator: "opt_1", At: at}}},
	}
	SortInbox(b.mirror.Entries)
	yes, no := true, false
	for name, test := range map[string]struct {
		of   Inbox
		q    Query
		want []string
	}{
		"the newest first, ties by id":     {Alerts, Query{}, []string{"d acknowledged", "b open", "c resolved", "a acknowledged"}},
		"what was done":                    {Alerts, Query{Marked: &yes}, []string{"d acknowledged", "c resolved", "a acknowledged"}},
		"what was not":                     {Alerts, Query{Marked: &no}, []string{"b open"}},
		"by the status that our log knows": {Alerts, Query{Statuses: []string{"acknowledged"}}, []string{"d acknowledged", "a acknowledged"}},
		"by category":                      {Alerts, Query{Categories: []string{"lock", "x"}}, []string{"d acknowledged", "c resolved"}},
		"by severity":                      {Alerts, Query{Severities: []string{"critical"}}, nil},
	} {
		var got []string
		test.q.Scope = backoffice.ReadPropertyScope([]string{"*"})
		test.q.Limit = 1 // page by page, however many
		for range 10 {
			page, err := NewInboxes(b, b).List(t.Context(), test.of, bff.ID{}, bff.ID{}, test.q)
			if err != nil || page.Unmarked || len(page.Items) > 1 || page.Total != len(test.want) {
				t.Fatalf("%s: %+v, %v", name, page, err)
			}
			for _, i := range page.Items {
				got = append(got, i.ID+" "+i.Status)
			}
			if page.Next == nil {
				break
			}
			test.q.After = *page.Next
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	b.err = errors.New("away")
	page, err := NewInboxes(b, b).List(t.Context(), Alerts, bff.ID{}, bff.ID{}, Query{Limit: 10, Scope: backoffice.ReadPropertyScope([]string{"*"})})
	if err != nil || !page.Unmarked || page.Items[3].Status != "open" || page.Items[3].Marks != nil {
		t.Errorf("without our log: %+v, %v", page, err)
	}
	b.err, b.marks["b"] = nil, []Mark{{Operator: "opt_2", At: at, Outcome: Modified}}
	page, err = NewInboxes(b, b).List(t.Context(), Suggestions, bff.ID{}, bff.ID{}, Query{
		Limit: 10, Statuses: []string{"modified"}, Scope: backoffice.ReadPropertyScope([]string{"*"}),
	})
	if err != nil || len(page.Items) != 1 || page.Items[0].ID != "b" {
		t.Errorf("a decision: %+v, %v", page, err)
	}
}

// Without a property, the inboxes of the scope are shown together, and nothing beyond it.
func TestInboxesOfAScope(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)
	houses := []bff.ID{bff.NewID(bff.PrefixProperty, at), bff.NewID(bff.PrefixProperty, at), bff.NewID(bff.PrefixProperty, at)}
	b := &board{}
	for i, id := range []string{"a", "b", "c", "d"} {
		b.mirror.Entries = append(b.mirror.Entries, Entry{ID: id, Status: "open", At: at.Add(time.Duration(i) * time.Minute), Property: houses[i%3]})
	}
	SortInbox(b.mirror.Entries)
	for name, test := range map[string]struct {
		scope []string
		at    bff.ID
		want  string
		asked bff.ID
	}{
		"all":               {[]string{"*"}, bff.ID{}, "dcba", bff.ID{}},
		"two":               {[]string{houses[0].String(), houses[1].String()}, bff.ID{}, "dba", bff.ID{}},
		"one, by its own":   {[]string{houses[0].String()}, bff.ID{}, "dcba", houses[0]}, // the mirror of that property alone
		"none":              {nil, bff.ID{}, "", bff.ID{}},
		"a named one of it": {[]string{"*"}, houses[2], "dcba", houses[2]},
	} {
		page, err := NewInboxes(b, b).List(t.Context(), Alerts, bff.ID{}, test.at, Query{Limit: 10, Scope: backoffice.ReadPropertyScope(test.scope)})
		got := ""
		for _, i := range page.Items {
			got += i.ID
		}
		if err != nil || got != test.want || page.Total != len(test.want) || b.asked != test.asked {
			t.Errorf("%s: %q of %d, asked for %q, %v", name, got, page.Total, b.asked, err)
		}
	}
}

func TestEntryID(t *testing.T) {
	t.Parallel()
	a, b := bff.NewID(bff.PrefixTenant, time.Unix(1, 0)), bff.NewID(bff.PrefixTenant, time.Unix(2, 0))
	if got := Suggestions.EntryID(a, "sug_01M7MK9ZTR35B5VXC99GJ5AM9A").String(); got != "aim_01M7MK9ZTR35B5VXC99GJ5AM9A" {
		t.Error(got)
	}
	odd := Alerts.EntryID(a, "17")
	if odd.Prefix() != bff.PrefixAlertInbox || odd != Alerts.EntryID(a, "17") || odd == Alerts.EntryID(b, "17") || odd == Alerts.EntryID(a, "18") {
		t.Error(odd)
	}
}
