package stack

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"time"
)

// installTimeout bounds a package installation over a slow network, one that
// waits for another included.
const installTimeout = 10 * time.Minute

// installScript runs as root with the package's name.
//
//go:embed install.sh
var installScript string

// install gets a package where that needs no password: with apt, as root
// or through sudo that does not ask for a password.
func install(ctx context.Context, pkg string, log *slog.Logger) error {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("not installed automatically: apt-get is missing here")
	}
	command := []string{"sh", "-s", "--", pkg}
	if os.Geteuid() != 0 {
		if _, err := output(ctx, "sudo", "-n", "true"); err != nil {
			return errors.New("not installed automatically: that needs root, or sudo without a password")
		}
		command = append([]string{"sudo", "-n"}, command...)
	}
	log.InfoContext(ctx, "installing a package", "package", pkg)
	begin := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, installTimeout, fmt.Errorf("not installed within %v", installTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // our own script
	cmd.Stdin = strings.NewReader(installScript)
	// The script undoes its temporary changes when told to end; killed, it could not.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("install %s: %w: %s", pkg, err, last(string(out), logTail))
	}
	log.InfoContext(ctx, "installed a package", "package", pkg, "took", time.Since(begin))
	return nil
}

func last(text string, n int) string {
	text = strings.TrimSpace(text)
	return text[max(0, len(text)-n):]
}
