package consumerhttp

import (
	"net/http"
	"sync/atomic"

	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/web"
)

// visit is a request as the surface sees it: who asks, and how much may be done
// for them. There is one for a request, whoever asks for it first.
type visit struct {
	consumer.Visitor

	// cacheOnly: answered from what is there or on its way, never at the cost of
	// an upstream call of its own.
	cacheOnly bool
	refusal   error // the answer to a cacheOnly visit when there is nothing
	// costly: an upstream was asked for its sake.
	costly atomic.Bool
	// unsung: answered without a session and without telemetry.
	unsung bool
}

// visit reads the visitor of a request, once.
func (a *API) visit(r *http.Request) *visit {
	req := web.From(r.Context())
	if v, ok := req.Local.(*visit); ok {
		return v
	}
	v := &visit{Visitor: a.visitors.read(r, a.cfg.Now())}
	req.Local = v
	return v
}
