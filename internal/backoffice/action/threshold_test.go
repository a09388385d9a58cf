package action

import (
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff"
)

func TestThresholds(t *testing.T) {
	t.Parallel()
	limits, err := ReadThresholds("AFN=35000, USD=0.50")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		sums Sums
		want bool
	}{
		{Sums{bff.AFN: 3_500_000}, true},
		{Sums{bff.AFN: 3_500_001}, false},
		{Sums{bff.USD: 50}, true},
		{Sums{bff.USD: 51}, false},
		{Sums{bff.EUR: 1}, false},
		{Sums{bff.AFN: 1, "JPY": 1}, false},
		{Sums{bff.AFN: 1_750_000, bff.USD: 25}, true}, // half of each
		{Sums{bff.AFN: 1_750_000, bff.USD: 26}, false},
	} {
		if got := limits.Within(test.sums); got != test.want {
			t.Errorf("%v: %v", test.sums, got)
		}
	}
	_, err = ReadThresholds("AFN,JPY=1,USD=-5,EUR=x,GBP=1,GBP=2")
	for _, want := range []string{"AFN", "JPY", "USD", "EUR", "GBP"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
}
