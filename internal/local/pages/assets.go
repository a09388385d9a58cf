package pages

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
)

// dist is what tools/pages made of web/.
//
//go:embed dist
var dist embed.FS

//go:embed favicon.svg
var favicon []byte

// assets is where the files of the pages are. Their names change with what is in them.
const assets = "/assets/"

// contentType is ours: the machine may know another, or none.
func contentType(name string) string {
	switch ext := path.Ext(name); ext {
	case ".woff2":
		return "font/woff2"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	default:
		return mime.TypeByExtension(ext)
	}
}

func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	packed := true
	b, err := dist.ReadFile("dist/" + name + ".gz")
	if err != nil && path.Ext(name) == ".woff2" {
		packed = false
		b, err = dist.ReadFile("dist/" + name)
	}
	if err != nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType(name))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Etag", `"`+name+`"`)
	if page, _, ok := strings.Cut(name, "-worker-"); ok {
		h.Set("Service-Worker-Allowed", "/"+page) // the page's own, and no other
	}
	if packed {
		h.Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			h.Set("Content-Encoding", "gzip")
		} else if b, err = unpacked(b); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	if r.Header.Get("If-None-Match") == h.Get("Etag") {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(b) //nolint:gosec // a file of this program; fails only if the client has left
}

func unpacked(b []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func serveFavicon(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Cache-Control", "public, max-age=86400")
	_, _ = w.Write(favicon) // fails only if the client has left
}
