package web

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
)

func fields(err error) map[string]string {
	e, ok := errors.AsType[*bff.Error](err)
	if !ok {
		return nil
	}
	out := map[string]string{}
	for _, f := range e.Fields {
		out[f.Field] = f.Code
	}
	return out
}

func TestInputNamesEveryBadField(t *testing.T) {
	t.Parallel()
	in, err := ParseBody(t.Context(), []byte(`{"s":1,"long":"abcdef","ctl":"a\u0000b","n":"x","f":1.5,"big":1e99,"neg":-3,"o":[],"list":["a",2],
		"many":[1,2,3],"ages":[1,"x",40],"id":"tnt_01H8YN7QV4D8KZ4F8Y5CK4MV3D","date":"2026-13-01","enum":"zzz","locale":"fr","b":"true","null":null,"empty":""}`))
	if err != nil {
		t.Fatal(err)
	}
	in.String("s", 10)
	in.String("long", 3)
	in.String("ctl", 10)
	in.Int("n", 0, 0, 9)
	in.Int("f", 0, 0, 9)
	in.Int("big", 0, 0, 9)
	in.Float("neg", 0, 9)
	in.Object("o")
	in.Strings("list", 5, 5)
	in.Ints("many", 2, 0, 9)
	in.Ints("ages", 5, 0, 17)
	in.ID("id", bff.PrefixProperty)
	in.Date("date")
	in.Enum("enum", "a", "b")
	in.Locale("locale")
	in.Bool("b")
	in.Require("null", "absent", "empty", "s")
	want := map[string]string{
		"s": "type", "long": "length", "ctl": "format", "n": "type", "f": "type", "big": "range", "neg": "range", "o": "type",
		"list[1]": "type", "many": "count", "ages[1]": "type", "ages[2]": "range", "id": "format", "date": "format",
		"enum": "unsupported", "locale": "unsupported", "b": "type", "null": "required", "absent": "required", "empty": "required",
	}
	if diff := cmp.Diff(want, fields(in.Err())); diff != "" {
		t.Errorf("refused fields (-want +got):\n%s", diff)
	}
}

// TestSupportedIsListed: a word outside a closed set is answered with the set.
func TestSupportedIsListed(t *testing.T) {
	t.Parallel()
	in, err := ParseBody(t.Context(), []byte(`{"one":"zzz","part":{"many":["a","zzz"],"locale":"fr"}}`))
	if err != nil {
		t.Fatal(err)
	}
	in.Enum("one", "a", "b")
	in.Object("part").Enums("many", 5, "a", "c")
	in.Object("part").Locale("locale")
	e, ok := errors.AsType[*bff.Error](in.Err())
	want := bff.FieldErrors{
		{Field: "one", Code: bff.FieldUnsupported, Supported: []string{"a", "b"}},
		{Field: "part.many[1]", Code: bff.FieldUnsupported, Supported: []string{"a", "c"}},
		{Field: "part.locale", Code: bff.FieldUnsupported, Supported: bff.Texts(bff.Locales())},
	}
	if diff := cmp.Diff(want, e.Fields); !ok || diff != "" {
		t.Errorf("refused fields (-want +got):\n%s", diff)
	}
}

func TestBoolOfAQuery(t *testing.T) {
	t.Parallel()
	in := ReadQuery(httptest.NewRequestWithContext(t.Context(), "GET", "/?yes=true&no=false&odd=1", nil))
	if yes, no := in.Bool("yes"), in.Bool("no"); yes == nil || !*yes || no == nil || *no {
		t.Errorf("%v %v", yes, no)
	}
	if got := in.Bool("odd"); got != nil || fields(in.Err())["odd"] != "type" {
		t.Errorf("%v %v", got, in.Err())
	}
}

func TestReadBodyRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body, contentType string
		want                    bff.Code
	}{
		{"too large", `{"a":"` + strings.Repeat("x", 100) + `"}`, "application/json", bff.CodePayloadTooLarge},
		{"empty", ``, "", bff.CodeValidationFailed},
		{"array", `[]`, "application/json", bff.CodeValidationFailed},
		{"two values", `{} {}`, "application/json; charset=utf-8", bff.CodeValidationFailed},
		{"broken", `{"a":`, "application/json", bff.CodeValidationFailed},
		{"not UTF-8", "{\"a\":\"\xff\"}", "application/json", bff.CodeValidationFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(allowBody(t.Context(), 64), "POST", "/", strings.NewReader(tt.body))
			r.Header.Set("Content-Type", tt.contentType)
			if _, err := ReadBody(httptest.NewRecorder(), r); bff.CodeOf(err) != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestReadQuery(t *testing.T) {
	t.Parallel()
	in := ReadQuery(httptest.NewRequestWithContext(t.Context(), "GET", "/?adults=2&childrenAges=5,8&children=2&x=1&x=2&bad=%zz&rooms=", nil))
	if got := in.Int("adults", 1, 1, 9); got != 2 {
		t.Errorf("adults: got %d", got)
	}
	if got := in.Int("rooms", 7, 1, 9); got != 7 {
		t.Errorf("an empty parameter is as absent: got %d", got)
	}
	if diff := cmp.Diff([]int{5, 8}, in.Ints("childrenAges", 4, 0, 17)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"x": "conflict", "query": "format"}, fields(in.Err())); diff != "" {
		t.Error(diff)
	}
}

func FuzzInput(f *testing.F) {
	f.Add([]byte(`{"geo":{"mode":"city"},"dates":{"checkIn":"2026-01-01"},"n":1,"l":[1,"a",null]}`))
	f.Add([]byte(`{"n":1e309,"l":{},"dates":[]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := ParseBody(t.Context(), body)
		if err != nil {
			if len(fields(err)) == 0 {
				t.Fatalf("a refusal must name a field: %v", err)
			}
			return
		}
		in.String("geo", 5)
		if o := in.Object("dates"); o != nil {
			o.Date("checkIn")
		}
		in.Ints("l", 3, 0, 5)
		in.Strings("l", 3, 5)
		if n := in.Int("n", 1, 0, 9); n < 0 || n > 9 {
			t.Fatalf("out of bounds: %d", n)
		}
		_ = in.Err()
	})
}
