package pages

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"

	bff "melmastoon.ghasi.io/bff"
)

// Page is an application of web/: the server sends its shell, in which a script does the
// rest. It is a handler.
type Page struct {
	// Name is that of its folder in web/.
	Name  string
	Title string
	// Localised pages speak the reader's language; others English.
	Localised bool
	// InlineStyles are for a library that brings its own. Scripts come from here alone.
	InlineStyles bool
	// Render has the first byte hold more than the title; nil for pages that are all script.
	Render func(*http.Request, bff.Locale) (View, error)
}

// View is what a page has in its shell.
type View struct {
	Status      int    // 0: 200
	Title       string // empty: that of the page
	Description string
	Head, Body  template.HTML
	Data        any // the script reads it from #data
}

// What readers have chosen is kept where the server sees it, so that the first byte has
// the right language, direction and colours. The address wins: it is the whole state.
const (
	localeCookie = "locale"
	themeCookie  = "theme"
	localeQuery  = "lang"
)

// ReaderLocale is the language that a page of these is to be written in.
func ReaderLocale(r *http.Request) bff.Locale {
	if l, err := bff.ParseLocale(r.URL.Query().Get(localeQuery)); err == nil {
		return l
	}
	if c, err := r.Cookie(localeCookie); err == nil {
		if l, err := bff.ParseLocale(c.Value); err == nil {
			return l
		}
	}
	l, _ := bff.NegotiateLocale(r.Header.Get("Accept-Language"))
	return l
}

// contentPolicy allows what comes from here and nothing inline.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; " +
	"worker-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

//go:embed shell.html
var shellHTML string

var shell = template.Must(template.New("shell").Parse(shellHTML))

func (p Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l := bff.DefaultLocale
	if p.Localised {
		l = ReaderLocale(r)
	}
	view, err := View{}, error(nil)
	if p.Render != nil {
		view, err = p.Render(r, l)
	}
	var b []byte
	if err == nil {
		b, err = p.shell(r, l, view)
	}
	if err != nil {
		http.Error(w, "this page cannot be shown: "+err.Error(), http.StatusInternalServerError)
		return
	}
	sum := sha256.Sum256(b)
	etag := `"` + hex.EncodeToString(sum[:8]) + `"`
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", string(l))
	policy := contentPolicy
	if p.InlineStyles {
		policy = strings.Replace(policy, "style-src 'self'", "style-src 'self' 'unsafe-inline'", 1)
	}
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Etag", etag)
	h.Add("Vary", "Accept-Language, Accept-Encoding, Cookie")
	if view.Status == 0 && r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	zip := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	if zip {
		h.Set("Content-Encoding", "gzip")
	}
	if view.Status != 0 {
		w.WriteHeader(view.Status)
	}
	if zip {
		packed := gzip.NewWriter(w)
		defer func() { _ = packed.Close() }() // fails only if the client has left
		_, _ = packed.Write(b)
		return
	}
	_, _ = w.Write(b)
}

func (p Page) shell(r *http.Request, l bff.Locale, v View) ([]byte, error) {
	own, err := filesOf(p.Name)
	if err != nil {
		return nil, err
	}
	in := struct {
		View
		files
		Page, Theme string
		Locale      *bff.LocaleInfo
		Fonts       []string
		Messages    map[string]string
	}{View: v, files: own, Page: p.Name, Locale: l.Info(), Fonts: own.needed(l)}
	if in.Messages, err = Messages(p.Name, l); err != nil {
		return nil, err
	}
	if in.Title == "" {
		in.View.Title = p.Title
	}
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "dark" || c.Value == "light") {
		in.Theme = c.Value
	}
	var b bytes.Buffer
	if err := shell.Execute(&b, in); err != nil {
		return nil, fmt.Errorf("shell: %w", err)
	}
	return b.Bytes(), nil
}

// files are those of a page, as addresses.
type files struct {
	Script, Style, Worker string
	Load                  []string
	Fonts                 map[string]string
}

func filesOf(page string) (files, error) {
	b, err := dist.ReadFile("dist/" + page + ".json")
	if err != nil {
		return files{}, fmt.Errorf("%s was not built: 'make pages' builds it", page)
	}
	var f files
	if err := json.Unmarshal(b, &f); err != nil {
		return files{}, err
	}
	for _, name := range []*string{&f.Script, &f.Style, &f.Worker} {
		if *name != "" {
			*name = assets + *name
		}
	}
	for i := range f.Load {
		f.Load[i] = assets + f.Load[i]
	}
	return f, nil
}

// needed are the fonts that the first lines in a language are written in.
func (f files) needed(l bff.Locale) []string {
	names := []string{"inter-latin"}
	if info := l.Info(); info.Direction == bff.RightToLeft {
		names = []string{"vazirmatn"}
	} else if tag := string(l); strings.HasPrefix(tag, "ru") || strings.HasPrefix(tag, "tg") {
		names = []string{"inter-cyrillic"}
	}
	var fonts []string
	for _, name := range names {
		if file, ok := f.Fonts[name]; ok {
			fonts = append(fonts, assets+file)
		}
	}
	return fonts
}

// Messages are the texts of a page in a language, by their keys; none for a page that
// has no web/messages/<page>.json. Values stand in them as {name}.
func Messages(page string, l bff.Locale) (map[string]string, error) {
	b, err := dist.ReadFile("dist/" + page + ".messages.json.gz")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if b, err = unpacked(b); err != nil {
		return nil, err
	}
	var all map[bff.Locale]map[string]string
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, err
	}
	return all[l], nil
}
