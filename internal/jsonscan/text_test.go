package jsonscan_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

func TestIsPlain(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		want := c >= ' ' && c <= '~' && !strings.ContainsRune(`"\<>&`, rune(c))
		for _, s := range []string{string([]byte{byte(c)}), "before " + string([]byte{byte(c)}) + " after"} {
			if got := jsonscan.IsPlain(s); got != want {
				t.Errorf("%q: got %v", s, got)
			}
		}
	}
	if !jsonscan.IsPlain("") {
		t.Error("nothing is plain")
	}
}

func FuzzAppend(f *testing.F) {
	for _, s := range []string{"", "x", "\u2028\u2029\u2030", "\xe2\x80", "\"\\<>&\b\f\n\r\t\x00\x7f", "سلام", "\xff", "\xe2x"} {
		f.Add(s, 1.5)
	}
	for _, x := range []float64{0, math.Copysign(0, -1), 1e-7, 1e21, -1e-9, 123456789.25, math.Inf(1), math.NaN(), 5e-324} {
		f.Add("x", x)
	}
	f.Fuzz(func(t *testing.T, s string, x float64) {
		want, err := json.Marshal(s)
		if got := jsonscan.AppendString([]byte("before "), s); err != nil || string(got) != "before "+string(want) {
			t.Errorf("%q: got %s, want %s, %v", s, got, want, err)
		}
		want, wantErr := json.Marshal(x)
		got, err := jsonscan.AppendFloat([]byte("before "), x)
		if (err != nil) != (wantErr != nil) || err == nil && string(got) != "before "+string(want) {
			t.Errorf("%v: got %s, %v, want %s, %v", x, got, err, want, wantErr)
		}
	})
}
