package outbox

import (
	"bytes"
	"encoding/json"
	"testing"
)

func FuzzStorable(f *testing.F) {
	for _, s := range []string{`{}`, `"\u0000"`, `"\\u0000"`, `"\ud83d\ude00"`, `"\ude00\ud83d"`, `"\uD83D"`, `["\ud83d\\ude00"]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if !json.Valid(in) {
			return
		}
		out := storable(in)
		if !json.Valid(out) {
			t.Fatalf("%q became invalid: %q", in, out)
		}
		if !bytes.Equal(storable(out), out) {
			t.Fatalf("%q is not settled: %q", in, out)
		}
		var before, after any
		if json.Unmarshal(in, &before) != nil || json.Unmarshal(out, &after) != nil {
			return // a number out of range
		}
		if text, err := json.Marshal(after); err != nil || bytes.Contains(bytes.ReplaceAll(text, []byte(`\\`), nil), []byte(`\u0000`)) {
			t.Fatalf("%q still has a NUL: %s, %v", in, text, err)
		}
	})
}

func FuzzParseSnapshot(f *testing.F) {
	for _, s := range []string{"1:1:", "10:20:10,14,15", "::", "1:2", "1:x:3", "18446744073709551615:18446744073709551615:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := parseSnapshot(in)
		if err != nil {
			return
		}
		for _, x := range s.behind(s.xmax) {
			if x >= s.xmax {
				t.Errorf("%q: %d is not behind %d", in, x, s.xmax)
			}
		}
	})
}
