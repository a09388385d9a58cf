package testkit

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documented is a command line that a document shows.
type documented struct {
	where string // file, and the text as it stands there
	args  []string
	// named says that it stands in a sentence: the name of a group of commands is then
	// no command.
	named bool
}

// CheckCommands holds the documents to a program: parse reads each of its command lines
// that they show, as the program itself does.
func CheckCommands(t *testing.T, root, program string, parse func(args []string) error) {
	t.Helper()
	for _, d := range documentedCommands(t, root, program) {
		if err := parse(d.args); err != nil && !(d.named && strings.Contains(err.Error(), "expected one of")) {
			t.Errorf("%s\n\t%v", d.where, err)
		}
	}
}

var (
	fence    = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```$")
	span     = regexp.MustCompile("`([^`\n]+)`")
	optional = regexp.MustCompile(`\[([^\]]*)\]`)
	// separators end a command in a shell.
	separators = regexp.MustCompile(`\|\||&&|[|;#\n]|\$\(|\)`)
	assignment = regexp.MustCompile(`^[A-Z][A-Z0-9_]*=\S*$`)
)

// placeholders are what documents write for a value of the reader's.
var placeholders = []struct {
	form  *regexp.Regexp
	value string
}{
	{regexp.MustCompile(`^<job>$`), "all"},
	{regexp.MustCompile(`^COMMAND$`), "serve"},
	{regexp.MustCompile(`^(<id>…?|ULID)$`), "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV"},
	{regexp.MustCompile(`^(…|<[a-z]+>…?|[A-Z]+)$`), "x"},
}

// documentedCommands returns the command lines of a program that README, CONTRIBUTING and
// the pages of docs show, in fenced blocks, in sentences and in tables headed by the
// program. Placeholders have values, and optional parts are there. Root is where the
// repository begins.
func documentedCommands(t *testing.T, root, program string) []documented {
	t.Helper()
	pages := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md"), filepath.Join(root, "clients/typescript/README.md")}
	if err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var all []documented
	for _, page := range pages {
		raw, err := os.ReadFile(page) //nolint:gosec // a page of this repository
		if err != nil {
			t.Fatal(err)
		}
		name, text := strings.TrimPrefix(page, root+"/"), string(raw)
		add := func(line string, named bool) {
			for _, args := range commandLines(line, program) {
				all = append(all, documented{name + ": " + line, args, named})
			}
		}
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(block[1]) {
				add(strings.TrimSpace(line), false)
			}
		}
		implied := ""
		for line := range strings.Lines(fence.ReplaceAllString(text, "")) {
			first, _, table := strings.Cut(strings.TrimPrefix(line, "| "), " |")
			switch {
			case !strings.HasPrefix(line, "|"):
				implied = ""
			case program == "melmastoon" && (first == "`bin/melmastoon …`" || first == "Command" && strings.HasSuffix(name, "desk.md")):
				implied = "melmastoon "
				continue
			}
			for _, code := range span.FindAllStringSubmatch(line, -1) {
				if implied != "" && table && strings.Contains(first, code[0]) && !strings.Contains(code[1], "melmastoon") {
					add(implied+code[1], false)
				} else {
					add(code[1], true)
				}
			}
		}
	}
	if len(all) < 3 {
		t.Fatalf("only %d commands of %s are documented", len(all), program)
	}
	return all
}

// commandLines returns the arguments of each call of a program in a line of a shell.
func commandLines(line, program string) (all [][]string) {
	for _, command := range separators.Split(optional.ReplaceAllString(line, "$1"), -1) {
		words := shellWords(command)
		for len(words) > 0 && (assignment.MatchString(words[0]) || strings.HasPrefix(words[0], "eval")) {
			words = words[1:]
		}
		if len(words) == 0 || strings.TrimPrefix(words[0], "bin/") != program {
			continue
		}
		args := slices.DeleteFunc(words[1:], func(w string) bool {
			return w == "--help" || w == "--version" || w == "--world" || strings.HasPrefix(w, "--world=")
		})
		if i := slices.Index(args, "--"); i >= 0 {
			args = args[:i]
		}
		for i, arg := range args {
			for _, p := range placeholders {
				if p.form.MatchString(arg) {
					args[i] = p.value
					break
				}
			}
		}
		if len(args) > 0 && !strings.Contains(args[0], "://") { // else it is what a program prints
			all = append(all, args)
		}
	}
	return all
}

// shellWords splits at blanks that are not in quotes.
func shellWords(s string) []string {
	var (
		words []string
		word  strings.Builder
		quote rune
		begun bool
	)
	for _, r := range s {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if begun {
				words = append(words, word.String())
				word.Reset()
				begun = false
			}
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}
