package daemon

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Environment knows by which variable each setting of the chosen command is given,
// so that what is wrong is told by the name that people set. Commands may take it
// in their Run method.
type Environment struct {
	variables []string          // in the order of the settings
	names     map[string]string // flag to variable
	known     []string          // those of every command
	bad       []Problem         // variables that cannot be read
}

// Problem is a setting that is wrong. It never shows the value.
type Problem struct {
	Variable string // the first that it is about; empty if it is about none
	Text     string // begins with the names of all variables that it is about
}

func (p Problem) Error() string { return p.Text }

// Examiner is a command that reports wrong settings itself: it runs with them.
type Examiner interface{ ExaminesSettings() }

// newEnvironment reads the flags of a command and of what it stands under.
func newEnvironment(app *kong.Application, node *kong.Node) *Environment {
	e := &Environment{names: map[string]string{}}
	for _, s := range described(app) {
		e.known = append(e.known, s.Variables...)
	}
	for ; node != nil; node = node.Parent {
		for _, f := range node.Flags {
			if len(f.Envs) == 0 || e.names[f.Name] != "" {
				continue
			}
			e.names[f.Name] = f.Envs[0]
			e.variables = append(e.variables, f.Envs...)
			e.try(f)
		}
	}
	return e
}

// try reads a flag's variables once. One that cannot be read is noted and then left
// alone: reading goes on, and the rest of what is wrong is found too.
func (e *Environment) try(f *kong.Flag) {
	for _, env := range f.Envs {
		value, set := os.LookupEnv(env)
		if !set {
			continue
		}
		text := ""
		target := reflect.New(f.Target.Type()).Elem()
		if err := f.Parse(kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: value}), target); err != nil {
			text = fmt.Sprintf("%s: not a valid %s", env, f.Target.Type())
		} else if f.Enum != "" && !contains(f.EnumSlice(), value) {
			text = fmt.Sprintf("%s: must be one of %s", env, f.Enum)
		}
		if text != "" {
			e.bad = append(e.bad, Problem{env, text})
			f.Envs, f.Tag.Envs = nil, nil
		}
		return // the first that is set counts
	}
}

// Problems tells a configuration's errors, and the variables that could not be read,
// by the names of variables in the order of the settings.
func (e *Environment) Problems(err error) []Problem {
	all := slices.Clone(e.bad)
	for _, text := range leaves(err) {
		p := e.name(text)
		if !slices.ContainsFunc(all, func(other Problem) bool {
			return other.Text == p.Text || other.Variable == p.Variable && p.Variable != "" && slices.Contains(e.bad, other)
		}) {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		if places := e.place(a) - e.place(b); places != 0 || a.Variable == "" {
			return places
		}
		return strings.Compare(a.Text, b.Text) // a setting that is a map has its errors in any order
	})
	return all
}

// Name tells errors about settings by the names of their variables.
func (e *Environment) Name(err error) []Problem {
	var out []Problem
	for _, text := range leaves(err) {
		out = append(out, e.name(text))
	}
	return out
}

func (e *Environment) place(p Problem) int {
	if i := slices.Index(e.variables, p.Variable); i >= 0 {
		return i
	}
	return len(e.variables)
}

var (
	flagName     = regexp.MustCompile(`[a-z][a-z0-9]*(-[a-z0-9]+)*`)
	variableName = regexp.MustCompile(`[A-Z][A-Z0-9]*(_[A-Z0-9]+)+`)
)

// name replaces the flags that a text begins with by their variables.
func (e *Environment) name(text string) Problem {
	head, rest, ok := strings.Cut(text, ":")
	if !ok {
		return Problem{Text: text}
	}
	if !variableName.MatchString(head) {
		head = flagName.ReplaceAllStringFunc(head, func(flag string) string {
			if variable := e.names[flag]; variable != "" {
				return variable
			}
			return flag
		})
	}
	return Problem{variableName.FindString(head), head + ":" + rest}
}

// leaves are the single messages of a tree of joined errors.
func leaves(err error) []string {
	switch wrapped := err.(type) { //nolint:errorlint // one level at a time
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		var out []string
		for _, e := range wrapped.Unwrap() {
			out = append(out, leaves(e)...)
		}
		return out
	case interface{ Unwrap() error }:
		inner := wrapped.Unwrap()
		below := leaves(inner)
		if len(below) < 2 {
			return []string{err.Error()}
		}
		before, ok := strings.CutSuffix(err.Error(), inner.Error())
		for i := range below {
			if ok {
				below[i] = before + below[i]
			}
		}
		return below
	}
	return []string{err.Error()}
}

// maxTypo is how many letters a name may differ from a setting's and still be taken
// for a misspelling of it.
const maxTypo = 2

// Unknown lists variables that are set and that no command reads: all that begin with
// the prefix, and of the platform's, BFF_… and MELMASTOON_…, those that look like a
// misspelling. Others of the platform's belong to other programs.
func (e *Environment) Unknown(prefix string) []Problem {
	var out []Problem
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		own := strings.HasPrefix(name, prefix)
		if !own && !strings.HasPrefix(name, "BFF_") && !strings.HasPrefix(name, "MELMASTOON_") || slices.Contains(e.known, name) {
			continue
		}
		switch nearest := e.nearest(name); {
		case nearest != "":
			out = append(out, Problem{name, fmt.Sprintf("%s: is no setting; did you mean %s?", name, nearest)})
		case own:
			out = append(out, Problem{name, name + ": is no setting"})
		}
	}
	slices.SortFunc(out, func(a, b Problem) int { return strings.Compare(a.Variable, b.Variable) })
	return out
}

// nearest returns the variable that a name looks like a misspelling of, or "".
func (e *Environment) nearest(name string) string {
	nearest, letters := "", maxTypo+1
	for _, v := range e.known {
		if len(v)-len(name) > maxTypo || len(name)-len(v) > maxTypo {
			continue // at least as many letters apart
		}
		if d := distance(name, v); d < letters {
			nearest, letters = v, d
		}
	}
	return nearest
}

// distance is how many letters have to be added, removed or replaced (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

func joined(problems []Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if strings.TrimSpace(v) == s {
			return true
		}
	}
	return false
}
