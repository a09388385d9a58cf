package platform

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Running is where another terminal finds a running platform.
type Running struct {
	ConsumerURL   string `json:"consumerUrl"`
	BackofficeURL string `json:"backofficeUrl"`
	SimURL        string `json:"simUrl"`
}

const runningFile = "running.json"

// Announce writes down where a platform runs, in its home. The returned function
// takes that back.
func (r Running) Announce(home string) (withdraw func() error, err error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(home, runningFile)
	return func() error { return os.Remove(path) }, os.WriteFile(path, b, 0o600)
}

// FindRunning reads where the platform with this home runs.
func FindRunning(home string) (r Running, err error) {
	b, err := os.ReadFile(filepath.Join(home, runningFile)) //nolint:gosec // in the caller's own directory
	if errors.Is(err, os.ErrNotExist) {
		return r, fmt.Errorf("no platform runs with its data in %s: start one with 'melmastoon up'", home)
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(b, &r)
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
				return "", fmt.Errorf("no home directory: set MELMASTOON_HOME: %w", err)
			}
			dir = filepath.Join(base, ".local", "share", "melmastoon")
		}
	}
	return filepath.Abs(dir)
}
