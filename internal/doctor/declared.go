package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"melmastoon.ghasi.io/bff/migrations"
)

// declared is what the files of a set make, read from their text: the tables,
// columns and indexes that must stand, and the policies statement by statement.
type declared struct {
	objects  map[object]string // to the file that makes it
	policies []policyStatement // in their order
}

// object is something that the catalogue knows.
type object struct {
	kind  string // table, column or index
	table string // of a column
	name  string
}

func (o object) String() string {
	if o.table != "" {
		return o.kind + " " + o.table + "." + o.name
	}
	return o.kind + " " + o.name
}

// policyStatement creates, changes or drops a policy.
type policyStatement struct{ table, sql string }

var (
	tableStatement  = regexp.MustCompile(`(?is)^(CREATE|DROP)\s+TABLE\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?\w+\.(\w+)`)
	alterStatement  = regexp.MustCompile(`(?is)^ALTER\s+TABLE\s+(?:ONLY\s+)?\w+\.(\w+)\s+(.*)$`)
	columnClause    = regexp.MustCompile(`(?is)\b(ADD|DROP)\s+COLUMN\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(\w+)`)
	renameClause    = regexp.MustCompile(`(?is)^RENAME\s+(?:COLUMN\s+)?(\w+)\s+TO\s+(\w+)`)
	indexStatement  = regexp.MustCompile(`(?is)^CREATE\s+(?:UNIQUE\s+)?INDEX\s+(?:CONCURRENTLY\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(\w+)`)
	unindexed       = regexp.MustCompile(`(?is)^DROP\s+INDEX\s+(?:CONCURRENTLY\s+)?(?:IF\s+EXISTS\s+)?(?:\w+\.)?(\w+)`)
	aboutPolicy     = regexp.MustCompile(`(?is)^(?:CREATE|ALTER|DROP)\s+POLICY\s+(?:IF\s+EXISTS\s+)?\w+\s+ON\s+(\w+)\.(\w+)`)
	gooseDownMarker = regexp.MustCompile(`(?m)^-- \+goose Down`)
)

// readDeclared reads the files in their order.
func readDeclared(set migrations.Set) (*declared, error) {
	names, err := fs.Glob(set.FS, "*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	d := &declared{objects: map[object]string{}}
	for _, name := range names {
		text, err := fs.ReadFile(set.FS, name)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		up := gooseDownMarker.Split(string(text), 2)[0]
		for _, sql := range statements(up) {
			d.apply(name, sql)
		}
	}
	return d, nil
}

func (d *declared) apply(file, sql string) {
	if m := tableStatement.FindStringSubmatch(sql); m != nil {
		d.change(m[1], object{"table", "", m[2]}, file)
	}
	if m := alterStatement.FindStringSubmatch(sql); m != nil {
		for _, c := range columnClause.FindAllStringSubmatch(m[2], -1) {
			d.change(c[1], object{"column", m[1], c[2]}, file)
		}
		if c := renameClause.FindStringSubmatch(m[2]); c != nil {
			d.change("DROP", object{"column", m[1], c[1]}, file)
			d.change("ADD", object{"column", m[1], c[2]}, file)
		}
	}
	if m := indexStatement.FindStringSubmatch(sql); m != nil {
		d.change("CREATE", object{"index", "", m[1]}, file)
	}
	if m := unindexed.FindStringSubmatch(sql); m != nil {
		d.change("DROP", object{"index", "", m[1]}, file)
	}
	if m := aboutPolicy.FindStringSubmatch(sql); m != nil {
		d.policies = append(d.policies, policyStatement{m[2], strings.Replace(sql, m[1]+"."+m[2], "pg_temp."+m[2], 1)})
	}
}

func (d *declared) change(verb string, o object, file string) {
	if !strings.EqualFold(verb, "DROP") {
		d.objects[o] = file
		return
	}
	maps.DeleteFunc(d.objects, func(other object, _ string) bool {
		return other == o || o.kind == "table" && other.table == o.name
	})
}

// sorted lists the objects by file.
func (d *declared) sorted() []object {
	return slices.SortedFunc(maps.Keys(d.objects), func(a, b object) int {
		return cmp.Or(cmp.Compare(d.objects[a], d.objects[b]), cmp.Compare(a.String(), b.String()))
	})
}

// statements cuts a file at the semicolons that end statements, and drops comments.
func statements(text string) []string {
	var (
		out []string
		b   strings.Builder
	)
	for i := 0; i < len(text); {
		rest := text[i:]
		n := 1
		switch {
		case strings.HasPrefix(rest, "--"):
			if n = strings.IndexByte(rest, '\n'); n < 0 {
				n = len(rest)
			}
			i += n
			continue
		case rest[0] == '\'':
			n = quoted(rest, "'")
		case strings.HasPrefix(rest, "$$"):
			n = quoted(rest, "$$")
		case rest[0] == ';':
			out = append(out, strings.TrimSpace(b.String()))
			b.Reset()
			i++
			continue
		}
		b.WriteString(rest[:n])
		i += n
	}
	return append(out, strings.TrimSpace(b.String()))
}

// quoted is the length of a text that begins with a quote, up to the next one.
func quoted(s, quote string) int {
	n := strings.Index(s[len(quote):], quote)
	if n < 0 {
		return len(s)
	}
	return n + 2*len(quote)
}
