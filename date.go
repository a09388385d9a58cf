package bff

import (
	"errors"
	"fmt"
	"time"
)

// Date is a calendar day without a time zone, counted in days since
// 1970-01-01. On the wire it is YYYY-MM-DD.
type Date int32

// ErrDate is wrapped by every error that refuses a date.
var ErrDate = errors.New("malformed date")

// The years that the product speaks of. A four-digit year keeps the canonical
// hand-off string unambiguous and the token small.
const (
	minDate Date = 0     // 1970-01-01
	maxDate Date = 65535 // 2149-06-06: a day fits two bytes in a token
)

// ParseDate reads YYYY-MM-DD and nothing else.
func ParseDate(s string) (Date, error) {
	if len(s) != len(time.DateOnly) {
		return 0, fmt.Errorf("%w: want YYYY-MM-DD", ErrDate)
	}
	t, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return 0, fmt.Errorf("%w: want YYYY-MM-DD", ErrDate)
	}
	d := DateOf(t)
	if d < minDate || d > maxDate {
		return 0, fmt.Errorf("%w: outside 1970-01-01 to %s", ErrDate, maxDate)
	}
	return d, nil
}

// DateOf returns the day of t in UTC.
func DateOf(t time.Time) Date {
	s := t.Unix()
	d := s / 86400
	if s%86400 < 0 {
		d--
	}
	return Date(d) //nolint:gosec // a day count of any time.Time that formats to four digits fits
}

// Time returns midnight UTC of the day.
func (d Date) Time() time.Time { return time.Unix(int64(d)*86400, 0).UTC() }

// String returns YYYY-MM-DD.
func (d Date) String() string { return d.Time().Format(time.DateOnly) }

// MarshalText writes YYYY-MM-DD.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads YYYY-MM-DD.
func (d *Date) UnmarshalText(b []byte) error {
	got, err := ParseDate(string(b))
	if err != nil {
		return err
	}
	*d = got
	return nil
}

// MaxNights bounds a stay: longer ones are not a guest's search but a probe.
const MaxNights = 365

// StayDates are the nights of a stay: from CheckIn up to, not including, CheckOut.
type StayDates struct {
	CheckIn  Date `json:"checkIn"`
	CheckOut Date `json:"checkOut"`
}

// Nights returns how many nights the stay has.
func (s StayDates) Nights() int { return int(s.CheckOut - s.CheckIn) }

// Validate reports the broken invariants of a stay.
func (s StayDates) Validate() FieldErrors {
	switch n := s.Nights(); {
	case n <= 0:
		return FieldErrors{{Field: "checkOut", Code: FieldOrder}}
	case n > MaxNights:
		return FieldErrors{{Field: "checkOut", Code: FieldRange}}
	}
	return nil
}
