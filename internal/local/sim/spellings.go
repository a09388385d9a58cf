package sim

// Spellings are a name in all languages of the platform's locales. Houses and
// their neighbourhoods have Names alone.
type Spellings struct {
	Names
	More
}

// More are the languages that not every name is in.
type More struct {
	Tg string `json:"tg,omitempty"`
	Ru string `json:"ru,omitempty"`
	Ur string `json:"ur,omitempty"`
	Ar string `json:"ar,omitempty"`
}

func (s Spellings) all() []string { return []string{s.En, s.Ps, s.Fa, s.Tg, s.Ru, s.Ur, s.Ar} }

// spellings are the names of a city.
func (c *city) spellings() Spellings { return Spellings{c.names, c.more} }

func cities() []city {
	all, words := plainCities(), cityWords()
	for i := range all {
		all[i].more = words[all[i].names.En]
		all[i].texts = [2]Text{all[i].spellings().text(), all[i].region.text()}
	}
	return all
}

// cityWords are the names of cities in Tajik, Russian, Urdu and Arabic.
func cityWords() map[string]More {
	return map[string]More{
		"Kabul":          {"Кобул", "Кабул", "کابل", "كابول"},
		"Herat":          {"Ҳирот", "Герат", "ہرات", "هراة"},
		"Mazar-i-Sharif": {"Мазори Шариф", "Мазари-Шариф", "مزار شریف", "مزار شريف"},
		"Kandahar":       {"Қандаҳор", "Кандагар", "قندھار", "قندهار"},
		"Jalalabad":      {"Ҷалолобод", "Джелалабад", "جلال آباد", "جلال آباد"},
		"Bamyan":         {"Бомиён", "Бамиан", "بامیان", "باميان"},
		"Kunduz":         {"Қундуз", "Кундуз", "قندوز", "قندوز"},
		"Ghazni":         {"Ғазнӣ", "Газни", "غزنی", "غزنة"},
		"Balkh":          {"Балх", "Балх", "بلخ", "بلخ"},
		"Faizabad":       {"Файзобод", "Файзабад", "فیض آباد", "فيض آباد"},
		"Taloqan":        {"Толуқон", "Талукан", "تالقان", "طالقان"},
		"Pul-e Khumri":   {"Пули Хумрӣ", "Пули-Хумри", "پل خمری", "بل خمري"},
		"Maimana":        {"Маймана", "Меймене", "میمنہ", "ميمنة"},
		"Sheberghan":     {"Шибирғон", "Шибирган", "شبرغان", "شبرغان"},
		"Khost":          {"Хост", "Хост", "خوست", "خوست"},
		"Gardez":         {"Гардез", "Гардез", "گردیز", "غرديز"},
		"Lashkargah":     {"Лашкаргоҳ", "Лашкаргах", "لشکر گاہ", "لشكركاه"},
		"Charikar":       {"Чорикор", "Чарикар", "چاریکار", "جاريكار"},
		"Asadabad":       {"Асадобод", "Асадабад", "اسد آباد", "أسد آباد"},
		"Tehran":         {"Теҳрон", "Тегеран", "تہران", "طهران"},
		"Mashhad":        {"Машҳад", "Мешхед", "مشہد", "مشهد"},
		"Isfahan":        {"Исфаҳон", "Исфахан", "اصفہان", "أصفهان"},
		"Shiraz":         {"Шероз", "Шираз", "شیراز", "شيراز"},
		"Tabriz":         {"Табрез", "Тебриз", "تبریز", "تبريز"},
		"Qom":            {"Қум", "Кум", "قم", "قم"},
		"Yazd":           {"Язд", "Йезд", "یزد", "يزد"},
		"Kerman":         {"Кирмон", "Керман", "کرمان", "كرمان"},
		"Rasht":          {"Рашт", "Решт", "رشت", "رشت"},
		"Zahedan":        {"Зоҳидон", "Захедан", "زاہدان", "زاهدان"},
		"Dushanbe":       {"Душанбе", "Душанбе", "دوشنبہ", "دوشنبه"},
		"Khujand":        {"Хуҷанд", "Худжанд", "خجند", "خجند"},
		"Khorog":         {"Хоруғ", "Хорог", "خاروغ", "خاروغ"},
		"Kulob":          {"Кӯлоб", "Куляб", "کولاب", "كولاب"},
		"Bokhtar":        {"Бохтар", "Бохтар", "بختر", "بختر"},
		"Panjakent":      {"Панҷакент", "Пенджикент", "پنجکنت", "بنجكنت"},
		"Islamabad":      {"Исломобод", "Исламабад", "اسلام آباد", "إسلام آباد"},
		"Peshawar":       {"Пешовар", "Пешавар", "پشاور", "بيشاور"},
		"Lahore":         {"Лоҳур", "Лахор", "لاہور", "لاهور"},
		"Karachi":        {"Карочӣ", "Карачи", "کراچی", "كراتشي"},
		"Quetta":         {"Кветта", "Кветта", "کوئٹہ", "كويتا"},
		"Rawalpindi":     {"Ровалпиндӣ", "Равалпинди", "راولپنڈی", "راولبندي"},
		"Multan":         {"Мултон", "Мултан", "ملتان", "ملتان"},
		"Gilgit":         {"Гилгит", "Гилгит", "گلگت", "جلجت"},
		"Dubai":          {"Дубай", "Дубай", "دبئی", "دبي"},
		"Abu Dhabi":      {"Абу-Дабӣ", "Абу-Даби", "ابوظہبی", "أبوظبي"},
		"Sharjah":        {"Шорҷа", "Шарджа", "شارجہ", "الشارقة"},
		"Istanbul":       {"Истанбул", "Стамбул", "استنبول", "إسطنبول"},
		"Berlin":         {"Берлин", "Берлин", "برلن", "برلين"},
		"Hamburg":        {"Ҳамбург", "Гамбург", "ہیمبرگ", "هامبورغ"},
		"London":         {"Лондон", "Лондон", "لندن", "لندن"},
		"Vienna":         {"Вена", "Вена", "ویانا", "فيينا"},
		"Paris":          {"Париж", "Париж", "پیرس", "باريس"},
	}
}
