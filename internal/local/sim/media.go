package sim

import (
	"compress/gzip"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// media draws the pictures that the data set speaks of: photographs of houses
// and logos of tenants. Nothing is fetched, so a demo works offline.
func (s *Sim) media(w http.ResponseWriter, r *http.Request) {
	owner := r.PathValue("owner")
	name, isSVG := strings.CutSuffix(r.PathValue("file"), ".svg")
	var svg string
	if t := s.data.tenantByID[owner]; t != nil && isSVG && name == "logo" {
		svg = logo(t, s.themeOf(t).color)
	} else if p := s.data.propertyByID[owner]; p != nil && isSVG {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < 8 {
			svg = photo(p, n, s.themeOf(p.tenant).color)
		}
	}
	if svg == "" {
		writeFailure(w, notFound("picture"))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Cache-Control", "public, max-age=3600")
	h.Set("Access-Control-Allow-Origin", "*")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write([]byte(svg))
		return
	}
	h.Set("Content-Encoding", "gzip")
	h.Set("Vary", "Accept-Encoding")
	packed := gzip.NewWriter(w)
	_, _ = packed.Write([]byte(svg))
	_ = packed.Close() // fails only if the client has left
}

func logo(t *tenant, color string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" role="img" aria-label="%s"><rect width="64" height="64" rx="14" fill="%s"/><text x="32" y="42" font-family="sans-serif" font-size="30" font-weight="700" text-anchor="middle" fill="#fff">%s</text></svg>`,
		html.EscapeString(t.names.En), color, html.EscapeString(t.names.En[:1]))
}

// photo draws a house under a sky: hills, walls as high as its stars, lit
// windows, all from the house's own seed.
func photo(p *property, n int, color string) string {
	rnd := stream{mix(p.seed, kindRooms, uint64(n)<<40)} //nolint:gosec // a small index
	skies := [...][2]string{{"#f6d5a7", "#f2a65a"}, {"#cfe8f7", "#8ec5e8"}, {"#f7cfd8", "#c98bb9"}, {"#203a5c", "#4b6c98"}, {"#e3f1d8", "#9cc9a0"}}
	sky := skies[rnd.below(len(skies))]
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 420" role="img" aria-label="%s"><defs><linearGradient id="s" x1="0" y1="0" x2="0" y2="1"><stop offset="0" stop-color="%s"/><stop offset="1" stop-color="%s"/></linearGradient></defs><rect width="640" height="420" fill="url(#s)"/>`,
		html.EscapeString(p.names.En), sky[1], sky[0])
	fmt.Fprintf(&b, `<circle cx="%d" cy="%d" r="34" fill="#fff" opacity=".7"/>`, rnd.between(60, 580), rnd.between(40, 120))
	fmt.Fprintf(&b, `<path d="M0 300 L%d %d L%d 260 L%d %d L640 300 V420 H0Z" fill="#6d7a84" opacity=".55"/>`,
		rnd.between(80, 180), rnd.between(120, 190), rnd.between(240, 320), rnd.between(400, 520), rnd.between(110, 200))
	floors, columns := 2+p.stars, rnd.between(5, 8)
	width, height := columns*44+28, floors*38+26
	x, y := 320-width/2, 372-height
	fmt.Fprintf(
		&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/><rect x="%d" y="%d" width="%d" height="12" fill="#fff" opacity=".35"/>`, x, y, width,
		height, color, x, y, width,
	)
	for f := range floors {
		for c := range columns {
			fill := "#fff6d6"
			if rnd.chance(45) {
				fill = "#2f3a45"
			}
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="24" height="22" rx="3" fill="%s"/>`, x+24+c*44, y+24+f*38, fill)
		}
	}
	fmt.Fprintf(
		&b,
		`<rect y="372" width="640" height="48" fill="#3f4a3c"/><text x="320" y="402" font-family="sans-serif" font-size="20" text-anchor="middle" fill="#fff">%s</text></svg>`,
		html.EscapeString(p.names.En),
	)
	return b.String()
}
