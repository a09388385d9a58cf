package bff

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The TypeScript client writes the same as formatDay, formatMoney and formatNumber.

// dateLetters are the parts of a date, and what stands between ' is text.
var dateLetters = regexp.MustCompile(`'[^']*'|E{4}|M{1,4}|d{1,2}|y`)

// FormatDate writes a day by a pattern of Dates, in the locale's words and digits. A day
// that a calendar's table does not reach is written in the Gregorian one.
func (info *LocaleInfo) FormatDate(d Date, pattern string, c Calendar) string {
	t := d.Time()
	year, month, day, months := t.Year(), int(t.Month()), t.Day(), info.Months.Gregory
	if c == CalendarPersian {
		if s, err := d.SolarHijri(); err == nil {
			year, month, day, months = s.Year, s.Month, s.Day, info.Months.Persian
		}
	}
	return dateLetters.ReplaceAllStringFunc(pattern, func(letters string) string {
		switch letters {
		case "MMMM", "MMM":
			return months.Long[month-1]
		case "EEEE":
			return info.Weekdays.Long[(int(t.Weekday())+6)%7]
		case "y":
			return info.FormatNumber(strconv.Itoa(year))
		}
		switch letters[0] {
		case '\'':
			return strings.Trim(letters, "'")
		case 'M':
			return info.FormatNumber(strconv.Itoa(month))
		}
		return info.FormatNumber(strconv.Itoa(day))
	})
}

// FormatNumber writes the digits of a text as the locale's readers do.
func (info *LocaleInfo) FormatNumber(s string) string {
	digits := []rune(info.Digits)
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return digits[r-'0']
		}
		return r
	}, s)
}

// FormatMoney writes an amount that is not negative: exactly, in major units.
func (info *LocaleInfo) FormatMoney(m Money) string {
	places, digits := info.Money.MinorDigits[m.Currency], m.MinorString()
	minor := strings.Repeat("0", max(0, places+1-len(digits))) + digits
	whole, fraction := minor[:len(minor)-places], minor[len(minor)-places:]
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + info.Numbers.Group + whole[at:]
	}
	if strings.Trim(fraction, "0") != "" {
		whole += info.Numbers.Decimal + fraction
	}
	sign := cmp.Or(info.Money.Signs[m.Currency], string(m.Currency))
	pattern := info.Money.Pattern
	if last, _ := utf8.DecodeLastRuneInString(sign); unicode.IsLetter(last) { // AFN 12, but $12
		pattern = strings.Replace(pattern, "¤#", "¤\u00a0#", 1)
	}
	return strings.NewReplacer("#", info.FormatNumber(whole), "¤", sign).Replace(pattern)
}
