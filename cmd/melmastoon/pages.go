package main

import (
	"melmastoon.ghasi.io/bff/internal/local/pages"
	"melmastoon.ghasi.io/bff/internal/local/reference"
)

// place is what people look at while the platform runs: 'open' opens it, and the index
// links it.
type place struct {
	name        string // for 'open'
	server      string // the variable with its address
	path        string
	title, text string // of its line in the index
}

const (
	ourPages  = "MELMASTOON_PAGES_URL"
	simulator = "MELMASTOON_SIM_URL"
)

// places are in the order of the index; the index itself stands first.
func places() []place {
	return []place{
		{name: "pages", server: ourPages, path: "/"},
		{"reference", ourPages, "/reference", "API reference", "every operation and schema of both services, with examples"},
		{"errors", ourPages, "/errors/", "Errors", "what each code means, and what to do; docUrl of a problem leads there"},
		{"booking", ourPages, bookingPath + "/", "Booking", "where hand-offs arrive; POST /handoff answers with an address to open"},
		{"hotels", simulator, "/_sim/catalog", "Hotels", "the data set of the simulated platform: tenants, houses, staff"},
		{"operators", simulator, "/_sim/operators", "Operators", "who can sign in at the staff service"},
		{"consumer-metrics", "MELMASTOON_CONSUMER_ADMIN_URL", "/metrics", "Figures of bff-consumer", "for Prometheus; health at /health and /ready"},
		{"backoffice-metrics", "MELMASTOON_BACKOFFICE_ADMIN_URL", "/metrics", "Figures of bff-backoffice", "for Prometheus; health at /health and /ready"},
	}
}

// mountPages puts up what a browser can look at while the platform runs. env is what
// commands of 'up' are told.
func mountPages(site *pages.Site, env map[string]string) error {
	api, err := reference.API()
	if err != nil {
		return err
	}
	site.Handle("GET /reference", api)
	site.Handle("GET /errors/{$}", reference.Errors())
	site.Handle("GET /errors/{code}", reference.Errors())
	for i, p := range places() {
		if p.title != "" {
			site.Link(pages.Link{URL: env[p.server] + p.path, Name: p.title, Text: p.text, Rank: i})
		}
	}
	return nil
}
