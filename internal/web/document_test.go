package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff"
)

// decoded is what encoding/json makes of a body.
func decoded(body string) (members map[string]any, fault string) {
	switch {
	case body == "":
		return nil, bff.FieldRequired
	case !utf8.ValidString(body):
		return nil, bff.FieldFormat
	}
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, bff.FieldFormat
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, bff.FieldFormat
	}
	members, ok := v.(map[string]any)
	if !ok {
		return nil, bff.FieldType
	}
	return members, ""
}

func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, m := range v {
			deepest = max(deepest, depth(m))
		}
	case []any:
		for _, m := range v {
			deepest = max(deepest, depth(m))
		}
	default:
		return 0
	}
	return deepest + 1
}

// likeJSON fails unless ParseBody does with a body what encoding/json does.
func likeJSON(t *testing.T, body string) {
	t.Helper()
	want, wantFault := decoded(body)
	if strings.Count(body, "{")+strings.Count(body, "[") > maxDepth && (wantFault != "" || depth(want) > maxDepth) {
		return // refused for its depth, perhaps before what encoding/json minds
	}
	in, err := ParseBody(t.Context(), []byte(body))
	if got := fields(err)["body"]; got != wantFault {
		t.Fatalf("%q: refused as %q, want %q", body, got, wantFault)
	}
	if err != nil {
		return
	}
	if diff := cmp.Diff(want, in.Members()); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", body, diff)
	}
	for name := range want {
		if got := in.Has(name); got != (want[name] != nil) {
			t.Fatalf("%q: has %q: %v", body, name, got)
		}
	}
}

// bodies are JSON and almost JSON.
func bodies() []string {
	list := []string{
		benchBody, "", " ", "{}", " { } ", "\t\r\n{}\n", "\v{}", "\ufeff{}", "{} ", "{}x", "{} {}", "{}]", "[]", "null", "1", "1 2", `"x"`, "true", "tru", "truefalse",
		`{"a":1}`, `{"a":1,}`, `{"a":1 "b":2}`, `{,}`, `{"a"}`, `{"a":}`, `{"a" :1}`, `{"a": 1 , "b" : 2 }`, `{a:1}`, `{'a':1}`, `{"a":1}}`, `{"a":[1,2,]}`, `{"a":[,1]}`, `{"a":[1 2]}`, `{"a":[}`,
		`{"a":{"b":{"c":[{}]}}}`, `{"a":[[],[[]],{}]}`, `{"a":1,"a":2}`, `{"a":{"b":1},"a":{"c":2}}`, `{"a":1,"a":null}`, `{"":1}`, `{"a":nul}`, `{"a":NaN}`, `{"a":Infinity}`, `{"a":undefined}`,
		`{"a":"` + strings.Repeat("é", 100) + `"}`, "{\"a\":\"\x7f\"}", "{\"a\":\"\n\"}", "{\"a\":\"\x00\"}", "{\"a\":\"\xff\"}", `{"a":"` + "\u2028" + `"}`, `{"a":"`, `{"a":"\`, `{"a":"\"`, `{"a":"\"}`, `{"\u0061":1,"a":2}`,
		`{"a":/**/1}`, "{\"a\":1}\x00", `{"a":"<>&"}`,
	}
	for _, n := range []string{
		"0", "-0", "00", "01", "-", "-1", "+1", "1.", ".5", "1.0", "1.50", "1e", "1e+", "1e5", "1E-5", "1e+05", "1e999", "0x10", "1_000", "12345678901234567890", "-0.0e-0", "1.e1", "0e", "1ee1", "--1", "1-", "1,", "Inf",
	} {
		list = append(list, `{"a":`+n+`}`, n, `{"a":[`+n+`,`+n+`]}`)
	}
	for _, s := range []string{
		`\"\\\/\b\f\n\r\t`, `\u0041`, `\u00e9`, `\uD83D\uDE00`, `\ud83d\ude00`, `\ud83d`, `\ud83dx`, `\ude00`, `\ud83d\u0041`, `\ud83d\ud83d\ude00`, `\ud83d\n`, `\ud83d\u00`, `\ud83d\uzzzz`, `\u00`, `\u00g0`, `\x41`, `\'`, `\U0041`,
		`\u0000`, `\uffff`, `\ufffe`, `a\u0062c`, `é\u0041é`, `\`, `\ud83d\`, `\u2028`, `\udfff\ud800`,
	} {
		list = append(list, `{"a":"`+s+`"}`, `{"x`+s+`":1}`, `{"a":["`+s+`"]}`)
	}
	return list
}

func TestParseBodyIsLikeEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, body := range bodies() {
		likeJSON(t, body)
	}
	for i := range len(benchBody) { // cut short, and with each byte in turn replaced
		likeJSON(t, benchBody[:i])
		for _, c := range []string{"", `"`, `\`, "{", "]", ",", ":", "0", " ", "\x01"} {
			likeJSON(t, benchBody[:i]+c+benchBody[i+1:])
		}
	}
}

func FuzzParseBody(f *testing.F) {
	for _, body := range bodies() {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) { likeJSON(t, body) })
}

func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	nested := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}` }
	if _, err := ParseBody(t.Context(), []byte(nested(maxDepth))); err != nil {
		t.Errorf("%d deep: %v", maxDepth, err)
	}
	for _, n := range []int{maxDepth + 1, 100_000} {
		for _, body := range []string{nested(n), strings.Repeat(`{"a":`, n), strings.Repeat("[", n)} {
			if _, err := ParseBody(t.Context(), []byte(body)); fields(err)["body"] != bff.FieldFormat {
				t.Errorf("%d deep: got %v, want it refused", n, err)
			}
		}
	}
}

// TestBodyIsNotShared: the caller's bytes may change after they were read.
func TestBodyIsNotShared(t *testing.T) {
	t.Parallel()
	body := []byte(`{"a":"kabul"}`)
	in, err := ParseBody(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	copy(body, strings.Repeat("x", len(body)))
	if got := in.String("a", 9); got != "kabul" {
		t.Errorf("got %q", got)
	}
}

func TestReadBodyByLength(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		size   int // of the text
		length int64
		limit  int64
		want   bff.Code
	}{
		{"small", 10, 0, 1 << 20, ""},
		{"as long as the limit", 100 - len(`{"a":""}`), 0, 100, ""},
		{"one longer", 101 - len(`{"a":""}`), 0, 100, bff.CodePayloadTooLarge},
		{"beyond one piece", 2 * smallBody, 0, 1 << 20, ""},
		{"beyond one piece and the limit", 2 * smallBody, 0, smallBody + 1, bff.CodePayloadTooLarge},
		{"unknown length", 10, -1, 1 << 20, ""},
		{"unknown length beyond the limit", 101, -1, 100, bff.CodePayloadTooLarge},
		{"shorter than it says", 10, 30, 1 << 20, bff.CodeValidationFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := strings.Repeat("x", tt.size)
			body := `{"a":"` + text + `"}`
			r := httptest.NewRequestWithContext(allowBody(t.Context(), tt.limit), "POST", "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			if tt.length != 0 {
				r.ContentLength = tt.length
			}
			in, err := ReadBody(httptest.NewRecorder(), r)
			if tt.want != "" {
				if bff.CodeOf(err) != tt.want {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := in.String("a", len(text)); got != text {
				t.Errorf("read %d characters of %d", len(got), len(text))
			}
		})
	}
}

// likeURL fails unless ReadQuery reads a query as url.ParseQuery does.
func likeURL(t *testing.T, query string) {
	t.Helper()
	if strings.Count(query, "&") >= maxParameters {
		return
	}
	values, wantErr := url.ParseQuery(query)
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.URL.RawQuery = query
	in := ReadQuery(r)
	want, wantBad := map[string]any{}, map[string]string{}
	for k, v := range values {
		want[k] = v[0]
		if len(v) > 1 {
			wantBad[k] = bff.FieldConflict
		}
		if in.Has(k) != (v[0] != "") {
			t.Fatalf("%q: has %q: %v", query, k, in.Has(k))
		}
	}
	if wantErr != nil {
		wantBad["query"] = bff.FieldFormat
	}
	if diff := cmp.Diff(want, in.Members()); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", query, diff)
	}
	bad := fields(in.Err())
	if bad == nil {
		bad = map[string]string{}
	}
	if diff := cmp.Diff(wantBad, bad); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", query, diff)
	}
}

func queries() []string {
	return []string{
		"", "a=1", "a=1&b=2", "a=1&a=2", "a=1&a=2&a=3", "a", "a=", "=1", "&&", "a=1&&b=2&", "a=b=c", "a=%41", "a=%zz", "%zz=1", "%41=1&A=2", "a+b=c+d", "a;b", "a=1;b=2", "a=1&b;c&d=2", "%", "a=%", "é=é", "%C3%A9=%ff",
	}
}

func TestReadQueryIsLikeURL(t *testing.T) {
	t.Parallel()
	for _, q := range queries() {
		likeURL(t, q)
	}
}

func FuzzReadQuery(f *testing.F) {
	for _, q := range queries() {
		f.Add(q)
	}
	f.Fuzz(likeURL)
}

func TestQueryIsBounded(t *testing.T) {
	t.Parallel()
	var q strings.Builder
	for i := range 4000 {
		q.WriteString("&" + string(rune('a'+i%26)) + string(rune(0x4e00+i)))
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.URL.RawQuery = q.String()
	if got := fields(ReadQuery(r).Err()); got["query"] != bff.FieldCount {
		t.Errorf("got %v, want too many parameters refused", got)
	}
}

func TestQueryLists(t *testing.T) {
	t.Parallel()
	in := ReadQuery(httptest.NewRequestWithContext(t.Context(), "GET", "/?s=a,b,,c&n=1,x,,9&many=1,2,3&one=7&text=%00&rest=z", nil))
	if diff := cmp.Diff([]string{"a", "b", "", "c"}, in.Strings("s", 4, 1)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{1, 0, 0}, in.Ints("n", 4, 0, 5)); diff != "" {
		t.Error(diff)
	}
	if got := in.Ints("many", 2, 0, 5); got != nil {
		t.Errorf("got %v", got)
	}
	if diff := cmp.Diff([]int{7}, in.Ints("one", 2, 0, 9)); diff != "" {
		t.Error(diff)
	}
	if got := in.String("text", 5); got != "" {
		t.Errorf("got %q", got)
	}
	if got := in.String("rest", 5); got != "z" {
		t.Errorf("a member after lists were read: got %q", got)
	}
	want := map[string]string{"n[1]": "format", "n[2]": "type", "n[3]": "range", "many": "count", "text": "format"}
	if diff := cmp.Diff(want, fields(in.Err())); diff != "" {
		t.Errorf("refused fields (-want +got):\n%s", diff)
	}
}

func TestSupportedLocalesAreThemselves(t *testing.T) {
	t.Parallel()
	for _, l := range bff.Locales() {
		if got, err := bff.ParseLocale(string(l)); err != nil || got != l {
			t.Errorf("%s is matched to %s, %v", l, got, err)
		}
	}
}
