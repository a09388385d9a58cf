package handoff

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	bff "melmastoon.ghasi.io/bff"
)

// maxKeyFile bounds what is read as a keyring file.
const maxKeyFile = 64 << 10

// keyFile is a keyring as it lies in a secret store:
//
//	{"keys":[{"id":"hmac-2026-04","state":"active","secret":"<base64>","activatedAt":"2026-04-01T00:00:00.000Z"}]}
type keyFile struct {
	Keys []keyEntry `json:"keys"`
}

type keyEntry struct {
	ID          string        `json:"id"`
	State       State         `json:"state"`
	Secret      string        `json:"secret,omitempty"`
	ActivatedAt bff.Timestamp `json:"activatedAt,omitzero"`
}

// ParseKeySet reads a keyring file. Its errors never quote the file: what
// stands in the wrong place may be a secret.
func ParseKeySet(file []byte) (*KeySet, error) {
	if len(file) > maxKeyFile {
		return nil, errors.New("keyring file: too large")
	}
	var f keyFile
	dec := json.NewDecoder(bytes.NewReader(file))
	dec.DisallowUnknownFields() // a misspelt field is a key in another state than its owner thinks
	if dec.Decode(&f) != nil {
		return nil, errors.New("keyring file: want {\"keys\":[{\"id\",\"state\",\"secret\",\"activatedAt\"}]}")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("keyring file: data after the keyring")
	}
	var errs []error
	keys := make([]Key, 0, min(len(f.Keys), maxKeys+1))
	for i, e := range f.Keys {
		if i > maxKeys {
			break // newKeySet refuses so many
		}
		k := Key{id: e.ID, state: e.State, activatedAt: bff.At(e.ActivatedAt.Time).Time}
		if e.Secret != "" && e.State != Retired {
			b, err := base64.StdEncoding.Strict().DecodeString(e.Secret)
			if err != nil {
				errs = append(errs, fmt.Errorf("keyring file: key %d: secret is not base64", i+1))
			}
			k.secret = newSecret(b)
		}
		keys = append(keys, k)
	}
	set, err := newKeySet(keys)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return set, nil
}

// EncodeFile writes the set, secrets included, as ParseKeySet reads it. It has
// a name of its own, and not MarshalJSON, so that no logger can call it.
func (s *KeySet) EncodeFile() ([]byte, error) {
	f := keyFile{Keys: []keyEntry{}}
	for _, k := range s.Keys() {
		e := keyEntry{ID: k.id, State: k.state, Secret: base64.StdEncoding.EncodeToString(k.secret.get())}
		if !k.activatedAt.IsZero() {
			e.ActivatedAt = bff.At(k.activatedAt)
		}
		f.Keys = append(f.Keys, e)
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode keyring: %w", err)
	}
	return append(b, '\n'), nil
}
