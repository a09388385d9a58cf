package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

// value reads a whole value as encoding/json would.
func value(r *jsonscan.Reader, raw []byte) any {
	switch {
	case len(raw) == 0:
		return nil
	case raw[0] == '{':
		out := map[string]any{}
		for name := range r.Object() {
			out[name] = member(r)
		}
		return out
	case raw[0] == '[':
		out := []any{}
		for range r.Array() {
			out = append(out, member(r))
		}
		return out
	case raw[0] == '"':
		return r.String()
	case raw[0] == 't', raw[0] == 'f':
		return r.Bool()
	}
	return json.Number(raw)
}

func member(r *jsonscan.Reader) any {
	raw := r.Raw()
	if r.Err() != nil {
		return nil
	}
	return value(jsonscan.New(raw), raw)
}

func reference(data []byte) (v any, err error) {
	if !json.Valid(data) {
		return nil, errInvalid
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return v, d.Decode(&v)
}

var errInvalid = errors.New("invalid")

// deep reports documents that may be nested so deeply that to compare them would
// take for ever.
func deep(data []byte) bool {
	return bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > 100
}

func TestDepth(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		depth   int
		wantErr bool
	}{{1000, false}, {1001, true}, {1_000_000, true}} {
		r := jsonscan.New([]byte(strings.Repeat("[", tt.depth) + strings.Repeat("]", tt.depth)))
		if r.Skip(); (r.Err() != nil) != tt.wantErr {
			t.Errorf("depth %d: %v", tt.depth, r.Err())
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e+3,"x\n\ud83d\ude00\u0026",true,false,null,{}],"ä":"سلام","":[]}`, ` [ ] `, `"`, `"\u12"`, "\"\xff\"", `01`, `-`, `1.`, `1e`, `{"a":1,}`,
		`[1 2]`, `nul`, `{"a"}`, `{1:2}`, `1 1`, ``, "\"\x1f\"", `{"a":{"a":{"b":[[[]]]}}}`, `"\ud800"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want, wantErr := reference(data)
		if deep(data) {
			return
		}
		r := jsonscan.New(data)
		r.Skip()
		if got := r.Err(); (got != nil) != (wantErr != nil) {
			t.Fatalf("skipping %q: %v, encoding/json: %v", data, got, wantErr)
		}
		r = jsonscan.New(data)
		got := member(r)
		if err := r.Err(); (err != nil) != (wantErr != nil) {
			t.Fatalf("reading %q: %v, encoding/json: %v", data, err, wantErr)
		} else if err != nil {
			return
		}
		if !reflect.DeepEqual(want, got) {
			t.Errorf("reading %q: %v, encoding/json: %v", data, got, want)
		}
	})
}

// house has every kind of member that can be asked for.
type house struct {
	Name   string
	Rooms  int
	Stars  *float64
	Beds   *int
	Lat    float64
	Open   bool
	Tags   []string
	Inside struct{ Name string }
	Extra  json.RawMessage
}

var members = []string{"Name", "Rooms", "Stars", "Beds", "Lat", "Open", "Tags", "Inside", "Extra"}

func readHouse(r *jsonscan.Reader) (h house) {
	for name := range r.Object() {
		switch name {
		case "Name":
			h.Name = r.String()
		case "Rooms":
			h.Rooms = r.Int()
		case "Stars":
			h.Stars = r.MaybeFloat()
		case "Beds":
			h.Beds = r.MaybeInt()
		case "Lat":
			h.Lat = r.Float()
		case "Open":
			h.Open = r.Bool()
		case "Tags":
			h.Tags = r.Strings()
		case "Inside":
			for name := range r.Object() {
				if name == "Name" {
					h.Inside.Name = r.String()
				}
			}
		case "Extra":
			h.Extra = r.Raw()
		}
	}
	return h
}

// What a typed reader makes of a document is what encoding/json makes of it,
// wrong kinds included.
func FuzzTyped(f *testing.F) {
	for _, seed := range []string{
		`{"Name":"x","Rooms":3,"Stars":4.5,"Beds":2,"Lat":34.47,"Open":true,"Tags":["a","b"],"Inside":{"Name":"y","Other":[1]},"Extra":{"z": 1},"?":[{}]}`,
		`{"Name":null,"Rooms":null,"Stars":null,"Beds":null,"Lat":null,"Open":null,"Tags":null,"Inside":null}`,
		`{"Name":1}`, `{"Rooms":3.0}`, `{"Rooms":1e3}`, `{"Rooms":"3"}`, `{"Rooms":99999999999999999999}`, `{"Lat":1e999}`, `{"Lat":"1"}`, `{"Open":1}`, `{"Tags":{}}`,
		`{"Tags":[1]}`, `{"Tags":[null,"\""]}`, `{"Inside":[]}`, `[]`, `"x"`, `null`, `{"Name":"a","Name":"b"}`, `{"Stars":[}`, `{"Beds":1.5}`, `{"Tags":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want house
		err := json.Unmarshal(data, &want)
		if deep(data) || unclear(jsonscan.New(data)) {
			return
		}
		r := jsonscan.New(data)
		got := readHouse(r)
		if (r.Err() != nil) != (err != nil) {
			t.Fatalf("reading %q: %v, encoding/json: %v", data, r.Err(), err)
		}
		if string(want.Extra) == "null" {
			want.Extra = nil
		}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Errorf("reading %q (-encoding/json +got):\n%s", data, diff)
		}
	})
}

// unclear reports documents that encoding/json reads otherwise on purpose: names
// in another letter case, and values that repeated names merge.
func unclear(r *jsonscan.Reader) (found bool) {
	seen := map[string]bool{}
	for name := range r.Object() {
		folded := strings.ToLower(strings.ReplaceAll(name, "ſ", "s"))
		if i := slices.IndexFunc(members, func(m string) bool { return strings.EqualFold(m, name) }); i >= 0 {
			found = found || members[i] != name
		}
		found = found || seen[folded]
		seen[folded] = true
		if name == "Inside" {
			found = unclear(r) || found
		}
	}
	return found
}
