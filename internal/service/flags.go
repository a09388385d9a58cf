package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"melmastoon.ghasi.io/bff/internal/flags"
)

// flagsTimeout is how long a start waits for the flags; without them everything has its
// default.
const flagsTimeout = 500 * time.Millisecond

// CheckFlagsFile reports a file of flags that is named and is not there, or cannot be
// read. Neither keeps a service from starting: all flags then have their defaults.
func CheckFlagsFile(path string) []error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return []error{errors.New("flags-file: the file is not there, every flag has its default")}
	}
	if _, err := flags.NewFile(path).Load(context.Background()); err != nil {
		return []error{fmt.Errorf("flags-file: the file cannot be used, every flag has its default: %w", err)}
	}
	return nil
}

// Flags keeps flags of sources fresh, the last of which decides. They are read when a
// source says that it has changed, and every so often (0 = the package's default).
func (p *Process) Flags(every time.Duration, sources ...flags.Source) (*flags.Flags, error) {
	f, err := flags.New(flags.Config{Sources: sources, Every: every, Metrics: p.Metrics, Namespace: p.Namespace, Log: p.Log})
	if err != nil {
		return nil, err
	}
	p.Add("flags", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, flagsTimeout)
		defer cancel()
		if err := f.Refresh(ctx); err != nil {
			p.Log.Warn("flags could not be read at start, using defaults until they can", "error", err.Error())
		}
		return nil
	}, nil)
	p.AddLoop("flags", f.Run)
	return f, nil
}
