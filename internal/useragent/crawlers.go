package useragent

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/maypok86/otter/v2"
	"github.com/mileusna/useragent"
)

var (
	//go:embed data/crawlers.json
	listed []byte
	//go:embed data/exclude.txt
	excluded string
)

// maxUserAgent is how much of a user agent is read. Those of browsers inside apps reach
// half of it.
const maxUserAgent = 1024

// Config has sensible zero values.
type Config struct {
	// Apps are product tokens of our own apps, such as "Melmastoon/": a user agent
	// that begins with one is an app whatever HTTP library it names after it.
	Apps []string
	// Remember is how many verdicts are kept. Default 10,000.
	Remember int
}

// Index knows the user agents.
type Index struct {
	apps    []string
	rules   []rule
	matcher *matcher
	seed    maphash.Seed
	// seen prefers what comes often, so that a flood of made-up user agents does
	// not push the browsers out.
	seen *otter.Cache[uint64, Verdict]
}

// New compiles the patterns.
func New(cfg Config) (*Index, error) {
	if cfg.Remember == 0 {
		cfg.Remember = 10_000
	}
	var errs []error
	if cfg.Remember < 0 {
		errs = append(errs, errors.New("remember: must not be negative"))
	}
	for _, app := range cfg.Apps {
		if len(app) < minNeedle {
			errs = append(errs, fmt.Errorf("app %q: too short to tell it from others", app))
		}
	}
	rules, err := rulebook()
	errs = append(errs, err)
	m, err := newMatcher(rules)
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("crawlers: %w", err)
	}
	seen, err := otter.New(&otter.Options[uint64, Verdict]{MaximumSize: cfg.Remember})
	if err != nil {
		return nil, fmt.Errorf("crawlers: %w", err)
	}
	return &Index{apps: cfg.Apps, rules: rules, matcher: m, seed: maphash.MakeSeed(), seen: seen}, nil
}

// rulebook is our own rules and then the list's, less the excluded ones.
func rulebook() ([]rule, error) {
	var list struct {
		Source   string
		Patterns []struct {
			Pattern string
			Tags    []string
		}
	}
	dec := json.NewDecoder(bytes.NewReader(listed))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	skip := map[string]bool{}
	for line := range strings.Lines(excluded) {
		if pattern, reason, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok && reason != "" {
			skip[pattern] = true
		}
	}
	rules := own()
	for _, p := range list.Patterns {
		if skip[p.Pattern] {
			delete(skip, p.Pattern)
			continue
		}
		rules = append(rules, rule{pattern: p.Pattern, name: plainName(p.Pattern), kind: kindOf(p.Tags)})
	}
	if len(skip) > 0 { // the list has moved on
		return nil, fmt.Errorf("excluded, but not in the list: %v", skip)
	}
	return rules, nil
}

// plainName makes a word of a pattern.
func plainName(pattern string) string {
	return strings.Trim(strings.ReplaceAll(pattern, `\`, ""), "^$/ ")
}

// Judge says what a user agent claims. It allocates nothing for one it has seen.
func (x *Index) Judge(userAgent string) Verdict {
	userAgent = userAgent[:min(len(userAgent), maxUserAgent)]
	key := maphash.String(x.seed, userAgent)
	if v, ok := x.seen.GetIfPresent(key); ok {
		return v
	}
	v := x.judge(userAgent)
	x.seen.Set(key, v)
	return v
}

func (x *Index) judge(userAgent string) Verdict {
	if strings.TrimSpace(userAgent) == "" {
		return Verdict{Kind: Empty, Class: Unknown, Name: "empty"}
	}
	for _, app := range x.apps {
		if strings.HasPrefix(userAgent, app) {
			return Verdict{Class: App}
		}
	}
	best := int32(-1)
	x.matcher.match(userAgent, func(r int32) {
		if best < 0 || x.rules[r].kind < x.rules[best].kind || x.rules[r].kind == x.rules[best].kind && r < best {
			best = r
		}
	})
	if best >= 0 {
		r := &x.rules[best]
		return Verdict{Kind: r.kind, Class: Bot, Name: r.name, Operator: r.operator}
	}
	return Verdict{Class: browser(userAgent)}
}

// browser tells the classes of people's browsers apart.
func browser(userAgent string) Class {
	switch ua := useragent.Parse(userAgent); {
	case ua.Mobile, ua.Tablet:
		return BrowserMobile
	case ua.Desktop:
		return BrowserDesktop
	default:
		return Unknown
	}
}
