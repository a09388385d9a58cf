package bff_test

import (
	"slices"
	"strings"
	"testing"

	bff "melmastoon.ghasi.io/bff"
)

func TestParseLocale(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bff.Locale{
		"ps": "ps-AF", "ps-AF": "ps-AF", "ps-PK": "ps-AF", "PS-af": "ps-AF", "pus": "ps-AF",
		"prs": "fa-AF", "prs-AF": "fa-AF", "PRS-af": "fa-AF", "fa-AF": "fa-AF",
		"fa": "fa-IR", "fa-IR": "fa-IR", "fas": "fa-IR", "fa-Arab": "fa-IR",
		"tg": "tg-TJ", "tg-TJ": "tg-TJ", "tg-Cyrl-TJ": "tg-TJ",
		"en": "en", "en-GB": "en", "en-AU": "en", "en-IN": "en", "en-US": "en-US", "EN_us": "en-US", "en-US-u-ca-persian": "en-US",
		"ar": "ar", "ar-SA": "ar", "ar-AE": "ar", "ar-EG": "ar",
		"ur": "ur", "ur-PK": "ur", "ur-IN": "ur",
		"ru": "ru", "ru-RU": "ru",
	} {
		if got, err := bff.ParseLocale(s); err != nil || got != want {
			t.Errorf("ParseLocale(%q) = %q, %v, want %q", s, got, err, want)
		}
	}
	for _, l := range bff.Locales() {
		if got, err := bff.ParseLocale(string(l)); err != nil || got != l {
			t.Errorf("ParseLocale(%q) = %q, %v", l, got, err)
		}
	}
	for _, s := range []string{
		"fr", "fr-FR", "de", "zh", "hi", "ku", "haz", "tg-Arab",
		// CLDR would lead these to Russian, English or Arabic.
		"uz", "uz-AF", "az", "tk", "kk", "ky", "be", "tt", "pa", "sd", "ckb", "i-klingon",
		"und", "und-AF", "mul", "zxx", "root", "x-private",
		"", "*", "e", "1", "en-", "-en", "en--US", "en US", "en\n", "\x00", "en;q=1", "en,ps", "prs,en", "é", strings.Repeat("en-", 20) + "US", strings.Repeat("a", 10_000),
	} {
		if got, err := bff.ParseLocale(s); bff.CodeOf(err) != bff.CodeLocaleNotSupported || got != "" {
			t.Errorf("ParseLocale(%q) = %q, %v, want LOCALE_NOT_SUPPORTED", s, got, err)
		}
	}
}

func TestNegotiateLocale(t *testing.T) {
	t.Parallel()
	tests := []struct {
		header string
		want   bff.Locale
		found  bool
	}{
		{"ps-AF,ps;q=0.9,en;q=0.5", "ps-AF", true},
		{"prs-AF,prs;q=0.9,en-US;q=0.5", "fa-AF", true},
		{"fr-FR, PRS;q=0.8, en;q=0.1", "fa-AF", true},
		{"en-GB,en;q=0.9", "en", true},
		{"en-US,en;q=0.9", "en-US", true},
		{"fa;q=0.5, en;q=0.9", "en", true},
		{"fr, de;q=0.9, ru;q=0.1", "ru", true},
		{"fr, *;q=0.1", "en", false},
		{"en;q=0, ps", "ps-AF", true},
		{"uz, en;q=0.3", "en", true}, // not Russian, which nobody asked for
		{" ps ", "ps-AF", true},
		{"ps,,", "ps-AF", true},
		// One tag that nobody knows does not cost the guest the others.
		{"ps-AF, xx;q=0.5", "ps-AF", true},
		{"xx, i-nonsense;q=0.9, !!;q=0.8, ur-PK;q=0.7", "ur", true},
		{"ps;q=high, ar;q=0.2", "ar", true},
		{"fr", "en", false},
		{"*", "en", false},
		{"", "en", false},
		{";;;,,,", "en", false},
		{"ps;q=0", "en", false},
		{"ps," + strings.Repeat("x", 600), "en", false}, // too long to be a browser's
	}
	for _, tt := range tests {
		if got, found := bff.NegotiateLocale(tt.header); got != tt.want || found != tt.found {
			t.Errorf("NegotiateLocale(%q) = %q, %v, want %q, %v", tt.header, got, found, tt.want, tt.found)
		}
	}
}

func FuzzParseLocale(f *testing.F) {
	for _, s := range []string{"ps-AF", "prs", "en-GB", "fr", "", "en-US-u-ca-persian", "x-a", "prs-", "a-DE"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := bff.ParseLocale(s)
		if err != nil {
			if l != "" || bff.CodeOf(err) != bff.CodeLocaleNotSupported {
				t.Fatalf("ParseLocale(%q) = %q, %v", s, l, err)
			}
			return
		}
		if !slices.Contains(bff.Locales(), l) {
			t.Fatalf("ParseLocale(%q) = %q, which is none of ours", s, l)
		}
	})
}

func FuzzNegotiateLocale(f *testing.F) {
	for _, s := range []string{"ps-AF,ps;q=0.9", "prs;q=0.5,*;q=0.1", "en-GB", ",;=", "fr;q=1, en;q=0.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, found := bff.NegotiateLocale(s)
		if !slices.Contains(bff.Locales(), l) || (!found && l != bff.DefaultLocale) {
			t.Fatalf("NegotiateLocale(%q) = %q, %v", s, l, found)
		}
	})
}
