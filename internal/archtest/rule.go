package archtest

import (
	"cmp"
	"fmt"
	"maps"
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
	// NotYet lists patterns of Groups that may still be without a package.
	NotYet []string
	// InTests names groups that every group's test files may import.
	InTests []string
	// TestLibraries are import path prefixes that belong in test files and in
	// groups with TestLibraries set, never in a production process.
	TestLibraries []string
	// Links bounds what whole programs may contain, however indirectly.
	Links []Link
	// Upstreams bounds which upstream services a package can speak to.
	Upstreams []Upstreams
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
	// Pure bans the network, files, processes and the clock.
	Pure bool
	// TestLibraries says that these packages never run in production.
	TestLibraries bool
}

// Link says that the program in From may contain no package of the groups in
// Never.
type Link struct {
	From  string
	Never []string
}

// Upstreams says that the files of Package speak of the services in Only, or
// bear one of the names in Shared.
type Upstreams struct {
	Package string
	Only    []string
	Shared  []string
}

// Breach is one place where the sources break the rule.
type Breach struct {
	Path string // file, directory or pattern
	Line int    // 0 if the breach has no line
	Why  string
}

func (b Breach) String() string {
	if b.Line == 0 {
		return b.Path + ": " + b.Why
	}
	return fmt.Sprintf("%s:%d: %s", b.Path, b.Line, b.Why)
}

// Check compares a tree with the rule and returns every breach, sorted.
func (r Rule) Check(tree Tree) []Breach {
	c := check{Rule: r, tree: tree, groups: map[string]*Group{}, matched: map[string]bool{}}
	for dir := range tree {
		group, pattern := r.owner(dir)
		c.groups[dir], c.matched[pattern] = group, true
	}
	for _, dir := range slices.Sorted(maps.Keys(tree)) {
		c.pkg(tree[dir])
	}
	c.patterns()
	for _, link := range r.Links {
		c.link(link)
	}
	for _, u := range r.Upstreams {
		c.upstreams(u)
	}
	slices.SortStableFunc(c.found, func(a, b Breach) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	return c.found
}

// Present returns the entries of NotYet that have a package by now and should
// be taken off the list.
func (r Rule) Present(tree Tree) []string {
	var present []string
	for dir := range tree {
		if _, pattern := r.owner(dir); slices.Contains(r.NotYet, pattern) {
			present = append(present, pattern)
		}
	}
	slices.Sort(present)
	return slices.Compact(present)
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
