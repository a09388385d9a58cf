package sim

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Text is a localised text on the platform's wire: Default names the language
// to fall back to, Values holds the spellings.
type Text struct {
	Default string    `json:"default"`
	Values  Spellings `json:"values"`
}

// Names are the three languages of the data set: English, Pashto and Dari.
type Names struct {
	En string `json:"en"`
	Ps string `json:"ps"`
	Fa string `json:"fa"`
}

func (n Names) text() Text { return Spellings{Names: n}.text() }

func (s Spellings) text() Text { return Text{Default: "en", Values: s} }

func (n Names) all() [3]string { return [3]string{n.En, n.Ps, n.Fa} }

// join puts a separator between the parts of two names, language by language.
func (n Names) join(sep string, o Names) Names {
	return Names{n.En + sep + o.En, n.Ps + sep + o.Ps, n.Fa + sep + o.Fa}
}

// fold brings the spellings of one word to one form: case, diacritics,
// Arabic-script variants (ي/ی/ې/ۍ, ك/ک, ګ/گ, ة/ه, آ/ا), the letters of Tajik
// that Russian keyboards lack (ҷ/ч), joiners, digits and punctuation. Words stay separated by single spaces.
func fold(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	space := false
	for _, r := range norm.NFKD.String(s) {
		switch {
		case unicode.Is(unicode.Mn, r), r == '\u200c', r == '\u200d', r == '\u0640', r == '\u2060', r == '\ufeff', r == '\'', r == '’', r == 'ʿ', r == 'ʾ':
			continue
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if space && b.Len() > 0 {
				b.WriteByte(' ')
			}
			space = false
			b.WriteRune(foldRune(r))
		default:
			space = true
		}
	}
	return b.String()
}

func foldRune(r rune) rune {
	switch r {
	case 'ي', 'ى', 'ې', 'ۍ', 'ے':
		return 'ی'
	case 'ك', 'ڪ':
		return 'ک'
	case 'ګ':
		return 'گ'
	case 'ة', 'ۀ', 'ہ', 'ھ', 'ە':
		return 'ه'
	case 'ٱ':
		return 'ا'
	case 'қ', 'Қ':
		return 'к'
	case 'ғ', 'Ғ':
		return 'г'
	case 'ҳ', 'Ҳ':
		return 'х'
	case 'ҷ', 'Ҷ':
		return 'ч'
	}
	switch {
	case r >= '٠' && r <= '٩':
		return '0' + r - '٠'
	case r >= '۰' && r <= '۹':
		return '0' + r - '۰'
	}
	return unicode.ToLower(r)
}

// folder folds many texts that share their words, as the names of a city's
// houses do: each word is folded once.
type folder map[string]string

func (f folder) fold(s string) string {
	var out []string
	for word := range strings.FieldsSeq(s) {
		k, ok := f[word]
		if !ok {
			k = fold(word)
			f[word] = k
		}
		if k != "" {
			out = append(out, k)
		}
	}
	return strings.Join(out, " ")
}

func (f folder) key(s string) string { return strings.ReplaceAll(f.fold(s), " ", "") }

// foldKey is fold without the spaces, so that "جلال آباد", "جلال‌آباد" and
// "جلالآباد" are one place.
func foldKey(s string) string { return strings.ReplaceAll(fold(s), " ", "") }
