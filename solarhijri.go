package bff

import "fmt"

// SolarHijri is a day in the calendar of Afghanistan and Iran.
type SolarHijri struct {
	Year, Month, Day int
}

// The years in which the arithmetic below gives the same days as the
// astronomical calendar (and as ICU): 1921-03-21 to 2122-03-20.
const (
	minSolarYear = 1300
	maxSolarYear = 1500
)

// SolarHijri converts a day. It fails outside the years 1300 to 1500.
func (d Date) SolarHijri() (SolarHijri, error) {
	year := minSolarYear + (int(d)-int(newYear(minSolarYear)))/366
	for year < maxSolarYear && newYear(year+1) <= d {
		year++
	}
	n := int(d - newYear(year)) // days since its first
	if d < newYear(minSolarYear) || d >= newYear(maxSolarYear+1) {
		return SolarHijri{}, fmt.Errorf("%w: outside the years %d to %d of Solar Hijri", ErrDate, minSolarYear, maxSolarYear)
	}
	if n < 6*31 {
		return SolarHijri{year, n/31 + 1, n%31 + 1}, nil
	}
	n -= 6 * 31
	return SolarHijri{year, n/30 + 7, n%30 + 1}, nil
}

// Date converts back. A day that the calendar does not have is refused.
func (s SolarHijri) Date() (Date, error) {
	if s.Year < minSolarYear || s.Year > maxSolarYear || s.Month < 1 || s.Month > 12 || s.Day < 1 || s.Day > 31 {
		return 0, fmt.Errorf("%w: not in Solar Hijri", ErrDate)
	}
	before := 31*(s.Month-1) - max(0, s.Month-7)
	d := newYear(s.Year) + Date(before+s.Day-1) //nolint:gosec // within one year
	if back, err := d.SolarHijri(); err != nil || back != s {
		return 0, fmt.Errorf("%w: not in Solar Hijri", ErrDate)
	}
	return d, nil
}

// String returns YYYY-MM-DD in Solar Hijri.
func (s SolarHijri) String() string { return fmt.Sprintf("%04d-%02d-%02d", s.Year, s.Month, s.Day) }

// newYear is the first day of a year: eight of 33 years have 366 days. (Days
// before year 1 and 1970-01-01 are counted from the Julian day 0.)
func newYear(year int) Date {
	return Date(1948320 - 2440588 + 365*(year-1) + (8*year+21)/33) //nolint:gosec // four-digit years
}
