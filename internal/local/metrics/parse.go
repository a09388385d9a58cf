package metrics

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RateInterval stands for Grafana's $__rate_interval.
const RateInterval = time.Minute

type parser struct {
	tokens []string
	at     int
}

var token = regexp.MustCompile(`\s+|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?[smhd]?|\$__rate_interval|"(?:[^"\\]|\\.)*"|=~|!~|!=|[-+*/<>(){}\[\],=]`)

func parse(query string) (e expr, err error) {
	p := &parser{}
	for rest := query; rest != ""; {
		loc := token.FindStringIndex(rest)
		if loc == nil || loc[0] != 0 {
			return nil, fmt.Errorf("%q is not understood", rest)
		}
		if t := rest[:loc[1]]; strings.TrimSpace(t) != "" {
			p.tokens = append(p.tokens, t)
		}
		rest = rest[loc[1]:]
	}
	defer func() {
		if why, bad := recover().(parseError); bad {
			err = why
		}
	}()
	e = p.binary(0)
	if p.peek() != "" {
		p.fail()
	}
	return e, nil
}

// parseError is raised where a query is not understood.
type parseError string

func (e parseError) Error() string { return string(e) }

func (p *parser) fail() { panic(parseError(fmt.Sprintf("%q is not understood", p.peek()))) }

func (p *parser) peek() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return ""
}

func (p *parser) next() string {
	t := p.peek()
	p.at++
	return t
}

func (p *parser) took(t string) bool {
	if p.peek() == t {
		p.at++
		return true
	}
	return false
}

func (p *parser) want(t string) {
	if !p.took(t) {
		p.fail()
	}
}

// levels are the operators from the loosest to the tightest.
var levels = [][]string{{"or"}, {"<", ">"}, {"+", "-"}, {"*", "/"}}

func (p *parser) binary(level int) expr {
	if level == len(levels) {
		return p.unary()
	}
	left := p.binary(level + 1)
	for slices.Contains(levels[level], p.peek()) {
		op := p.next()
		boolean := p.took("bool")
		left = &binary{op: op, boolean: boolean, left: left, right: p.binary(level + 1)}
	}
	return left
}

func (p *parser) unary() expr {
	t := p.peek()
	switch {
	case t == "":
		p.fail()
	case p.took("("):
		e := p.binary(0)
		p.want(")")
		return e
	case t[0] >= '0' && t[0] <= '9':
		n, err := strconv.ParseFloat(p.next(), 64)
		if err != nil {
			p.fail()
		}
		return literal(n)
	case t == "sum" || t == "max" || t == "min" || t == "count":
		a := &aggregate{op: p.next(), by: []string{}}
		if p.took("by") {
			p.want("(")
			for !p.took(")") {
				a.by = append(a.by, p.next())
				p.took(",")
			}
		}
		p.want("(")
		a.of = p.binary(0)
		p.want(")")
		return a
	case p.at+1 < len(p.tokens) && p.tokens[p.at+1] == "(":
		c := &call{name: p.next()}
		p.want("(")
		for !p.took(")") {
			c.args = append(c.args, p.binary(0))
			p.took(",")
		}
		if want, known := map[string]int{"time": 0, "vector": 1, "rate": 1, "avg_over_time": 1, "histogram_quantile": 2}[c.name]; !known || len(c.args) != want {
			panic(parseError("function " + c.name + " is not known"))
		}
		return c
	}
	return p.selector()
}

func (p *parser) selector() *selector {
	s := &selector{name: p.next()}
	if p.took("{") {
		for !p.took("}") {
			m := matcher{label: p.next(), op: p.next()}
			value, err := strconv.Unquote(p.next())
			if err != nil {
				p.fail()
			}
			m.value = value
			if m.op == "=~" || m.op == "!~" {
				if m.re, err = regexp.Compile("^(?:" + value + ")$"); err != nil {
					p.fail()
				}
			}
			s.matchers = append(s.matchers, m)
			p.took(",")
		}
	}
	if p.took("[") {
		s.window = window(p)
		p.want("]")
	}
	return s
}

func window(p *parser) time.Duration {
	t := p.next()
	if t == "$__rate_interval" {
		return RateInterval
	}
	n, err := strconv.Atoi(t[:len(t)-1])
	unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[t[len(t)-1]]
	if err != nil || unit == 0 {
		p.fail()
	}
	return time.Duration(n) * unit
}

// parseSelector reads a metric's name and labels, as an exposition has them too.
func parseSelector(text string) (*selector, error) {
	e, err := parse(text)
	if err != nil {
		return nil, err
	}
	s, ok := e.(*selector)
	if !ok {
		return nil, fmt.Errorf("%q is no metric", text)
	}
	return s, nil
}
