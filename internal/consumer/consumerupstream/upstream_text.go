package consumerupstream

import (
	"slices"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer/hotel"
	"melmastoon.ghasi.io/bff/internal/jsonscan"
)

// text is localised text as the platform's services write it.
type text struct {
	fallback string // a locale of values
	values   []translation
}

type translation struct{ locale, text string }

// few is room for the translations of nearly every text.
type few [10]translation

// readText reads the translations that a locale may need, or all of them.
func readText(r *jsonscan.Reader, room *few, only bff.Locale) text {
	t := text{values: room[:0]}
	lang := language(only)
	for name := range r.Object() {
		switch name {
		case "default":
			t.fallback = r.String()
		case "values":
			for locale := range r.Object() {
				if only != "" && t.fallback != "" && locale != string(only) && locale != lang && locale != t.fallback {
					continue
				}
				t.values = append(t.values, translation{locale, r.String()})
			}
		}
	}
	return t
}

// get returns the text of one locale; of several, the last one written.
func (t text) get(locale string) string {
	for _, v := range slices.Backward(t.values) {
		if v.locale == locale {
			return v.text
		}
	}
	return ""
}

// localized turns it into what front ends read: the default text itself and
// the others by locale.
func (t text) localized() bff.LocalizedString {
	out := bff.LocalizedString{Default: t.get(t.fallback)}
	for _, v := range t.values {
		if v.locale == t.fallback {
			continue
		}
		if out.Localized == nil {
			out.Localized = make(map[string]string, len(t.values))
		}
		out.Localized[v.locale] = v.text
	}
	if out.Default == "" { // a default that names no value: any is better than none
		for _, locale := range []string{"en", "fa", "ps"} {
			if out.Default = t.get(locale); out.Default != "" {
				break
			}
		}
	}
	return out
}

// in returns the text for a locale.
func (t text) in(locale bff.Locale) string {
	if s := t.get(string(locale)); s != "" {
		return s
	}
	if s := t.get(language(locale)); s != "" {
		return s
	}
	return t.get(t.fallback)
}

func language(locale bff.Locale) string {
	lang, _, _ := strings.Cut(string(locale), "-")
	return lang
}

// readLocalized reads a text with its translations.
func readLocalized(r *jsonscan.Reader) bff.LocalizedString {
	var room few
	return readText(r, &room, "").localized()
}

// readIn reads a text in one language.
func readIn(r *jsonscan.Reader, locale bff.Locale) string {
	var room few
	return readText(r, &room, locale).in(locale)
}

// readLabel reads a text in one language or, without one, in all of them.
func readLabel(r *jsonscan.Reader, locale bff.Locale, all *bff.LocalizedString) string {
	if locale != "" {
		return readIn(r, locale)
	}
	*all = readLocalized(r)
	return all.Default
}

// readID reads an id. One of another kind than wanted is still an id: what it
// cannot name is left out, and the rest of the answer stays.
func readID(r *jsonscan.Reader, want bff.Prefix) (id bff.ID) {
	r.Text(func(s string) (err error) {
		if id, err = bff.ParseID(want, s); err != nil {
			err = id.UnmarshalText([]byte(s))
		}
		return err
	})
	return id
}

func readDate(r *jsonscan.Reader) (d bff.Date) {
	r.Text(func(s string) (err error) {
		d, err = bff.ParseDate(s)
		return err
	})
	return d
}

func readTime(r *jsonscan.Reader) (t time.Time) {
	r.Text(func(s string) error { return t.UnmarshalText([]byte(s)) })
	return t
}

func readGeo(r *jsonscan.Reader) (at hotel.LatLng) {
	for name := range r.Object() {
		switch name {
		case "lat":
			at.Lat = r.Float()
		case "lng":
			at.Lng = r.Float()
		}
	}
	return at
}

// readKebabs reads codes.
func readKebabs(r *jsonscan.Reader) []string {
	codes := r.Strings()
	if codes == nil {
		return []string{}
	}
	kebabs(len(codes), func(i int) *string { return &codes[i] })
	return codes
}

// kebabs turns n platform codes (halal_kitchen) into a front end's
// (halal-kitchen), all of them within one string.
func kebabs(n int, code func(i int) *string) {
	length := 0
	for i := range n {
		length += len(*code(i))
	}
	var b strings.Builder
	b.Grow(length)
	for i := range n {
		for rest := *code(i); ; {
			at := strings.IndexByte(rest, '_')
			if at < 0 {
				b.WriteString(rest)
				break
			}
			b.WriteString(rest[:at])
			b.WriteByte('-')
			rest = rest[at+1:]
		}
	}
	all := b.String()
	for i := range n {
		c := code(i)
		*c, all = all[:len(*c)], all[len(*c):]
	}
}

// kebab turns one.
func kebab(code string) string { return strings.ReplaceAll(code, "_", "-") }

// snake is the way back.
func snake(code string) string { return strings.ReplaceAll(code, "-", "_") }
