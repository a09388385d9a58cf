package useragent

import (
	"errors"
	"regexp"
	"strings"
)

// matcher finds which rules match a text, in one pass over it. Every needle is known
// by three of its bytes, chosen so that browsers do not send them: on a person's user
// agent the pass is one look into an 8 KB bitmap per byte, and nothing else.
type matcher struct {
	needles []needle
	exprs   []*regexp.Regexp // by rule; nil where the needles decide
	bitmap  [1 << 10]uint64
	grams   map[uint32][]hook
}

// hook is a needle and where in it the gram stands.
type hook struct {
	needle int32
	offset int32
}

// plain is what browsers say all the time.
const plain = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:) AppleWebKit/537.36 (KHTML, like Gecko) " +
	"Chrome/0.0.0.0 Safari/605.1.15 Mobile Safari/604.1 (X11; Linux x86_64) (Linux; Android 10; K) " +
	"(iPhone; CPU iPhone OS 17_0 like Mac OS X) Version/17.0 Mobile/15E148 (Macintosh; Intel Mac OS X 10_15_7) " +
	"Gecko/20100101 Firefox/0.0 Edg/0.0 EdgA/ OPR/0.0 SamsungBrowser/0.0 CriOS/ FxiOS/ Build/ ; wv) Ubuntu; " +
	"UCBrowser/ Opera Mini/ Presto/ Instagram [FBAN/ FBAV/ FBDV/ FBMD/ Redmi SM- HUAWEI TECNO Infinix"

func newMatcher(rules []rule) (*matcher, error) {
	m := &matcher{exprs: make([]*regexp.Regexp, len(rules)), grams: map[uint32][]hook{}}
	var errs []error
	for i, r := range rules {
		found, expr, err := needles(r.pattern, int32(i))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		m.exprs[i] = expr
		for _, n := range found {
			m.add(n)
		}
	}
	return m, errors.Join(errs...)
}

func (m *matcher) add(n needle) {
	offset := 0
	for i := range len(n.text) - minNeedle + 1 {
		if !strings.Contains(plain, n.text[i:i+minNeedle]) {
			offset = i
			break
		}
	}
	g := gram(n.text, offset)
	m.grams[g] = append(m.grams[g], hook{needle: int32(len(m.needles)), offset: int32(offset)}) //nolint:gosec // thousands of needles, not billions
	m.needles = append(m.needles, n)
	h := hash(g)
	m.bitmap[h>>6] |= 1 << (h & 63)
}

func gram(s string, i int) uint32 {
	return uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16
}

// hash spreads a gram over 16 bits.
func hash(g uint32) uint32 { return g * 0x9e3779b1 >> 16 }

// match calls found for every rule that matches, possibly more than once.
func (m *matcher) match(text string, found func(rule int32)) {
	for i := range len(text) - minNeedle + 1 {
		g := gram(text, i)
		if h := hash(g); m.bitmap[h>>6]&(1<<(h&63)) == 0 {
			continue
		}
		for _, hook := range m.grams[g] {
			n := &m.needles[hook.needle]
			at := i - int(hook.offset)
			if at < 0 || !strings.HasPrefix(text[at:], n.text) {
				continue
			}
			if n.start && at != 0 || n.end && at+len(n.text) != len(text) {
				continue
			}
			if n.exact || m.exprs[n.rule].MatchString(text) {
				found(n.rule)
			}
		}
	}
}
