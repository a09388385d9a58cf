package site

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"html/template"
	"net/http"
)

const style = `body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem}dl{display:grid;grid-template-columns:10rem 1fr;gap:.3rem}dt{color:#666}dd{margin:0}`

// html/template escapes everything that it puts in; the policy below allows
// nothing but the style, should something get through all the same.
var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{with .Stay}}{{.Hotel}}, {{.Dates.CheckIn}} to {{.Dates.CheckOut}}{{else}}No booking{{end}}</title>
<style>` + style + `</style>
{{with .Stay}}<h1>{{.Hotel}}</h1>
<p>You have arrived. The hand-off is genuine, and it is used up now: the booking starts from here.</p>
<dl>
<dt>Hotel</dt><dd id="hotel">{{.PropertyID}}</dd>
<dt>Check-in</dt><dd id="check-in">{{.Dates.CheckIn}}</dd>
<dt>Check-out</dt><dd id="check-out">{{.Dates.CheckOut}}</dd>
<dt>Nights</dt><dd id="nights">{{.Dates.Nights}}</dd>
<dt>Guests</dt><dd id="guests">{{.Occupancy.Adults}} adults, {{.Occupancy.Children}} children{{with .Unsigned.ChildrenAges}} (aged {{range $i, $age := .}}{{if $i}}, {{end}}{{$age}}{{end}}){{end}}, {{.Occupancy.Rooms}} rooms</dd>
<dt>Price shown</dt><dd id="shown">{{with .Shown}}{{.}} at {{.CapturedAt}}{{else}}none{{end}}</dd>
<dt>Price now</dt><dd id="price">{{.PriceCheck}}{{with .CurrentPrice}}: {{.}}{{end}}</dd>
<dt>Currency</dt><dd id="currency">{{.Currency}}</dd>
<dt>Language</dt><dd id="locale">{{.Locale}}</dd>
<dt>Hand-off</dt><dd id="handoff">{{.ID}}</dd>
</dl>{{else}}<h1>No booking</h1><p id="refusal">{{.Refusal}}</p>{{end}}
`))

var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// book shows the stay, or why there is none.
func (s *site) book(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // HEAD, which link checkers send, must not use a hand-off up
		http.Error(w, "only GET opens a booking", http.StatusMethodNotAllowed)
		return
	}
	var view struct {
		Stay    *stay
		Refusal string
	}
	status := http.StatusOK
	if came, err := s.arrive(r); err == nil {
		view.Stay = &came
	} else {
		refused, ok := errors.AsType[refusal](err)
		if !ok {
			refused = errAway
		}
		status, view.Refusal = refused.status, refused.text
	}
	var b bytes.Buffer
	if err := page.Execute(&b, view); err != nil {
		http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer") // the address has the token in it
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a guest who went away is not told
}
