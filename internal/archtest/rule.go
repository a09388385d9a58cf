// Package archtest keeps the import rule of the house: imports point inward,
// a domain is pure, a service is a folder that could be deleted, machinery names
// no service, and nothing that only tests need is linked into a process that
// faces the internet.
//
// [House] states the rule as data, [Load] reads the sources, [Rule.Check]
// compares the two. Sources are parsed in the test process: a test that shells
// out to "go list" is answered from the test cache and misses a new breach.
//
// The package knows directories, imports and names. It must not know what the
// packages do.
package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Rule is an import rule for one module.
type Rule struct {
	Module string
	// Groups in order: a package belongs to the first group with a matching
	// pattern.
	Groups []Group
	// NotYet lists patterns of Groups that are still without a package.
	NotYet []string
	// InTests names groups that every group's test files may import.
	InTests []string
	// TestLibraries are import path prefixes that belong in test files and in
	// groups with TestLibraries set, never in a production process.
	TestLibraries []string
	// Links says which groups a program may not contain, however indirectly.
	Links map[string][]string
	// OnlyFor says which packages alone may import a package, tests aside.
	OnlyFor map[string][]string
	// Files says with which nouns the names of a package's files may begin.
	Files map[string][]string
	// OnlySaid says which packages alone may use a word in identifiers and
	// strings, tests aside.
	OnlySaid map[string][]string
	// Unnamed are words that groups with NamesNoService may not use; Named are
	// the packages of such groups that still do.
	Unnamed, Named []string
	// Foreign are identifiers of other modules that hold such a word by chance.
	Foreign []string
}

// Group is a set of packages under one rule.
type Group struct {
	Name string
	// Packages are patterns over directories: each element may hold the
	// wildcards of [path.Match], and a last element "..." matches the directory
	// itself and everything below it.
	Packages []string
	// Service marks the groups of one deletable service. Tests of a service may
	// import all of it; no other service may.
	Service string
	// Imports names the groups these packages may import. To import each other
	// a group must name itself; a package and what lies below it are one.
	Imports []string
	// ThirdParty are module path prefixes; "*" stands for all.
	ThirdParty []string
	// Refused are import paths that the group may not use, tests aside.
	Refused []string
	// Pure bans the network, files, processes and the clock.
	Pure bool
	// Rooms says that the first package is a kernel, which imports none of the others,
	// and that each of those imports it alone, or one that is Shared.
	Rooms  bool
	Shared []string // nouns of several rooms; they import the kernel at most
	// MaxTypes bounds the exported types of a package: one with more is not read in a
	// morning. Zero = no bound.
	MaxTypes int
	// NamesNoService bans the words of Rule.Unnamed in identifiers and strings.
	NamesNoService bool
	// TestLibraries says that these packages never run in production.
	TestLibraries bool
}

// Check compares a tree with the rule and returns every breach, sorted.
func (r Rule) Check(tree Tree) []string {
	c := check{Rule: r, tree: tree, groups: map[string]*Group{}, matched: map[string]bool{}}
	for dir := range tree {
		group, pattern := r.owner(dir)
		c.groups[dir], c.matched[pattern] = group, true
	}
	for dir, p := range tree {
		c.pkg(dir, p)
	}
	c.patterns()
	for from := range r.Links {
		c.link(from)
	}
	slices.Sort(c.found)
	return c.found
}

type check struct {
	Rule

	tree    Tree
	groups  map[string]*Group // by directory; nil if the package is in none
	matched map[string]bool   // patterns that own a package
	found   []string
}

func (c *check) report(at, format string, args ...any) {
	c.found = append(c.found, at+": "+fmt.Sprintf(format, args...))
}

func (c *check) pkg(dir string, files []*File) {
	g := c.groups[dir]
	if g == nil {
		c.report(dir, "package is in no group of the import rule")
		return
	}
	if n := exported(files); g.MaxTypes > 0 && n > g.MaxTypes {
		c.report(dir, "%d exported types, at most %d are allowed", n, g.MaxTypes)
	}
	for _, f := range files {
		for _, imp := range f.Imports {
			if why := c.refuses(g, dir, f.Test, imp.Name); why != "" {
				c.report(f.at(imp), "%s imports %s: %s", g.Name, imp.Name, why)
			}
		}
		if f.Test {
			continue
		}
		if g.Pure {
			for _, use := range f.Clock {
				c.report(f.at(use), "%s mentions %s: pure code takes the time as a parameter", g.Name, use.Name)
			}
		}
		if g.NamesNoService && !slices.Contains(c.Named, dir) {
			c.names(g, f)
		}
		c.said(dir, f)
		for pkg, nouns := range c.Files {
			rest, below := strings.CutPrefix(f.Path, pkg+"/")
			if noun := rest[:strings.IndexAny(rest, "_/.")]; below && !slices.Contains(nouns, noun) {
				c.report(f.Path, "%s holds files about %s", pkg, strings.Join(nouns, ", "))
			}
		}
	}
}

// exported counts the exported types of a package, tests aside.
func exported(files []*File) (n int) {
	for _, f := range files {
		if !f.Test {
			n += f.Types
		}
	}
	return n
}

// names looks for the services' names in code; comments may say who uses it.
func (c *check) names(g *Group, f *File) {
	for _, use := range f.Words {
		if slices.Contains(c.Foreign, use.Name) {
			continue
		}
		for _, word := range c.Unnamed {
			if strings.Contains(strings.ToLower(use.Name), word) {
				c.report(f.at(use), "%s says %s: it names no service, a service configures it", g.Name, use.Name)
			}
		}
	}
}

// said looks for words that only some packages may use.
func (c *check) said(dir string, f *File) {
	for word, dirs := range c.OnlySaid {
		if slices.Contains(dirs, dir) {
			continue
		}
		for _, use := range f.Words {
			if strings.Contains(use.Name, word) {
				c.report(f.at(use), "%s is only for %s", word, strings.Join(dirs, ", "))
			}
		}
	}
}

// refuses says why a file of group g in dir may not import the path, or "".
func (c *check) refuses(g *Group, dir string, test bool, imported string) string {
	if imported == "C" {
		return "the house builds without cgo"
	}
	if !test && !g.TestLibraries && slices.ContainsFunc(c.TestLibraries, func(lib string) bool { return hasPrefix(imported, lib) }) {
		return "only tests may"
	}
	if target, own := c.dir(imported); own {
		return c.refusesOwn(g, dir, test, target)
	}
	if !test && slices.ContainsFunc(g.Refused, func(prefix string) bool { return hasPrefix(imported, prefix) }) {
		return "refused to this group"
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		if g.Pure && !test && impure(imported) {
			return "pure code touches no network, file or process"
		}
		return ""
	}
	if test || slices.ContainsFunc(g.ThirdParty, func(prefix string) bool { return prefix == "*" || hasPrefix(imported, prefix) }) {
		return ""
	}
	return "third-party code is not allowed here"
}

// opens reports whether a package of rooms may import another one.
func (g *Group) opens(dir, target string) bool {
	room := dir != g.Packages[0] && !slices.Contains(g.Shared, dir)
	return target == g.Packages[0] || room && slices.Contains(g.Shared, target)
}

func (c *check) refusesOwn(g *Group, dir string, test bool, target string) string {
	other, known := c.groups[target]
	importers, bound := c.OnlyFor[target]
	switch {
	case !known:
		return "there is no such package"
	case other == nil:
		return "that package is in no group of the import rule"
	case bound && !test && !slices.Contains(importers, dir):
		return "only for " + strings.Join(importers, ", ")
	case g.Rooms && g == other && !test && !g.opens(dir, target):
		return "a room imports the kernel alone, and the kernel no room"
	case sameSubtree(g, dir, target),
		slices.Contains(g.Imports, other.Name),
		test && slices.Contains(c.InTests, other.Name),
		test && g.Service != "" && g.Service == other.Service:
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
	case "log": // writes to standard error; log/slog is passed in
		return true
	}
	outside := []string{"database/sql", "expvar", "io/fs", "io/ioutil", "net", "os", "path/filepath", "plugin", "syscall", "unsafe"}
	return slices.ContainsFunc(outside, func(prefix string) bool { return hasPrefix(std, prefix) })
}

// patterns checks that no pattern of a group has outlived its packages, and that
// NotYet names only what is still missing.
func (c *check) patterns() {
	var all []string
	for _, g := range c.Groups {
		all = append(all, g.Packages...)
		for _, pattern := range g.Packages {
			if !c.matched[pattern] && !slices.Contains(c.NotYet, pattern) {
				c.report(pattern, "%s names a package that does not exist", g.Name)
			}
		}
	}
	for _, pattern := range c.NotYet {
		if !slices.Contains(all, pattern) {
			c.report(pattern, "expected, but in no group of the import rule")
		}
	}
}

// link walks everything the program contains, test files aside.
func (c *check) link(from string) {
	chain := map[string]string{from: from}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if g := c.groups[at]; g != nil && slices.Contains(c.Links[from], g.Name) {
			c.report(from, "links %s: %s", g.Name, chain[at])
			continue
		}
		for _, f := range c.tree[at] {
			for _, imp := range f.Imports {
				if dir, own := c.dir(imp.Name); own && !f.Test && chain[dir] == "" {
					chain[dir] = chain[at] + " → " + dir
					queue = append(queue, dir)
				}
			}
		}
	}
}

// owner returns the group a directory belongs to and the pattern that says so.
func (r Rule) owner(dir string) (*Group, string) {
	for i := range r.Groups {
		for _, pattern := range r.Groups[i].Packages {
			if match(pattern, dir) {
				return &r.Groups[i], pattern
			}
		}
	}
	return nil, ""
}

// dir returns the directory of one of the module's own packages.
func (r Rule) dir(imported string) (string, bool) {
	if imported == r.Module {
		return ".", true
	}
	return strings.CutPrefix(imported, r.Module+"/")
}

// match reports whether dir matches pattern; see [Group.Packages].
func match(pattern, dir string) bool {
	want, have := strings.Split(pattern, "/"), strings.Split(dir, "/")
	if want[len(want)-1] == "..." {
		want = want[:len(want)-1]
		have = have[:min(len(have), len(want))]
	}
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if ok, err := path.Match(want[i], have[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// hasPrefix reports whether p is prefix or lies below it.
func hasPrefix(p, prefix string) bool {
	return p == prefix || strings.HasPrefix(p, prefix+"/")
}
