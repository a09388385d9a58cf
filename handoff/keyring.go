package handoff

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	bff "melmastoon.ghasi.io/bff"
)

const (
	minSecret = 32 // as long as the MAC: fewer bytes would be the weaker part
	maxSecret = 256
	maxKeys   = 32
)

// Keyring holds the keys in use. It is safe for concurrent use; a replaced set
// counts from the next token on. The zero Keyring refuses everything.
type Keyring struct{ set atomic.Pointer[KeySet] }

// NewKeyring returns a ring over a set.
func NewKeyring(s *KeySet) *Keyring {
	r := new(Keyring)
	r.Replace(s)
	return r
}

// Replace swaps the whole set. It asks nothing about the set before: a revoked
// key must be gone at once. The care against losing living tokens is in the
// functions that make a set from another.
func (r *Keyring) Replace(s *KeySet) { r.set.Store(s) }

// KeySet returns the set in use; nil while there is none.
func (r *Keyring) KeySet() *KeySet { return r.set.Load() }

// KeySet is an immutable set of keys of which exactly one is active. Its
// methods return changed copies.
type KeySet struct{ keys []Key }

// NewKeySet returns a set with one active key.
func NewKeySet(id string, secret []byte, now time.Time) (*KeySet, error) {
	return newKeySet([]Key{{id: id, state: Active, activatedAt: bff.At(now).Time, secret: newSecret(bytes.Clone(secret))}})
}

// newKeySet checks everything that a set promises and reports all that is wrong.
func newKeySet(keys []Key) (*KeySet, error) {
	var errs []error
	var active []Key
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("keyring: more than %d keys", maxKeys)
	}
	for i, k := range keys {
		bad := func(what string) { errs = append(errs, fmt.Errorf("keyring: key %d: %s", i+1, what)) }
		if !validKeyID(k.id) {
			bad("id must be 1 to 32 of a-z, 0-9 and -")
		}
		switch k.state {
		case Pending, Active, Grace:
			if n := len(k.secret.get()); n < minSecret || n > maxSecret {
				bad(fmt.Sprintf("secret must be %d to %d bytes", minSecret, maxSecret))
			}
		case Retired:
			if k.secret != nil {
				bad("a retired key has no secret")
			}
		default:
			bad("state must be pending, active, grace or retired")
		}
		if (k.state == Pending) != k.activatedAt.IsZero() {
			bad("activatedAt must be set for every key that has been active, and for no other")
		}
		if k.state == Active {
			active = append(active, k)
		}
		for _, other := range keys[:i] {
			if other.id == k.id {
				bad("id is used twice")
			}
			if mine := k.secret.get(); len(mine) > 0 && bytes.Equal(mine, other.secret.get()) {
				// A rotation to the same secret rotates nothing.
				bad("secret is used twice")
			}
		}
	}
	if len(active) != 1 {
		errs = append(errs, fmt.Errorf("keyring: %d active keys, want exactly 1", len(active)))
	}
	for i, k := range keys {
		if len(active) == 1 && (k.state == Grace || k.state == Retired) && !k.activatedAt.Before(active[0].activatedAt) {
			errs = append(errs, fmt.Errorf("keyring: key %d: activatedAt must be before the active key's", i+1))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &KeySet{keys: keys}, nil
}

// Keys lists the keys.
func (s *KeySet) Keys() []Key {
	if s == nil {
		return nil
	}
	return slices.Clone(s.keys)
}

func (s *KeySet) active() *Key {
	if s == nil {
		return nil
	}
	for i := range s.keys {
		if s.keys[i].state == Active {
			return &s.keys[i]
		}
	}
	return nil
}

// verifying returns the key with the id if it may verify. Key ids are public:
// looking one up needs no constant time.
func (s *KeySet) verifying(id []byte) *Key {
	if s == nil {
		return nil
	}
	for i := range s.keys {
		if k := &s.keys[i]; k.id == string(id) && (k.state == Active || k.state == Grace) {
			return k
		}
	}
	return nil
}

// Add returns the set with a new pending key.
func (s *KeySet) Add(id string, secret []byte) (*KeySet, error) {
	return newKeySet(append(s.Keys(), Key{id: id, state: Pending, secret: newSecret(bytes.Clone(secret))}))
}

// Promote returns the set with the pending key active from now on and the
// active key in grace.
func (s *KeySet) Promote(id string, now time.Time) (*KeySet, error) {
	keys, i, err := s.find(id)
	if err != nil {
		return nil, fmt.Errorf("promote key: %w", err)
	}
	if keys[i].state != Pending {
		return nil, fmt.Errorf("promote key: %s is not pending", keys[i])
	}
	for j := range keys {
		if keys[j].state == Active {
			keys[j].state = Grace
		}
	}
	keys[i].state, keys[i].activatedAt = Active, bff.At(now).Time // as exact as the file keeps it
	return newKeySet(keys)
}

// Retire returns the set without the secret of a key in grace. It is refused
// until the key's successor has been active for a token's whole life: before,
// the key's last tokens may still be on their way.
func (s *KeySet) Retire(id string, now time.Time) (*KeySet, error) {
	return s.RetireAfter(id, Lifetime, now)
}

// RetireAfter is Retire for a set whose keys sign something that lives for another
// time than a token.
func (s *KeySet) RetireAfter(id string, life time.Duration, now time.Time) (*KeySet, error) {
	keys, i, err := s.find(id)
	if err != nil {
		return nil, fmt.Errorf("retire key: %w", err)
	}
	if keys[i].state != Grace {
		return nil, fmt.Errorf("retire key: %s is not in grace", keys[i])
	}
	var succeeded time.Time
	for _, k := range keys {
		if k.activatedAt.After(keys[i].activatedAt) && (succeeded.IsZero() || k.activatedAt.Before(succeeded)) {
			succeeded = k.activatedAt
		}
	}
	if now.Sub(succeeded) < life {
		return nil, fmt.Errorf("retire key: %s may still have living tokens until %s", keys[i], succeeded.Add(life).UTC().Format(time.RFC3339))
	}
	return retire(keys, i)
}

// Revoke returns the set without the secret of a key that leaked, at once and
// at the price of the tokens that it signed. An active key is revoked after
// another was promoted.
func (s *KeySet) Revoke(id string) (*KeySet, error) {
	keys, i, err := s.find(id)
	if err != nil {
		return nil, fmt.Errorf("revoke key: %w", err)
	}
	if keys[i].state == Active {
		return nil, fmt.Errorf("revoke key: %s: promote another key first", keys[i])
	}
	if keys[i].state == Pending { // it never signed: there is nothing to remember
		return newKeySet(slices.Delete(keys, i, i+1))
	}
	return retire(keys, i)
}

func retire(keys []Key, i int) (*KeySet, error) {
	keys[i].state, keys[i].secret = Retired, nil
	return newKeySet(keys)
}

// find returns a copy of the keys and the place of one of them.
func (s *KeySet) find(id string) ([]Key, int, error) {
	keys := s.Keys()
	i := slices.IndexFunc(keys, func(k Key) bool { return k.id == id })
	if i < 0 {
		return nil, 0, errors.New("no such key")
	}
	return keys, i, nil
}

// String lists ids and states.
func (s *KeySet) String() string {
	names := make([]string, 0, maxKeys)
	for _, k := range s.Keys() {
		names = append(names, k.String())
	}
	return "keyring [" + strings.Join(names, ", ") + "]"
}

// Format writes String for every verb.
func (s *KeySet) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue lists ids and states.
func (s *KeySet) LogValue() slog.Value { return slog.StringValue(s.String()) }
