package stack

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the operating-system user that a server runs as: ourselves, or,
// for root, an account with fewer rights (Postgres refuses to run as root).
type account struct {
	uid, gid int
	drop     bool // root steps down to uid and gid
}

// serverAccount picks the first of the named users when we are root.
func serverAccount(names ...string) (account, error) {
	if uid := os.Geteuid(); uid != 0 {
		return account{uid: uid, gid: os.Getegid()}, nil
	}
	var errs []error
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return accountOf(u)
	}
	return account{}, fmt.Errorf("find an unprivileged user to run as: %w", errors.Join(errs...))
}

func accountOf(u *user.User) (account, error) {
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2); err != nil {
		return account{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	return account{uid: uid, gid: gid, drop: uid != os.Geteuid()}, nil
}

// ownerAccount is the account that an existing cluster belongs to: only its
// owner may run it, whichever account a new one would have.
func ownerAccount(path string) (account, error) {
	info, err := os.Stat(path)
	if err != nil {
		return account{}, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return account{}, fmt.Errorf("%s: owner unknown", path)
	}
	a := account{uid: int(stat.Uid), gid: int(stat.Gid), drop: int(stat.Uid) != os.Geteuid()}
	switch {
	case a.uid == 0:
		return a, fmt.Errorf("%s belongs to root, as whom Postgres does not run", path)
	case a.drop && os.Geteuid() != 0:
		return a, fmt.Errorf("%s belongs to user %d: start as that user or as root, or choose another data directory", path, a.uid)
	}
	return a, nil
}

// credential is nil where nothing changes.
func (a account) credential() *syscall.Credential {
	if !a.drop {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)} //nolint:gosec // ids come from the system
}

// own gives a file to the account.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// reaches fails when the account could not pass through a directory or one of
// its parents: a 0700 home of root is the usual case.
func (a account) reaches(path string) error {
	if !a.drop {
		return nil
	}
	for p := path; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			bit := os.FileMode(0o001)
			switch {
			case int(stat.Uid) == a.uid:
				bit = 0o100
			case int(stat.Gid) == a.gid:
				bit = 0o010
			}
			if info.Mode().Perm()&bit == 0 {
				return fmt.Errorf("user %d, as whom the server runs, cannot enter %s (mode %#o)", a.uid, p, info.Mode().Perm())
			}
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}
