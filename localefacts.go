package bff

import "strings"

// localeFacts is the table. Words and patterns are CLDR 48's (as ICU 78 has
// them) where docs/locales.md does not say otherwise; it also lists the words
// that wait for a native reader.
func localeFacts() []LocaleInfo {
	const (
		western = "0123456789"
		eastern = "۰۱۲۳۴۵۶۷۸۹"
	)
	solar := []Calendar{CalendarPersian, CalendarGregory}
	gregorian := []Calendar{CalendarGregory}
	const monday, thursday, friday, saturday, sunday = 1, 4, 5, 6, 7

	english := LocaleInfo{
		Locale: LocaleEnglish, Name: "English", Direction: LeftToRight, Digits: western, Calendars: gregorian,
		FirstDay: monday, Weekend: []int{saturday, sunday},
		Weekdays: WeekdayNames{Long: words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"), Short: words("Mon Tue Wed Thu Fri Sat Sun")},
		Months: Months{
			Gregory: MonthNames{
				Long:  words("January February March April May June July August September October November December"),
				Short: words("Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec"),
			},
			Persian: MonthNames{Long: words("Hamal Sawr Jawza Saratan Asad Sunbula Mizan Aqrab Qaws Jadi Dalw Hut")},
		},
		Dates: DatePatterns{
			Full: "EEEE, d MMMM y", Long: "d MMMM y", Medium: "d MMM y", Short: "dd/MM/y", Month: "LLLL y", Day: "d MMMM",
		},
		Plurals: PluralRules{"one": "i = 1 and v = 0", "other": ""},
		Numbers: NumberSymbols{Decimal: ".", Group: ",", Minus: "-"},
		Money:   MoneyFacts{Pattern: "¤#", Signs: map[Currency]string{USD: "$", EUR: "€", GBP: "£"}},
		Lists:   ListPatterns{Two: "{0} and {1}", Start: "{0}, {1}", Middle: "{0}, {1}", End: "{0} and {1}"},
	}
	american := english
	american.Locale, american.Name, american.FirstDay = LocaleEnglishUS, "English (US)", sunday
	american.Months.Gregory.Short = words("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec")
	american.Dates = DatePatterns{
		Full: "EEEE, MMMM d, y", Long: "MMMM d, y", Medium: "MMM d, y", Short: "M/d/y", Month: "LLLL y", Day: "MMMM d",
	}
	american.Lists.End = "{0}, and {1}"

	persian := LocaleInfo{
		Locale: LocalePersian, Name: "فارسی", Direction: RightToLeft, Digits: eastern, Calendars: solar,
		FirstDay: saturday, Weekend: []int{friday},
		Weekdays: WeekdayNames{Long: words("دوشنبه سه\u200cشنبه چهارشنبه پنجشنبه جمعه شنبه یکشنبه")},
		Months: Months{
			Gregory: MonthNames{Long: words("ژانویه فوریه مارس آوریل مه ژوئن ژوئیه اوت سپتامبر اکتبر نوامبر دسامبر")},
			Persian: MonthNames{Long: words("فروردین اردیبهشت خرداد تیر مرداد شهریور مهر آبان آذر دی بهمن اسفند")},
		},
		Dates: DatePatterns{
			Full: "EEEE d MMMM y", Long: "d MMMM y", Medium: "d MMMM y", Short: "y/M/d", Month: "LLLL y", Day: "d MMMM",
		},
		Plurals: PluralRules{"one": "i = 0 or n = 1", "other": ""},
		Numbers: NumberSymbols{Decimal: "٫", Group: "٬", Minus: "\u200e−"},
		Money:   MoneyFacts{Pattern: "¤\u00a0#", Signs: map[Currency]string{AFN: "؋", USD: "$", EUR: "€", IRR: "ریال", GBP: "£"}},
		Lists:   ListPatterns{Two: "{0} و {1}", Start: "{0}،\u200f {1}", Middle: "{0}،\u200f {1}", End: "{0}، و {1}"},
	}
	dari := persian
	dari.Locale, dari.Name, dari.Weekend = LocaleDari, "دری", []int{thursday, friday}
	dari.Months = Months{
		Gregory: MonthNames{Long: words("جنوری فبروری مارچ اپریل می جون جولای اگست سپتمبر اکتوبر نومبر دسمبر")},
		Persian: MonthNames{Long: words("حمل ثور جوزا سرطان اسد سنبله میزان عقرب قوس جدی دلو حوت")},
	}

	pashto := LocaleInfo{
		Locale: LocalePashto, Name: "پښتو", Direction: RightToLeft, Digits: eastern, Calendars: solar,
		FirstDay: saturday, Weekend: []int{thursday, friday},
		Weekdays: WeekdayNames{Long: words("دونۍ درېنۍ څلرنۍ پينځنۍ جمعه اونۍ يونۍ")},
		Months: Months{
			Gregory: MonthNames{Long: words("جنوري فبروري مارچ اپریل مۍ جون جولای اګست سېپتمبر اکتوبر نومبر دسمبر")},
			Persian: MonthNames{Long: words("وری غویی غبرګولی چنګاښ زمری وږی تله لړم لیندۍ مرغومی سلواغه کب")},
		},
		Dates: DatePatterns{
			Full: "EEEE 'د' y 'د' MMMM d", Long: "'د' y 'د' MMMM d", Medium: "y MMMM d", Short: "y/M/d", Month: "'د' y LLLL", Day: "'د' MMMM d",
		},
		Plurals: PluralRules{"one": "n = 1", "other": ""},
		Numbers: NumberSymbols{Decimal: "٫", Group: "٬", Minus: "\u200e-\u200e"},
		Money:   MoneyFacts{Pattern: "¤\u00a0#", Signs: map[Currency]string{AFN: "؋", USD: "$", EUR: "€", GBP: "£"}},
		Lists:   ListPatterns{Two: "{0} او {1}", Start: "{0}، {1}", Middle: "{0}، {1}", End: "{0}، او {1}"},
	}

	tajik := LocaleInfo{
		Locale: LocaleTajik, Name: "тоҷикӣ", Direction: LeftToRight, Digits: western, Calendars: gregorian,
		FirstDay: monday, Weekend: []int{saturday, sunday},
		Weekdays: WeekdayNames{Long: words("Душанбе Сешанбе Чоршанбе Панҷшанбе Ҷумъа Шанбе Якшанбе"), Short: words("Дшб Сшб Чшб Пшб Ҷмъ Шнб Яшб")},
		Months: Months{
			Gregory: MonthNames{
				Long:  words("Январ Феврал Март Апрел Май Июн Июл Август Сентябр Октябр Ноябр Декабр"),
				Short: words("Янв Фев Мар Апр Май Июн Июл Авг Сен Окт Ноя Дек"),
			},
			Persian: MonthNames{Long: words("Ҳамал Савр Ҷавзо Саратон Асад Сунбула Мизон Ақраб Қавс Ҷадӣ Далв Ҳут")},
		},
		Dates: DatePatterns{
			Full: "EEEE, d MMMM y", Long: "d MMMM y", Medium: "d MMM y", Short: "dd/MM/y", Month: "LLLL y", Day: "d MMMM",
		},
		Plurals: PluralRules{"one": "n = 1", "other": ""},
		Numbers: NumberSymbols{Decimal: ",", Group: "\u00a0", Minus: "-"},
		Money:   MoneyFacts{Pattern: "#\u00a0¤", Signs: map[Currency]string{USD: "$", EUR: "€", GBP: "£"}},
		Lists:   ListPatterns{Two: "{0} ва {1}", Start: "{0}, {1}", Middle: "{0}, {1}", End: "{0} ва {1}"},
	}

	// Arabic is that of the United Arab Emirates, the country of the platform's
	// that speaks it: western digits, and since 2022 its weekend.
	arabic := LocaleInfo{
		Locale: LocaleArabic, Name: "العربية", Direction: RightToLeft, Digits: western, Calendars: gregorian,
		FirstDay: monday, Weekend: []int{saturday, sunday},
		Weekdays: WeekdayNames{Long: words("الاثنين الثلاثاء الأربعاء الخميس الجمعة السبت الأحد")},
		Months: Months{
			Gregory: MonthNames{Long: words("يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر")},
			Persian: MonthNames{Long: words("حمل ثور جوزاء سرطان أسد سنبلة ميزان عقرب قوس جدي دلو حوت")},
		},
		Dates: DatePatterns{
			Full: "EEEE، d MMMM y", Long: "d MMMM y", Medium: "d MMMM y", Short: "d\u200f/M\u200f/y", Month: "LLLL y", Day: "d MMMM",
		},
		Plurals: PluralRules{
			"zero": "n = 0", "one": "n = 1", "two": "n = 2", "few": "n % 100 = 3..10", "many": "n % 100 = 11..99", "other": "",
		},
		Numbers: NumberSymbols{Decimal: ".", Group: ",", Minus: "\u200e-"},
		Money: MoneyFacts{
			Pattern: "\u200f#\u00a0¤", Signs: map[Currency]string{USD: "$", EUR: "€", IRR: "ر.إ.", AED: "د.إ.\u200f", GBP: "£"},
		},
		Lists: ListPatterns{Two: "{0} و{1}", Start: "{0} و{1}", Middle: "{0} و{1}", End: "{0} و{1}"},
	}

	urdu := LocaleInfo{
		Locale: LocaleUrdu, Name: "اردو", Direction: RightToLeft, Digits: western, Calendars: gregorian,
		FirstDay: sunday, Weekend: []int{saturday, sunday},
		Weekdays: WeekdayNames{Long: words("پیر منگل بدھ جمعرات جمعہ ہفتہ اتوار")},
		Months: Months{
			Gregory: MonthNames{Long: words("جنوری فروری مارچ اپریل مئی جون جولائی اگست ستمبر اکتوبر نومبر دسمبر")},
			Persian: MonthNames{Long: words("حمل ثور جوزا سرطان اسد سنبلہ میزان عقرب قوس جدی دلو حوت")},
		},
		Dates: DatePatterns{
			Full: "EEEE، d MMMM، y", Long: "d MMMM، y", Medium: "d MMMM، y", Short: "d/M/y", Month: "LLLL y", Day: "d MMMM",
		},
		Plurals: PluralRules{"one": "i = 1 and v = 0", "other": ""},
		Numbers: NumberSymbols{Decimal: ".", Group: ",", Minus: "\u200e-"},
		Money:   MoneyFacts{Pattern: "¤#", Signs: map[Currency]string{USD: "$", EUR: "€", PKR: "روپے", GBP: "£"}},
		Lists:   ListPatterns{Two: "{0} اور {1}", Start: "{0}، {1}", Middle: "{0}، {1}", End: "{0}، اور {1}"},
	}

	russian := LocaleInfo{
		Locale: LocaleRussian, Name: "русский", Direction: LeftToRight, Digits: western, Calendars: gregorian,
		FirstDay: monday, Weekend: []int{saturday, sunday},
		Weekdays: WeekdayNames{Long: words("понедельник вторник среда четверг пятница суббота воскресенье"), Short: words("пн вт ср чт пт сб вс")},
		Months: Months{
			Gregory: MonthNames{
				Long:       words("января февраля марта апреля мая июня июля августа сентября октября ноября декабря"),
				Short:      words("янв. февр. мар. апр. мая июн. июл. авг. сент. окт. нояб. дек."),
				Standalone: words("январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь"),
			},
			Persian: MonthNames{Long: words("хамаль саур джауза саратан асад сунбула мизан акраб каус джади дальв хут")},
		},
		Dates: DatePatterns{
			Full: "EEEE, d MMMM y 'г'.", Long: "d MMMM y 'г'.", Medium: "d MMM y 'г'.", Short: "dd.MM.y", Month: "LLLL y 'г'.", Day: "d MMMM",
		},
		Plurals: PluralRules{
			"one":   "v = 0 and i % 10 = 1 and i % 100 != 11",
			"few":   "v = 0 and i % 10 = 2..4 and i % 100 != 12..14",
			"many":  "v = 0 and i % 10 = 0 or v = 0 and i % 10 = 5..9 or v = 0 and i % 100 = 11..14",
			"other": "",
		},
		Numbers: NumberSymbols{Decimal: ",", Group: "\u00a0", Minus: "-"},
		Money:   MoneyFacts{Pattern: "#\u00a0¤", Signs: map[Currency]string{USD: "$", EUR: "€", GBP: "£"}},
		Lists:   ListPatterns{Two: "{0} и {1}", Start: "{0}, {1}", Middle: "{0}, {1}", End: "{0} и {1}"},
	}

	return []LocaleInfo{english, pashto, dari, persian, tajik, american, arabic, urdu, russian}
}

func words(s string) []string { return strings.Split(s, " ") }
