package site

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"melmastoon.ghasi.io/bff"
)

// style has the brand's colour in one place; logical properties serve both directions.
const style = `:root{--brand:%s;--ink:#1d2529;--quiet:#5b6770;--line:#e3e7ea}*{box-sizing:border-box}
body{margin:0;background:#f5f6f7;color:var(--ink);font:16px/1.6 system-ui,"Noto Naskh Arabic","Noto Sans Arabic",sans-serif}
main{max-width:46rem;margin:0 auto;background:#fff;min-height:100vh}header{border-block-start:6px solid var(--brand)}
header img{display:block;inline-size:100%%;block-size:16rem;object-fit:cover;background:var(--line)}
section,.lead{padding:0 1.5rem}h1{margin:1.2rem 1.5rem .2rem;font-size:1.9rem;line-height:1.25}.lead{color:var(--quiet);margin:0 0 1rem}
h2{font-size:1.05rem;margin:1.6rem 0 .4rem;color:var(--brand)}
dl{display:grid;grid-template-columns:minmax(8rem,12rem) 1fr;margin:0}dt,dd{padding:.45rem 0;border-block-end:1px solid var(--line);margin:0}dt{color:var(--quiet)}
ul{list-style:none;margin:0;padding:0}li{padding:.3rem 0}li::before{content:"✓";color:var(--brand);font-weight:700;margin-inline-end:.6rem}
.id{font:13px/1.6 ui-monospace,monospace;color:var(--quiet);overflow-wrap:anywhere;direction:ltr;unicode-bidi:isolate}.refused{padding:4rem 1.5rem}.refused h1{margin-inline:0}
footer{padding:1.5rem}`

// html/template escapes everything that it puts in; the policy allows nothing but the
// style and the hotel's picture, should something get through all the same.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="{{.Locale}}" dir="{{.Direction}}"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{with .Stay}}{{$.Hotel}}, {{.Dates.CheckIn}} – {{.Dates.CheckOut}}{{else}}{{index .Words "no booking"}}{{end}}</title>
<style>{{.Style}}</style>
<main>{{with .Stay}}<header>{{with .Hotel.Photo.URL}}<img src="{{.}}" alt="{{$.Alt}}">{{end}}</header>
<h1 id="hotel-name">{{$.Hotel}}</h1><p class="lead">{{index $.Words "lead"}}</p>
<section><h2>{{index $.Words "stay"}}</h2><dl>
<dt>{{index $.Words "check-in"}}</dt><dd id="check-in"><time datetime="{{.Dates.CheckIn}}">{{$.Day .Dates.CheckIn}}</time></dd>
<dt>{{index $.Words "check-out"}}</dt><dd id="check-out"><time datetime="{{.Dates.CheckOut}}">{{$.Day .Dates.CheckOut}}</time></dd>
<dt>{{index $.Words "nights"}}</dt><dd id="nights">{{$.Count .Dates.Nights}}</dd>
<dt>{{index $.Words "adults"}}</dt><dd id="adults">{{$.Count .Occupancy.Adults}}</dd>
{{if .Occupancy.Children}}<dt>{{index $.Words "children"}}</dt><dd id="children">{{$.Count .Occupancy.Children}}</dd>
{{with .Unsigned.ChildrenAges}}<dt>{{index $.Words "ages"}}</dt><dd id="ages">{{range $i, $age := .}}{{if $i}} · {{end}}{{$.Count $age}}{{end}}</dd>{{end}}{{end}}
<dt>{{index $.Words "rooms"}}</dt><dd id="rooms">{{$.Count .Occupancy.Rooms}}</dd>
</dl></section>
<section><h2>{{index $.Words "price"}}</h2><dl>
<dt>{{index $.Words "shown"}}</dt><dd id="shown">{{with .Shown}}{{.In $.Locale}}{{else}}{{index $.Words "not shown"}}{{end}}</dd>
<dt>{{index $.Words "now"}}</dt><dd id="price" data-check="{{.PriceCheck}}">{{index $.Words .PriceCheck}}{{with .CurrentPrice}}: {{.In $.Locale}}{{end}}</dd>
</dl></section>
<section><h2>{{index $.Words "signed"}}</h2><p>{{index $.Words "signed what"}}</p>
<p class="id" id="hotel">{{.PropertyID}}</p><p class="id"><span id="currency">{{.Currency}}</span> · <span id="locale">{{$.Signed}}</span></p></section>
<section><h2>{{index $.Words "checked"}}</h2><ul><li>{{index $.Words "genuine"}}</li><li>{{index $.Words "this hotel"}}</li><li>{{index $.Words "first use"}}</li></ul></section>
<footer><span class="id">{{index $.Words "hand-off"}}: <span id="handoff">{{.ID}}</span></span></footer>
{{else}}<div class="refused"><h1>{{index .Words "no booking"}}</h1><p id="refusal">{{index .Words .Refusal}}</p></div>{{end}}</main>
`))

// view is what the page shows.
type view struct {
	Stay    *stay
	Refusal string
	Locale  bff.Locale // of the page's words
	Words   words
	Style   template.CSS
}

func (v view) Direction() bff.Direction { return v.Locale.Info().Direction }
func (v view) Hotel() string            { return v.Stay.Hotel.Name.In(v.Locale) }
func (v view) Alt() string              { return v.Stay.Hotel.Photo.Alt.In(v.Locale) }
func (v view) Signed() bff.Locale       { return v.Stay.Locale }
func (v view) Day(d bff.Date) string    { return formatDay(d, v.Locale) }
func (v view) Count(n int) string       { return v.Locale.Info().FormatNumber(fmt.Sprint(n)) }

// book shows the stay, or why there is none.
func (s *site) book(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // HEAD, which link checkers send, must not use a hand-off up
		http.Error(w, "only GET opens a booking", http.StatusMethodNotAllowed)
		return
	}
	var v view
	status, color, picture := http.StatusOK, plainColor, ""
	locale, _ := bff.NegotiateLocale(r.Header.Get("Accept-Language"))
	if came, err := s.arrive(r); err == nil {
		v.Stay, locale, color = &came, came.Locale, came.Hotel.Color
		if u, err := url.Parse(came.Hotel.Photo.URL); err == nil && u.Host != "" {
			picture = "img-src " + u.Scheme + "://" + u.Host + "; "
		}
	} else {
		refused, ok := errors.AsType[refusal](err)
		if !ok {
			refused = errAway
		}
		status, v.Refusal = refused.status, refused.word
	}
	v.Words, v.Locale = wordsOf(locale)
	sheet := fmt.Sprintf(style, color)
	v.Style = template.CSS(sheet) //nolint:gosec // our own, with a colour that isColor has accepted
	var b bytes.Buffer
	if err := page.Execute(&b, v); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy(sheet, picture))
	h.Set("Referrer-Policy", "no-referrer") // the address has the token in it
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the guest may have gone
}

func policy(sheet, picture string) string {
	sum := sha256.Sum256([]byte(strings.TrimSpace(sheet)))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; " + picture +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
