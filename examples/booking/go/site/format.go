package site

import "melmastoon.ghasi.io/bff"

// formatDay writes a day in the calendar, words and digits of the locale, and beside it
// the locale's other calendar.
func formatDay(d bff.Date, l bff.Locale) string {
	info := l.Info()
	text := info.FormatDate(d, info.Dates.Long, info.Calendars[0])
	if len(info.Calendars) == 2 {
		text += " (" + info.FormatDate(d, info.Dates.Long, info.Calendars[1]) + ")"
	}
	return text
}

// In is the amount for readers of the locale.
func (p *price) In(l bff.Locale) string {
	amount, err := bff.ParseMinor(p.Minor, p.Currency)
	if err != nil {
		return string(p.Currency)
	}
	return l.Info().FormatMoney(amount)
}
