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
}

func propertyTypes() []propertyType {
	return []propertyType{
		{"hotel", 52, Names{"Hotel", "هوټل", "هوتل"}, "هتل"},
		{"guesthouse", 26, Names{"Guesthouse", "مېلمستون", "مهمان\u200cخانه"}, "مهمان\u200cسرا"},
		{"apartment", 13, Names{"Apartments", "اپارتمانونه", "آپارتمان\u200cهای"}, "آپارتمان\u200cهای"},
		{"hostel", 9, Names{"Hostel", "ليليه", "لیلیه"}, "هاستل"},
	}
}

// amenity is one thing a house offers; share says how many of a hundred do.
type amenity struct {
	code     string
	category string
	share    uint64
	names    Names
}

func amenities() []amenity {
	return []amenity{
		{"free_wifi", "connectivity", 86, Names{"Free Wi-Fi", "وړيا وای فای", "وای\u200cفای رایگان"}},
		{"breakfast", "food", 64, Names{"Breakfast", "سهارنۍ", "صبحانه"}},
		{"halal_kitchen", "food", 72, Names{"Halal kitchen", "حلال پخلنځی", "آشپزخانهٔ حلال"}},
		{"prayer_room", "faith", 58, Names{"Prayer room", "د لمانځه خونه", "نمازخانه"}},
		{"women_only_floor", "faith", 17, Names{"Women-only floor", "د ښځو ځانګړی پوړ", "طبقهٔ ویژهٔ بانوان"}},
		{"restaurant", "food", 55, Names{"Restaurant", "رستورانت", "رستورانت"}},
		{"tea_house", "food", 34, Names{"Tea house", "چایخانه", "چایخانه"}},
		{"room_service", "service", 38, Names{"Room service", "د خونې خدمت", "خدمات اتاق"}},
		{"airport_shuttle", "transport", 36, Names{"Airport shuttle", "د هوايي ډګر لېږد", "ترانسپورت میدان هوایی"}},
		{"parking", "transport", 61, Names{"Parking", "پارکينګ", "پارکینگ"}},
		{"secure_compound", "safety", 41, Names{"Secure compound", "خوندي انګړ", "محوطهٔ امن"}},
		{"generator_power", "comfort", 57, Names{"Backup power", "د برېښنا جنراتور", "برق اضطراری"}},
		{"hot_water_24h", "comfort", 69, Names{"24-hour hot water", "۲۴ ساعته ګرمې اوبه", "آب گرم ۲۴ ساعته"}},
		{"heating", "comfort", 74, Names{"Heating", "تودوخه", "گرمایش"}},
		{"air_conditioning", "comfort", 63, Names{"Air conditioning", "ايرکنډيشن", "تهویهٔ مطبوع"}},
		{"family_rooms", "rooms", 52, Names{"Family rooms", "د کورنۍ خونې", "اتاق خانوادگی"}},
		{"garden", "leisure", 33, Names{"Garden", "باغ", "باغ"}},
		{"pool", "leisure", 12, Names{"Swimming pool", "د لامبو ډنډ", "حوض آببازی"}},
		{"gym", "leisure", 15, Names{"Gym", "جيم", "باشگاه ورزشی"}},
		{"spa", "leisure", 9, Names{"Spa and hammam", "حمام", "سپا و حمام"}},
		{"laundry", "service", 48, Names{"Laundry", "کالي مينځل", "خشک\u200cشویی"}},
		{"elevator", "access", 37, Names{"Lift", "لفټ", "آسانسور"}},
		{"wheelchair_access", "access", 21, Names{"Wheelchair access", "د ويلچېر لاسرسی", "دسترسی ویلچر"}},
		{"conference_room", "business", 24, Names{"Conference room", "د غونډو تالار", "سالن جلسات"}},
	}
}

// cancellations are the flexibilities, from the freest.
func cancellations() []Names {
	return []Names{
		{"Free cancellation until 24 hours before arrival", "له رارسېدو ۲۴ ساعته مخکې وړيا لغوه", "لغو رایگان تا ۲۴ ساعت پیش از ورود"},
		{"Half is refunded until 72 hours before arrival", "له رارسېدو ۷۲ ساعته مخکې نيمايي بېرته ورکول کېږي", "نیمی تا ۷۲ ساعت پیش از ورود بازگردانده می\u200cشود"},
		{"Not refundable", "نه بېرته ورکول کېږي", "غیرقابل بازگشت"},
	}
}

var cancellationCodes = [3]string{"free", "partial", "none"}

// roomKinds are the kinds of room, from the cheapest.
type roomKind struct {
	names         Names
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
		{Names{"Standard Double", "معياري دوه کسيزه", "استندرد دونفره"}, 2, 1, []bed{{"double", 1}}, 18},
		{Names{"Twin Room", "دوه بستريزه خونه", "اتاق دو تخته"}, 2, 1, []bed{{"single", 2}}, 20},
		{Names{"Family Room", "د کورنۍ خونه", "اتاق خانوادگی"}, 3, 2, []bed{{"double", 1}, {"single", 2}}, 32},
		{Names{"Deluxe Suite", "ډيلوکس سويټ", "سوئیت دلوکس"}, 4, 2, []bed{{"king", 1}, {"sofa", 1}}, 48},
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
