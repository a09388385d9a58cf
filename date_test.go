package bff_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	bff "melmastoon.ghasi.io/bff"
)

func TestParseDate(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bff.Date{
		"1970-01-01": 0,
		"1970-01-02": 1,
		"2000-02-29": 11016,
		"2026-04-22": 20565,
		"2100-02-28": 47540,
		"2149-06-06": 65535,
	} {
		if got, err := bff.ParseDate(s); err != nil || got != want || got.String() != s {
			t.Errorf("ParseDate(%q) = %d (%v), %v, want %d", s, got, got, err, want)
		}
	}
	for _, s := range []string{
		"", "2026", "2026-4-22", "2026-04-2", "2026-04-22 ", " 2026-04-2", "2026/04/22", "22-04-2026", "2026-04-22T00:00:00Z",
		"2026-02-29", "2100-02-29", "2026-04-31", "2026-00-10", "2026-13-10", "2026-04-00", "1969-12-31", "2149-06-07", "9999-12-31",
		"0000-00-00", "+026-04-22", "-026-04-22", "٢٠٢٦-04", "2026-04-2\n", "2026‐04‐22",
	} {
		if got, err := bff.ParseDate(s); !errors.Is(err, bff.ErrDate) {
			t.Errorf("ParseDate(%q) = %v, %v, want ErrDate", s, got, err)
		} else if s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("the error quotes the input: %v", err)
		}
	}
}

func TestDateOf(t *testing.T) {
	t.Parallel()
	kabul := time.FixedZone("AFT", 4*3600+1800)
	tests := []struct {
		t    time.Time
		want bff.Date
	}{
		{time.Unix(0, 0), 0},
		{time.Unix(-1, 0), -1},
		{time.Unix(-86400, 0), -1},
		{time.Unix(-86401, 0), -2},
		{time.Date(2026, 4, 22, 23, 59, 59, 999, time.UTC), 20565},
		{time.Date(2026, 4, 23, 4, 29, 59, 0, kabul), 20565}, // still the 22nd in UTC
		{time.Date(2026, 4, 23, 4, 30, 0, 0, kabul), 20566},
	}
	for _, tt := range tests {
		if got := bff.DateOf(tt.t); got != tt.want {
			t.Errorf("DateOf(%v) = %d, want %d", tt.t, got, tt.want)
		}
	}
}

// TestDateRoundTrip walks every day that the product speaks of.
func TestDateRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	for d := bff.Date(0); d <= 65535; d++ {
		if got := d.String(); got != at.Format(time.DateOnly) {
			t.Fatalf("Date(%d) = %s, want %s", d, got, at.Format(time.DateOnly))
		}
		if back, err := bff.ParseDate(d.String()); err != nil || back != d || bff.DateOf(d.Time()) != d {
			t.Fatalf("%v is read as %v, %v", d, back, err)
		}
		at = at.AddDate(0, 0, 1)
	}
}

func TestStayDates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		in     string
		nights int
		want   bff.FieldErrors
	}{
		{"one night", `{"checkIn":"2026-04-22","checkOut":"2026-04-23"}`, 1, nil},
		{"over a leap day", `{"checkIn":"2028-02-28","checkOut":"2028-03-01"}`, 2, nil},
		{"a year", `{"checkIn":"2026-01-01","checkOut":"2027-01-01"}`, 365, nil},
		{"a leap year", `{"checkIn":"2028-01-01","checkOut":"2029-01-01"}`, 366, bff.FieldErrors{{Field: "checkOut", Code: bff.FieldRange}}},
		{"no night", `{"checkIn":"2026-04-22","checkOut":"2026-04-22"}`, 0, bff.FieldErrors{{Field: "checkOut", Code: bff.FieldOrder}}},
		{"backwards", `{"checkIn":"2026-04-22","checkOut":"2026-04-21"}`, -1, bff.FieldErrors{{Field: "checkOut", Code: bff.FieldOrder}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var s bff.StayDates
			if err := json.Unmarshal([]byte(tt.in), &s); err != nil {
				t.Fatal(err)
			}
			if got := s.Nights(); got != tt.nights {
				t.Errorf("Nights = %d, want %d", got, tt.nights)
			}
			if diff := cmp.Diff(tt.want, s.Validate()); diff != "" {
				t.Error(diff)
			}
			if b, err := json.Marshal(s); err != nil || string(b) != tt.in {
				t.Errorf("written as %s, %v", b, err)
			}
		})
	}
	var s bff.StayDates
	for _, in := range []string{`{"checkIn":20565}`, `{"checkIn":"tomorrow"}`, `{"checkIn":{}}`} {
		if err := json.Unmarshal([]byte(in), &s); err == nil {
			t.Errorf("%s was read as %v", in, s)
		}
	}
}

// TestStayDatesProperty: a stay is valid exactly when it has 1 to 365 nights.
func TestStayDatesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := bff.Date(rapid.Int32Range(0, 65535).Draw(t, "in"))
		out := bff.Date(rapid.Int32Range(0, 65535).Draw(t, "out"))
		s := bff.StayDates{CheckIn: in, CheckOut: out}
		want := out > in && out-in <= bff.MaxNights
		if got := s.Validate() == nil; got != want {
			t.Fatalf("%v to %v: valid = %v, want %v", in, out, got, want)
		}
	})
}

func FuzzParseDate(f *testing.F) {
	for _, s := range []string{"2026-04-22", "1970-01-01", "2149-06-06", "2026-02-30", "0000-00-00", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := bff.ParseDate(s); err == nil && d.String() != s {
			t.Fatalf("ParseDate(%q) = %v: a second spelling of a day", s, d)
		}
	})
}
