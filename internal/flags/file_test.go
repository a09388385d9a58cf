package flags

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "flags.json")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at = at.Add(time.Second)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	f := NewFile(path)
	check := func(when string, wantErr bool, want map[string]string) {
		t.Helper()
		got, err := f.Load(t.Context())
		if (err != nil) != wantErr || !maps.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", when, got, err, want)
		}
	}
	check("not there yet", false, nil)
	write(`{"a": true, "b": 0.5, "c": "blue", "d": null, "e": {"x": 1}}`)
	all := map[string]string{"a": "true", "b": "0.5", "c": "blue", "e": `{"x": 1}`}
	check("read", false, all)
	if err := os.WriteFile(path, []byte(strings.Repeat(" ", 64)), 0o600); err != nil { // seen only if the file is opened to its end
		t.Fatal(err)
	}
	check("half written", true, nil)
	write(`{"a": false}`)
	check("changed", false, map[string]string{"a": "false"})
	write(`[1]`)
	check("no object", true, nil)
	write(`null`)
	check("null", true, nil)
	write(`{"a":"` + strings.Repeat("x", maxFile) + `"}`)
	check("too large", true, nil)
	write(`{}`)
	check("emptied", false, map[string]string{})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check("gone", true, nil)
}

// An unchanged file is not read again.
func TestFileUnchanged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "flags.json")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	f := NewFile(path)
	for _, text := range []string{`{"a":1}`, `{"a":2}`} { // of one size and time
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		got, err := f.Load(t.Context())
		if diff := cmp.Diff(map[string]string{"a": "1"}, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":true,"b":"x","c":null,"d":[1]}`, `[]`, `{"a":1,"a":2}`, "", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		values, _ := decode(raw)
		for _, text := range values {
			parse(text)
		}
	})
}
