package stack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
)

// program is a program that a Debian package brings.
type program struct {
	names []string // any of them will do
	pkg   string
	help  string // how to get it by hand
}

// find returns the program's path, installing its package where there is none
// and that needs no password.
func (p program) find(ctx context.Context, noInstall bool, log *slog.Logger) (string, error) {
	if path := p.look(); path != "" {
		return path, nil
	}
	if noInstall {
		return "", errors.New(p.help)
	}
	if err := install(ctx, p.pkg, log); err != nil {
		return "", fmt.Errorf("%s\n(%w)", p.help, err)
	}
	if path := p.look(); path != "" {
		return path, nil
	}
	return "", errors.New(p.help)
}

func (p program) look() string {
	for _, name := range p.names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
		// PATH may be stripped, and a user's lacks sbin.
		for _, bin := range []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"} {
			if path := filepath.Join(bin, name); isProgram(path) {
				return path
			}
		}
	}
	return ""
}
