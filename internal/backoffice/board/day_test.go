package board

import (
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
)

// TestDayOfZone holds a zone's days to the wall calendar of time.Format, minute by
// minute around local and UTC midnights, and across changes of the clock.
func TestDayOfZone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		zone string
		days []string // UTC days whose hours around both midnights are looked at
	}{
		{"Asia/Kabul", []string{"2026-11-18", "2026-02-28"}},
		{"Asia/Tehran", []string{"2026-11-18", "2021-03-21", "2021-03-22", "2021-09-21", "2021-09-22"}}, // clocks changed at midnight
		{"Asia/Dushanbe", []string{"2026-12-31"}},
		{"Asia/Karachi", []string{"2026-11-18", "2028-02-29"}},
		{"Asia/Dubai", []string{"2026-11-18"}},
		{"Europe/Berlin", []string{"2026-03-28", "2026-03-29", "2026-10-24", "2026-10-25"}},
		{"America/New_York", []string{"2026-03-08", "2026-11-01"}},
	} {
		t.Run(tt.zone, func(t *testing.T) {
			t.Parallel()
			z, err := ReadZone(tt.zone, "")
			if err != nil {
				t.Fatal(err)
			}
			l, err := time.LoadLocation(tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			for _, day := range tt.days {
				d, err := bff.ParseDate(day)
				if err != nil {
					t.Fatal(err)
				}
				for m := -14 * 60; m <= 26*60; m++ {
					now := d.Time().Add(time.Duration(m) * time.Minute)
					if far(now.In(l)) && far(now) && m%17 != 0 {
						continue
					}
					got := z.Today(now)
					if want := now.In(l).Format(time.DateOnly); got.Date.String() != want {
						t.Fatalf("at %s it is %s, want %s", now.Format(time.RFC3339), got.Date, want)
					}
					last, next := got.EndsAt.Add(-time.Second), got.EndsAt.Time
					if !now.Before(next) || z.Today(last).Date != got.Date || z.Today(next).Date != got.Date+1 {
						t.Fatalf("at %s the day of %s ends at %s", now.Format(time.RFC3339), got.Date, got.EndsAt)
					}
				}
			}
		})
	}
}

// far reports whether a clock shows more than an hour before or after midnight.
func far(t time.Time) bool { return t.Hour() > 0 && t.Hour() < 23 }

func TestReadZone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ zone, country, want, source string }{
		{"Asia/Kabul", "DE", "Asia/Kabul", "property"},
		{"", "AF", "Asia/Kabul", "country"},
		{"", "IR", "Asia/Tehran", "country"},
		{"Asia/Nowhere", "TJ", "Asia/Dushanbe", "country"},
		{"../etc/passwd", "PK", "Asia/Karachi", "country"},
		{"Local", "AE", "Asia/Dubai", "country"},
		{"UTC", "AF", "UTC", "property"}, // a property may say so itself
		{"", "", "", ""},
		{"Local", "XX", "", ""},
		{"", "af", "", ""},
	} {
		z, err := ReadZone(tt.zone, tt.country)
		if tt.want == "" {
			if err == nil || !z.IsZero() {
				t.Errorf("ReadZone(%q, %q) is a zone", tt.zone, tt.country)
			}
			continue
		}
		if err != nil {
			t.Errorf("ReadZone(%q, %q): %v", tt.zone, tt.country, err)
			continue
		}
		if day := z.Today(time.Unix(0, 0)); day.TimeZone != tt.want || string(day.Source) != tt.source {
			t.Errorf("ReadZone(%q, %q) = %s by %s, want %s by %s", tt.zone, tt.country, day.TimeZone, day.Source, tt.want, tt.source)
		}
	}
}

func TestEveryCountryHasAZone(t *testing.T) {
	t.Parallel()
	for country := range zoneOfCountry {
		if _, err := ReadZone("", country); err != nil {
			t.Errorf("%s: %v", country, err)
		}
	}
}
