package bff_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	bff "melmastoon.ghasi.io/bff"
)

// Every day of two centuries is where ICU has it, and comes back from there.
func TestSolarHijri(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("contracts/locales/solar-hijri.json")
	if err != nil {
		t.Fatal(err)
	}
	var icu struct {
		FirstYear int
		Begins    []int
	}
	if err := json.Unmarshal(b, &icu); err != nil {
		t.Fatal(err)
	}
	begins := func(i int) bff.Date {
		return bff.DateOf(time.Date(icu.FirstYear+621+i, time.March, icu.Begins[i], 0, 0, 0, 0, time.UTC))
	}
	days := 0
	for i := range len(icu.Begins) - 1 {
		want := bff.SolarHijri{Year: icu.FirstYear + i, Month: 1, Day: 1}
		for d := begins(i); d < begins(i+1); d++ {
			if got, err := d.SolarHijri(); err != nil || got != want {
				t.Fatalf("%s is %s (%v), want %s", d, got, err, want)
			}
			if back, err := want.Date(); err != nil || back != d {
				t.Fatalf("%s is %s (%v), want %s", want, back, err, d)
			}
			want.Day++
			if want.Month < 12 && want.Day > 31-want.Month/7 { // six months of 31 days, and of 30
				want.Month, want.Day = want.Month+1, 1
			}
			days++
		}
	}
	if days != 73414 {
		t.Errorf("%d days", days)
	}
	for _, d := range []bff.Date{begins(0) - 1, begins(len(icu.Begins) - 1), -1 << 31, 1<<31 - 1} {
		if got, err := d.SolarHijri(); !errors.Is(err, bff.ErrDate) {
			t.Errorf("day %d is %s (%v), want it refused", d, got, err)
		}
	}
	for _, s := range []bff.SolarHijri{
		{1299, 12, 1}, {1501, 1, 1}, {1405, 0, 1}, {1405, 13, 1}, {1405, 1, 0}, {1405, 6, 32}, {1405, 7, 31}, {1404, 12, 30}, {1500, 12, 30},
	} {
		if d, err := s.Date(); !errors.Is(err, bff.ErrDate) {
			t.Errorf("%s is %s (%v), want it refused", s, d, err)
		}
	}
}
