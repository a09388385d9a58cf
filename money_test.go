package bff_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	bff "melmastoon.ghasi.io/bff"
)

// The largest amount in minor units whose micro-units still fit 64 bits.
const maxMinor = 922337203685477

func TestParseMicros(t *testing.T) {
	t.Parallel()
	for _, c := range bff.Currencies() {
		for amount, want := range map[string]int64{
			"0":                    0,
			"10000":                1,
			"-10000":               -1,
			"125000000":            12500,
			"-125000000":           -12500,
			"9223372036854770000":  maxMinor,
			"-9223372036854770000": -maxMinor,
		} {
			got, err := bff.ParseMicros(amount + ":" + string(c))
			if err != nil || got != (bff.Money{Minor: want, Currency: c}) {
				t.Errorf("ParseMicros(%s:%s) = %v, %v, want %d", amount, c, got, err, want)
			}
			if back, err := got.Micros(); err != nil || back != amount+":"+string(c) {
				t.Errorf("%v is written %s, %v", got, back, err)
			}
		}
	}
	for _, s := range []string{
		"", ":", "USD", "125000000", ":USD", "125000000:", "125000000:usd", "125000000:XXX", "125000000:JPY", "125000000:USD ", " 125000000:USD",
		"125000000:USD:USD", "+125000000:USD", "1e8:USD", "125000000.0:USD", "125_000_000:USD", "0x10:USD", "١٠٠٠٠:USD", "-:USD", "--10000:USD",
		"1:USD", "9999:USD", "-1:USD", "125005000:AFN", // no whole minor unit: rounding would be pricing
		"9223372036854775807:USD", "9223372036854780000:USD", "99999999999999999999:USD", strings.Repeat("0", 100) + "10000:USD", "\x00:USD",
	} {
		if got, err := bff.ParseMicros(s); !errors.Is(err, bff.ErrMoney) || got != (bff.Money{}) {
			t.Errorf("ParseMicros(%q) = %v, %v, want ErrMoney", s, got, err)
		}
	}
}

// TestMicrosExact: what fits comes back to the last unit, what does not is
// refused; nothing is rounded.
func TestMicrosExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := bff.Money{Minor: rapid.Int64().Draw(t, "minor"), Currency: rapid.SampledFrom(bff.Currencies()).Draw(t, "currency")}
		s, err := m.Micros()
		if fits := m.Minor <= maxMinor && m.Minor >= -maxMinor; fits != (err == nil) {
			t.Fatalf("%v.Micros() = %s, %v", m, s, err)
		}
		if err != nil {
			return
		}
		if back, err := bff.ParseMicros(s); err != nil || back != m {
			t.Fatalf("%v is written %s and read %v, %v", m, s, back, err)
		}
	})
	if s, err := (bff.Money{Minor: 1, Currency: "XXX"}).Micros(); !errors.Is(err, bff.ErrMoney) {
		t.Errorf("an unknown currency is written %s, %v", s, err)
	}
}

func TestParseMinor(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{"0": 0, "12500": 12500, "-1": -1, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63} {
		got, err := bff.ParseMinor(s, bff.PKR)
		if err != nil || got.Minor != want || got.Currency != bff.PKR || got.MinorString() != s {
			t.Errorf("ParseMinor(%q) = %v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "+1", "-0", "00", "01", "1.0", "1e3", " 1", "1 ", "1_0", "x", "9223372036854775808", "-9223372036854775809", strings.Repeat("9", 30),
	} {
		if got, err := bff.ParseMinor(s, bff.PKR); !errors.Is(err, bff.ErrMoney) {
			t.Errorf("ParseMinor(%q) = %v, %v, want ErrMoney", s, got, err)
		}
	}
}

func TestParseCurrency(t *testing.T) {
	t.Parallel()
	// DOMAIN_MODEL §2.1 names the platform's seven.
	if got := fmt.Sprint(bff.Currencies()); got != "[AFN USD EUR IRR PKR AED GBP]" {
		t.Errorf("Currencies = %s", got)
	}
	for _, c := range bff.Currencies() {
		if got, err := bff.ParseCurrency(string(c)); err != nil || got != c {
			t.Errorf("ParseCurrency(%q) = %v, %v", c, got, err)
		}
	}
	for _, s := range []string{"", "usd", "Usd", "US", "USDT", "JPY", "XXX", "US\n", "USD "} {
		if got, err := bff.ParseCurrency(s); bff.CodeOf(err) != bff.CodeCurrencyNotSupported || got != "" {
			t.Errorf("ParseCurrency(%q) = %v, %v", s, got, err)
		}
	}
}

func FuzzParseMicros(f *testing.F) {
	for _, s := range []string{"125000000:USD", "-10000:AFN", "0:IRR", "9223372036854775807:GBP", ":", "1:USD", "007:EUR"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if m, err := bff.ParseMicros(s); err == nil {
			written, err := m.Micros()
			if err != nil {
				t.Fatalf("ParseMicros(%q) = %v, which cannot be written: %v", s, m, err)
			}
			if again, err := bff.ParseMicros(written); err != nil || again != m {
				t.Fatalf("%v is written %s and read %v, %v", m, written, again, err)
			}
		} else if !errors.Is(err, bff.ErrMoney) {
			t.Fatalf("ParseMicros(%q): %v", s, err)
		}
		if m, err := bff.ParseMinor(s, bff.USD); err == nil && m.MinorString() != s {
			t.Fatalf("ParseMinor(%q) = %v: a second spelling of an amount", s, m)
		}
	})
}

func TestParseMajor(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{"12.5": 1250, "12": 1200, "0.05": 5, "-3.10": -310, "1.500": 150, "0": 0} {
		if m, err := bff.ParseMajor(s, bff.AFN); err != nil || m.Minor != want || m.Currency != bff.AFN {
			t.Errorf("%q: %+v, %v; want %d", s, m, err, want)
		}
	}
	for _, s := range []string{"", "x", "1.234", "1e3", ".5", "-", "+1", "1.-5", "99999999999999999999"} {
		if m, err := bff.ParseMajor(s, bff.AFN); err == nil {
			t.Errorf("%q: %+v", s, m)
		}
	}
	if _, err := bff.ParseMajor("1", "XXX"); err == nil {
		t.Error("an unknown currency")
	}
}
