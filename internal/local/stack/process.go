package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// logTail is how much of a server's log goes into the error when it fails.
const logTail = 2 << 10

// command is a server to run.
type command struct {
	path    string
	args    []string
	dir     string // working directory, one that the account can enter
	home    string // what the server takes for its home; "" is the root, where it can write nothing
	stdin   string
	logFile string
	as      account
	// onDeath is what the server gets when this process dies without a word.
	// Zero lets it live on, which only tests of orphans want.
	onDeath syscall.Signal
}

// process is a running child.
type process struct {
	cmd     *exec.Cmd
	logFile string
	done    chan struct{} // closed when the child has ended
	err     error         // why, once done is closed
}

// exitError says that a server ended when it should not have.
type exitError struct {
	program string
	err     error
	log     string
}

func (e *exitError) Error() string {
	return fmt.Sprintf("%s ended: %v: %s", e.program, e.err, strings.TrimSpace(e.log))
}

func (e *exitError) Unwrap() error { return e.err }

// run starts a child.
func run(c command) (*process, error) {
	log, err := os.OpenFile(c.logFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("server log: %w", err)
	}
	cmd := exec.Command(c.path, c.args...) //nolint:gosec,noctx // our own programs; they outlive the start's context
	cmd.Dir = c.dir
	cmd.Env = serverEnv(cmp.Or(c.home, "/"))
	cmd.Stdout, cmd.Stderr = log, log
	if c.stdin != "" {
		cmd.Stdin = strings.NewReader(c.stdin)
	}
	cmd.SysProcAttr = sysProcAttr(c.as, c.onDeath)
	p := &process{cmd: cmd, logFile: c.logFile, done: make(chan struct{})}
	err = start(cmd, func(err error) {
		if p.err = err; err == nil {
			p.err = errors.New("exit status 0")
		}
		close(p.done)
	})
	_ = log.Close() // the child has its own descriptor
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", c.path, err)
	}
	return p, nil
}

// StartChild starts a child that is asked to end when this process dies, where the kernel can do that, and calls back when it has ended.
func StartChild(cmd *exec.Cmd, ended func(error)) error {
	cmd.SysProcAttr = sysProcAttr(account{}, syscall.SIGTERM)
	return start(cmd, ended)
}

// start starts a child and calls back when it has ended. The kernel ties a parent-death signal to the *thread*
// that forked, so that thread is kept for as long as the child lives;
// otherwise the Go runtime could retire it and the child would stop under us.
func start(cmd *exec.Cmd, ended func(error)) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return <-started
}

// serverEnv is all a server gets of our environment: PGDATA, PGPORT or a
// locale of the user must not change how it runs.
func serverEnv(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + home}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// failure describes an end that was not asked for.
func (p *process) failure() error {
	return &exitError{program: p.cmd.Path, err: p.err, log: tail(p.logFile)}
}

// end signals the child and waits for it; past the deadline it is killed.
func (p *process) end(ctx context.Context, sig syscall.Signal) error {
	if !p.running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.cmd.Path, err)
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.cmd.Path, err)
	}
	<-p.done
	return fmt.Errorf("stop %s: killed after %w", p.cmd.Path, context.Cause(ctx))
}

// awaitReady polls until the server answers, ends, or the context does. A
// server that does not become ready is killed.
func (p *process) awaitReady(ctx context.Context, ready func() bool) error {
	err := until(ctx, func() (bool, error) {
		if !p.running() {
			return false, p.failure()
		}
		return ready(), nil
	})
	if err != nil && p.running() {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(tail(p.logFile)))
		expired, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return errors.Join(err, p.end(expired, syscall.SIGKILL))
	}
	return err
}

func tail(name string) string {
	f, err := os.Open(name) //nolint:gosec // our own log
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // read only
	if info, err := f.Stat(); err == nil && info.Size() > logTail {
		if _, err := f.Seek(-logTail, io.SeekEnd); err != nil {
			return ""
		}
	}
	text, _ := io.ReadAll(io.LimitReader(f, logTail))
	return string(text)
}

// processNote holds the id of a server's process and the last of its arguments.
const processNote = "process.pid"

func noteProcess(d *dir, proc *process, last string) error {
	return os.WriteFile(d.file(processNote), fmt.Appendf(nil, "%d\n%s\n", proc.pid(), last), 0o600)
}

// stopOrphanProcess ends a server that a dead process left running: it is known by
// the last of its arguments, a path or a port of our own.
func stopOrphanProcess(ctx context.Context, note string) error {
	pid, lines, err := readPid(note)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || len(lines) < 2 || lines[1] == "" {
		return err
	}
	ours := func() bool { return strings.HasSuffix(commandLine(pid), " "+lines[1]) }
	return endStranger(ctx, pid, ours, syscall.SIGTERM, syscall.SIGKILL)
}
