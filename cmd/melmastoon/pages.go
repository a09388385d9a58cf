package main

import (
	"melmastoon.ghasi.io/bff/internal/local/pages"
	"melmastoon.ghasi.io/bff/internal/local/reference"
)

// mountPages puts up what a browser can look at while the platform runs: every page
// is mounted, and linked in the index, here. env is what commands of 'up' are told.
func mountPages(site *pages.Site, env map[string]string) error {
	api, err := reference.API()
	if err != nil {
		return err
	}
	site.Handle("GET /reference", api)
	site.Handle("GET /errors/{$}", reference.Errors())
	site.Handle("GET /errors/{code}", reference.Errors())
	site.Link(
		pages.Link{URL: "/reference", Name: "API reference", Text: "every operation and schema of both services, with examples", Rank: 20},
		pages.Link{URL: "/errors/", Name: "Errors", Text: "what each code means, and what to do; docUrl of a problem leads there", Rank: 21},
	)
	// Servers that run already have an address of their own.
	const last = 100
	for _, l := range []pages.Link{
		{URL: env["MELMASTOON_SIM_URL"] + "/_sim/catalog", Name: "Hotels", Text: "the data set of the simulated platform: tenants, houses, staff"},
		{URL: env["MELMASTOON_SIM_URL"] + "/_sim/operators", Name: "Operators", Text: "who can sign in at the staff service"},
		{URL: env["MELMASTOON_CONSUMER_ADMIN_URL"] + "/metrics", Name: "Figures of bff-consumer", Text: "for Prometheus; health at /health and /ready"},
		{URL: env["MELMASTOON_BACKOFFICE_ADMIN_URL"] + "/metrics", Name: "Figures of bff-backoffice", Text: "for Prometheus; health at /health and /ready"},
	} {
		l.Rank = last
		site.Link(l)
	}
	return nil
}
