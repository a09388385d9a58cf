package useragent

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func newIndex(t testing.TB) *Index {
	t.Helper()
	x, err := New(Config{Apps: []string{"Melmastoon/"}})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestJudge(t *testing.T) {
	t.Parallel()
	x := newIndex(t)
	for _, tt := range []struct {
		userAgent string
		want      Verdict
	}{
		{"", Verdict{Kind: Empty, Class: Unknown, Name: "empty"}},
		{"  \t", Verdict{Kind: Empty, Class: Unknown, Name: "empty"}},
		{"?", Verdict{Class: Unknown}},
		{
			"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
			Verdict{Kind: Search, Class: Bot, Name: "google", Operator: "google"},
		},
		{
			"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/100.0.0.0 Safari/537.36",
			Verdict{Kind: Search, Class: Bot, Name: "bing", Operator: "bing"},
		},
		{
			"Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)",
			Verdict{Kind: Search, Class: Bot, Name: "yandex", Operator: "yandex"},
		},
		{"Sogou web spider/4.0(+http://www.sogou.com/docs/help/webmasters.htm#07)", Verdict{Kind: Search, Class: Bot, Name: "sogou", Operator: "sogou"}},
		{"facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", Verdict{Kind: Preview, Class: Bot, Name: "facebookexternalhit"}},
		{"WhatsApp/2.23.20.0 A", Verdict{Kind: Preview, Class: Bot, Name: "WhatsApp"}},
		{"Viber/20.3", Verdict{Kind: Preview, Class: Bot, Name: "viber"}},
		{
			"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/98.0.4758.0 Safari/537.36",
			Verdict{Kind: Driven, Class: Bot, Name: "headlessChrome"},
		},
		{"curl/8.5.0", Verdict{Kind: Library, Class: Bot, Name: "curl"}},
		{"python-requests/2.31.0", Verdict{Kind: Library, Class: Bot, Name: "python-requests"}},
		{"Python/3.11 aiohttp/3.9.1", Verdict{Kind: Library, Class: Bot, Name: "python"}},
		{"Go-http-client/2.0", Verdict{Kind: Library, Class: Bot, Name: "go-http-client"}},
		{"okhttp/4.12.0", Verdict{Kind: Library, Class: Bot, Name: "okhttp"}},
		{"node", Verdict{Kind: Library, Class: Bot, Name: "node"}},
		{"k6/0.49.0 (https://k6.io/)", Verdict{Kind: Library, Class: Bot, Name: "load-test"}},
		{"Mozilla/5.0 (compatible; AhrefsBot/7.0; +http://ahrefs.com/robot/)", Verdict{Kind: Crawler, Class: Bot, Name: "self-declared"}},
		{"Mozilla/5.0 (compatible; SemrushBot)", Verdict{Kind: Crawler, Class: Bot, Name: "S[eE][mM]rushBot"}},
		{"Mozilla/5.0 (compatible; never seen before; +https://example.com/why)", Verdict{Kind: Crawler, Class: Bot, Name: "self-declared"}},
		{"Melmastoon/2.1 (Android 14; Pixel 8) okhttp/4.12.0", Verdict{Class: App}},
		{"NotMelmastoon/2.1 okhttp/4.12.0", Verdict{Kind: Library, Class: Bot, Name: "okhttp"}},
	} {
		if diff := cmp.Diff(tt.want, x.Judge(tt.userAgent)); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", tt.userAgent, diff)
		}
	}
}

// people reads what guests' browsers send, by class.
func people(t testing.TB) map[string]Class {
	t.Helper()
	text, err := os.ReadFile("testdata/people.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]Class{}
	for line := range strings.Lines(string(text)) {
		if class, userAgent, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			all[userAgent] = Class(class)
		}
	}
	return all
}

func TestPeopleAreNoRobots(t *testing.T) {
	t.Parallel()
	x := newIndex(t)
	for userAgent, want := range people(t) {
		if diff := cmp.Diff(Verdict{Class: want}, x.Judge(userAgent)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", userAgent, diff)
		}
	}
}

// naive is what the matcher must agree with: every expression over every text.
type naive []*regexp.Regexp

func newNaive(t testing.TB) naive {
	t.Helper()
	rules, err := rulebook()
	if err != nil {
		t.Fatal(err)
	}
	var n naive
	for _, r := range rules {
		n = append(n, regexp.MustCompile(r.pattern))
	}
	return n
}

func (n naive) all(text string) (found []int32) {
	for i, re := range n {
		if re.MatchString(text) {
			found = append(found, int32(i))
		}
	}
	return found
}

func (m *matcher) all(text string) (found []int32) {
	m.match(text, func(r int32) { found = append(found, r) })
	slices.Sort(found)
	return slices.Compact(found)
}

// Every pattern, by texts made from it, finds what the plain expressions find.
func TestMatcherAgrees(t *testing.T) {
	t.Parallel()
	x, n := newIndex(t), newNaive(t)
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.IntRange(0, len(n)-1).Draw(t, "rule")
		pattern := strings.NewReplacer("^", "", "$", "", `[\s\S]*`, ".*").Replace(x.rules[r].pattern)
		text := rapid.StringMatching(pattern).Draw(t, "text")
		switch rapid.IntRange(0, 3).Draw(t, "place") {
		case 1:
			text = "Mozilla/5.0 (compatible; " + text
		case 2:
			text += "/1.0 (KHTML, like Gecko) Chrome/99"
		case 3:
			text = "Mozilla " + text + ")"
		}
		if diff := cmp.Diff(n.all(text), x.matcher.all(text)); diff != "" {
			t.Fatalf("%q by %q: (-expressions +matcher)\n%s", text, x.rules[r].pattern, diff)
		}
	})
}

func FuzzMatcherAgrees(f *testing.F) {
	x, n := newIndex(f), newNaive(f)
	for userAgent := range people(f) {
		f.Add(userAgent)
	}
	f.Add("Googlebot/")
	f.Add("(^| )sentry/")
	f.Add("Mozilla/5.0 (compatible; Yahoo! Slurp) Wget curl/ \xff\xfe")
	f.Fuzz(func(t *testing.T, text string) {
		if diff := cmp.Diff(n.all(text), x.matcher.all(text)); diff != "" {
			t.Errorf("%q: (-expressions +matcher)\n%s", text, diff)
		}
		x.Judge(text)
	})
}

func TestNeedles(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern  string
		want     []string
		wantExpr bool
	}{
		{`Googlebot\/`, []string{"Googlebot/"}, false},
		{`^curl`, []string{"curl"}, false},
		{`[wW]get`, []string{"Wget", "wget"}, false},
		{`(sistrix|SISTRIX) [cC]rawler`, []string{"sistrix Crawler", "sistrix crawler", "SISTRIX Crawler", "SISTRIX crawler"}, false},
		{`(^| )sentry\/`, []string{"sentry/"}, true},
		{`AdsBot-Google([^-]|$)`, []string{"AdsBot-Google"}, true},
		{`BlogTraffic\/.+ Feed`, []string{"BlogTraffic/"}, true},
		{`Chirp|gotosocial`, []string{"Chirp", "gotosocial"}, false},
	} {
		found, expr, err := needles(tt.pattern, 0)
		if err != nil {
			t.Errorf("%q: %v", tt.pattern, err)
			continue
		}
		var got []string
		for _, n := range found {
			got = append(got, n.text)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", tt.pattern, diff)
		}
		if (expr != nil) != tt.wantExpr {
			t.Errorf("%q: expression %v, want one: %t", tt.pattern, expr, tt.wantExpr)
		}
	}
	for _, bad := range []string{`(`, `.*`, `ab`, `a|bcd`, `(?i)crawlers`, `[a-z]+`} {
		if _, _, err := needles(bad, 0); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestJudgeDoesNotAllocate(t *testing.T) {
	x := newIndex(t)
	for userAgent := range people(t) {
		if got := testing.AllocsPerRun(1000, func() { x.Judge(userAgent) }); got > 0 {
			t.Errorf("%v allocations for %q", got, userAgent)
		}
	}
}

func TestNewReportsBadConfig(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Apps: []string{"M"}}); err == nil || !strings.Contains(err.Error(), "short") {
		t.Errorf("New = %v", err)
	}
}
