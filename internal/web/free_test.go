package web

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
)

// A reader that believes the first of two members and one that believes the last must
// not both pass: a proxy would see another amount than billing.
func TestMembersThatAreThereTwiceAreRefused(t *testing.T) {
	t.Parallel()
	many := func(last string) string {
		var b strings.Builder
		for i := range 3 * fewMembers {
			b.WriteString(`"k` + strings.Repeat("x", i) + `":1,`)
		}
		return `{` + b.String() + `"` + last + `":2}`
	}
	for body, want := range map[string][]string{
		`{"a":1,"b":2}`:            nil,
		`{"a":1,"A":2,"aa":3}`:     nil,
		`{"a":1,"a":1}`:            {"a"},
		`{"a":1,"\u0061":2,"a":3}`: {"a"},
		`{"unread":{"x":[{"y":1},{"y":1,"z":0,"y":2}]}}`: {"unread.x[1].y"},
		`{"a":{"b":1},"a":{"c":1,"c":2},"d":null,"d":1}`: {"a", "d", "a.c"},
		many("new"): nil,
		many("kxx"): {"kxx"},
	} {
		in, err := ParseBody(t.Context(), []byte(body))
		if err != nil {
			t.Fatalf("%.40s: %v", body, err)
		}
		var got []string
		for name, code := range fields(in.Err()) {
			if got = append(got, name); code != bff.FieldConflict {
				t.Errorf("%.40s: %s is %s", body, name, code)
			}
		}
		if diff := cmp.Diff(want, got, cmp.Transformer("sort", sorted)); diff != "" {
			t.Errorf("%.40s (-want +got):\n%s", body, diff)
		}
	}
}

// A search is a question: of two members the last counts, as it always did.
func TestQuestionsMaySayThingsTwice(t *testing.T) {
	t.Parallel()
	in, err := ParseText(context.WithValue(t.Context(), requestKey{}, &Request{Question: true}), `{"a":"x","a":"y"}`)
	if err != nil || in.Err() != nil || in.String("a", 5) != "y" {
		t.Errorf("%v, %v", err, in.Err())
	}
}

func sorted(in []string) map[string]bool {
	out := map[string]bool{}
	for _, s := range in {
		out[s] = true
	}
	return out
}

func TestFree(t *testing.T) {
	t.Parallel()
	rule := Free{Depth: 3, Values: 12, Runes: 8}
	word := Free{Depth: 3, Values: 12, Name: func(s string) bool { return s != "" }, Text: func(s string) bool { return !strings.Contains(s, " ") }}
	for _, test := range []struct {
		rule Free
		free string
		want map[string]string
	}{
		{rule, `{"":"two words","n":-1.5e3,"list":[true,null,{"x":"é"}]}`, map[string]string{"free.": "length"}},
		{rule, `{"a":1e131071,"b":[1,1E-99999],"c":{"d":1e16,"e":1e15},"f":0.123456789012345678}`, map[string]string{
			"free.a": "range", "free.b[1]": "range", "free.c.d": "range", "free.f": "range",
		}},
		{rule, `{"a":"x\u0000y","b":["\n"],"c\u0000":"\u0001","d":{"\u007f":1,"ok":"\u0085"}}`, map[string]string{
			"free.a": "format", "free.b[0]": "format", "free": "format", "free.d": "format", "free.d.ok": "format",
		}},
		{rule, `{"` + strings.Repeat("n", 129) + `":1}`, map[string]string{"free": "format"}},
		{rule, `{"a":{"b":{"c":{}}},"d":[[[]]],"e":[[1]]}`, map[string]string{"free.a.b.c": "range", "free.d[0][0]": "range"}},
		{rule, `{"a":[1,2,3,4,5,6],"b":[1,2,3,4]}`, nil},
		{rule, `{"a":[1,2,3,4,5,6],"b":[1,2,3,4,5]}`, map[string]string{"free": "count"}},
		{rule, `[]`, map[string]string{"free": "type"}},
		{rule, `null`, nil},
		{word, `{"a":"one","b":["two words"],"":1}`, map[string]string{"free.b[0]": "format", "free": "format"}},
		{word, `{"a":"` + strings.Repeat("é", 2000) + `"}`, nil},
		{rule, `{"a":1,"a":2}`, map[string]string{"free.a": "conflict"}},
	} {
		in, err := ParseBody(t.Context(), []byte(`{"free":`+test.free+`}`))
		if err != nil {
			t.Fatal(err)
		}
		in.Free("free", test.rule)
		if diff := cmp.Diff(test.want, fields(in.Err())); diff != "" {
			t.Errorf("%.60s (-want +got):\n%s", test.free, diff)
		}
	}
}
