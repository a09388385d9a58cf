package site

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"melmastoon.ghasi.io/bff"
)

// The facts of a locale (bff.Locale.Info) say how its readers write days and amounts;
// the TypeScript client has the same as formatDay and formatMoney.

// dateLetters are the parts of a date, and what stands between ' is text.
var dateLetters = regexp.MustCompile(`'[^']*'|E{4}|M{1,4}|d{1,2}|y`)

// formatDay writes a day in the calendar, words and digits of the locale, and beside it
// the locale's other calendar.
func formatDay(d bff.Date, l bff.Locale) string {
	info := l.Info()
	var texts []string
	for _, c := range info.Calendars {
		t := d.Time()
		year, month, day, months := t.Year(), int(t.Month()), t.Day(), info.Months.Gregory
		if c == bff.CalendarPersian {
			s, err := d.SolarHijri()
			if err != nil {
				continue // a day that the calendar's table does not reach
			}
			year, month, day, months = s.Year, s.Month, s.Day, info.Months.Persian
		}
		texts = append(texts, dateLetters.ReplaceAllStringFunc(info.Dates.Long, func(letters string) string {
			switch letters {
			case "MMMM", "MMM":
				return months.Long[month-1]
			case "EEEE":
				return info.Weekdays.Long[(int(t.Weekday())+6)%7]
			case "y":
				return number(strconv.Itoa(year), info)
			}
			switch letters[0] {
			case '\'':
				return strings.Trim(letters, "'")
			case 'M':
				return number(strconv.Itoa(month), info)
			}
			return number(strconv.Itoa(day), info)
		}))
	}
	if len(texts) == 2 {
		return texts[0] + " (" + texts[1] + ")"
	}
	return texts[0]
}

// number writes the digits of a text as the locale's readers do.
func number(s string, info *bff.LocaleInfo) string {
	digits := []rune(info.Digits)
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return digits[r-'0']
		}
		return r
	}, s)
}

// In is the amount for readers of the locale: exactly, in major units.
func (p *price) In(l bff.Locale) string {
	info := l.Info()
	if _, err := bff.ParseMinor(p.Minor, p.Currency); err != nil {
		return string(p.Currency)
	}
	places := info.Money.MinorDigits[p.Currency]
	minor := strings.Repeat("0", max(0, places+1-len(p.Minor))) + p.Minor
	whole, fraction := minor[:len(minor)-places], minor[len(minor)-places:]
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + info.Numbers.Group + whole[at:]
	}
	if strings.Trim(fraction, "0") != "" {
		whole += info.Numbers.Decimal + fraction
	}
	sign := cmp.Or(info.Money.Signs[p.Currency], string(p.Currency))
	pattern := info.Money.Pattern
	if last, _ := utf8.DecodeLastRuneInString(sign); unicode.IsLetter(last) { // AFN 12, but $12
		pattern = strings.Replace(pattern, "¤#", "¤\u00a0#", 1)
	}
	return strings.NewReplacer("#", number(whole, info), "¤", sign).Replace(pattern)
}
