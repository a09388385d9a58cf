//go:build !linux

package platform

import (
	"os/exec"
	"syscall"
)

// dieWithParent cannot be had here: a killed parent leaves its children.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func startOnLivingThread(cmd *exec.Cmd) error { return cmd.Start() }
