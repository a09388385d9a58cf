package reference

import (
	"html"
	"html/template"
	"regexp"
	"strings"
)

var (
	quoted = regexp.MustCompile("`([^`]+)`")
	strong = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// prose shows the little Markdown that the contracts use: paragraphs, lists, code and
// strong words.
func prose(s string) template.HTML {
	var b strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		open, end, item := "<p>", "</p>", ""
		if strings.HasPrefix(block, "* ") || strings.HasPrefix(block, "- ") {
			open, end, item = "<ul>", "</ul>", "<li>"
		}
		b.WriteString(open)
		for line := range strings.SplitSeq(block, "\n") {
			if rest, ok := strings.CutPrefix(line, "* "); ok && item != "" {
				b.WriteString(item)
				line = rest
			} else if rest, ok := strings.CutPrefix(line, "- "); ok && item != "" {
				b.WriteString(item)
				line = rest
			}
			line = quoted.ReplaceAllString(html.EscapeString(strings.TrimSpace(line)), "<code>$1</code>")
			b.WriteString(strong.ReplaceAllString(line, "<strong>$1</strong>") + " ")
		}
		b.WriteString(end)
	}
	return template.HTML(b.String()) //nolint:gosec // every line was escaped above
}
