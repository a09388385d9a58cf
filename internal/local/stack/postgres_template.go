package stack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// templatePrefix marks clusters that throw-away servers are copied from.
	templatePrefix = "melmastoon-initdb-"
	// templateLife is less than what cleaners of temporary directories leave alone:
	// they remove single files, and a cluster without one is broken.
	templateLife = 24 * time.Hour
)

// fill makes a cluster in an empty directory. That of a throw-away server is a copy of
// one that initdb made for an earlier server, which takes a tenth of initdb's time.
func (p *Postgres) fill(ctx context.Context, into string) error {
	if c := p.cfg.Copy; c != nil {
		args := c.Command(into)
		return p.Run(ctx, args[0], args[1:]...)
	}
	cp, err := exec.LookPath("cp")
	if err != nil || p.cfg.DataDir != "" {
		return p.initdb(ctx, into)
	}
	template, err := p.template(ctx)
	if err != nil {
		return err
	}
	if out, err := p.runAsServer(ctx, into, cp, "-Rp", template+"/.", into); err != nil {
		return fmt.Errorf("copy cluster: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// template returns a cluster that no server ever runs on, and makes it where there is
// none of these programs, this account and this day.
func (p *Postgres) template(ctx context.Context) (string, error) {
	day := time.Now().UTC().Truncate(templateLife).Unix()
	key := sha256.Sum256([]byte(strings.Join(append(p.initdbArgs(), p.bin, strconv.Itoa(p.as.uid), strconv.FormatInt(day, 10)), "\n")))
	path := filepath.Join(filepath.Dir(p.dir.path), templatePrefix+hex.EncodeToString(key[:8]))
	if p.owns(path) {
		return path, nil
	}
	p.removeOldTemplates()
	// In the directory of this process first: what has the template's name is whole.
	made, err := p.dir.sub("template", p.as)
	if err != nil {
		return "", err
	}
	if err := p.initdb(ctx, made); err != nil {
		return "", err
	}
	if os.Rename(made, path) == nil {
		return path, nil
	}
	return made, nil // another process was quicker, or another account has the name
}

// owns reports whether the directory belongs to the server's account and is closed to
// all others: in a shared temporary directory any user can make one of that name.
func (p *Postgres) owns(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == p.as.uid
}

func (p *Postgres) removeOldTemplates() {
	paths, _ := filepath.Glob(filepath.Join(filepath.Dir(p.dir.path), templatePrefix+"*"))
	for _, path := range paths {
		// A copy may be under way for a while after the day has ended.
		if info, err := os.Lstat(path); err == nil && p.owns(path) && time.Since(info.ModTime()) > 2*templateLife {
			_ = os.RemoveAll(path) // another process's, perhaps
		}
	}
}
