package accept_test

import (
	"testing"

	"melmastoon.ghasi.io/bff/internal/accept"
)

func TestWeight(t *testing.T) {
	t.Parallel()
	const unreadable = -1
	for params, want := range map[string]int{
		"": 1000, "level=9": 1000, ";": 1000, " ; charset=utf-8 ": 1000,
		"q=1": 1000, "q=1.": 1000, "q=1.000": 1000, " q=0.5": 500, "Q=0.25 ": 250, "\tq = 0.125": 125, "level=9;q=0.7": 700, "q=0.7;level=9": 700,
		"q=0": 0, "q=0.": 0, "q=0.000": 0, "q=0.001": 1, "q=0.3;q=0.4": 400,
		"q": unreadable, "q=": unreadable, "q=x": unreadable, "q=2": unreadable, "q=1.001": unreadable, "q=0.5555": unreadable, "q=-1": unreadable,
		"q=+1": unreadable, "q=.5": unreadable, "q=1e0": unreadable, "q=0,5": unreadable, "q=NaN": unreadable, "q=0x1": unreadable, "q=\"1\"": unreadable,
		"q=x;q=1": unreadable, "q=1;q=x": unreadable,
	} {
		got, ok := accept.Weight(params)
		if !ok {
			got = unreadable
		}
		if got != want {
			t.Errorf("%q: %d, want %d", params, got, want)
		}
	}
}
