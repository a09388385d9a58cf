package platform

import (
	"crypto/rand"
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
	HandoffKeys        json.RawMessage `json:"handoffKeys"`
}

// NewSecrets makes fresh ones.
func NewSecrets(now time.Time) (Secrets, error) {
	s := Secrets{
		Pepper: rand.Text(), InternalToken: rand.Text(), InternalHMACKey: rand.Text(),
		ConsumerPassword: rand.Text(), BackofficePassword: rand.Text(), JobsPassword: rand.Text(),
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	set, err := handoff.NewKeySet("hmac-"+now.UTC().Format("2006-01"), secret, now)
	if err != nil {
		return s, fmt.Errorf("make hand-off keys: %w", err)
	}
	s.HandoffKeys, err = set.EncodeFile()
	return s, err
}

// LoadSecrets reads a file that only its owner can read, and writes it the
// first time: cookies and hand-offs survive a restart.
func LoadSecrets(path string, now time.Time) (Secrets, error) {
	var s Secrets
	b, err := os.ReadFile(path) //nolint:gosec // in the caller's own directory
	if err == nil {
		if err := json.Unmarshal(b, &s); err != nil {
			return s, fmt.Errorf("%s: %w", path, err)
		}
		return s, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return s, err
	}
	if s, err = NewSecrets(now); err != nil {
		return s, err
	}
	if b, err = json.Marshal(s); err != nil {
		return s, err
	}
	return s, os.WriteFile(path, b, 0o600)
}
