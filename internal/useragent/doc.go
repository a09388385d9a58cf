// Package useragent tells from a user agent what is calling: a person's browser, an app,
// a search engine, a link preview, a program. It knows user agents and no hotels.
//
// A user agent is a claim. [Index.Judge] reads the claim; [Verifier.Verify] checks the
// one claim that earns something, that of being a search engine.
//
// The patterns are those of the npm package crawler-user-agents, kept in data together
// with its licence and renewed by the script refresh; data/exclude.txt takes some out,
// own.go adds ours.
package useragent
