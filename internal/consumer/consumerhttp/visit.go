package consumerhttp

import (
	"net/http"
	"sync/atomic"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/web"
)

// visit is a request as the surface sees it: who asks, and how much may be done
// for them. There is one for a request, whoever asks for it first.
type visit struct {
	consumer.Visitor

	now   time.Time // when it began
	looks *looks    // nil without a defence
	// peeked is the session id in the first cookie, as the defence counts it.
	peeked struct {
		id   bff.ID
		text string
		ok   bool
	}
	// guest is the same if that is the only one; cookie judges all others.
	guest bff.ID

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
	v := &visit{now: req.Start}
	if v.now.IsZero() { // not through a web.Server
		v.now = a.cfg.Now()
	}
	var b *browser
	if a.cfg.Defence != nil {
		v.looks = a.look(r)
		b = v.looks.browser
	} else {
		b = a.visitors.browser(r.Header)
	}
	v.Visitor = a.visitors.read(r, b, v.now)
	if v.peeked.id, v.peeked.text, v.peeked.ok = peekCookie(r.Header); v.peeked.ok && soleCookie(r.Header) {
		v.guest = v.peeked.id
	}
	req.Local = v
	return v
}

// withIP adds the hash of the visitor's address, which few requests need.
func (a *API) withIP(r *http.Request, v consumer.Visitor) consumer.Visitor {
	v.IP = a.visitors.hashIP(web.From(r.Context()).ClientIP)
	return v
}
