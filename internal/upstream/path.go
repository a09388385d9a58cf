package upstream

import (
	"net/url"
	"strings"
)

// Path fills the placeholders of a route, "/properties/{propertyId}", with
// values, each escaped to stay within its own segment.
func Path(route string, values ...string) string {
	var b strings.Builder
	b.Grow(2 * len(route))
	for _, v := range values {
		open := strings.IndexByte(route, '{')
		shut := strings.IndexByte(route, '}')
		if open < 0 || shut < open {
			break
		}
		b.WriteString(route[:open])
		b.WriteString(url.PathEscape(v))
		route = route[shut+1:]
	}
	b.WriteString(route)
	return b.String()
}

// cleanPath reports whether path may be appended to a base URL: an id such as
// ".." or "x?admin=1" must not reach another endpoint of the upstream.
func cleanPath(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#{}\\ \r\n\t") {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return true
}
