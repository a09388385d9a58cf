package main

import (
	"errors"
	"net/http"
	"time"

	"melmastoon.ghasi.io/bff/internal/local/console"
	"melmastoon.ghasi.io/bff/internal/local/pages"
	"melmastoon.ghasi.io/bff/internal/local/platform"
	"melmastoon.ghasi.io/bff/internal/local/reference"
	"melmastoon.ghasi.io/bff/internal/local/storefront"
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
	consolePath = "/console"
	deskPath    = "/desk"

	ourPages  = "MELMASTOON_PAGES_URL"
	simulator = "MELMASTOON_SIM_URL"
)

// places are in the order of the index, which has no line for itself.
func places() []place {
	return []place{
		{"storefront", ourPages, "/", "Storefront", "what guests see: find a hotel, keep it, go to its booking page"},
		{"pages", ourPages, pages.Index, "", ""},
		{"console", ourPages, consolePath, "Console", "every request and what it caused, events, upstreams and how to break them"},
		{"desk", ourPages, deskPath, "Desk", "today in a house, for its staff: sign in as any of its people"},
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
	for _, service := range []string{"consumer", "backoffice"} {
		api, err := reference.API(service)
		if err != nil {
			return err
		}
		site.Handle("GET /reference/"+service+".yaml", api)
	}
	api := pages.Page{Name: "reference", Title: "Melmastoon API", InlineStyles: true}
	site.Handle("GET /reference", api)
	site.Handle("GET /reference/{service}", api)
	site.Handle("GET /errors/{$}", reference.Errors())
	site.Handle("GET /errors/{code}", reference.Errors())
	console := pages.Page{Name: "console", Title: "Melmastoon console"}
	site.HandleHere("GET "+consolePath, console)
	site.HandleHere("GET "+consolePath+"/", console)
	site.HandleHere("GET "+deskPath, pages.Page{Name: "desk", Title: "Melmastoon desk", Localised: true})
	guests := storefront.Handler(env["MELMASTOON_CONSUMER_URL"]+"/bff/consumer/v1", &http.Client{Timeout: 5 * time.Second})
	for _, path := range []string{"/{$}", "/hotels/{propertyId}", "/wishes", "/you"} {
		site.Handle("GET "+path, guests)
	}
	for i, p := range places() {
		if p.title != "" {
			site.Link(pages.Link{URL: env[p.server] + p.path, Name: p.title, Text: p.text, Rank: i})
		}
	}
	return nil
}

// mountPlatform has the pages' own origin lead to both services and to the simulated
// platform: their pages keep cookies and keys there.
func mountPlatform(site *pages.Site, env map[string]string, sim *platform.Upstreams, up *console.Console) error {
	site.HandleHere("/_up/", up)
	site.HandleHere("POST /v1/traces", up.Traces)
	site.HandleHere("/iam/", sim.Handler())
	site.HandleHere("/_sim/", sim.Handler())
	return errors.Join(
		site.Proxy("/bff/consumer/", env["MELMASTOON_CONSUMER_URL"]),
		site.Proxy("/bff/backoffice/", env["MELMASTOON_BACKOFFICE_URL"]),
	)
}
