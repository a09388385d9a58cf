package testkit

import (
	"os"
	"strings"
	"testing"
)

// Table returns the rows of a table in docs/page, which a test holds the code to: the
// document is the specification, and no program writes it. The table is the one whose
// first column has the heading. Cells are by the headings of their columns, without the
// marks of code; "–" is an empty cell. The page is read as seen from a package two
// folders below internal.
func Table(t testing.TB, page, heading string) []map[string]string {
	t.Helper()
	all, err := os.ReadFile("../../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	rows := readTable(string(all), heading)
	if len(rows) == 0 {
		t.Fatalf("docs/%s has no table whose first column is %s", page, heading)
	}
	return rows
}

func readTable(page, heading string) []map[string]string {
	var names []string
	var rows []map[string]string
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if rows != nil {
				return rows
			}
			names = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i, c := range cells {
			if cells[i] = strings.ReplaceAll(strings.TrimSpace(c), "`", ""); cells[i] == "–" {
				cells[i] = ""
			}
		}
		switch {
		case names == nil:
			names = cells
		case names[0] != heading || strings.HasPrefix(cells[0], "--"):
		default:
			row := map[string]string{}
			for i := range min(len(cells), len(names)) {
				row[names[i]] = cells[i]
			}
			rows = append(rows, row)
		}
	}
	return rows
}
