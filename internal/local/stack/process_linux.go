package stack

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// sysProcAttr gives the server its own process group, so that Ctrl-C in a
// terminal reaches only us and the order of shutdown stays ours, and has the
// kernel signal it when we die.
func sysProcAttr(as account, onDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onDeath, Credential: as.credential()}
}

// commandLine is empty for a process that is gone, or is a zombie.
func commandLine(pid int) string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '})))
}
