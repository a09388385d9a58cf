package bot_test

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/consumer/bot"
)

const chrome142 = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"

func TestHeaderSigns(t *testing.T) {
	t.Parallel()
	p := bot.DefaultPolicy()
	brands := `"Chromium";v="142", "Google Chrome";v="142", "Not_A Brand";v="99"`
	full := bot.Headers{
		UserAgent: chrome142, Accept: "*/*", AcceptLanguage: "en", Brands: brands, Mobile: "?0", Platform: `"Windows"`, FetchMode: "cors", FetchSite: "same-site",
	}
	but := func(change func(*bot.Headers)) bot.Headers {
		h := full
		change(&h)
		return h
	}
	for name, tc := range map[string]struct {
		headers bot.Headers
		kind    bot.UserAgentKind
		want    string
	}{
		"Chrome":           {full, bot.KindPerson, ""},
		"curl":             {bot.Headers{UserAgent: "curl/8", Accept: "*/*"}, bot.KindLibrary, "x 0.25, no-accept-language 0.05"},
		"nothing at all":   {bot.Headers{}, bot.KindEmpty, "empty 0.3, no-accept-language 0.05, no-accept 0.05"},
		"a name only":      {bot.Headers{UserAgent: chrome142, Accept: "*/*"}, bot.KindPerson, "no-client-hints 0.25, no-accept-language 0.05"},
		"no brands":        {but(func(h *bot.Headers) { h.Brands, h.Platform, h.Mobile = "", "", "" }), bot.KindPerson, "few-client-hints 0.05"},
		"another version":  {but(func(h *bot.Headers) { h.Brands = strings.ReplaceAll(brands, "142", "120") }), bot.KindPerson, "hints-of-another-version 0.4"},
		"another platform": {but(func(h *bot.Headers) { h.Platform = `"Linux"` }), bot.KindPerson, "hints-of-another-platform 0.4"},
		"another browser": {
			but(func(h *bot.Headers) { h.UserAgent = "Mozilla/5.0 (X11; rv:145.0) Gecko/20100101 Firefox/145.0" }), bot.KindPerson,
			"hints-of-another-browser 0.4",
		},
		"a telephone's":      {but(func(h *bot.Headers) { h.Mobile = "?1" }), bot.KindPerson, "hints-of-a-telephone 0.4"},
		"headless in brands": {but(func(h *bot.Headers) { h.Brands = `"HeadlessChrome";v="142"` }), bot.KindPerson, "headlessChrome 0.6"},
		"bare":               {but(func(h *bot.Headers) { h.UserAgent = "Mozilla/5.0" }), bot.KindPerson, "malformed 0.3"},
		"header in a value":  {but(func(h *bot.Headers) { h.UserAgent = "User-Agent: " + chrome142 }), bot.KindPerson, "malformed 0.3"},
		"driven":             {full, bot.KindDriven, "x 0.6"},
		"robot":              {full, bot.KindRobot, "x 0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			signals, _ := p.HeaderSigns(tc.headers, tc.kind, "x")
			for _, s := range signals {
				got = append(got, fmt.Sprint(s.Detail, " ", s.Weight))
			}
			if strings.Join(got, ", ") != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestPlainScriptsPass: integrators and health checks are no suspects for their
// looks.
func TestPlainScriptsPass(t *testing.T) {
	t.Parallel()
	p := bot.DefaultPolicy()
	for _, kind := range []bot.UserAgentKind{bot.KindLibrary, bot.KindEmpty, bot.KindSearch, bot.KindPreview} {
		signals, _ := p.HeaderSigns(bot.Headers{}, kind, "x")
		e := bot.Evidence{Headers: signals}
		for _, s := range e.Headers {
			e.HeaderWeight += s.Weight
		}
		if s := p.Score(&e); p.Verdict(s) != bot.Human {
			t.Errorf("%s: %v", kind, s)
		}
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	p := bot.DefaultPolicy()
	for name, tc := range map[string]struct {
		n       int
		every   int64 // milliseconds
		repeats bool
		want    float64
	}{
		"a person":        {200, 7000, false, 0},
		"forty at once":   {40, 0, false, 0},
		"one more":        {41, 0, false, 0.5},
		"eighty at once":  {80, 0, true, 0},
		"typing for ever": {90, 0, true, 0.5},
		"twice that":      {81, 0, false, 0.65},
		"four times":      {161, 0, false, 0.85},
		"two a second":    {900, 500, false, 0.5},
		"one in two":      {150, 2000, false, 0.2},
		"one a second":    {400, 1000, false, 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			track, now := bot.Track{}, int64(1_794_790_000_000)
			for i := range tc.n {
				if i > 0 {
					now += tc.every
				}
				track.Count(now, tc.repeats)
			}
			if got := p.Signs(&track, now).Weight; math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if got := p.Signs(&track, now+11*60*1000).Weight; got != 0 {
				t.Errorf("eleven minutes later: %v", got)
			}
		})
	}
}

func TestInstancesAddUp(t *testing.T) {
	t.Parallel()
	p, now := bot.DefaultPolicy(), int64(1_794_790_000_000)
	var here, there bot.Track
	for range 25 {
		here.Count(now, false)
		there.Count(now, false)
	}
	reported, ok := there.Report(now)
	if !ok || reported != 25 {
		t.Fatalf("reported %d, %v", reported, ok)
	}
	if _, again := there.Report(now); again {
		t.Error("reported twice")
	}
	here.Merge(now, reported)
	if w := p.Signs(&here, now).Weight; w != 0.5 {
		t.Errorf("fifty in all weigh %v", w)
	}
	var quiet bot.Track
	quiet.Count(now, false)
	if _, ok := quiet.Report(now); ok {
		t.Error("a single request is reported")
	}
}

func TestCrowds(t *testing.T) {
	t.Parallel()
	p, now := bot.DefaultPolicy(), int64(1_794_790_000_000)
	var c bot.Crowd
	for i := range uint64(120) {
		c.Count(now, i*0x5851f42d4c957f2d)
	}
	if got := p.Crowded(&c, now); got.Weight != 0.1 || got.Count < 100 || got.Count > 140 {
		t.Errorf("a hundred and twenty sessions: %+v", got)
	}
	if got := p.Crowded(&c, now+3*60_000); got != (bot.Sign{}) {
		t.Errorf("three minutes later: %+v", got)
	}

	var home, office, farm bot.Network
	for i := range 150 {
		home.Count(now, i > 3)
		office.Count(now, i%2 == 0)
		farm.Count(now, false)
	}
	for name, n := range map[string]*bot.Network{"home": &home, "office": &office} {
		if got := p.Cookieless(n, now); got.Weight != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := p.Cookieless(&farm, now); got != (bot.Sign{Weight: 0.25, Count: 150}) {
		t.Errorf("farm: %+v", got)
	}

	var ours, mint bot.Network
	for range 50 {
		ours.Fresh(now)
		ours.Found(now, true)
		mint.Fresh(now)
		mint.Found(now, false)
	}
	if got := p.Invented(&ours, now); got.Weight != 0 || !ours.Flooded(now) {
		t.Errorf("sessions that we opened: %+v", got)
	}
	if got := p.Invented(&mint, now); got != (bot.Sign{Weight: 0.6, Count: 50}) {
		t.Errorf("sessions that we did not: %+v", got)
	}
}

func TestOverridePolicy(t *testing.T) {
	t.Parallel()
	p, err := bot.DefaultPolicy().Override(map[string]float64{"library": 0.1, "suspect": 0.6})
	if err != nil || p.Weights["library"] != 0.1 || p.Suspect != 0.6 || bot.DefaultPolicy().Weights["library"] != 0.25 {
		t.Errorf("got %+v %v", p, err)
	}
	_, err = bot.DefaultPolicy().Override(map[string]float64{"library": 2, "walk": 0.1, "bot": 0.3})
	for _, want := range []string{"library", "walk", "suspect"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
}

// TestDocumentedWeights: docs/bots.md says what is so.
func TestDocumentedWeights(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../../docs/bots.md")
	if err != nil {
		t.Fatal(err)
	}
	for sign, weight := range bot.DefaultPolicy().Weights {
		if row := fmt.Sprintf("| `%s` | %v |", sign, weight); !strings.Contains(string(raw), row) {
			t.Errorf("docs/bots.md has no row %s", row)
		}
	}
}

// TestEvidence: the score is the sum of what is held against a client, and each
// part of it has its words.
func TestEvidence(t *testing.T) {
	t.Parallel()
	p := bot.DefaultPolicy()
	headers := []bot.Signal{{Kind: bot.SignalUserAgent, Weight: 0.25, Detail: "curl"}}
	for name, tc := range map[string]struct {
		evidence    bot.Evidence
		wantScore   float64
		wantVerdict bot.Verdict
		wantDetails string
	}{
		"nothing":     {bot.Evidence{Crowd: bot.Sign{Count: 3}}, 0, bot.Human, ""},
		"headers":     {bot.Evidence{Headers: headers, HeaderWeight: 0.25}, 0.25, bot.Human, "curl"},
		"false claim": {bot.Evidence{Headers: headers, HeaderWeight: 0.25, FalseClaim: "google"}, 1, bot.Bot, "curl, not google"},
		"a sum": {
			bot.Evidence{Headers: headers, HeaderWeight: 0.25, Cookieless: bot.Sign{Weight: 0.25, Count: 120}},
			0.5, bot.Suspect,
			"curl, 120 reqs/60s without cookies on this network",
		},
		"crowd":         {bot.Evidence{Crowd: bot.Sign{Weight: 0.1, Count: 31}, Penalty: p.Penalty(2)}, 0.4, bot.Human, "shared-with-31-sessions, earlier-misdeeds"},
		"failures":      {bot.Evidence{Failed: p.Failed(2, false)}, 0.4, bot.Human, "2 wrong solutions"},
		"three of 0.2":  {bot.Evidence{Failed: p.Failed(3, false), Penalty: 0.1235}, 0.7235, bot.Suspect, "earlier-misdeeds, 3 wrong solutions"},
		"many failures": {bot.Evidence{Failed: p.Failed(9, false)}, 1, bot.Bot, "9 wrong solutions"},
		"invented": {
			bot.Evidence{Invented: bot.Sign{Weight: 0.6, Count: 40}, Failed: p.Failed(3, false)},
			1, bot.Bot,
			"40 made-up sessions/60s on this network, 3 wrong solutions",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			score := p.Score(&tc.evidence)
			if math.Abs(score-tc.wantScore) > 1e-9 || p.Verdict(score) != tc.wantVerdict {
				t.Errorf("got %v %s, want %v %s", score, p.Verdict(score), tc.wantScore, tc.wantVerdict)
			}
			if got := bot.Round(score); got != tc.wantScore {
				t.Errorf("logged as %v, want %v", got, tc.wantScore)
			}
			var details []string
			for _, s := range p.Signals(&tc.evidence) {
				if text := strconv.FormatFloat(s.Weight, 'g', -1, 64); len(text) > len("0.0001") {
					t.Errorf("%s weighs %s", s.Detail, text)
				}
				details = append(details, s.Detail)
			}
			if got := strings.Join(details, ", "); got != tc.wantDetails {
				t.Errorf("got %q, want %q", got, tc.wantDetails)
			}
		})
	}
}

// TestRelief: a solved challenge forgives a pace, and neither a false claim nor a
// browser that a program drives.
func TestRelief(t *testing.T) {
	t.Parallel()
	p := bot.DefaultPolicy()
	_, driven := p.HeaderSigns(bot.Headers{Accept: "*/*", AcceptLanguage: "en"}, bot.KindDriven, "headlessChrome")
	_, hinted := p.HeaderSigns(bot.Headers{
		UserAgent: "Mozilla/5.0 (X11) Chrome/142", Brands: `"HeadlessChrome";v="142"`, Accept: "*/*", AcceptLanguage: "en",
	}, bot.KindPerson, "")
	for name, tc := range map[string]struct {
		evidence bot.Evidence
		want     bot.Verdict
	}{
		"pace":        {bot.Evidence{Pace: bot.PaceSigns{Weight: 0.85}}, bot.Human},
		"all at once": {bot.Evidence{HeaderWeight: 0.5, Pace: bot.PaceSigns{Weight: 0.85}}, bot.Human},
		"driven":      {bot.Evidence{HeaderWeight: driven, Driven: driven}, bot.Suspect},
		"by its hint": {bot.Evidence{HeaderWeight: hinted, Driven: hinted}, bot.Suspect},
		"false claim": {bot.Evidence{HeaderWeight: 0.2, FalseClaim: "google"}, bot.Bot},
	} {
		if got := p.Verdict(p.Relieved(&tc.evidence)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
	if shared := p.Failed(20, true); p.Verdict(shared.Weight) != bot.Human {
		t.Errorf("failures that many clients share weigh %v", shared.Weight)
	}
}

// TestRation: a second has so many verdicts, and the next one as many again.
func TestRation(t *testing.T) {
	t.Parallel()
	r := bot.NewRation()
	taken := 0
	for ms := range int64(2000) {
		if r.Take(1_000_000 + ms) {
			taken++
		}
	}
	if taken != 100 {
		t.Errorf("%d verdicts in two seconds, want 100", taken)
	}
}
