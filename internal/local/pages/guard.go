package pages

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

const (
	// maxBody is more than either service reads of any request.
	maxBody = 8 << 20
	// headerTimeout is longer than any budget of a route.
	headerTimeout = time.Minute
)

// guarded refuses what a page of elsewhere could do with a server on its reader's
// machine: reach it under a name of its own that it has resolve to this machine (DNS
// rebinding), or change something in the reader's name. The services decide themselves
// whose pages may call them.
func guarded(own string, next http.Handler) http.Handler {
	same := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if host = strings.Trim(host, "[]"); host != own && !onThisMachine(host) {
			http.Error(w, "these pages are those of this machine, under its own names", http.StatusMisdirectedRequest)
			return
		}
		if !strings.HasPrefix(r.URL.Path, "/bff/") {
			if err := same.Check(r); err != nil {
				http.Error(w, "a page of another origin may change nothing here", http.StatusForbidden)
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

func onThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// HandleHere mounts what is for this machine alone, also while the pages are shown to
// others on its network.
func (s *Site) HandleHere(pattern string, h http.Handler) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if err != nil || !peer.Addr().IsLoopback() && (local == nil || !strings.HasPrefix(local.String(), peer.Addr().String()+":")) {
			http.Error(w, "this is for the machine itself", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Proxy has a part of the platform serve a path, so that its cookies are those of the
// pages' own origin. What the part streams goes on at once.
func (s *Site) Proxy(path, base string) error {
	target, err := url.Parse(base)
	if err != nil {
		return err
	}
	transport := &http.Transport{ResponseHeaderTimeout: headerTimeout, MaxIdleConnsPerHost: 64, IdleConnTimeout: headerTimeout, DisableCompression: true}
	s.transports = append(s.transports, transport)
	s.mux.Handle(path, &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.SetXForwarded()
			r.Out.Host = r.In.Host // the service tells its own pages from others by it
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "this part of the platform does not answer: 'melmastoon status' says more", http.StatusBadGateway)
		},
	})
	return nil
}
