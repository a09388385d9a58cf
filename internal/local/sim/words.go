package sim

// brandWords name tenants and houses.
func brandWords() []Names {
	return []Names{
		{"Ariana", "آريانا", "آریانا"},
		{"Pamir", "پامير", "پامیر"},
		{"Lajward", "لاجورد", "لاجورد"},
		{"Zafaran", "زعفران", "زعفران"},
		{"Anar", "انار", "انار"},
		{"Badam", "بادام", "بادام"},
		{"Toot", "توت", "توت"},
		{"Silk Road", "د ورېښمو لار", "راه ابریشم"},
		{"Caravanserai", "کاروان سرای", "کاروانسرا"},
		{"Roshan", "روښانه", "روشن"},
		{"Zamarud", "زمرد", "زمرد"},
		{"Yaqut", "ياقوت", "یاقوت"},
		{"Firuza", "فيروزه", "فیروزه"},
		{"Baharistan", "بهارستان", "بهارستان"},
		{"Gulistan", "ګلستان", "گلستان"},
		{"Bostan", "بوستان", "بوستان"},
		{"Sitara", "ستوری", "ستاره"},
		{"Mahtab", "سپوږمۍ", "مهتاب"},
		{"Aftab", "لمر", "آفتاب"},
		{"Kohistan", "کوهستان", "کوهستان"},
		{"Darya", "سيند", "دریا"},
		{"Chinar", "چنار", "چنار"},
		{"Sarv", "سرو", "سرو"},
		{"Tawoos", "طاووس", "طاووس"},
		{"Shaheen", "شاهين", "شاهین"},
		{"Simurgh", "سيمرغ", "سیمرغ"},
		{"Rumi", "رومي", "رومی"},
		{"Khayyam", "خيام", "خیام"},
		{"Rabia", "رابعه", "رابعه"},
		{"Zarnegar", "زرنګار", "زرنگار"},
		{"Takht", "تخت", "تخت"},
		{"Qasr", "ماڼۍ", "قصر"},
		{"Diwan", "ديوان", "دیوان"},
		{"Melma", "مېلمه", "مهمان"},
		{"Aram", "آرام", "آرام"},
		{"Sulh", "سوله", "صلح"},
		{"Omid", "هيله", "امید"},
		{"Dosti", "دوستي", "دوستی"},
		{"Wafa", "وفا", "وفا"},
		{"Nasim", "نسيم", "نسیم"},
		{"Shabnam", "شبنم", "شبنم"},
		{"Laleh", "لاله", "لاله"},
		{"Nargis", "نرګس", "نرگس"},
		{"Yasmin", "ياسمين", "یاسمین"},
		{"Spin Ghar", "سپين غر", "سپین\u200cغر"},
		{"Hindukush", "هندوکش", "هندوکش"},
		{"Nawruz", "نوروز", "نوروز"},
		{"Khorasan", "خراسان", "خراسان"},
	}
}

// propertyType is what kind of house it is; share says how many of a hundred.
type propertyType struct {
	code  string
	share uint64
	names Names
	iran  string // the Persian of Iran where it differs from Dari
	more  More
}

func propertyTypes() []propertyType {
	return []propertyType{
		{"hotel", 52, Names{"Hotel", "هوټل", "هوتل"}, "هتل", More{"Меҳмонхона", "Отель", "ہوٹل", "فندق"}},
		{"guesthouse", 26, Names{"Guesthouse", "مېلمستون", "مهمان\u200cخانه"}, "مهمان\u200cسرا", More{"Меҳмонсарой", "Гостевой дом", "مہمان خانہ", "بيت ضيافة"}},
		{"apartment", 13, Names{"Apartments", "اپارتمانونه", "آپارتمان\u200cهای"}, "آپارتمان\u200cهای", More{"Апартаментҳо", "Апартаменты", "اپارٹمنٹ", "شقق"}},
		{"hostel", 9, Names{"Hostel", "ليليه", "لیلیه"}, "هاستل", More{"Хостел", "Хостел", "ہاسٹل", "نزل"}},
	}
}

// amenity is one thing a house offers; share says how many of a hundred do.
type amenity struct {
	code     string
	category string
	share    uint64
	names    Spellings
}

func amenities() []amenity {
	return []amenity{
		{"free_wifi", "connectivity", 86, Spellings{Names{"Free Wi-Fi", "وړيا وای فای", "وای\u200cفای رایگان"}, More{"Wi-Fi-и ройгон", "Бесплатный Wi-Fi", "مفت وائی فائی", "واي فاي مجاني"}}},
		{"breakfast", "food", 64, Spellings{Names{"Breakfast", "سهارنۍ", "صبحانه"}, More{"Субҳона", "Завтрак", "ناشتہ", "إفطار"}}},
		{"halal_kitchen", "food", 72, Spellings{Names{"Halal kitchen", "حلال پخلنځی", "آشپزخانهٔ حلال"}, More{"Ошхонаи ҳалол", "Халяльная кухня", "حلال باورچی خانہ", "مطبخ حلال"}}},
		{"prayer_room", "faith", 58, Spellings{Names{"Prayer room", "د لمانځه خونه", "نمازخانه"}, More{"Намозхона", "Молельная комната", "نماز کا کمرہ", "مصلى"}}},
		{"women_only_floor", "faith", 17, Spellings{Names{"Women-only floor", "د ښځو ځانګړی پوړ", "طبقهٔ ویژهٔ بانوان"}, More{"Ошёнаи занона", "Женский этаж", "خواتین کی منزل", "طابق للنساء"}}},
		{"restaurant", "food", 55, Spellings{Names{"Restaurant", "رستورانت", "رستورانت"}, More{"Тарабхона", "Ресторан", "ریستوران", "مطعم"}}},
		{"tea_house", "food", 34, Spellings{Names{"Tea house", "چایخانه", "چایخانه"}, More{"Чойхона", "Чайхана", "چائے خانہ", "بيت شاي"}}},
		{"room_service", "service", 38, Spellings{Names{"Room service", "د خونې خدمت", "خدمات اتاق"}, More{"Хизмат дар ҳуҷра", "Обслуживание в номере", "روم سروس", "خدمة الغرف"}}},
		{"airport_shuttle", "transport", 36, Spellings{Names{"Airport shuttle", "د هوايي ډګر لېږد", "ترانسپورت میدان هوایی"}, More{"Нақлиёт аз фурудгоҳ", "Трансфер из аэропорта", "ہوائی اڈے کی سواری", "نقل من المطار"}}},
		{"parking", "transport", 61, Spellings{Names{"Parking", "پارکينګ", "پارکینگ"}, More{"Таваққуфгоҳ", "Парковка", "پارکنگ", "موقف سيارات"}}},
		{"secure_compound", "safety", 41, Spellings{Names{"Secure compound", "خوندي انګړ", "محوطهٔ امن"}, More{"Ҳавлии бехатар", "Охраняемая территория", "محفوظ احاطہ", "مجمع آمن"}}},
		{"generator_power", "comfort", 57, Spellings{Names{"Backup power", "د برېښنا جنراتور", "برق اضطراری"}, More{"Барқи эҳтиётӣ", "Резервное питание", "متبادل بجلی", "كهرباء احتياطية"}}},
		{"hot_water_24h", "comfort", 69, Spellings{Names{"24-hour hot water", "۲۴ ساعته ګرمې اوبه", "آب گرم ۲۴ ساعته"}, More{"Оби гарми шабонарӯзӣ", "Горячая вода круглосуточно", "۲۴ گھنٹے گرم پانی", "ماء ساخن على مدار الساعة"}}},
		{"heating", "comfort", 74, Spellings{Names{"Heating", "تودوخه", "گرمایش"}, More{"Гармидиҳӣ", "Отопление", "ہیٹنگ", "تدفئة"}}},
		{"air_conditioning", "comfort", 63, Spellings{Names{"Air conditioning", "ايرکنډيشن", "تهویهٔ مطبوع"}, More{"Кондитсионер", "Кондиционер", "ایئر کنڈیشنر", "تكييف هواء"}}},
		{"family_rooms", "rooms", 52, Spellings{Names{"Family rooms", "د کورنۍ خونې", "اتاق خانوادگی"}, More{"Ҳуҷраҳои оилавӣ", "Семейные номера", "خاندانی کمرے", "غرف عائلية"}}},
		{"garden", "leisure", 33, Spellings{Names{"Garden", "باغ", "باغ"}, More{"Боғ", "Сад", "باغ", "حديقة"}}},
		{"pool", "leisure", 12, Spellings{Names{"Swimming pool", "د لامبو ډنډ", "حوض آببازی"}, More{"Ҳавзи шиноварӣ", "Бассейн", "سوئمنگ پول", "مسبح"}}},
		{"gym", "leisure", 15, Spellings{Names{"Gym", "جيم", "باشگاه ورزشی"}, More{"Толори варзиш", "Тренажёрный зал", "جم", "صالة رياضية"}}},
		{"spa", "leisure", 9, Spellings{Names{"Spa and hammam", "حمام", "سپا و حمام"}, More{"Спа ва ҳаммом", "Спа и хаммам", "سپا اور حمام", "سبا وحمام"}}},
		{"laundry", "service", 48, Spellings{Names{"Laundry", "کالي مينځل", "خشک\u200cشویی"}, More{"Ҷомашӯйхона", "Прачечная", "لانڈری", "غسيل ملابس"}}},
		{"elevator", "access", 37, Spellings{Names{"Lift", "لفټ", "آسانسور"}, More{"Лифт", "Лифт", "لفٹ", "مصعد"}}},
		{"wheelchair_access", "access", 21, Spellings{Names{"Wheelchair access", "د ويلچېر لاسرسی", "دسترسی ویلچر"}, More{"Дастрасӣ бо аробача", "Доступ на коляске", "وہیل چیئر کی رسائی", "وصول الكراسي المتحركة"}}},
		{"conference_room", "business", 24, Spellings{Names{"Conference room", "د غونډو تالار", "سالن جلسات"}, More{"Толори ҷаласаҳо", "Конференц-зал", "کانفرنس روم", "قاعة اجتماعات"}}},
	}
}

// cancellations are the flexibilities, from the freest.
func cancellations() []Spellings {
	return []Spellings{
		{Names{"Free cancellation until 24 hours before arrival", "له رارسېدو ۲۴ ساعته مخکې وړيا لغوه", "لغو رایگان تا ۲۴ ساعت پیش از ورود"}, More{"Бекоркунии ройгон то 24 соат пеш аз расидан", "Бесплатная отмена за 24 часа до заезда", "آمد سے ۲۴ گھنٹے پہلے تک مفت منسوخی", "إلغاء مجاني حتى ٢٤ ساعة قبل الوصول"}},
		{Names{"Half is refunded until 72 hours before arrival", "له رارسېدو ۷۲ ساعته مخکې نيمايي بېرته ورکول کېږي", "نیمی تا ۷۲ ساعت پیش از ورود بازگردانده می\u200cشود"}, More{"Нисфи маблағ то 72 соат пеш аз расидан баргардонида мешавад", "Половина возвращается за 72 часа до заезда", "آمد سے ۷۲ گھنٹے پہلے تک آدھی رقم واپس", "يُرد النصف حتى ٧٢ ساعة قبل الوصول"}},
		{Names{"Not refundable", "نه بېرته ورکول کېږي", "غیرقابل بازگشت"}, More{"Баргардонида намешавад", "Без возврата", "ناقابل واپسی", "غير قابل للاسترداد"}},
	}
}

var cancellationCodes = [3]string{"free", "partial", "none"}

// roomKinds are the kinds of room, from the cheapest.
type roomKind struct {
	names         Spellings
	adults, child int
	beds          []bed
	sqm           int
}

type bed struct {
	Type  string `json:"type"`
	Count int    `json:"count"`
}

func roomKinds() []roomKind {
	return []roomKind{
		{Spellings{Names{"Standard Double", "معياري دوه کسيزه", "استندرد دونفره"}, More{"Стандарт дунафара", "Стандартный двухместный", "معیاری ڈبل", "غرفة مزدوجة عادية"}}, 2, 1, []bed{{"double", 1}}, 18},
		{Spellings{Names{"Twin Room", "دوه بستريزه خونه", "اتاق دو تخته"}, More{"Ҳуҷраи дукката", "Номер с двумя кроватями", "دو بستروں کا کمرہ", "غرفة بسريرين"}}, 2, 1, []bed{{"single", 2}}, 20},
		{Spellings{Names{"Family Room", "د کورنۍ خونه", "اتاق خانوادگی"}, More{"Ҳуҷраи оилавӣ", "Семейный номер", "خاندانی کمرہ", "غرفة عائلية"}}, 3, 2, []bed{{"double", 1}, {"single", 2}}, 32},
		{Spellings{Names{"Deluxe Suite", "ډيلوکس سويټ", "سوئیت دلوکس"}, More{"Сюити делюкс", "Люкс", "ڈیلکس سوئیٹ", "جناح فاخر"}}, 4, 2, []bed{{"king", 1}, {"sofa", 1}}, 48},
	}
}

// people lend their names to operators and to guests in the staff services.
func people() []string {
	return []string{
		"Ahmad Rahimi", "Zarghuna Stanikzai", "Farid Noori", "Laila Haidari", "Mirwais Popal", "Shukria Azizi", "Karim Yusufzai", "Nadia Karimi",
		"Bahram Sadat", "Parwana Wardak", "Reza Hosseini", "Mina Tehrani", "Jamshed Rahmon", "Gulnora Saidova", "Bilal Afridi", "Sana Durrani",
		"Omar Al Farsi", "Hamida Barakzai", "Tariq Mohmand", "Yalda Ahmadi", "Nasir Orakzai", "Fatima Zahir", "Idris Balkhi", "Maryam Sultani",
	}
}
