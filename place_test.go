package bff_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	bff "melmastoon.ghasi.io/bff"
)

func TestFoldPlace(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, a, b, want string }{
		{"case and spaces", "  Mazar-i   Sharif ", "mazar_i sharif", "mazar i sharif"},
		{"composition", "Cafe\u0301", "café", "café"},
		{"compatibility forms", "Ｋａｂｕｌ", "kabul", "kabul"},
		{"Arabic and Persian yeh", "علي", "علی", "علی"},
		{"Arabic and Persian kaf", "كابل", "کابل", "کابل"},
		{"Pashto gaf", "ګردېز", "گردیز", "گردیز"},
		{"zero-width non-joiner", "می\u200cرود", "میرود", "میرود"},
		{"vowel signs and kashida", "كَابُـل", "کابل", "کابل"},
		{"Urdu heh", "لاہور", "لاهور", "لاهور"},
		{"alef with hamza", "أحمد", "احمد", "احمد"},
		{"Arabic digits", "کارته ٤", "کارته 4", "کارته 4"},
		{"Persian digits", "کارته ۴", "کارته 4", "کارته 4"},
		{"Tajik letters on a Russian keyboard", "Ҷӯйбори Қурғонтеппаи Ҳисорӣ", "чуйбори кургонтеппаи хисори", "чуйбори кургонтеппаи хисори"},
		{"Tajik letters of two signs", "Кӯлоб", "Ку\u0304лоб", "кулоб"},
		{"Russian yo", "Орёл", "Орел", "орел"},
		{"Russian short i stays", "Дубай", "дубай", "дубай"},
		{"nothing", " - ", "", ""},
	}
	for _, tt := range tests {
		if a, b := bff.FoldPlace(tt.a), bff.FoldPlace(tt.b); a != tt.want || b != tt.want {
			t.Errorf("%s: %q and %q fold to %q and %q, want %q", tt.name, tt.a, tt.b, a, b, tt.want)
		}
	}
}

func FuzzFoldPlace(f *testing.F) {
	for _, s := range []string{"Kabul", "كَابُـل", "می\u200cرود", "a\u200c\u0301", "\xff", " - ", "Ҷӣ\u0304ӯё\u0308"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := bff.FoldPlace(s)
		if !utf8.ValidString(got) || strings.TrimSpace(got) != got && strings.Trim(got, " ") != got {
			t.Fatalf("FoldPlace(%q) = %q", s, got)
		}
		if again := bff.FoldPlace(got); again != got {
			t.Fatalf("FoldPlace(%q) = %q, which folds to %q", s, got, again)
		}
	})
}
