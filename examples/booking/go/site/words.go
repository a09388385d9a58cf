package site

import "melmastoon.ghasi.io/bff"

// words are the texts of the page. A guest whose language has none here reads English.
type words map[string]string

func wordsOf(l bff.Locale) (words, bff.Locale) {
	switch l {
	case bff.LocaleDari, bff.LocalePersian:
		return dari, l
	case bff.LocalePashto:
		return pashto, l
	}
	return english, bff.LocaleEnglish
}

var english = words{
	"lead": "You have arrived. The booking starts from here.", "stay": "Your stay", "check-in": "Check-in", "check-out": "Check-out", "nights": "Nights",
	"adults": "Adults", "children": "Children", "ages": "Ages", "rooms": "Rooms", "price": "Price",
	"shown": "Shown to you", "now": "Now", "not shown": "none",
	"matched": "the same", "changed": "changed", "unavailable": "no longer for sale", "unchecked": "not checked",
	"signed": "Signed by the storefront", "signed what": "hotel, days, guests, rooms, currency and language, for thirty minutes",
	"checked": "Checked on arrival", "genuine": "the signature is genuine", "this hotel": "it is for this hotel", "first use": "it was not used before",
	"hand-off": "Hand-off", "no booking": "No booking",
	"none":      "This address has no hand-off. Start from the hotel's page of the storefront.",
	"forged":    "This hand-off is not genuine: its token was changed or cut off on the way.",
	"expired":   "This hand-off has expired: it is good for thirty minutes. Go back and choose the hotel again.",
	"used":      "This hand-off was already used. Each one opens a booking once. Go back and choose the hotel again.",
	"elsewhere": "This hand-off is for another hotel.",
	"suspended": "This hotel takes no bookings at the moment.",
	"away":      "The hand-off could not be checked and is still good. Load this page again in a moment.",
}

var dari = words{
	"lead": "شما رسیدید. رزرو از همین\u200cجا آغاز می\u200cشود.", "stay": "اقامت شما", "check-in": "ورود", "check-out": "خروج", "nights": "شب\u200cها",
	"adults": "بزرگسالان", "children": "کودکان", "ages": "سن کودکان", "rooms": "اتاق\u200cها", "price": "قیمت",
	"shown": "قیمتی که دیدید", "now": "اکنون", "not shown": "نشان داده نشده",
	"matched": "همان قیمت", "changed": "تغییر کرده", "unavailable": "دیگر فروخته نمی\u200cشود", "unchecked": "بررسی نشده",
	"signed": "آنچه امضا شده است", "signed what": "هوتل، روزها، مهمانان، اتاق\u200cها، واحد پول و زبان، برای سی دقیقه",
	"checked": "آنچه هنگام رسیدن بررسی شد", "genuine": "امضا اصل است", "this hotel": "برای همین هوتل است", "first use": "پیش از این استفاده نشده است",
	"hand-off": "شمارهٔ انتقال", "no booking": "رزرو نشد",
	"none":      "این نشانی انتقالی ندارد. از صفحهٔ هوتل در جست\u200cوجو آغاز کنید.",
	"forged":    "این انتقال اصل نیست: در راه تغییر کرده یا بریده شده است.",
	"expired":   "وقت این انتقال گذشته است: سی دقیقه اعتبار دارد. برگردید و هوتل را دوباره انتخاب کنید.",
	"used":      "این انتقال پیش از این استفاده شده است. هر انتقال تنها یک بار رزرو را باز می\u200cکند. برگردید و هوتل را دوباره انتخاب کنید.",
	"elsewhere": "این انتقال برای هوتل دیگری است.",
	"suspended": "این هوتل فعلاً رزرو نمی\u200cپذیرد.",
	"away":      "انتقال بررسی نشد و هنوز معتبر است. چند لحظه بعد این صفحه را دوباره باز کنید.",
}

var pashto = words{
	"lead": "تاسو راورسېدئ. بکنګ له همدې ځایه پیلېږي.", "stay": "ستاسو اوسېدنه", "check-in": "ننوتل", "check-out": "وتل", "nights": "شپې",
	"adults": "لویان", "children": "ماشومان", "ages": "د ماشومانو عمر", "rooms": "خونې", "price": "بیه",
	"shown": "هغه بیه چې تاسو ولیدله", "now": "اوس", "not shown": "نه ده ښودل شوې",
	"matched": "هماغه بیه", "changed": "بدله شوې", "unavailable": "نوره نه پلورل کېږي", "unchecked": "نه ده کتل شوې",
	"signed": "هغه څه چې لاسلیک شوي", "signed what": "هوټل، ورځې، مېلمانه، خونې، پیسې او ژبه، د دېرشو دقیقو لپاره",
	"checked": "هغه څه چې د رارسېدو پر مهال وکتل شول", "genuine": "لاسلیک سم دی", "this hotel": "د همدې هوټل لپاره دی", "first use": "مخکې نه دی کارول شوی",
	"hand-off": "د لېږد شمېره", "no booking": "بکنګ ونه شو",
	"none":      "دا پته لېږد نه لري. په لټون کې د هوټل له پاڼې پیل وکړئ.",
	"forged":    "دا لېږد سم نه دی: په لاره کې بدل یا پرې شوی دی.",
	"expired":   "د دې لېږد وخت تېر شوی: دېرش دقیقې اعتبار لري. بېرته ولاړ شئ او هوټل بیا وټاکئ.",
	"used":      "دا لېږد مخکې کارول شوی. هر لېږد یوازې یو ځل بکنګ پرانیزي. بېرته ولاړ شئ او هوټل بیا وټاکئ.",
	"elsewhere": "دا لېږد د بل هوټل لپاره دی.",
	"suspended": "دا هوټل اوس بکنګ نه مني.",
	"away":      "لېږد ونه کتل شو او لا هم سم دی. لږ وروسته دا پاڼه بیا پرانیزئ.",
}
