package backofficelake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
)

// Directory is a bucket on a disk. Its names can not lead out of it.
type Directory struct{ root *os.Root }

var _ Bucket = (*Directory)(nil)

// OpenDirectory opens a directory as a bucket, and makes it if it is not there.
func OpenDirectory(dir string) (*Directory, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Directory{root}, nil
}

// Close implements Bucket.
func (d *Directory) Close() error { return d.root.Close() }

// section is a part of an open file.
type section struct {
	io.Reader
	io.Closer
}

// Read implements Bucket.
func (d *Directory) Read(ctx context.Context, name string, from, length int64) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if length < 0 {
		return f, nil
	}
	return section{io.LimitReader(f, length), f}, nil
}

// Write implements Bucket. The file is on the disk before it has its name: what was exported is pruned from the database.
func (d *Directory) Write(ctx context.Context, name string, content io.Reader, once bool) (err error) {
	part := temporary + rand.Text()
	if err := d.root.MkdirAll(temporary, 0o750); err != nil {
		return err
	}
	f, err := d.root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if gone := d.root.Remove(part); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}()
	_, err = io.Copy(f, content)
	if err = errors.Join(err, f.Sync(), f.Close(), ctx.Err()); err != nil {
		return err
	}
	if err := d.root.MkdirAll(path.Dir(name), 0o750); err != nil {
		return err
	}
	if once {
		err = d.root.Link(part, name) // which fails if the name is taken
	} else {
		err = d.root.Rename(part, name)
	}
	if err != nil {
		return err
	}
	return d.sync(path.Dir(name))
}

// sync puts the names in a directory on the disk, and the directory's own.
func (d *Directory) sync(dir string) error {
	for {
		f, err := d.root.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("sync %s: %w", dir, err)
		}
		if dir == "." {
			return nil
		}
		dir = path.Dir(dir)
	}
}

// Copy implements Bucket.
func (d *Directory) Copy(ctx context.Context, to, from string) error {
	r, err := d.Read(ctx, from, 0, -1)
	if err != nil {
		return err
	}
	return errors.Join(d.Write(ctx, to, r, false), r.Close())
}

// Remove implements Bucket.
func (d *Directory) Remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.root.Remove(name)
}

// List implements Bucket.
func (d *Directory) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		var all []Object
		dir := path.Dir(prefix + "x")
		err := fs.WalkDir(d.root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist): // the directory, or what was removed meanwhile
				return nil
			case err != nil:
				return err
			case e.IsDir() || !strings.HasPrefix(name, prefix):
				return ctx.Err()
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				all = append(all, Object{Name: name, Modified: info.ModTime()})
			}
			return err
		})
		if err != nil {
			yield(Object{}, err)
			return
		}
		slices.SortFunc(all, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}
