package platform

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"melmastoon.ghasi.io/bff/handoff"
)

// Secrets are what a deployment has in its secret manager.
type Secrets struct {
	Pepper             string          `json:"pepper"`
	InternalToken      string          `json:"internalToken"`
	InternalHMACKey    string          `json:"internalHmacKey"`
	ConsumerPassword   string          `json:"consumerPassword"`
	BackofficePassword string          `json:"backofficePassword"`
	JobsPassword       string          `json:"jobsPassword"`
	NonceKey           string          `json:"nonceKey"`
	SyncKey            string          `json:"syncKey"`
	AuditKey           string          `json:"auditKey"`
	HandoffKeys        json.RawMessage `json:"handoffKeys"`
	CardKeys           json.RawMessage `json:"cardKeys"`
}

// NewSecrets makes fresh ones.
func NewSecrets(now time.Time) (Secrets, error) {
	key := func() string { return rand.Text() + rand.Text() } // as deployments want them
	s := Secrets{
		Pepper: key(), InternalToken: rand.Text(), InternalHMACKey: key(),
		ConsumerPassword: rand.Text(), BackofficePassword: rand.Text(), JobsPassword: rand.Text(), NonceKey: key(), SyncKey: key(),
	}
	seed := make([]byte, 32)
	_, _ = rand.Read(seed) // never fails
	s.AuditKey = "audit-" + now.UTC().Format("2006-01") + ":" + base64.StdEncoding.EncodeToString(seed)
	var errs [2]error
	s.HandoffKeys, errs[0] = newKeys("hmac", now)
	s.CardKeys, errs[1] = newKeys("card", now)
	return s, errors.Join(errs[:]...)
}

// newKeys makes a keyring with one key.
func newKeys(kind string, now time.Time) (json.RawMessage, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	set, err := handoff.NewKeySet(kind+"-"+now.UTC().Format("2006-01"), secret, now)
	if err != nil {
		return nil, fmt.Errorf("make %s keys: %w", kind, err)
	}
	return set.EncodeFile()
}

// LoadSecrets reads a file that only its owner can read, and writes it the
// first time, or when a version before left something out: cookies and hand-offs
// survive a restart.
func LoadSecrets(path string, now time.Time) (Secrets, error) {
	s, err := NewSecrets(now)
	if err != nil {
		return s, err
	}
	b, err := os.ReadFile(path) //nolint:gosec // in the caller's own directory
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return s, err
	default:
		if err := json.Unmarshal(b, &s); err != nil {
			return s, fmt.Errorf("%s: %w", path, err)
		}
	}
	complete, err := json.Marshal(s)
	if err != nil || bytes.Equal(b, complete) {
		return s, err
	}
	return s, os.WriteFile(path, complete, 0o600)
}
