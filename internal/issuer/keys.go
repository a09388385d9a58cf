// Package issuer trusts another service's signatures: it keeps a copy of an
// issuer's published keys and verifies the tokens that it signs. It knows neither
// the claims that a service reads nor what follows from them.
package issuer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwk"
)

const (
	keysFresh   = 5 * time.Minute // how long fetched keys are used without asking
	keysPause   = 5 * time.Second // between two fetches: a forged key id must not cause a flood
	keysTimeout = 2 * time.Second
	maxKeys     = 256 << 10 // bytes
)

// Keys is a copy of the public keys of an issuer (RFC 7517).
type Keys struct {
	URL    string // where the issuer publishes them
	Client *http.Client

	mu       sync.Mutex
	set      *KeySet
	raw      []byte
	asked    time.Time     // when the keys were asked for last, with whatever outcome
	got      time.Time     // when they were had last
	down     bool          // the last fetch has failed
	fetching chan struct{} // closed when the fetch that runs has ended; nil: none runs
}

// KeySet is one state of an issuer's keys. A fetch that brings the same keys again
// leaves it as it is, so that two sets are the same only if they are identical.
type KeySet struct{ jwk.Set }

// ErrNoKeys says that the issuer's keys could not be had yet.
var ErrNoKeys = errors.New("the issuer's keys are not known")

// Current returns the keys. A copy that has become old is refreshed behind the
// answer; one that is twice as old is waited for, because a key that the issuer has
// withdrawn meanwhile must not be trusted. While the issuer does not answer, the old
// keys go on, and only the first caller that finds it so waits for it.
func (k *Keys) Current(ctx context.Context, now time.Time) (*KeySet, error) {
	k.mu.Lock()
	set, age, down := k.set, now.Sub(k.got), k.down
	if set != nil && age < keysFresh {
		k.mu.Unlock()
		return set, nil
	}
	done := k.start(ctx, now)
	k.mu.Unlock()
	if set != nil && (age < 2*keysFresh || down) {
		return set, nil
	}
	return k.await(ctx, done)
}

// Seek has the issuer asked again, in the background, unless it was a moment ago.
func (k *Keys) Seek(ctx context.Context, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.start(ctx, now)
}

// Newer returns the keys after another look at the issuer, for a token whose key is
// not among those already tried. Within a pause after the last look there is none.
func (k *Keys) Newer(ctx context.Context, now time.Time) (*KeySet, error) {
	k.mu.Lock()
	done := k.start(ctx, now)
	k.mu.Unlock()
	return k.await(ctx, done)
}

// start begins a fetch unless one runs or the pause since the last is not over, and
// returns what closes at its end; nil if there is nothing to wait for. One fetch
// serves all callers. The caller holds the lock.
func (k *Keys) start(ctx context.Context, now time.Time) <-chan struct{} {
	if k.fetching == nil {
		if now.Sub(k.asked) < keysPause {
			return nil
		}
		k.fetching, k.asked = make(chan struct{}), now
		go k.refresh(context.WithoutCancel(ctx), k.fetching, now)
	}
	return k.fetching
}

func (k *Keys) await(ctx context.Context, done <-chan struct{}) (*KeySet, error) {
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == nil {
		return nil, ErrNoKeys
	}
	return k.set, nil
}

func (k *Keys) refresh(ctx context.Context, done chan struct{}, now time.Time) {
	raw, set, err := k.fetch(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.down = err != nil; !k.down {
		k.got = now
		if k.set == nil || !bytes.Equal(raw, k.raw) {
			k.raw, k.set = raw, &KeySet{set}
		}
	}
	k.fetching = nil
	close(done)
}

func (k *Keys) fetch(ctx context.Context) ([]byte, jwk.Set, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.URL, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("fetch issuer's keys: %w", err)
	}
	res, err := k.Client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("fetch issuer's keys: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxKeys))
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("fetch issuer's keys: status %d: %w", res.StatusCode, err)
	}
	set, err := jwk.Parse(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("fetch issuer's keys: %w", err)
	}
	return raw, set, nil
}
