package upstream

import "net/http"

// Probe is a call that reads something which is not there: by the answer an upstream is
// told from another server that answers at the same address.
type Probe struct {
	Route  string // as in metrics
	Path   string // with the query
	Header http.Header
	Body   string // of a POST; empty = GET
}

// Method is that of the call.
func (p Probe) Method() string {
	if p.Body == "" {
		return http.MethodGet
	}
	return http.MethodPost
}
