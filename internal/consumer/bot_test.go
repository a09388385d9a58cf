package consumer_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"melmastoon.ghasi.io/bff/internal/consumer"
)

const chrome142 = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"

func TestHeaderSigns(t *testing.T) {
	t.Parallel()
	p := consumer.DefaultBotPolicy()
	brands := `"Chromium";v="142", "Google Chrome";v="142", "Not_A Brand";v="99"`
	full := consumer.BotHeaders{
		UserAgent: chrome142, Accept: "*/*", AcceptLanguage: "en", Brands: brands, Mobile: "?0", Platform: `"Windows"`, FetchMode: "cors", FetchSite: "same-site",
	}
	but := func(change func(*consumer.BotHeaders)) consumer.BotHeaders {
		h := full
		change(&h)
		return h
	}
	for name, tc := range map[string]struct {
		headers consumer.BotHeaders
		kind    consumer.UserAgentKind
		want    string
	}{
		"Chrome":             {full, consumer.KindPerson, ""},
		"curl":               {consumer.BotHeaders{UserAgent: "curl/8", Accept: "*/*"}, consumer.KindLibrary, "x 0.25, no-accept-language 0.05"},
		"nothing at all":     {consumer.BotHeaders{}, consumer.KindEmpty, "empty 0.3, no-accept-language 0.05, no-accept 0.05"},
		"a name only":        {consumer.BotHeaders{UserAgent: chrome142, Accept: "*/*"}, consumer.KindPerson, "no-client-hints 0.25, no-accept-language 0.05"},
		"no brands":          {but(func(h *consumer.BotHeaders) { h.Brands, h.Platform, h.Mobile = "", "", "" }), consumer.KindPerson, "few-client-hints 0.05"},
		"another version":    {but(func(h *consumer.BotHeaders) { h.Brands = strings.ReplaceAll(brands, "142", "120") }), consumer.KindPerson, "hints-of-another-version 0.4"},
		"another platform":   {but(func(h *consumer.BotHeaders) { h.Platform = `"Linux"` }), consumer.KindPerson, "hints-of-another-platform 0.4"},
		"another browser":    {but(func(h *consumer.BotHeaders) { h.UserAgent = "Mozilla/5.0 (X11; rv:145.0) Gecko/20100101 Firefox/145.0" }), consumer.KindPerson, "hints-of-another-browser 0.4"},
		"a telephone's":      {but(func(h *consumer.BotHeaders) { h.Mobile = "?1" }), consumer.KindPerson, "hints-of-a-telephone 0.4"},
		"headless in brands": {but(func(h *consumer.BotHeaders) { h.Brands = `"HeadlessChrome";v="142"` }), consumer.KindPerson, "headlessChrome 0.6"},
		"bare":               {but(func(h *consumer.BotHeaders) { h.UserAgent = "Mozilla/5.0" }), consumer.KindPerson, "malformed 0.3"},
		"header in a value":  {but(func(h *consumer.BotHeaders) { h.UserAgent = "User-Agent: " + chrome142 }), consumer.KindPerson, "malformed 0.3"},
		"driven":             {full, consumer.KindDriven, "x 0.6"},
		"robot":              {full, consumer.KindRobot, "x 0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, s := range p.HeaderSigns(tc.headers, tc.kind, "x") {
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
	p := consumer.DefaultBotPolicy()
	for _, kind := range []consumer.UserAgentKind{consumer.KindLibrary, consumer.KindEmpty, consumer.KindSearch, consumer.KindPreview} {
		if s := consumer.Score(p.HeaderSigns(consumer.BotHeaders{}, kind, "x")); p.Verdict(s) != consumer.Human {
			t.Errorf("%s: %v", kind, s)
		}
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	p := consumer.DefaultBotPolicy()
	for name, tc := range map[string]struct {
		n       int
		every   int64 // milliseconds
		sliding bool
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
			track, now := consumer.BotTrack{}, int64(1_794_790_000_000)
			for i := range tc.n {
				if i > 0 {
					now += tc.every
				}
				track.Count(now, tc.sliding)
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
	p, now := consumer.DefaultBotPolicy(), int64(1_794_790_000_000)
	var here, there consumer.BotTrack
	for range 25 {
		here.Count(now, false)
		there.Count(now, false)
	}
	told, ok := there.Tell(now)
	if !ok || told != 25 {
		t.Fatalf("told %d, %v", told, ok)
	}
	if _, again := there.Tell(now); again {
		t.Error("told twice")
	}
	here.Hear(now, told)
	if w := p.Signs(&here, now).Weight; w != 0.5 {
		t.Errorf("fifty in all weigh %v", w)
	}
	var quiet consumer.BotTrack
	quiet.Count(now, false)
	if _, ok := quiet.Tell(now); ok {
		t.Error("a single request is not worth a word")
	}
}

func TestCrowds(t *testing.T) {
	t.Parallel()
	p, now := consumer.DefaultBotPolicy(), int64(1_794_790_000_000)
	var c consumer.BotCrowd
	for i := range uint64(120) {
		c.Count(now, i*0x5851f42d4c957f2d)
	}
	if w, n := p.Crowded(&c, now); w != 0.1 || n < 100 || n > 140 {
		t.Errorf("a hundred and twenty sessions: %v, %d", w, n)
	}
	if w, n := p.Crowded(&c, now+3*60_000); w != 0 || n != 0 {
		t.Errorf("three minutes later: %v, %d", w, n)
	}

	var home, office, farm consumer.BotNetwork
	for i := range 150 {
		home.Count(now, i > 3)
		office.Count(now, i%2 == 0)
		farm.Count(now, false)
	}
	for name, n := range map[string]*consumer.BotNetwork{"home": &home, "office": &office} {
		if w, _ := p.Forgetful(n, now); w != 0 {
			t.Errorf("%s: %v", name, w)
		}
	}
	if w, n := p.Forgetful(&farm, now); w != 0.25 || n != 150 {
		t.Errorf("farm: %v %d", w, n)
	}

	var ours, mint consumer.BotNetwork
	for range 50 {
		ours.Fresh(now)
		ours.Found(now, true)
		mint.Fresh(now)
		mint.Found(now, false)
	}
	if w, _ := p.MadeUp(&ours, now); w != 0 || !ours.Doubtful(now) {
		t.Errorf("sessions that we opened: %v", w)
	}
	if w, n := p.MadeUp(&mint, now); w != 0.6 || n != 50 {
		t.Errorf("sessions that we did not: %v %d", w, n)
	}
}

func TestOverridePolicy(t *testing.T) {
	t.Parallel()
	p, err := consumer.DefaultBotPolicy().Override(map[string]float64{"library": 0.1, "suspect": 0.6})
	if err != nil || p.Weights["library"] != 0.1 || p.Suspect != 0.6 || consumer.DefaultBotPolicy().Weights["library"] != 0.25 {
		t.Errorf("got %+v %v", p, err)
	}
	_, err = consumer.DefaultBotPolicy().Override(map[string]float64{"library": 2, "walk": 0.1, "bot": 0.3})
	for _, want := range []string{"library", "walk", "suspect"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not mention %s", err, want)
		}
	}
}

// TestDocumentedWeights: docs/bots.md says what is so.
func TestDocumentedWeights(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../docs/bots.md")
	if err != nil {
		t.Fatal(err)
	}
	for sign, weight := range consumer.DefaultBotPolicy().Weights {
		if row := fmt.Sprintf("| `%s` | %v |", sign, weight); !strings.Contains(string(raw), row) {
			t.Errorf("docs/bots.md has no row %s", row)
		}
	}
}
