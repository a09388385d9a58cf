package useragent

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"
)

// needle is a string that must occur for a rule to match.
type needle struct {
	text       string
	rule       int32
	start, end bool // only at the start, only at the end of the user agent
	// exact: the rule needs nothing else.
	exact bool
}

const (
	// maxAlternatives bounds how many strings one pattern may stand for.
	maxAlternatives = 64
	// minNeedle is the length of the grams that the matcher looks for.
	minNeedle = 3
)

// needles takes a pattern apart. The expression is nil if the needles say it all.
func needles(pattern string, rule int32) ([]needle, *regexp.Regexp, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, nil, fmt.Errorf("pattern %q: %w", pattern, err)
	}
	tree = tree.Simplify()
	n := needle{rule: rule, exact: true}
	inner := tree
	if tree.Op == syntax.OpConcat {
		subs := tree.Sub
		if n.start = subs[0].Op == syntax.OpBeginText; n.start {
			subs = subs[1:]
		}
		if last := len(subs) - 1; last > 0 && subs[last].Op == syntax.OpEndText {
			n.end, subs = true, subs[:last]
		}
		inner = &syntax.Regexp{Op: syntax.OpConcat, Sub: subs}
	}
	texts, ok := enumerate(inner)
	var expr *regexp.Regexp
	if !ok {
		if texts = required(tree); texts == nil {
			return nil, nil, fmt.Errorf("pattern %q: no string that must occur", pattern)
		}
		if expr, err = regexp.Compile(pattern); err != nil {
			return nil, nil, fmt.Errorf("pattern %q: %w", pattern, err)
		}
		n.exact, n.start, n.end = false, false, false
	}
	var found []needle
	for _, text := range texts {
		if len(text) < minNeedle {
			return nil, nil, fmt.Errorf("pattern %q: %q is too short to look for", pattern, text)
		}
		n.text = text
		found = append(found, n)
	}
	return found, expr, nil
}

// enumerate lists every string an expression matches, if they are few.
func enumerate(re *syntax.Regexp) ([]string, bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return folds(re.Rune)
		}
		return []string{string(re.Rune)}, true
	case syntax.OpCharClass:
		var all []string
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i+1]-re.Rune[i] > maxAlternatives || re.Rune[i+1] > unicode.MaxASCII {
				return nil, false
			}
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				all = append(all, string(r))
			}
		}
		return all, len(all) <= maxAlternatives
	case syntax.OpCapture:
		return enumerate(re.Sub[0])
	case syntax.OpQuest:
		some, ok := enumerate(re.Sub[0])
		return append(slices.Clone(some), ""), ok
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			some, ok := enumerate(sub)
			if !ok || len(all)+len(some) > maxAlternatives {
				return nil, false
			}
			all = append(all, some...)
		}
		return all, true
	case syntax.OpConcat:
		all := []string{""}
		for _, sub := range re.Sub {
			some, ok := enumerate(sub)
			if !ok || len(all)*len(some) > maxAlternatives {
				return nil, false
			}
			all = product(all, some)
		}
		return all, true
	default:
		return nil, false
	}
}

// folds spells a text in every mixture of cases: the parser turns [wW] into such.
func folds(text []rune) ([]string, bool) {
	all := []string{""}
	for _, r := range text {
		letters := []string{string(r)}
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			letters = append(letters, string(f))
		}
		if all = product(all, letters); len(all) > maxAlternatives {
			return nil, false
		}
	}
	return all, true
}

func product(heads, tails []string) []string {
	var all []string
	for _, head := range heads {
		for _, tail := range tails {
			all = append(all, head+tail)
		}
	}
	return all
}

// required lists strings of which one must occur, preferring long ones; nil if none
// are known.
func required(re *syntax.Regexp) []string {
	if all, ok := enumerate(re); ok {
		return all
	}
	switch re.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return required(re.Sub[0])
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			some := required(sub)
			if some == nil || len(all)+len(some) > maxAlternatives {
				return nil
			}
			all = append(all, some...)
		}
		return all
	case syntax.OpConcat:
		var best []string
		for i := range re.Sub {
			some := required(re.Sub[i])
			// As far as it can be enumerated, a longer run is the better one.
			for j := i + 1; j <= len(re.Sub); j++ {
				run, ok := enumerate(&syntax.Regexp{Op: syntax.OpConcat, Sub: re.Sub[i:j]})
				if !ok {
					break
				}
				some = run
			}
			if shortest(some) > shortest(best) {
				best = some
			}
		}
		return best
	default:
		return nil
	}
}

func shortest(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	n := len(texts[0])
	for _, text := range texts {
		n = min(n, len(text))
	}
	return n
}
