package daemon

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Setting is one thing that a program can be told through its environment.
type Setting struct {
	Variables []string // the first that is set counts
	Flag      string
	Help      string
	Default   string
	Secret    bool
	Commands  []string // those that read it
	Needs     []string // those of them that do not run without it, or without one of its alternatives
}

// described lists the settings of all commands, each once, in the order of the
// commands and of their flags.
func described(app *kong.Application) []*Setting {
	var all []*Setting
	byVariable := map[string]*Setting{}
	for _, command := range app.Leaves(true) {
		for node := command; node != nil; node = node.Parent {
			for _, f := range node.Flags {
				if len(f.Envs) == 0 {
					continue
				}
				s := byVariable[f.Envs[0]]
				if s == nil {
					s = &Setting{Variables: slices.Clone(f.Envs), Flag: f.Name, Help: f.Help, Default: f.Default, Secret: isSecret(f.Target.Type())}
					byVariable[f.Envs[0]] = s
					all = append(all, s)
				}
				if name := command.Path(); !slices.Contains(s.Commands, name) {
					s.Commands = append(s.Commands, name)
				}
			}
		}
	}
	for _, s := range all {
		for i, name := range s.Commands {
			s.Commands[i] = strings.TrimPrefix(name, app.Name+" ")
		}
	}
	return all
}

func isSecret(t reflect.Type) bool {
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t == reflect.TypeFor[Secret]()
}

// Describe lists a program's settings. Which commands need one is found by running
// each command's own rules with none of them set. The values of the environment that
// it is called in play no part.
func Describe(cli any, name string, options ...kong.Option) ([]*Setting, error) {
	parser, err := kong.New(cli, append(options, kong.Name(name), kong.Bind(new(Environment)), kong.Writers(os.Stdout, os.Stderr))...)
	if err != nil {
		return nil, fmt.Errorf("configuration of %s: %w", name, err)
	}
	all := described(parser.Model)
	envs := map[string]*Environment{}
	for _, command := range parser.Model.Leaves(true) {
		env := &Environment{names: map[string]string{}}
		for node := command; node != nil; node = node.Parent {
			for _, f := range node.Flags {
				if len(f.Envs) > 0 {
					env.names[f.Name] = f.Envs[0]
				}
			}
		}
		envs[command.Path()] = env
	}
	for _, command := range parser.Model.Leaves(true) {
		for node := command; node != nil; node = node.Parent {
			for _, f := range node.Flags {
				f.Envs, f.Tag.Envs = nil, nil
			}
		}
	}
	for _, command := range parser.Model.Leaves(true) {
		path := strings.TrimPrefix(command.Path(), name+" ")
		args := strings.Fields(path)
		for _, p := range command.Positional {
			if p.Required {
				args = append(args, "all")
			}
		}
		_, err := parser.Parse(args)
		failed, ok := errors.AsType[*kong.ParseError](err)
		if !ok {
			continue
		}
		for _, p := range envs[command.Path()].Problems(settingsError(failed)) {
			head, _, _ := strings.Cut(p.Text, ":")
			for _, variable := range variableName.FindAllString(head, -1) {
				for _, s := range all {
					if s.Variables[0] == variable && !slices.Contains(s.Needs, path) {
						s.Needs = append(s.Needs, path)
					}
				}
			}
		}
	}
	return all, nil
}
