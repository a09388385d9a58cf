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

// photo draws a house before hills, from the house's own seed.
func photo(p *property, n int, color string) string {
	rnd := stream{mix(p.seed, kindRooms, uint64(n)<<40)} //nolint:gosec // a small index
	sky := [...][4]string{                               // above, below, far hills, near hills
		{"#f0b27a", "#fbe3c4", "#b98a7a", "#8d6b66"},
		{"#7fb2d9", "#dceef8", "#8fa6b8", "#6d8798"},
		{"#b58fb8", "#f6dcd8", "#8f7a98", "#6c5f80"},
		{"#1f3553", "#5f7ca3", "#33496a", "#24364f"},
		{"#8fbf9f", "#e9f3e1", "#86a592", "#64836f"},
	}[rnd.below(5)]
	hills := fmt.Sprintf(`<rect width="640" height="420" fill="url(#s)"/><circle cx="%d" cy="%d" r="30" fill="#fff" opacity=".75"/>`+
		`<path d="M0 290L%d %d 300 250 %d %d 640 280V420H0Z" fill="%s" opacity=".6"/><path d="M0 310Q160 %d 320 310T640 300V420H0Z" fill="%s" opacity=".75"/>`,
		rnd.between(80, 560), rnd.between(50, 110), rnd.between(80, 180), rnd.between(120, 180), rnd.between(400, 520), rnd.between(110, 190), sky[2],
		rnd.between(230, 280), sky[3])
	const stop = `<stop offset="%d" stop-color="%s" stop-opacity="%s"/>`
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 420" role="img" aria-label="%s"><linearGradient id="s" x2="0" y2="1">`+stop+stop+
		`</linearGradient><linearGradient id="w">`+stop+stop+`</linearGradient>%s</svg>`,
		html.EscapeString(p.names.En), 0, sky[0], "1", 1, sky[1], "1", 0, "#fff", ".14", 1, "#000", ".12", house(&rnd, hills, color, 2+p.stars))
}

func arch(x, y, width, height int) string {
	return fmt.Sprintf("M%d %dv%dq0-%d %d-%dq%d 0 %d %dv%dz", x, y+height, -height*2/3, height/3, width/2, height/3, width/2, width/2, height/3, height*2/3)
}

// house has walls of brick or clay as high as its stars, arched windows, some of them lit, and the colour of its brand on its cornice and door.
func house(rnd *stream, hills, color string, floors int) string {
	wall, columns := [...]string{"#e3d2b6", "#d8b892", "#efe6d6", "#c99b77", "#d5d0c4"}[rnd.below(5)], rnd.between(5, 8)
	width, height := columns*46+36, floors*40+40
	x, y := 320-width/2, 376-height
	var panes [2]string // lit, dark
	for i := range floors * columns {
		if c := i % columns; i/columns < floors-1 || c != columns/2 && c != (columns-1)/2 { // there the door is
			panes[rnd.below(2)] += arch(x+30+c*46, y+22+i/columns*40, 22, 28)
		}
	}
	return hills + fmt.Sprintf(`<path d="M%d %dh%dv%dH%dz" fill="%s"/><path d="M%d %dh%dv%dH%dz" fill="url(#w)"/><path d="M%d %dh%dv14H%dz" fill="%s"/>`+
		`<path d="%s" fill="#ffe9a8"/><path d="%s" fill="#34495e" opacity=".85"/><path d="%s" fill="%s"/>`+
		`<path d="M0 376h640v44H0z" fill="#5d6b4f"/><path d="M270 376h100l40 44H230z" fill="#cbbd9f"/>`+
		`<path d="M%d 384q-26-60 0-120q26 60 0 120M%d 384q-26-75 0-150q26 75 0 150" fill="#48624a"/>`,
		x, y, width, height, x, wall, x, y, width, height, x, x-8, y-10, width+16, x-8, color, panes[0], panes[1], arch(298, 326, 44, 50), color, x-40, x+width+40)
}
