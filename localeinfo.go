package bff

import "maps"

// LocaleInfo is what a front end must know to write dates, numbers, amounts and
// lists for the readers of a locale. Browsers cannot be asked: Chromium answers
// ps and tg in English.
type LocaleInfo struct {
	Locale    Locale        `json:"locale"`
	Name      string        `json:"name"` // the language, in its own words
	Direction Direction     `json:"direction"`
	Digits    string        `json:"digits"`    // from zero to nine
	Calendars []Calendar    `json:"calendars"` // the one that its readers count in, then the one to show beside it
	FirstDay  int           `json:"firstDay"`  // of the week: 1 is Monday, 7 is Sunday, as in ISO 8601
	Weekend   []int         `json:"weekend"`
	Weekdays  WeekdayNames  `json:"weekdays"`
	Months    Months        `json:"months"`
	Dates     DatePatterns  `json:"dates"`
	Plurals   PluralRules   `json:"plurals"`
	Numbers   NumberSymbols `json:"numbers"`
	Money     MoneyFacts    `json:"money"`
	Lists     ListPatterns  `json:"lists"`
}

// Direction is where a line of text begins.
type Direction string

// The directions of text.
const (
	LeftToRight Direction = "ltr"
	RightToLeft Direction = "rtl"
)

// Calendar is named as in BCP 47 (-u-ca-).
type Calendar string

// The calendars of the platform. Afghanistan and Iran count in persian, which
// is called Solar Hijri there.
const (
	CalendarGregory Calendar = "gregory"
	CalendarPersian Calendar = "persian"
)

// WeekdayNames begin with Monday.
type WeekdayNames struct {
	Long  []string `json:"long"`
	Short []string `json:"short,omitempty"` // where they differ
}

// Months are the names of the months in every calendar.
type Months struct {
	Gregory MonthNames `json:"gregory"`
	Persian MonthNames `json:"persian"`
}

// MonthNames are as they stand beside a day. Short and Standalone (without a
// day) are left out where they are the same.
type MonthNames struct {
	Long       []string `json:"long"`
	Short      []string `json:"short,omitempty"`
	Standalone []string `json:"standalone,omitempty"`
}

// DatePatterns are in the letters of Unicode's UTS 35: EEEE the weekday, d and
// dd the day, M, MM, MMM and MMMM the month (LLLL without a day), y the year.
// What stands between ' is text. They serve every calendar.
type DatePatterns struct {
	Full   string `json:"full"`
	Long   string `json:"long"`
	Medium string `json:"medium"`
	Short  string `json:"short"`
	Month  string `json:"month"` // a month of a year, above a calendar
	Day    string `json:"day"`   // a day of a month
}

// PluralRules has the categories that the language tells apart, each with its
// rule in the syntax of UTS 35. Other has none: it is what remains.
type PluralRules map[string]string

// NumberSymbols are the signs of a number. Digits stand in groups of three.
type NumberSymbols struct {
	Decimal string `json:"decimal"`
	Group   string `json:"group"`
	Minus   string `json:"minus"`
}

// MoneyFacts say how an amount is written: # stands for the number and ¤ for
// the sign of the currency.
type MoneyFacts struct {
	Pattern     string              `json:"pattern"`
	Signs       map[Currency]string `json:"signs"`
	MinorDigits map[Currency]int    `json:"minorDigits"`
}

// ListPatterns join texts with {0} and {1}: two alone, and in longer lists the
// first two, those in the middle, and the last.
type ListPatterns struct {
	Two    string `json:"two"`
	Start  string `json:"start"`
	Middle string `json:"middle"`
	End    string `json:"end"`
}

// Info returns the facts of a locale of the supported set, and those of
// DefaultLocale for any other. They are shared: do not change them.
func (l Locale) Info() *LocaleInfo {
	if info, ok := localeInfos[l]; ok {
		return info
	}
	return localeInfos[DefaultLocale]
}

// localeInfos is the table with what follows from other tables filled in.
var localeInfos = func() map[Locale]*LocaleInfo {
	all := map[Locale]*LocaleInfo{}
	for _, info := range localeFacts() {
		signs := map[Currency]string{}
		for _, c := range Currencies() {
			signs[c] = string(c) // where its readers know no sign for it
		}
		maps.Copy(signs, info.Money.Signs)
		info.Money.Signs, info.Money.MinorDigits = signs, currencyExponents
		all[info.Locale] = &info
	}
	return all
}()
