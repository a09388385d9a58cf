package desk

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// state is what a device knows. What it points to is replaced, never changed.
type state struct {
	Device   *Device           `json:"device"`
	SignedIn *signedIn         `json:"signedIn,omitempty"`
	Nonces   map[string]string `json:"-"` // by host
}

// Open returns a client whose device and sign-in are kept in a file that only
// its owner can read. Processes that share the file take turns at refreshing.
func Open(path string, cfg Config) (*Client, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return open(cfg, &file{path})
}

// look returns what is known now.
func (c *Client) look() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// update changes the state, in the file as well: it is read again under a lock,
// because another process may have changed it.
func (c *Client) update(change func(*state) error) error {
	c.updating.Lock()
	defer c.updating.Unlock()
	next := c.look()
	if c.file == nil {
		if err := change(&next); err != nil {
			return err
		}
		c.keep(next)
		return nil
	}
	return c.file.locked(func() error {
		kept, err := c.file.load()
		if err != nil {
			return err
		}
		if kept.Device != nil {
			next.Device, next.SignedIn = kept.Device, kept.SignedIn
			c.keep(next)
		}
		if err := change(&next); err != nil {
			return err
		}
		if err := c.file.save(next); err != nil {
			return err
		}
		c.keep(next)
		return nil
	})
}

// keep takes a state over, but for the nonces, which a call may have learned
// meanwhile.
func (c *Client) keep(next state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Device, c.state.SignedIn = next.Device, next.SignedIn
}

// file is where a state is kept between runs.
type file struct{ path string }

// locked calls do while no other process holds the lock.
func (f *file) locked(do func() error) error {
	lock, err := os.OpenFile(f.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // which gives the lock back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", f.path, err)
	}
	return do()
}

func (f *file) load() (s state, err error) {
	b, err := os.ReadFile(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("%s: %w", f.path, err)
	}
	return s, nil
}

// save replaces the file: a crash leaves the old one or the new one.
func (f *file) save(s state) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".") // with mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(b, '\n'))
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
