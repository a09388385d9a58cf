package web

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAsked(t *testing.T) {
	t.Parallel()
	asked := map[string]bool{}
	ctx := WithAsked(allowBody(t.Context(), 1<<10), func(path string, _ []string) { asked[path] = true })
	body := `{"a":1,"inside":{"b":"x"},"list":["y"],"any":{"z":1},"unread":1,"tested":1}`
	r := httptest.NewRequestWithContext(ctx, "POST", "/?q=1&unread=2", strings.NewReader(body))
	in, err := ReadBody(httptest.NewRecorder(), r)
	if err != nil {
		t.Fatal(err)
	}
	in.Require("tested")
	in.Int("a", 0, 0, 9)
	in.Bool("absent")
	in.Object("inside").String("b", 9)
	in.Strings("list", 9, 9)
	in.Object("any").Members()
	ReadQuery(r).Int("q", 0, 0, 9)
	want := []string{"a", "absent", "any", "any.*", "inside", "inside.b", "list", "q"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(asked))); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
