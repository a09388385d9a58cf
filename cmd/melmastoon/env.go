package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

type envCommand struct{ terminal }

// Run prints the running platform's environment for a shell to read.
func (e envCommand) Run() error {
	w, err := e.find()
	if err != nil {
		return err
	}
	return writeExports(os.Stdout, w.Environment)
}

// writeExports writes variables so that a POSIX shell reads back what they are,
// whatever is in them.
func writeExports(out io.Writer, env map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if _, err := fmt.Fprintf(out, "export %s='%s'\n", name, strings.ReplaceAll(env[name], "'", `'\''`)); err != nil {
			return err
		}
	}
	return nil
}
