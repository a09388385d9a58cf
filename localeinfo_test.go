package bff_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	bff "melmastoon.ghasi.io/bff"
)

// Every locale has every fact, in the letters of its language. (Whether they are
// the right ones: the tests of clients/typescript/values, against ICU.)
func TestLocaleFacts(t *testing.T) {
	t.Parallel()
	latin, quoted := regexp.MustCompile(`[A-Za-z]`), regexp.MustCompile(`'[^']*'`)
	for _, l := range bff.Locales() {
		info := l.Info()
		check := func(ok bool, what string, got any) {
			if !ok {
				t.Errorf("%s: %s: %q", l, what, got)
			}
		}
		check(info.Locale == l, "facts of another locale", info.Locale)
		first, _ := utf8.DecodeRuneInString(info.Name)
		check((info.Direction == bff.RightToLeft) == unicode.Is(unicode.Arabic, first), "direction", info.Direction)
		digits := []rune(info.Digits)
		check(len(digits) == 10 && unicode.IsDigit(digits[0]) && digits[9]-digits[0] == 9, "digits", info.Digits)
		check(slices.Contains(info.Calendars, bff.CalendarGregory), "calendars", info.Calendars)
		check(info.FirstDay >= 1 && info.FirstDay <= 7, "first day", info.FirstDay)
		check(len(info.Weekend) > 0 && info.Weekend[0] >= 1 && slices.Max(info.Weekend) <= 7, "weekend", info.Weekend)
		names := slices.Concat(info.Weekdays.Long, info.Weekdays.Short)
		check(len(info.Weekdays.Long) == 7 && len(info.Weekdays.Short)%7 == 0, "weekdays", info.Weekdays)
		for _, m := range []bff.MonthNames{info.Months.Gregory, info.Months.Persian} {
			check(len(m.Long) == 12 && len(m.Short)%12 == 0 && len(m.Standalone)%12 == 0, "months", m)
			names = slices.Concat(names, m.Long, m.Short, m.Standalone)
		}
		for _, n := range names {
			check(n != "" && strings.TrimSpace(n) == n && (info.Locale[:2] == "en") == latin.MatchString(n), "name", n)
		}
		for pattern, want := range map[string]string{
			info.Dates.Full: "EMdy", info.Dates.Long: "Mdy", info.Dates.Medium: "Mdy", info.Dates.Short: "Mdy", info.Dates.Month: "Ly", info.Dates.Day: "Md",
		} {
			letters := latin.FindAllString(quoted.ReplaceAllString(pattern, ""), -1)
			slices.Sort(letters)
			check(strings.Join(slices.Compact(letters), "") == want, "pattern", pattern)
		}
		other, ok := info.Plurals["other"]
		check(ok && other == "" && info.Plurals["one"] != "", "plurals", info.Plurals)
		check(info.Numbers.Decimal != "" && info.Numbers.Group != "" && info.Numbers.Minus != "", "numbers", info.Numbers)
		check(strings.Count(info.Money.Pattern, "#") == 1 && strings.Count(info.Money.Pattern, "¤") == 1, "money", info.Money.Pattern)
		for _, c := range bff.Currencies() {
			sign := info.Money.Signs[c]
			check(sign != "" && (sign == string(c) || !latin.MatchString(sign)), "sign of "+string(c), sign)
			check(info.Money.MinorDigits[c] == 2, "minor digits of "+string(c), info.Money.MinorDigits)
		}
		for _, p := range []string{info.Lists.Two, info.Lists.Start, info.Lists.Middle, info.Lists.End} {
			check(strings.HasPrefix(p, "{0}") && strings.HasSuffix(p, "{1}"), "list", p)
		}
	}
	if got := bff.Locale("xx").Info().Locale; got != bff.DefaultLocale {
		t.Errorf("an unknown locale has the facts of %s", got)
	}
}

// The contract says what the table says.
func TestLocaleContract(t *testing.T) {
	t.Parallel()
	const name = "contracts/locales/locales.json"
	file := struct {
		Description string            `json:"description"`
		Locales     []*bff.LocaleInfo `json:"locales"`
	}{
		Description: "How dates, numbers, amounts and lists are written in each locale of the platform. Made from the table in localefacts.go; GET /session has the entry of its locale as localeInfo. docs/locales.md says where the words come from.",
	}
	for _, l := range bff.Locales() {
		file.Locales = append(file.Locales, l.Info())
	}
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(file); err != nil {
		t.Fatal(err)
	}
	compact := regexp.MustCompile(`\[[^\[\]{}]*\]`).ReplaceAllFunc(want.Bytes(), func(list []byte) []byte {
		return regexp.MustCompile(`(,?)\n\s+`).ReplaceAllFunc(list, func(gap []byte) []byte {
			return bytes.Repeat([]byte(", "), bytes.Count(gap, []byte(",")))
		})
	})
	if *writeDocs {
		if err := os.WriteFile(name, compact, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, compact) {
		t.Errorf("%s is stale: run go test . -run TestLocaleContract -write-docs", name)
	}
}
