package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// locale is what contracts/locales says of one.
type locale struct {
	Locale  string
	Plurals map[string]string
}

// messages gathers the texts of a page and of the kit for each locale, as
// web/messages/<page>.json has them: {"key": {"en": "…", "fa": "…", "fa-IR": "…"}}. A
// locale's own text wins over its language's. What is missing, or has other places for
// values than the English text, is named. A page without texts has none.
func messages(root, page string) (map[string]map[string]string, error) {
	texts := map[string]map[string]string{}
	for _, name := range []string{"kit", page} {
		b, err := os.ReadFile(filepath.Join(root, "web", "messages", name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			if name == page {
				return nil, nil
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &texts); err != nil {
			return nil, fmt.Errorf("messages/%s.json: %w", name, err)
		}
	}
	b, err := os.ReadFile(filepath.Join(root, "contracts", "locales", "locales.json"))
	if err != nil {
		return nil, err
	}
	var known struct{ Locales []locale }
	if err := json.Unmarshal(b, &known); err != nil {
		return nil, err
	}
	of, wrong := map[string]map[string]string{}, []error(nil)
	for _, l := range known.Locales {
		of[l.Locale] = map[string]string{}
		language, _, _ := strings.Cut(l.Locale, "-")
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			text, ok := texts[key][l.Locale]
			if !ok {
				text, ok = texts[key][language]
			}
			if !ok {
				wrong = append(wrong, fmt.Errorf("messages: %s has no text in %s", key, language))
				continue
			}
			if err := l.fits(text, texts[key]["en"]); err != nil {
				wrong = append(wrong, fmt.Errorf("messages: %s in %s: %w", key, l.Locale, err))
			}
			of[l.Locale][key] = text
		}
	}
	return of, errors.Join(wrong...)
}

var (
	placeholder = regexp.MustCompile(`\{(\w+)[,}]`)
	pluralForms = regexp.MustCompile(`\{\w+, plural,`)
	pluralForm  = regexp.MustCompile(`(zero|one|two|few|many|other) \{`)
)

// fits reports whether a text has the values of the English one, and every form that a
// count needs in its language.
func (l locale) fits(text, english string) error {
	if got, want := places(text), places(english); !slices.Equal(got, want) {
		return fmt.Errorf("it has the places %v, the English text %v", got, want)
	}
	if n := len(pluralForms.FindAllString(text, -1)); n > 0 {
		found := map[string]int{}
		for _, m := range pluralForm.FindAllStringSubmatch(text, -1) {
			found[m[1]]++
		}
		for category := range l.Plurals {
			if found[category] < n {
				return fmt.Errorf("it lacks the form %q", category)
			}
		}
	}
	return nil
}

func places(text string) []string {
	var names []string
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}
