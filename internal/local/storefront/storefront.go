// Package storefront has the first byte of a guest's page hold what the guest came for:
// the form, the list and its prices, in the guest's language, before any script is there.
// It calls the consumer service in the guest's name, as a server that renders pages does.
package storefront

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/local/pages"
)

// patience is how long the first byte waits for a list; the script asks again.
const (
	patience  = 3 * time.Second
	maxAnswer = 1 << 20
)

// Handler serves the storefront's pages; api is where the consumer service's API begins.
func Handler(api string, client *http.Client) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		g := &guest{api: api, client: client, from: r, locale: pages.ReaderLocale(r), cookies: map[string]string{}}
		data := g.begin(ctx)
		for _, line := range g.set {
			w.Header().Add("Set-Cookie", line)
		}
		page := pages.Page{Name: "storefront", Title: "Melmastoon", Localised: true, Render: func(_ *http.Request, l bff.Locale) (pages.View, error) {
			return render(r, l, data)
		}}
		page.ServeHTTP(w, r)
	})
}

// begun is what was asked for already when the script begins.
type begun struct {
	Session json.RawMessage `json:"session,omitempty"`
	Search  *searched       `json:"search,omitempty"`
	Saver   bool            `json:"saver,omitempty"`
}

type searched struct {
	Query    string          `json:"query"`
	At       time.Time       `json:"at"`
	Answer   json.RawMessage `json:"answer"`
	Session  string          `json:"session"`
	Brownout string          `json:"brownout"`
}

// guest makes the calls of one page in the name of one guest.
type guest struct {
	api     string
	client  *http.Client
	from    *http.Request
	locale  bff.Locale
	cookies map[string]string // that answers have set
	set     []string
}

// begin asks for the session first: it makes the guest that the search belongs to. What
// cannot be had is left to the script, which says why.
func (g *guest) begin(ctx context.Context) begun {
	data := begun{Saver: saver(g.from)}
	session, _, err := g.call(ctx, http.MethodGet, "/session", nil)
	if err != nil {
		return data
	}
	data.Session = session
	asked := readSearch(g.from.URL.Query(), g.locale, time.Now())
	if g.from.URL.Path != "/" || asked.unsaid {
		return data
	}
	if answer, header, err := g.call(ctx, http.MethodPost, "/search", asked); err == nil {
		query := strings.TrimSuffix("?"+g.from.URL.RawQuery, "?") // as a page's location.search has it
		data.Search = &searched{query, time.Now(), answer, header.Get("X-Search-Session"), header.Get("X-Brownout")}
	}
	return data
}

// saver reports whether the guest wants to save data: the guest's own word wins over the
// browser's.
func saver(r *http.Request) bool {
	if c, err := r.Cookie("saver"); err == nil {
		return c.Value == "on"
	}
	return r.Header.Get("Save-Data") == "on"
}

// call asks in the guest's name: with the guest's cookies and browser, and from the
// guest's address.
func (g *guest) call(ctx context.Context, method, path string, body any) (json.RawMessage, http.Header, error) {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, nil, err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, g.api+path, sent)
	if err != nil {
		return nil, nil, err
	}
	for name, values := range g.from.Header {
		if name == "User-Agent" || name == "Accept" || name == "Accept-Language" || name == "Dnt" || strings.HasPrefix(name, "Sec-Ch-") || name == "Sec-Gpc" {
			req.Header[name] = values
		}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("X-Forwarded-For", g.from.RemoteAddr[:max(0, strings.LastIndex(g.from.RemoteAddr, ":"))])
	for _, c := range g.from.Cookies() {
		if _, newer := g.cookies[c.Name]; !newer {
			req.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value}) //nolint:gosec // it goes to the service that set it
		}
	}
	for name, value := range g.cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value}) //nolint:gosec // the same
	}
	res, err := g.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil || res.StatusCode != http.StatusOK || !json.Valid(b) {
		return nil, nil, fmt.Errorf("%s: status %d: %w", path, res.StatusCode, err)
	}
	for _, c := range res.Cookies() {
		g.cookies[c.Name] = c.Value
	}
	g.set = append(g.set, res.Header.Values("Set-Cookie")...)
	return b, res.Header, nil
}
