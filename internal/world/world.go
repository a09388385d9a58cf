// Package world is how programs find the platform that runs on this machine: a note
// in its home that says where everything is. It knows none of the services.
package world

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// World is a running platform, as it has written itself down.
type World struct {
	Home  string    `json:"home"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
	Logs  string    `json:"logs"` // a directory with one NAME.log per service
	// Environment is what makes a program find the platform. It holds secrets.
	Environment map[string]string `json:"environment"`
}

const (
	noteFile = "running.json"
	// maxNote is many times what a platform writes.
	maxNote = 1 << 20
)

// HomeEnv and WorldEnv choose among several platforms: where one that is started
// keeps its data, and which running one a command means.
const (
	HomeEnv  = "MELMASTOON_HOME"
	WorldEnv = "MELMASTOON_WORLD"
)

// Announce writes the note, for this user's eyes alone, and keeps it locked: the
// kernel takes the lock away when the process ends, however it ends, and so a note
// that was left behind is told from a true one. The returned function takes the note
// back.
func (w World) Announce() (withdraw func() error, err error) {
	b, err := json.Marshal(w)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(w.Home, noteFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600) //nolint:gosec // in the caller's own directory
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: another platform has it: %w", path, err), f.Close())
	}
	if err := errors.Join(f.Chmod(0o600), f.Truncate(0)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error { return errors.Join(os.Remove(path), f.Close()) }, nil
}

// NotRunningError says that no platform runs there.
type NotRunningError struct{ Home string }

func (e *NotRunningError) Error() string {
	return fmt.Sprintf(
		"no platform runs with its data in %s: start one with 'melmastoon up' or 'make run', or set "+WorldEnv+" to the directory of a running one", e.Home,
	)
}

// Find reads the note of the platform that runs with this home; empty is that of
// MELMASTOON_WORLD or MELMASTOON_HOME, or this user's own.
func Find(home string) (*World, error) {
	home, err := Home(cmp.Or(home, os.Getenv(WorldEnv), os.Getenv(HomeEnv)))
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(home, noteFile)) //nolint:gosec // in a directory that the caller names
	if errors.Is(err, os.ErrNotExist) {
		return nil, &NotRunningError{home}
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // and with it the lock
	if syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) == nil {
		return nil, &NotRunningError{home} // its platform has died
	}
	b, err := io.ReadAll(io.LimitReader(f, maxNote))
	if err != nil {
		return nil, err
	}
	w := new(World)
	if err := json.Unmarshal(b, w); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return w, nil
}

// Fill sets the variables of the platform's environment that are not set.
func (w *World) Fill() error {
	for name, value := range w.Environment {
		if _, set := os.LookupEnv(name); set {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Home returns the directory in which a platform of this user keeps its data,
// unless another one is given.
func Home(dir string) (string, error) {
	if dir == "" {
		// Root's servers run as another user, who cannot enter root's home.
		dir = "/var/lib/melmastoon"
		if os.Geteuid() != 0 {
			base, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("no home directory: set %s to a directory for the data: %w", HomeEnv, err)
			}
			dir = filepath.Join(base, ".local", "share", "melmastoon")
		}
	}
	return filepath.Abs(dir)
}

// MakeHome is [Home], made where it is not there yet.
func MakeHome(dir string) (string, error) {
	dir, err := Home(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the database's user must pass through it; what is secret in it has its own mode
		return "", fmt.Errorf("the directory of the data cannot be made: set %s to one that can: %w", HomeEnv, err)
	}
	return dir, nil
}
