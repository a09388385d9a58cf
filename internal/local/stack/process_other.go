//go:build !linux

package stack

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sysProcAttr gives the server its own process group, so that Ctrl-C in a
// terminal reaches only us. Only Linux signals a child whose parent dies:
// elsewhere the next start ends what a killed process left running.
func sysProcAttr(as account, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as.credential()}
}

// commandLine is empty for a process that is gone.
func commandLine(pid int) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
