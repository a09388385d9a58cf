package sim

import (
	"time"
	_ "time/tzdata" // a machine may have no zones of its own
)

// Point is a place on the globe in degrees.
type Point struct {
	Lat float64 `json:"lat"`
	Lng float64 `json:"lng"`
}

// country is where a city lies: what its tenants charge in and how dear a
// plain three-star night is there.
type country struct {
	code      string
	names     Names
	currency  string
	cloud     string // the platform's region that serves its tenants
	baseCents int64  // a three-star night in US cents
	fxBarred  string
	taxes     []tax
	zone      *time.Location
}

// zone finds a time zone that is compiled in.
func zone(name string) *time.Location {
	l, err := time.LoadLocation(name)
	if err != nil {
		panic(err) // the names are constant
	}
	return l
}

type tax struct {
	code     string
	percent  int64
	included bool
}

type city struct {
	country        string
	names          Names
	region         Names
	centre         Point
	properties     int
	aliases        []string
	neighbourhoods []Names
	more           More
	landmarks      []landmark
	texts          [2]Text // the names of the city and of its region
}

type landmark struct {
	names Names
	at    Point
}

func countries() []country {
	return []country{
		{code: "AF", zone: zone("Asia/Kabul"), names: Names{"Afghanistan", "افغانستان", "افغانستان"}, currency: "AFN", cloud: "asia-south1", baseCents: 3600},
		{code: "IR", zone: zone("Asia/Tehran"), names: Names{"Iran", "ایران", "ایران"}, currency: "IRR", cloud: "asia-south1", baseCents: 4100},
		{code: "TJ", zone: zone("Asia/Dushanbe"), names: Names{"Tajikistan", "تاجکستان", "تاجیکستان"}, currency: "USD", cloud: "asia-south1", baseCents: 3900},
		{code: "PK", zone: zone("Asia/Karachi"), names: Names{"Pakistan", "پاکستان", "پاکستان"}, currency: "PKR", cloud: "asia-south1", baseCents: 3700, taxes: []tax{{"GST", 16, false}}},
		{code: "AE", zone: zone("Asia/Dubai"), names: Names{"United Arab Emirates", "متحده عربي امارات", "امارات متحدهٔ عربی"}, currency: "AED", cloud: "me-central1", baseCents: 9200, taxes: []tax{{"VAT", 5, true}, {"MUNICIPALITY_FEE", 7, false}}},
		{code: "TR", zone: zone("Europe/Istanbul"), names: Names{"Türkiye", "ترکیه", "ترکیه"}, currency: "EUR", cloud: "europe-west3", baseCents: 7200, fxBarred: "IRR", taxes: []tax{{"VAT", 10, true}, {"ACCOMMODATION_TAX", 2, true}}},
		{code: "DE", zone: zone("Europe/Berlin"), names: Names{"Germany", "جرمني", "آلمان"}, currency: "EUR", cloud: "europe-west3", baseCents: 9800, fxBarred: "IRR", taxes: []tax{{"VAT", 7, true}, {"CITY_TAX", 5, false}}},
		{code: "GB", zone: zone("Europe/London"), names: Names{"United Kingdom", "بريتانيا", "بریتانیا"}, currency: "GBP", cloud: "europe-west3", baseCents: 12600, fxBarred: "IRR", taxes: []tax{{"VAT", 20, true}}},
		{code: "AT", zone: zone("Europe/Vienna"), names: Names{"Austria", "اتریش", "اتریش"}, currency: "EUR", cloud: "europe-west3", baseCents: 9900, fxBarred: "IRR", taxes: []tax{{"VAT", 10, true}, {"CITY_TAX", 3, false}}},
		{code: "FR", zone: zone("Europe/Paris"), names: Names{"France", "فرانسه", "فرانسه"}, currency: "EUR", cloud: "europe-west3", baseCents: 11400, fxBarred: "IRR", taxes: []tax{{"VAT", 10, true}, {"CITY_TAX", 4, false}}},
	}
}

// plainNeighbourhoods serve the cities that have no list of their own.
func plainNeighbourhoods() []Names {
	return []Names{
		{"Old City", "زوړ ښار", "شهر کهنه"},
		{"New City", "نوی ښار", "شهر نو"},
		{"Bazaar", "بازار", "بازار"},
		{"Airport Road", "د هوايي ډګر سرک", "سرک میدان هوایی"},
		{"University", "پوهنتون", "دانشگاه"},
	}
}

func plainCities() []city {
	return []city{
		// Afghanistan
		{
			country: "AF", names: Names{"Kabul", "کابل", "کابل"}, region: Names{"Kabul Province", "د کابل ولایت", "ولایت کابل"}, centre: Point{34.5281, 69.1723}, properties: 340, aliases: []string{"Kabol"},
			neighbourhoods: []Names{
				{"Shahr-e Naw", "نوی ښار", "شهر نو"},
				{"Wazir Akbar Khan", "وزير اکبر خان", "وزیر اکبر خان"},
				{"Karte Seh", "دريمه کارته", "کارته سه"},
				{"Karte Parwan", "کارته پروان", "کارته پروان"},
				{"Taimani", "تايمني", "تایمنی"},
				{"Khair Khana", "خيرخانه", "خیرخانه"},
				{"Makroyan", "مکروريان", "مکروریان"},
				{"Dasht-e Barchi", "دشت برچي", "دشت برچی"},
				{"Darulaman", "دارالامان", "دارالامان"},
				{"Pul-e Surkh", "پل سرخ", "پل سرخ"},
			},
			landmarks: []landmark{
				{Names{"Gardens of Babur", "د بابر باغ", "باغ بابر"}, Point{34.5031, 69.1580}},
				{Names{"Kabul International Airport", "د کابل نړيوال هوايي ډګر", "میدان هوایی بین\u200cالمللی کابل"}, Point{34.5659, 69.2123}},
				{Names{"Darul Aman Palace", "د دارالامان ماڼۍ", "قصر دارالامان"}, Point{34.4666, 69.1186}},
				{Names{"Bala Hissar", "بالا حصار", "بالاحصار"}, Point{34.5063, 69.1919}},
			},
		},
		{
			country: "AF", names: Names{"Herat", "هرات", "هرات"}, region: Names{"Herat Province", "د هرات ولایت", "ولایت هرات"}, centre: Point{34.3482, 62.1997}, properties: 150,
			neighbourhoods: []Names{{"Old City", "زوړ ښار", "شهر کهنه"}, {"Jada-e Mahbas", "د محبس سرک", "جادهٔ محبس"}, {"Jada-e Mukhaberat", "د مخابراتو سرک", "جادهٔ مخابرات"}, {"Takht-e Safar", "تخت سفر", "تخت سفر"}, {"Injil", "انجيل", "انجیل"}},
			landmarks:      []landmark{{Names{"Herat Citadel", "د هرات کلا", "ارگ هرات"}, Point{34.3456, 62.1853}}, {Names{"Great Mosque of Herat", "د هرات جامع جومات", "مسجد جامع هرات"}, Point{34.3432, 62.1964}}, {Names{"Musalla Minarets", "د مصلی منارې", "مناره\u200cهای مصلی"}, Point{34.3569, 62.1868}}},
		},
		{
			country: "AF", names: Names{"Mazar-i-Sharif", "مزارشريف", "مزار شریف"}, region: Names{"Balkh Province", "د بلخ ولایت", "ولایت بلخ"}, centre: Point{36.7090, 67.1109}, properties: 130, aliases: []string{"Mazar-e Sharif", "Mazar"},
			neighbourhoods: []Names{{"Rawza", "روضه", "روضه"}, {"Karte Bukhdi", "بخدي کارته", "کارته بخدی"}, {"Karte Sulh", "د سولې کارته", "کارته صلح"}, {"Dasht-e Shor", "دشت شور", "دشت شور"}, {"Baba Yadgar", "بابا يادګار", "بابه یادگار"}},
			landmarks:      []landmark{{Names{"Blue Mosque", "روضه شريف", "روضهٔ شریف"}, Point{36.7083, 67.1111}}, {Names{"Mazar-i-Sharif Airport", "د مزارشريف هوايي ډګر", "میدان هوایی مزار شریف"}, Point{36.7069, 67.2097}}},
		},
		{
			country: "AF", names: Names{"Kandahar", "کندهار", "قندهار"}, region: Names{"Kandahar Province", "د کندهار ولایت", "ولایت قندهار"}, centre: Point{31.6289, 65.7372}, properties: 110, aliases: []string{"Qandahar"},
			neighbourhoods: []Names{{"Aino Mena", "عينو مېنه", "عینومینه"}, {"Shahr-e Naw", "نوی ښار", "شهر نو"}, {"Herat Darwaza", "د هرات دروازه", "دروازهٔ هرات"}, {"Loya Wala", "لويه واله", "لویه واله"}},
			landmarks:      []landmark{{Names{"Shrine of the Cloak", "د خرقې مبارکې زيارت", "زیارت خرقهٔ مبارک"}, Point{31.6194, 65.7070}}, {Names{"Chil Zena", "چهل زينه", "چهل\u200cزینه"}, Point{31.6053, 65.6570}}},
		},
		{
			country: "AF", names: Names{"Jalalabad", "جلال اباد", "جلال\u200cآباد"}, region: Names{"Nangarhar Province", "د ننګرهار ولایت", "ولایت ننگرهار"}, centre: Point{34.4303, 70.4528}, properties: 90,
			landmarks: []landmark{{Names{"Seraj-ul-Emarat Garden", "د سراج العمارت باغ", "باغ سراج\u200cالعماره"}, Point{34.4290, 70.4560}}},
		},
		{
			country: "AF", names: Names{"Bamyan", "باميان", "بامیان"}, region: Names{"Bamyan Province", "د باميان ولایت", "ولایت بامیان"}, centre: Point{34.8214, 67.8273}, properties: 85, aliases: []string{"Bamiyan"},
			neighbourhoods: []Names{{"Sar Asiab", "سر اسياب", "سرآسیاب"}, {"Shahr-e Naw", "نوی ښار", "شهر نو"}, {"Tolwara", "تولواره", "تولواره"}, {"Bazaar", "بازار", "بازار"}},
			landmarks:      []landmark{{Names{"Buddhas of Bamyan", "د باميان بودا", "بت\u200cهای بامیان"}, Point{34.8320, 67.8268}}, {Names{"Band-e Amir", "بند امير", "بند امیر"}, Point{34.8398, 67.2303}}, {Names{"Shahr-e Zohak", "د ضحاک ښار", "شهر ضحاک"}, Point{34.8260, 67.9790}}},
		},
		{country: "AF", names: Names{"Kunduz", "کندز", "قندوز"}, region: Names{"Kunduz Province", "د کندز ولایت", "ولایت قندوز"}, centre: Point{36.7290, 68.8570}, properties: 50, aliases: []string{"Qunduz"}},
		{
			country: "AF", names: Names{"Ghazni", "غزني", "غزنی"}, region: Names{"Ghazni Province", "د غزني ولایت", "ولایت غزنی"}, centre: Point{33.5536, 68.4269}, properties: 50,
			landmarks: []landmark{{Names{"Ghazni Minarets", "د غزني منارې", "مناره\u200cهای غزنی"}, Point{33.5644, 68.4336}}},
		},
		{country: "AF", names: Names{"Balkh", "بلخ", "بلخ"}, region: Names{"Balkh Province", "د بلخ ولایت", "ولایت بلخ"}, centre: Point{36.7581, 66.8961}, properties: 22, landmarks: []landmark{{Names{"Green Mosque", "شين جومات", "مسجد سبز"}, Point{36.7586, 66.8981}}}},
		{country: "AF", names: Names{"Faizabad", "فيض اباد", "فیض\u200cآباد"}, region: Names{"Badakhshan Province", "د بدخشان ولایت", "ولایت بدخشان"}, centre: Point{37.1166, 70.5800}, properties: 26, aliases: []string{"Fayzabad"}},
		{country: "AF", names: Names{"Taloqan", "تالقان", "تالقان"}, region: Names{"Takhar Province", "د تخار ولایت", "ولایت تخار"}, centre: Point{36.7361, 69.5345}, properties: 20},
		{country: "AF", names: Names{"Pul-e Khumri", "پلخمري", "پل خمری"}, region: Names{"Baghlan Province", "د بغلان ولایت", "ولایت بغلان"}, centre: Point{35.9446, 68.7151}, properties: 22},
		{country: "AF", names: Names{"Maimana", "ميمنه", "میمنه"}, region: Names{"Faryab Province", "د فارياب ولایت", "ولایت فاریاب"}, centre: Point{35.9214, 64.7836}, properties: 20},
		{country: "AF", names: Names{"Sheberghan", "شبرغان", "شبرغان"}, region: Names{"Jowzjan Province", "د جوزجان ولایت", "ولایت جوزجان"}, centre: Point{36.6676, 65.7529}, properties: 20},
		{country: "AF", names: Names{"Khost", "خوست", "خوست"}, region: Names{"Khost Province", "د خوست ولایت", "ولایت خوست"}, centre: Point{33.3395, 69.9204}, properties: 30},
		{country: "AF", names: Names{"Gardez", "ګردېز", "گردیز"}, region: Names{"Paktia Province", "د پکتيا ولایت", "ولایت پکتیا"}, centre: Point{33.5974, 69.2259}, properties: 20},
		{country: "AF", names: Names{"Lashkargah", "لښکرګاه", "لشکرگاه"}, region: Names{"Helmand Province", "د هلمند ولایت", "ولایت هلمند"}, centre: Point{31.5938, 64.3716}, properties: 25},
		{country: "AF", names: Names{"Charikar", "چاريکار", "چاریکار"}, region: Names{"Parwan Province", "د پروان ولایت", "ولایت پروان"}, centre: Point{35.0131, 69.1690}, properties: 25},
		{country: "AF", names: Names{"Asadabad", "اسعد اباد", "اسعدآباد"}, region: Names{"Kunar Province", "د کونړ ولایت", "ولایت کنر"}, centre: Point{34.8731, 71.1467}, properties: 15},
		// Iran
		{
			country: "IR", names: Names{"Tehran", "تهران", "تهران"}, region: Names{"Tehran Province", "د تهران ولایت", "استان تهران"}, centre: Point{35.6892, 51.3890}, properties: 220, aliases: []string{"Teheran"},
			neighbourhoods: []Names{{"Tajrish", "تجريش", "تجریش"}, {"Vanak", "ونک", "ونک"}, {"Ferdowsi", "فردوسي", "فردوسی"}, {"Valiasr", "ولي عصر", "ولیعصر"}, {"Saadat Abad", "سعادت اباد", "سعادت\u200cآباد"}, {"Niavaran", "نياوران", "نیاوران"}},
			landmarks:      []landmark{{Names{"Azadi Tower", "د ازادۍ برج", "برج آزادی"}, Point{35.6997, 51.3381}}, {Names{"Golestan Palace", "د ګلستان ماڼۍ", "کاخ گلستان"}, Point{35.6800, 51.4206}}, {Names{"Grand Bazaar", "لوی بازار", "بازار بزرگ"}, Point{35.6757, 51.4230}}},
		},
		{
			country: "IR", names: Names{"Mashhad", "مشهد", "مشهد"}, region: Names{"Razavi Khorasan", "رضوي خراسان", "خراسان رضوی"}, centre: Point{36.2605, 59.6168}, properties: 180, aliases: []string{"Meshed"},
			neighbourhoods: []Names{{"Haram", "حرم", "حرم"}, {"Imam Reza Street", "د امام رضا سرک", "خیابان امام رضا"}, {"Sajjad", "سجاد", "سجاد"}, {"Vakil Abad", "وکيل اباد", "وکیل\u200cآباد"}},
			landmarks:      []landmark{{Names{"Imam Reza Shrine", "د امام رضا زيارت", "حرم امام رضا"}, Point{36.2880, 59.6157}}},
		},
		{
			country: "IR", names: Names{"Isfahan", "اصفهان", "اصفهان"}, region: Names{"Isfahan Province", "د اصفهان ولایت", "استان اصفهان"}, centre: Point{32.6546, 51.6680}, properties: 150, aliases: []string{"Esfahan"},
			neighbourhoods: []Names{{"Naqsh-e Jahan", "نقش جهان", "نقش جهان"}, {"Jolfa", "جلفا", "جلفا"}, {"Chahar Bagh", "چهار باغ", "چهارباغ"}, {"Khaju", "خواجو", "خواجو"}},
			landmarks:      []landmark{{Names{"Naqsh-e Jahan Square", "د نقش جهان څلورلارې", "میدان نقش جهان"}, Point{32.6573, 51.6775}}, {Names{"Khaju Bridge", "د خواجو پل", "پل خواجو"}, Point{32.6369, 51.6836}}},
		},
		{
			country: "IR", names: Names{"Shiraz", "شيراز", "شیراز"}, region: Names{"Fars", "فارس", "فارس"}, centre: Point{29.5918, 52.5837}, properties: 140,
			neighbourhoods: []Names{{"Zand", "زند", "زند"}, {"Eram", "ارم", "ارم"}, {"Maali Abad", "معالي اباد", "معالی\u200cآباد"}, {"Old City", "زوړ ښار", "بافت قدیم"}},
			landmarks:      []landmark{{Names{"Tomb of Hafez", "د حافظ مقبره", "آرامگاه حافظ"}, Point{29.6256, 52.5583}}, {Names{"Persepolis", "تخت جمشيد", "تخت جمشید"}, Point{29.9355, 52.8916}}},
		},
		{country: "IR", names: Names{"Tabriz", "تبريز", "تبریز"}, region: Names{"East Azerbaijan", "ختيځ اذربايجان", "آذربایجان شرقی"}, centre: Point{38.0800, 46.2919}, properties: 100, landmarks: []landmark{{Names{"Blue Mosque of Tabriz", "شين جومات", "مسجد کبود"}, Point{38.0736, 46.3011}}}},
		{country: "IR", names: Names{"Qom", "قم", "قم"}, region: Names{"Qom Province", "د قم ولایت", "استان قم"}, centre: Point{34.6416, 50.8746}, properties: 60},
		{country: "IR", names: Names{"Yazd", "يزد", "یزد"}, region: Names{"Yazd Province", "د يزد ولایت", "استان یزد"}, centre: Point{31.8974, 54.3569}, properties: 60},
		{country: "IR", names: Names{"Kerman", "کرمان", "کرمان"}, region: Names{"Kerman Province", "د کرمان ولایت", "استان کرمان"}, centre: Point{30.2839, 57.0834}, properties: 40},
		{country: "IR", names: Names{"Rasht", "رشت", "رشت"}, region: Names{"Gilan", "ګيلان", "گیلان"}, centre: Point{37.2808, 49.5832}, properties: 40},
		{country: "IR", names: Names{"Zahedan", "زاهدان", "زاهدان"}, region: Names{"Sistan and Baluchestan", "سيستان او بلوچستان", "سیستان و بلوچستان"}, centre: Point{29.4963, 60.8629}, properties: 25},
		// Tajikistan
		{
			country: "TJ", names: Names{"Dushanbe", "دوشنبه", "دوشنبه"}, region: Names{"Dushanbe Region", "د دوشنبې سيمه", "ناحیهٔ دوشنبه"}, centre: Point{38.5598, 68.7870}, properties: 110,
			neighbourhoods: []Names{{"Rudaki", "رودکي", "رودکی"}, {"Somoni", "ساماني", "سامانی"}, {"Sino", "سينا", "سینا"}, {"Firdavsi", "فردوسي", "فردوسی"}},
			landmarks:      []landmark{{Names{"Rudaki Park", "د رودکي پارک", "پارک رودکی"}, Point{38.5762, 68.7841}}, {Names{"Hisor Fortress", "د حصار کلا", "قلعهٔ حصار"}, Point{38.5010, 68.5570}}},
		},
		{country: "TJ", names: Names{"Khujand", "خجند", "خجند"}, region: Names{"Sughd", "سغد", "سغد"}, centre: Point{40.2826, 69.6222}, properties: 60, landmarks: []landmark{{Names{"Panjshanbe Bazaar", "د پنجشنبې بازار", "بازار پنجشنبه"}, Point{40.2863, 69.6177}}}},
		{country: "TJ", names: Names{"Khorog", "خوروغ", "خاروغ"}, region: Names{"Gorno-Badakhshan", "غرني بدخشان", "بدخشان کوهی"}, centre: Point{37.4897, 71.5531}, properties: 40},
		{country: "TJ", names: Names{"Kulob", "کولاب", "کولاب"}, region: Names{"Khatlon", "ختلان", "ختلان"}, centre: Point{37.9146, 69.7845}, properties: 20},
		{country: "TJ", names: Names{"Bokhtar", "بوختر", "بختر"}, region: Names{"Khatlon", "ختلان", "ختلان"}, centre: Point{37.8364, 68.7803}, properties: 20},
		{country: "TJ", names: Names{"Panjakent", "پنجکنت", "پنجکنت"}, region: Names{"Sughd", "سغد", "سغد"}, centre: Point{39.4952, 67.6093}, properties: 25},
		// Pakistan
		{
			country: "PK", names: Names{"Islamabad", "اسلام اباد", "اسلام\u200cآباد"}, region: Names{"Islamabad Capital Territory", "د اسلام اباد پلازمېنه", "قلمرو پایتخت اسلام\u200cآباد"}, centre: Point{33.6844, 73.0479}, properties: 110,
			neighbourhoods: []Names{{"F-6", "اېف ۶", "اف ۶"}, {"F-7", "اېف ۷", "اف ۷"}, {"G-9", "جي ۹", "جی ۹"}, {"Blue Area", "بلو ايريا", "بلو اریا"}, {"Bahria Town", "بحريه ټاون", "بحریه تاون"}},
			landmarks:      []landmark{{Names{"Faisal Mosque", "د فيصل جومات", "مسجد فیصل"}, Point{33.7295, 73.0372}}},
		},
		{
			country: "PK", names: Names{"Peshawar", "پېښور", "پیشاور"}, region: Names{"Khyber Pakhtunkhwa", "خيبر پښتونخوا", "خیبر پختونخوا"}, centre: Point{34.0151, 71.5249}, properties: 110, aliases: []string{"Pekhawar"},
			neighbourhoods: []Names{{"Hayatabad", "حيات اباد", "حیات\u200cآباد"}, {"University Town", "د پوهنتون ښارګوټی", "یونیورستی تاون"}, {"Saddar", "صدر", "صدر"}, {"Qissa Khwani", "قيصه خوانۍ", "قصه\u200cخوانی"}},
			landmarks:      []landmark{{Names{"Bala Hisar Fort", "بالا حصار", "قلعهٔ بالاحصار"}, Point{34.0130, 71.5697}}, {Names{"Qissa Khwani Bazaar", "د قيصه خوانۍ بازار", "بازار قصه\u200cخوانی"}, Point{34.0086, 71.5725}}},
		},
		{
			country: "PK", names: Names{"Lahore", "لاهور", "لاهور"}, region: Names{"Punjab", "پنجاب", "پنجاب"}, centre: Point{31.5204, 74.3587}, properties: 130,
			neighbourhoods: []Names{{"Gulberg", "ګلبرګ", "گلبرگ"}, {"Mall Road", "مال روډ", "مال رود"}, {"Johar Town", "جوهر ټاون", "جوهر تاون"}, {"Walled City", "د دېوال ښار", "شهر دیواری"}},
			landmarks:      []landmark{{Names{"Badshahi Mosque", "بادشاهي جومات", "مسجد پادشاهی"}, Point{31.5881, 74.3106}}},
		},
		{
			country: "PK", names: Names{"Karachi", "کراچۍ", "کراچی"}, region: Names{"Sindh", "سند", "سند"}, centre: Point{24.8607, 67.0011}, properties: 130,
			neighbourhoods: []Names{{"Clifton", "کلفټن", "کلفتن"}, {"Saddar", "صدر", "صدر"}, {"Gulshan-e Iqbal", "ګلشن اقبال", "گلشن اقبال"}, {"Defence", "ډيفنس", "دیفنس"}},
			landmarks:      []landmark{{Names{"Mazar-e Quaid", "مزار قائد", "مزار قائد"}, Point{24.8756, 67.0409}}},
		},
		{country: "PK", names: Names{"Quetta", "کوټه", "کویته"}, region: Names{"Balochistan", "بلوچستان", "بلوچستان"}, centre: Point{30.1798, 66.9750}, properties: 70},
		{country: "PK", names: Names{"Rawalpindi", "راولپنډۍ", "راولپندی"}, region: Names{"Punjab", "پنجاب", "پنجاب"}, centre: Point{33.5651, 73.0169}, properties: 40},
		{country: "PK", names: Names{"Multan", "ملتان", "ملتان"}, region: Names{"Punjab", "پنجاب", "پنجاب"}, centre: Point{30.1575, 71.5249}, properties: 30},
		{country: "PK", names: Names{"Gilgit", "ګلګت", "گلگت"}, region: Names{"Gilgit-Baltistan", "ګلګت بلتستان", "گلگت بلتستان"}, centre: Point{35.9208, 74.3144}, properties: 25},
		// The United Arab Emirates
		{
			country: "AE", names: Names{"Dubai", "دوبۍ", "دبی"}, region: Names{"Emirate of Dubai", "د دوبۍ امارت", "امارت دبی"}, centre: Point{25.2048, 55.2708}, properties: 160,
			neighbourhoods: []Names{{"Deira", "دېره", "دیره"}, {"Bur Dubai", "بر دوبۍ", "بر دبی"}, {"Marina", "مارينا", "مارینا"}, {"Downtown", "د ښار مرکز", "مرکز شهر"}, {"Jumeirah", "جميرا", "جمیرا"}},
			landmarks:      []landmark{{Names{"Burj Khalifa", "برج خليفه", "برج خلیفه"}, Point{25.1972, 55.2744}}, {Names{"Gold Souk", "د سرو زرو بازار", "بازار طلا"}, Point{25.2697, 55.2970}}},
		},
		{country: "AE", names: Names{"Abu Dhabi", "ابوظبي", "ابوظبی"}, region: Names{"Emirate of Abu Dhabi", "د ابوظبي امارت", "امارت ابوظبی"}, centre: Point{24.4539, 54.3773}, properties: 70, landmarks: []landmark{{Names{"Sheikh Zayed Grand Mosque", "د شيخ زايد جومات", "مسجد شیخ زاید"}, Point{24.4128, 54.4750}}}},
		{country: "AE", names: Names{"Sharjah", "شارجه", "شارجه"}, region: Names{"Emirate of Sharjah", "د شارجې امارت", "امارت شارجه"}, centre: Point{25.3463, 55.4209}, properties: 50},
		// Europe
		{
			country: "TR", names: Names{"Istanbul", "استنبول", "استانبول"}, region: Names{"Istanbul Province", "د استنبول ولایت", "استان استانبول"}, centre: Point{41.0082, 28.9784}, properties: 60, aliases: []string{"İstanbul"},
			neighbourhoods: []Names{{"Sultanahmet", "سلطان احمد", "سلطان احمد"}, {"Beyoğlu", "بي اوغلو", "بی\u200cاوغلو"}, {"Zeytinburnu", "زيتين بورنو", "زیتین\u200cبورنو"}, {"Kadıköy", "قاضي کوی", "قاضی\u200cکوی"}},
			landmarks:      []landmark{{Names{"Hagia Sophia", "اياصوفيه", "ایاصوفیه"}, Point{41.0086, 28.9802}}},
		},
		{country: "DE", names: Names{"Berlin", "برلين", "برلین"}, region: Names{"Berlin (State)", "د برلين ايالت", "ایالت برلین"}, centre: Point{52.5200, 13.4050}, properties: 35, landmarks: []landmark{{Names{"Brandenburg Gate", "د برانډنبورګ دروازه", "دروازهٔ براندنبورگ"}, Point{52.5163, 13.3777}}}},
		{country: "DE", names: Names{"Hamburg", "هامبورګ", "هامبورگ"}, region: Names{"Hamburg (State)", "د هامبورګ ايالت", "ایالت هامبورگ"}, centre: Point{53.5511, 9.9937}, properties: 35},
		{country: "GB", names: Names{"London", "لندن", "لندن"}, region: Names{"England", "انګلستان", "انگلستان"}, centre: Point{51.5074, -0.1278}, properties: 50, neighbourhoods: []Names{{"Southall", "ساوتهال", "ساوت\u200cهال"}, {"Paddington", "پډينګټن", "پدینگتون"}, {"Whitechapel", "وايټ چپل", "وایت\u200cچپل"}, {"Ealing", "ايلينګ", "ایلینگ"}}, landmarks: []landmark{{Names{"Tower Bridge", "ټاور پل", "پل برج"}, Point{51.5055, -0.0754}}}},
		{country: "AT", names: Names{"Vienna", "ويانا", "وین"}, region: Names{"Vienna (State)", "د ويانا ايالت", "ایالت وین"}, centre: Point{48.2082, 16.3738}, properties: 30, aliases: []string{"Wien"}},
		{country: "FR", names: Names{"Paris", "پاريس", "پاریس"}, region: Names{"Île-de-France", "ايل دو فرانس", "ایل دو فرانس"}, centre: Point{48.8566, 2.3522}, properties: 40, landmarks: []landmark{{Names{"Eiffel Tower", "د ايفل برج", "برج ایفل"}, Point{48.8584, 2.2945}}}},
	}
}
