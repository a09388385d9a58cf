package backofficetest

import "melmastoon.ghasi.io/bff/internal/backoffice"

// UpstreamURLs are the addresses of all upstreams at one simulator.
func UpstreamURLs(simulator string) map[backoffice.Upstream]string {
	urls := map[backoffice.Upstream]string{}
	for _, u := range backoffice.Upstreams() {
		urls[u] = simulator + "/" + string(u)
	}
	urls[backoffice.UpstreamAI], urls[backoffice.UpstreamTheme] = simulator+"/ai-orchestrator", simulator+"/theme-config"
	return urls
}
