package platform

import (
	"os/exec"
	"runtime"
	"syscall"
)

// dieWithParent has the kernel end the child when we die, and keeps a Ctrl-C
// in the terminal from reaching it before us: the order of the stop is ours.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// startOnLivingThread starts the child from a thread that lives as long as
// this process: Linux sends the death signal when the starting thread ends.
func startOnLivingThread(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, or the thread might end
		started <- cmd.Start()
		select {}
	}()
	return <-started
}
