package action

import (
	"errors"
	"fmt"
	"strings"

	"melmastoon.ghasi.io/bff"
)

// Thresholds are the amounts by currency above which what an operator charges to a folio
// in a day needs a second factor.
type Thresholds map[bff.Currency]int64 // in minor units

// ReadThresholds reads whole major units by currency, such as AFN=35000,USD=500. Every
// fault is reported.
func ReadThresholds(s string) (Thresholds, error) {
	t := Thresholds{}
	var errs []error
	for part := range strings.SplitSeq(s, ",") {
		code, amount, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			errs = append(errs, fmt.Errorf("%q: want a currency, = and an amount", part))
			continue
		}
		currency, err := bff.ParseCurrency(code)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: is no currency of the platform", code))
			continue
		}
		m, err := bff.ParseMajor(amount, currency)
		if err != nil || m.Minor < 0 {
			errs = append(errs, fmt.Errorf("%s: %q is no amount", code, amount))
			continue
		}
		if _, twice := t[currency]; twice {
			errs = append(errs, fmt.Errorf("%s: is there twice", code))
		}
		t[currency] = m.Minor
	}
	return t, errors.Join(errs...)
}
