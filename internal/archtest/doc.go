// Package archtest keeps the import rule of the house: imports point inward,
// a domain is pure, a service is a folder that could be deleted, and nothing
// that only tests need is linked into a process that faces the internet.
//
// [House] states the rule as data, [Load] reads the sources, [Rule.Check]
// compares the two. Sources are parsed in the test process: a test that shells
// out to "go list" is answered from the test cache and misses a new breach,
// whereas files opened by the test itself are part of its cache key.
//
// The package knows directories and imports. It must not know what the
// packages do.
package archtest
