// Package secrets reads secrets from where they lie and notices when they
// change, so that a key can be rotated without a restart. It knows bytes and
// not what they mean, and never writes one to a log.
package secrets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Source is where a secret lies.
type Source interface {
	// Load returns the secret as it is now.
	Load(ctx context.Context) ([]byte, error)
	// String says where that is; never what.
	String() string
}

// maxSecret bounds what is read as a secret.
const maxSecret = 1 << 20

// Static is a secret that was given at start and does not change.
func Static(name string, value []byte) Source { return static{name, value} }

type static struct {
	name  string
	value []byte
}

func (s static) Load(context.Context) ([]byte, error) { return s.value, nil }
func (s static) String() string                       { return s.name }

// File is a secret in a file, such as one that an orchestrator mounts and
// replaces.
type File string

// Load reads the file.
func (f File) Load(context.Context) ([]byte, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	if len(b) > maxSecret {
		return nil, errors.New("read secret: the file is too large")
	}
	return b, nil
}

func (f File) String() string { return string(f) }

// Config says what a Watcher watches.
type Config struct {
	Source Source
	// Apply puts a secret to use. After an error the previous one
	// stays in use.
	Apply func(secret []byte) error
	// Every is how often the source is looked at.
	Every time.Duration
	// MinInterval is the least time between two reads that Refresh causes.
	MinInterval time.Duration
	Log         *slog.Logger
	Now         func() time.Time
}

// Watcher keeps a secret up to date.
type Watcher struct {
	cfg Config

	mu     sync.Mutex
	last   [sha256.Size]byte // of what was seen last, used or refused
	looked time.Time
}

// Watch loads and applies a secret; without a usable one it fails.
func Watch(ctx context.Context, cfg Config) (*Watcher, error) {
	w := &Watcher{cfg: cfg, looked: cfg.Now()}
	secret, err := cfg.Source.Load(ctx)
	if err != nil {
		return nil, err
	}
	w.last = sha256.Sum256(secret)
	if err := cfg.Apply(bytes.Clone(secret)); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Source, err)
	}
	return w, nil
}

// Run looks at the source again and again until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	tick := time.NewTicker(w.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.look(ctx, 0)
		}
	}
}

// Refresh reads the source at once, for a caller that met a key newer than ours.
// It reports whether something changed.
func (w *Watcher) Refresh(ctx context.Context) bool { return w.look(ctx, w.cfg.MinInterval) }

// loadTimeout caps one look.
const loadTimeout = 2 * time.Second

func (w *Watcher) look(ctx context.Context, minInterval time.Duration) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.cfg.Now()
	if now.Sub(w.looked) < minInterval {
		return false
	}
	w.looked = now
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	secret, err := w.cfg.Source.Load(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.cfg.Log.WarnContext(ctx, "secret could not be read; the previous one stays in use", "source", w.cfg.Source.String(), "error", err.Error())
		}
		return false
	}
	sum := sha256.Sum256(secret)
	if sum == w.last {
		return false
	}
	w.last = sum // a broken one is reported once
	if err := w.cfg.Apply(bytes.Clone(secret)); err != nil {
		w.cfg.Log.ErrorContext(ctx, "new secret is invalid; the previous one stays in use", "source", w.cfg.Source.String(), "error", err.Error())
		return false
	}
	w.cfg.Log.InfoContext(ctx, "secret replaced", "source", w.cfg.Source.String())
	return true
}
