// Package pages serves what people look at in a browser while the platform runs on
// their machine: an index at one address, and below it whatever is mounted. It knows
// none of the pages.
package pages

import (
	"cmp"
	_ "embed"
	"html/template"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Link is one line of the index.
type Link struct {
	URL  string // absolute, or a path of these pages
	Name string
	Text string // what is to be seen there, in a few words
	Rank int    // smaller ones stand higher; those of one rank as they came
}

// Site is the pages and their server.
type Site struct {
	URL string // without a slash at its end

	mux        *http.ServeMux
	server     *http.Server
	transports []*http.Transport
	mu         sync.Mutex
	links      []Link
}

// Index is the path of the list of all pages.
const Index = "/index"

//go:embed index.html
var indexHTML string

var index = template.Must(template.New("index").Parse(indexHTML))

// Serve serves the index on a listener, and whatever is mounted from then on.
func Serve(ln net.Listener) *Site {
	s := &Site{URL: "http://" + ln.Addr().String(), mux: http.NewServeMux()}
	s.mux.HandleFunc("GET "+Index, s.index)
	s.mux.HandleFunc("GET "+assets+"{name}", serveAsset)
	s.mux.HandleFunc("GET /favicon.svg", serveFavicon)
	s.mux.HandleFunc("GET /favicon.ico", serveFavicon)
	own, _, _ := net.SplitHostPort(ln.Addr().String()) // a listener's address has a port
	s.server = &http.Server{Handler: guarded(own, s.mux), ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = s.server.Serve(ln) }() // ends with Close
	return s
}

// Handle mounts a handler, as [http.ServeMux] does.
func (s *Site) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Link adds lines to the index.
func (s *Site) Link(links ...Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, links...)
	slices.SortStableFunc(s.links, func(a, b Link) int { return cmp.Compare(a.Rank, b.Rank) })
}

func (s *Site) index(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	links := slices.Clone(s.links)
	s.mu.Unlock()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_ = index.Execute(w, links) // fails only if the client has left
}

// Close ends the server.
func (s *Site) Close() error {
	for _, t := range s.transports {
		t.CloseIdleConnections()
	}
	return s.server.Close()
}
