package bff

import (
	"strings"

	"golang.org/x/text/unicode/norm"
)

// FoldPlace brings a typed name of a place to one form: compatibility-composed,
// lower case, single spaces, and one spelling for the letters and digits that
// Arabic, Persian, Pashto and Urdu keyboards write differently, and for those
// of Tajik that Russian keyboards lack.
func FoldPlace(s string) string {
	s = strings.ToLower(norm.NFKC.String(s))
	var b strings.Builder
	b.Grow(len(s))
	space := false
	for _, r := range s {
		switch {
		case r == ' ' || r == '\t' || r == '_' || r == '-':
			space = b.Len() > 0
			continue
		case r == '\u200c' || r == '\u200d' || r == '\u0640' || r == '\u0670' || (r >= '\u064b' && r <= '\u065f'):
			continue // joiners, kashida, vowel signs and loose hamzas
		case r == '\u0304' || r == '\u0308':
			continue // marks that the letters below would take up again
		case r == 'ي' || r == 'ى' || r == 'ې' || r == 'ۍ' || r == 'ئ':
			r = 'ی'
		case r == 'ك' || r == 'ڪ':
			r = 'ک'
		case r == 'ګ':
			r = 'گ'
		case r == 'ة' || r == 'ۀ' || r == 'ہ' || r == 'ھ':
			r = 'ه'
		case r == 'أ' || r == 'إ' || r == 'ٱ':
			r = 'ا'
		case r == 'ӣ':
			r = 'и'
		case r == 'ӯ':
			r = 'у'
		case r == 'қ':
			r = 'к'
		case r == 'ғ':
			r = 'г'
		case r == 'ҳ':
			r = 'х'
		case r == 'ҷ':
			r = 'ч'
		case r == 'ё':
			r = 'е'
		case r >= '٠' && r <= '٩':
			r = '0' + (r - '٠')
		case r >= '۰' && r <= '۹':
			r = '0' + (r - '۰')
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	// What stood on both sides of a dropped joiner may compose now.
	return norm.NFKC.String(b.String())
}
