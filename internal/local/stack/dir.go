package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// tempPrefix marks our throw-away directories among all others.
	tempPrefix = "melmastoon-local-"
	lockName   = "lock"
	// throughMode lets the server's account pass through, and no account list.
	throughMode = os.FileMode(0o711)
	// unlockedGrace is how long a throw-away directory may stand without a
	// lock file before it counts as left behind: its maker makes the lock next.
	unlockedGrace = 10 * time.Minute
	// maxSocketPath is the shorter of the limits of Linux (107) and macOS (103).
	maxSocketPath = 103
)

// dir is a directory that this process alone uses. The lock is a kernel file
// lock: it goes when its holder dies, however it dies, and so tells a dead
// holder from a live one without trusting process ids, which are reused.
type dir struct {
	path      string
	lock      *os.File
	temporary bool
}

// InUseError says that another process holds a data directory.
type InUseError struct {
	Dir    string
	Holder string // what the holder wrote of itself
}

func (e *InUseError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("data directory %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("data directory %s is in use by %s: 'melmastoon status' shows what runs there", e.Dir, e.Holder)
}

// openDir makes and locks a directory that stays.
func openDir(path string) (*dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	mode := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = throughMode // the server runs under another account
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	d := &dir{path: path}
	if err := d.acquire(); err != nil {
		return nil, err
	}
	return d, nil
}

// tempDir makes and locks a throw-away directory.
func tempDir(as account) (*dir, error) {
	root := tempRoot(as)
	for {
		path, err := os.MkdirTemp(root, tempPrefix)
		if err != nil {
			return nil, fmt.Errorf("temporary directory: %w", err)
		}
		d := &dir{path: path, temporary: true}
		err = os.Chmod(path, throughMode)
		if err == nil {
			err = d.acquire()
		}
		switch {
		case err == nil:
			return d, nil
		case isInUse(err), errors.Is(err, fs.ErrNotExist):
			// A sweeper was between our mkdir and our lock: let it have this one.
			continue
		default:
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
}

func isInUse(err error) bool {
	_, ok := errors.AsType[*InUseError](err)
	return ok
}

// acquire takes the lock, or names the process that holds it.
func (d *dir) acquire() error {
	name := filepath.Join(d.path, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600) //nolint:gosec // our own directory
	if err != nil {
		return fmt.Errorf("lock data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 256))
		err = errors.Join(f.Close(), lockError(err, d.path, string(bytes.TrimSpace(holder))))
		return err
	}
	// The file that we locked must be the one that others will find.
	mine, err1 := f.Stat()
	there, err2 := os.Stat(name)
	if err1 != nil || err2 != nil || !os.SameFile(mine, there) {
		return errors.Join(f.Close(), &InUseError{Dir: d.path})
	}
	note := fmt.Sprintf("process %d (%s)\n", os.Getpid(), filepath.Base(os.Args[0]))
	if err := f.Truncate(0); err != nil {
		return errors.Join(fmt.Errorf("lock data directory: %w", err), f.Close())
	}
	if _, err := f.WriteAt([]byte(note), 0); err != nil {
		return errors.Join(fmt.Errorf("lock data directory: %w", err), f.Close())
	}
	d.lock = f
	return nil
}

func lockError(err error, path, holder string) error {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return &InUseError{Dir: path, Holder: holder}
	}
	return fmt.Errorf("lock data directory: %w", err)
}

// close gives the directory up; a throw-away one goes away.
func (d *dir) close() error {
	if d.lock == nil {
		return nil
	}
	var err error
	if d.temporary {
		err = os.RemoveAll(d.path)
	}
	// Closing alone would not do: a program that is being started at this moment has a
	// copy of the file until it runs, and with it the lock.
	err = errors.Join(err, syscall.Flock(int(d.lock.Fd()), syscall.LOCK_UN), d.lock.Close())
	d.lock = nil
	return err
}

// file is the path of a name inside the directory.
func (d *dir) file(name string) string { return filepath.Join(d.path, name) }

// sub makes a directory that belongs to the server's account alone.
func (d *dir) sub(name string, as account) (string, error) {
	path := d.file(name)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return path, as.own(path)
}

// tempRoot is the system's directory for temporary files, unless the server
// could not reach it or its name would leave no room for a socket.
func tempRoot(as account) string {
	root := os.TempDir()
	sample := filepath.Join(root, tempPrefix+"0123456789", "run", ".s.PGSQL.65535")
	if len(sample) > maxSocketPath || as.reaches(root) != nil {
		return "/tmp"
	}
	return root
}

// sweep removes the throw-away directories of processes that died without
// doing so, and ends servers that outlived them. It is best effort: what it
// cannot remove is left to its owner or to the next sweep.
func sweep(ctx context.Context, as account, logger *slog.Logger) {
	paths, _ := filepath.Glob(filepath.Join(tempRoot(as), tempPrefix+"*"))
	for _, path := range paths {
		if ctx.Err() != nil {
			return
		}
		// Only a directory that is our own is proof of anything: in a shared
		// temporary directory any user can write a lock and a pid file.
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || !ownedByUs(info) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(path, lockName)); err != nil && time.Since(info.ModTime()) < unlockedGrace {
			continue
		}
		d := &dir{path: path, temporary: true}
		if d.acquire() != nil {
			continue
		}
		err = errors.Join(stopOrphans(ctx, d), d.close())
		logger.DebugContext(ctx, "swept directory of a dead process", "dir", path, "error", err)
	}
}

// stopOrphans ends the servers that still run in the directory of a dead process.
func stopOrphans(ctx context.Context, d *dir) error {
	return errors.Join(
		stopOrphanPostgres(ctx, d.file(clusterName)),
		stopOrphanRedis(ctx, d.file(redisPidName)),
		stopOrphanProcess(ctx, d.file(processNote)),
	)
}

func ownedByUs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// readPid reads the lines of a pid file, the first of which is a process id.
func readPid(name string) (pid int, lines []string, err error) {
	raw, err := os.ReadFile(name) //nolint:gosec // in our own directory
	if err != nil {
		return 0, nil, err
	}
	lines = strings.Split(string(raw), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return 0, nil, fmt.Errorf("%s holds no process id", name)
	}
	return pid, lines, nil
}

// endStranger ends a process that is not our child, gently first. The check
// is repeated before every signal, so that a reused process id is never hit.
func endStranger(ctx context.Context, pid int, ours func() bool, signals ...syscall.Signal) error {
	for _, sig := range signals {
		if !ours() {
			return nil
		}
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop left-over process %d: %w", pid, err)
		}
		waiting, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := until(waiting, func() (bool, error) { return !ours(), nil })
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("left-over process %d does not stop", pid)
}
