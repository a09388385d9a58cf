package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

// Main parses a command line into cli, runs the chosen command and returns the
// process's exit status. What is wrong is said on standard error.
func Main(cli any, name, description string, args []string, options ...kong.Option) int {
	cmd, err := Parse(cli, name, description, args, options...)
	if err == nil {
		err = cmd.Run(context.Background())
	}
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Status
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", name, err)
	return 1
}

// ExitError ends the process with a status and no further words.
type ExitError struct{ Status int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Status) }
