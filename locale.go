package bff

import (
	"strings"

	"golang.org/x/text/language"
)

// Locale is a BCP-47 tag of the supported set.
type Locale string

// The locales that the platform speaks.
const (
	LocalePashto    Locale = "ps-AF"
	LocaleDari      Locale = "fa-AF"
	LocalePersian   Locale = "fa-IR"
	LocaleTajik     Locale = "tg-TJ"
	LocaleEnglish   Locale = "en"
	LocaleEnglishUS Locale = "en-US"
	LocaleArabic    Locale = "ar"
	LocaleUrdu      Locale = "ur"
	LocaleRussian   Locale = "ru"
)

// DefaultLocale is used when a guest's languages match none of ours.
const DefaultLocale = LocaleEnglish

// Locales lists the supported set. English stands first because the matcher
// falls back to the first.
func Locales() []Locale {
	return []Locale{
		LocaleEnglish, LocalePashto, LocaleDari, LocalePersian, LocaleTajik,
		LocaleEnglishUS, LocaleArabic, LocaleUrdu, LocaleRussian,
	}
}

var localeTags = func() []language.Tag {
	tags := make([]language.Tag, 0, len(Locales()))
	for _, l := range Locales() {
		tags = append(tags, language.MustParse(string(l)))
	}
	return tags
}()

var localeMatcher = language.NewMatcher(localeTags)

// maxAcceptLanguage bounds what is parsed of a header that anyone can send.
// Browsers stay far below it.
const maxAcceptLanguage = 512

// ParseLocale reads an explicit choice of one locale. A tag that BCP-47
// matching does not lead to a supported locale is refused.
func ParseLocale(s string) (Locale, error) {
	refused := &Error{
		Code:   CodeLocaleNotSupported,
		Detail: "locale must be a BCP-47 tag that matches one of the supported locales",
		Fields: FieldErrors{{Field: "locale", Code: FieldUnsupported, Supported: Texts(Locales())}},
	}
	if s == "" || len(s) > 35 { // RFC 5646 §4.4.1: 35 characters hold every tag in use
		return "", refused
	}
	tag, err := language.Parse(darify(s))
	if err != nil {
		return "", refused
	}
	l, ok := matchLocale(tag)
	if !ok {
		return "", refused
	}
	return l, nil
}

// NegotiateLocale picks the best supported locale for an Accept-Language
// header. Nonsense in the header is as good as no header, and one language
// that is unknown does not spoil the others beside it.
func NegotiateLocale(acceptLanguage string) (Locale, bool) {
	if acceptLanguage == "" || len(acceptLanguage) > maxAcceptLanguage {
		return DefaultLocale, false
	}
	best, bestWeight := DefaultLocale, float32(0)
	for element := range strings.SplitSeq(darify(acceptLanguage), ",") {
		tags, weights, err := language.ParseAcceptLanguage(element)
		if err != nil || len(tags) != 1 || weights[0] <= bestWeight {
			continue
		}
		if l, ok := matchLocale(tags[0]); ok {
			best, bestWeight = l, weights[0]
		}
	}
	return best, bestWeight > 0
}

func matchLocale(tag language.Tag) (Locale, bool) {
	if tag == language.Und {
		return DefaultLocale, false
	}
	_, i, confidence := localeMatcher.Match(tag)
	if confidence < language.High {
		return DefaultLocale, false
	}
	// CLDR also leads Uzbek to Russian and Punjabi to English, as languages
	// that their speakers may read. That is not the language they asked for.
	asked, _, _ := tag.Raw()
	if offered, _, _ := localeTags[i].Raw(); asked != offered {
		return DefaultLocale, false
	}
	return Locales()[i], true
}

// darify replaces prs, the tag that Windows and some browsers send for Dari:
// the CLDR matcher does not lead it to fa-AF.
func darify(s string) string {
	lower := strings.ToLower(s)
	if !strings.Contains(lower, "prs") {
		return s
	}
	fields := strings.Split(lower, ",")
	for i, f := range fields {
		f = strings.TrimSpace(f)
		for _, form := range []string{"prs-af", "prs"} {
			if rest, ok := strings.CutPrefix(f, form); ok && (rest == "" || rest[0] == ';' || rest[0] == ' ') {
				fields[i] = "fa-AF" + rest
				break
			}
		}
	}
	return strings.Join(fields, ",")
}

// LocalizedString is a text with its translations, as front ends receive it.
type LocalizedString struct {
	Default   string            `json:"default"`
	Localized map[string]string `json:"localized,omitempty"`
}
