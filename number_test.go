package bff_test

import (
	"math"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff"
)

func TestPlainNumber(t *testing.T) {
	t.Parallel()
	for _, n := range []string{
		"0", "-0", "4", "-3.5", "1e15", "-1E15", "1000000000000000", "0.30000000000000004", "1.2345678901234567", "1e-7", "2.5E-10", "0.000000000000001", "0e0", "1e+5",
	} {
		if !bff.PlainNumber(n) {
			t.Errorf("%s is refused", n)
		}
	}
	for _, n := range []string{
		"1e131071", "1E-99999", "1e16", "1000000000000001", "-1e300", "1e-300", "0e131071", "0E-99999", "1e99999999", "0e99999999999999999999999", "1e-00000000000000000000000000000000000000000400",
		"1.23456789012345678", "123456789012345678", "0." + strings.Repeat("0", 60) + "1", "1e400",
	} {
		if bff.PlainNumber(n) {
			t.Errorf("%s is taken", n)
		}
	}
}

func TestWrittenSize(t *testing.T) {
	t.Parallel()
	for json, want := range map[string]int{
		`{"a":1,"b":[true,false,null,"1e131071"]}`: 40,
		`{"a":1e20}`:                                  30,
		`[1E-30,2.5e+7]`:                              14 + 30 + 7,
		`{"a\"1e9":"\\","b":1e9}`:                     23 + 9,
		`{"1e9\\":1e9}`:                               13 + 9,
		`{"a":1e131071}`:                              math.MaxInt,
		`[1e99999999999999999999]`:                    math.MaxInt,
		`[0.` + strings.Repeat("1", 2000) + `]`:       math.MaxInt,
		`["` + strings.Repeat("1", 2000) + `"]`:       2004,
		`[` + strings.Repeat("1111111,", 500) + `1]`:  4003,
		`[1e-00000000000000000000000000000000000005]`: 43 + 5,
	} {
		if got := bff.WrittenSize(json); got != want {
			t.Errorf("%.50s: %d, want %d", json, got, want)
		}
	}
}
