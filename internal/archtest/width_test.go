package archtest

import (
	"bytes"
	"go/scanner"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

// width is the columns that a line of code may have: diffs are read side by side.
const width = 160

// What a literal holds (a query, a sentence, a field's tag) does not count.
func TestLinesAreNotTooLong(t *testing.T) {
	t.Parallel()
	goFiles(t, func(name string, src []byte) {
		if strings.HasPrefix(name, "web/") || name == "internal/local/sim/places.go" { // a table: a place on each line
			return
		}
		lines := bytes.Split(src, []byte("\n"))
		held := make([]int, len(lines))
		file := token.NewFileSet().AddFile(name, -1, len(src))
		var s scanner.Scanner
		s.Init(file, src, nil, 0)
		for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
			if tok != token.STRING {
				continue
			}
			for i, part := range strings.Split(lit, "\n") {
				held[file.Line(pos)-1+i] += utf8.RuneCountInString(part)
			}
		}
		for i, line := range lines {
			if got := utf8.RuneCount(line) - held[i]; got > width {
				t.Errorf("%s:%d: %d columns without literals, at most %d", name, i+1, got, width)
			}
		}
	})
}
