package bff

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Currency is an ISO 4217 code.
type Currency string

// The currencies that the platform sells in.
const (
	AFN Currency = "AFN"
	USD Currency = "USD"
	EUR Currency = "EUR"
	IRR Currency = "IRR"
	PKR Currency = "PKR"
	AED Currency = "AED"
	GBP Currency = "GBP"
)

// DefaultCurrency is used when neither request nor session names one.
const DefaultCurrency = AFN

// currencyExponents says how many minor digits a currency has in ISO 4217.
// (CLDR says 0 for AFN, IRR and PKR: that is how cash is counted, not how the
// platform keeps its books.)
var currencyExponents = map[Currency]int{AFN: 2, USD: 2, EUR: 2, IRR: 2, PKR: 2, AED: 2, GBP: 2}

// Currencies lists the supported set in the order that menus show it.
func Currencies() []Currency { return []Currency{AFN, USD, EUR, IRR, PKR, AED, GBP} }

// ParseCurrency reads a code of the supported set, in capitals as ISO writes it.
func ParseCurrency(s string) (Currency, error) {
	c := Currency(s)
	if _, ok := currencyExponents[c]; !ok {
		return "", &Error{
			Code:   CodeCurrencyNotSupported,
			Detail: "currency must be one of AFN, USD, EUR, IRR, PKR, AED, GBP",
			Fields: FieldErrors{{Field: "currency", Code: FieldUnsupported, Supported: Texts(Currencies())}},
		}
	}
	return c, nil
}

// ErrMoney is wrapped by every error that refuses an amount.
var ErrMoney = errors.New("malformed money")

// Money is an exact amount in minor units. The services never compute with it:
// they convert what pricing sends and pass it on.
type Money struct {
	Minor    int64
	Currency Currency
}

const microExponent = 6

// ParseMicros reads the platform's wire form of an amount, micro-units and a
// currency such as "125000000:USD", and converts it to minor units. An amount
// that is not a whole number of minor units is refused: rounding would be
// computing a price.
func ParseMicros(s string) (Money, error) {
	amount, code, ok := strings.Cut(s, ":")
	if !ok || len(amount) > 20 {
		return Money{}, fmt.Errorf("%w: want <micros>:<currency>", ErrMoney)
	}
	exp, known := currencyExponents[Currency(code)]
	if !known {
		return Money{}, fmt.Errorf("%w: unknown currency", ErrMoney)
	}
	micros, err := strconv.ParseInt(amount, 10, 64)
	if err != nil || amount[0] == '+' {
		return Money{}, fmt.Errorf("%w: want <micros>:<currency>", ErrMoney)
	}
	div := int64(1)
	for range microExponent - exp {
		div *= 10
	}
	if micros%div != 0 {
		return Money{}, fmt.Errorf("%w: not a whole number of minor units", ErrMoney)
	}
	return Money{Minor: micros / div, Currency: Currency(code)}, nil
}

// ParseMinor reads the decimal string of minor units that crosses to front ends.
func ParseMinor(s string, c Currency) (Money, error) {
	if len(s) == 0 || len(s) > 20 || s[0] == '+' {
		return Money{}, fmt.Errorf("%w: want minor units in a decimal string", ErrMoney)
	}
	minor, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(minor, 10) != s {
		return Money{}, fmt.Errorf("%w: want minor units in a decimal string", ErrMoney)
	}
	return Money{Minor: minor, Currency: c}, nil
}

// ParseMajor reads a decimal number of major units, such as "12.5", which some
// services of the platform write. Digits beyond the minor units are refused, as in
// ParseMicros.
func ParseMajor(s string, c Currency) (Money, error) {
	exp, known := currencyExponents[c]
	if !known {
		return Money{}, fmt.Errorf("%w: unknown currency", ErrMoney)
	}
	whole, part, _ := strings.Cut(s, ".")
	if part = strings.TrimRight(part, "0"); len(part) > exp {
		return Money{}, fmt.Errorf("%w: not a whole number of minor units", ErrMoney)
	}
	digits := whole + part + strings.Repeat("0", exp-len(part))
	minor, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || strings.Trim(digits, "-0123456789") != "" || whole == "" || whole == "-" {
		return Money{}, fmt.Errorf("%w: want a decimal number", ErrMoney)
	}
	return Money{Minor: minor, Currency: c}, nil
}

// MinorString returns the minor units as the decimal string that crosses to
// front ends: a JSON number would lose digits in JavaScript.
func (m Money) MinorString() string { return strconv.FormatInt(m.Minor, 10) }

// Micros returns the platform's wire form. It fails where the amount does not fit.
func (m Money) Micros() (string, error) {
	exp, known := currencyExponents[m.Currency]
	if !known {
		return "", fmt.Errorf("%w: unknown currency", ErrMoney)
	}
	zeros := strings.Repeat("0", microExponent-exp)
	if m.Minor == 0 {
		zeros = ""
	}
	digits := strconv.FormatInt(m.Minor, 10) + zeros
	if _, err := strconv.ParseInt(digits, 10, 64); err != nil {
		return "", fmt.Errorf("%w: too large", ErrMoney)
	}
	return digits + ":" + string(m.Currency), nil
}
