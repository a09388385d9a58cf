package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

type check struct {
	Rule

	tree    Tree
	groups  map[string]*Group // by directory; nil if the package is in none
	matched map[string]bool   // patterns that own a package
	found   []Breach
}

func (c *check) report(at string, line int, format string, args ...any) {
	c.found = append(c.found, Breach{Path: at, Line: line, Why: fmt.Sprintf(format, args...)})
}

func (c *check) pkg(p *Package) {
	g := c.groups[p.Dir]
	if g == nil {
		c.report(p.Dir, 0, "package is in no group of the import rule")
		return
	}
	for _, f := range p.Files {
		for _, imp := range f.Imports {
			if why := c.refuses(g, p.Dir, f.Test, imp.Name); why != "" {
				c.report(f.Path, imp.Line, "%s imports %s: %s", g.Name, imp.Name, why)
			}
		}
		if !g.Pure || f.Test {
			continue
		}
		for _, use := range f.Clock {
			c.report(f.Path, use.Line, "%s mentions %s: pure code takes the time as a parameter", g.Name, use.Name)
		}
	}
}

// refuses says why a file of group g in dir may not import the path, or "".
func (c *check) refuses(g *Group, dir string, test bool, imported string) string {
	if imported == "C" {
		return "the house builds without cgo"
	}
	if !test && !g.TestLibraries {
		for _, lib := range c.TestLibraries {
			if hasPrefix(imported, lib) {
				return "only tests may"
			}
		}
	}
	if target, own := c.dir(imported); own {
		return c.refusesOwn(g, dir, test, target)
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		if g.Pure && !test && impure(imported) {
			return "pure code touches no network, file or process"
		}
		return ""
	}
	if test || slices.Contains(g.ThirdParty, "*") {
		return ""
	}
	for _, prefix := range g.ThirdParty {
		if hasPrefix(imported, prefix) {
			return ""
		}
	}
	return "third-party code is not allowed here"
}

func (c *check) refusesOwn(g *Group, dir string, test bool, target string) string {
	other, known := c.groups[target]
	switch {
	case !known:
		return "there is no such package"
	case other == nil:
		return "that package is in no group of the import rule"
	case sameSubtree(g, dir, target):
		return ""
	case slices.Contains(g.Imports, other.Name):
		return ""
	case test && slices.Contains(c.InTests, other.Name):
		return ""
	case test && g.Service != "" && g.Service == other.Service:
		return ""
	}
	return other.Name + " is not for " + g.Name
}

// sameSubtree reports whether both directories match one "..." pattern of the
// group at the same place: a package may always be split downward.
func sameSubtree(g *Group, a, b string) bool {
	if a == b { // an external test importing the package it tests
		return true
	}
	for _, pattern := range g.Packages {
		depth := strings.Count(pattern, "/")
		if strings.HasSuffix(pattern, "/...") && match(pattern, a) && match(pattern, b) &&
			slices.Equal(strings.Split(a, "/")[:depth], strings.Split(b, "/")[:depth]) {
			return true
		}
	}
	return false
}

// impure reports whether a standard package reaches outside the process.
func impure(std string) bool {
	switch std {
	case "net/netip", "net/url": // values, no connections
		return false
	}
	for _, prefix := range []string{
		"database/sql", "expvar", "io/fs", "io/ioutil", "net", "os", "path/filepath", "plugin", "syscall", "unsafe",
	} {
		if hasPrefix(std, prefix) {
			return true
		}
	}
	return std == "log" // writes to standard error; log/slog is passed in
}

// patterns checks that no pattern of a group has outlived its packages.
func (c *check) patterns() {
	var all []string
	for _, g := range c.Groups {
		all = append(all, g.Packages...)
		for _, pattern := range g.Packages {
			if !c.matched[pattern] && !slices.Contains(c.NotYet, pattern) {
				c.report(pattern, 0, "%s names a package that does not exist", g.Name)
			}
		}
	}
	for _, pattern := range c.NotYet {
		if !slices.Contains(all, pattern) {
			c.report(pattern, 0, "expected, but in no group of the import rule")
		}
	}
}

// link walks everything the program in link.From contains, test files aside.
func (c *check) link(link Link) {
	type step struct{ dir, chain string }
	seen := map[string]bool{link.From: true}
	queue := []step{{link.From, link.From}}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if g := c.groups[at.dir]; g != nil && slices.Contains(link.Never, g.Name) {
			c.report(link.From, 0, "links %s: %s", g.Name, at.chain)
			continue
		}
		p := c.tree[at.dir]
		if p == nil {
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, imp := range f.Imports {
				if dir, own := c.dir(imp.Name); own && !seen[dir] {
					seen[dir] = true
					queue = append(queue, step{dir, at.chain + " → " + dir})
				}
			}
		}
	}
}

// upstreams checks that every file and every configured address of a package
// is about an allowed service: search.go, search_wire.go, SearchURL.
func (c *check) upstreams(u Upstreams) {
	refuse := func(at string, line int, what string) {
		c.report(at, line, "%s: %s speaks only to %s", what, u.Package, strings.Join(u.Only, ", "))
	}
	for dir, p := range c.tree {
		if !hasPrefix(dir, u.Package) {
			continue
		}
		if base := path.Base(dir); dir != u.Package && !slices.Contains(u.Only, base) {
			refuse(dir, 0, base)
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			noun, _, _ := strings.Cut(strings.TrimSuffix(path.Base(f.Path), ".go"), "_")
			if !slices.Contains(u.Only, noun) && !slices.Contains(u.Shared, noun) {
				refuse(f.Path, 0, noun)
			}
			for _, field := range f.URLs {
				if noun := addressOf(field.Name); noun != "" && !slices.Contains(u.Only, noun) {
					refuse(f.Path, field.Line, field.Name)
				}
			}
		}
	}
}

// addressOf returns whose address a field holds: "search" for SearchBaseURL,
// "" for a plain URL.
func addressOf(field string) string {
	for _, end := range addressEnds() {
		field = strings.TrimSuffix(field, end)
	}
	return strings.ToLower(strings.TrimSuffix(field, "Base"))
}
