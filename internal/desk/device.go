package desk

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"

	"melmastoon.ghasi.io/bff"
)

// Algorithm is what a device signs its proofs with.
type Algorithm string

// The algorithms that the staff service accepts.
const (
	EdDSA Algorithm = "EdDSA"
	ES256 Algorithm = "ES256"
)

// Device is a hotel computer: its id and the key that never leaves it.
type Device struct {
	id         string
	alg        Algorithm
	key        jwk.Key
	public     jwk.Key
	thumbprint string
}

// NewDevice makes a device with a fresh id and key.
func NewDevice(alg Algorithm, now time.Time) (*Device, error) {
	var (
		raw any
		err error
	)
	switch alg {
	case EdDSA:
		_, raw, err = ed25519.GenerateKey(rand.Reader)
	case ES256:
		raw, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	default:
		return nil, fmt.Errorf("device key: %q is neither %s nor %s", alg, EdDSA, ES256)
	}
	if err != nil {
		return nil, fmt.Errorf("make device key: %w", err)
	}
	key, err := jwk.Import(raw)
	if err != nil {
		return nil, fmt.Errorf("import device key: %w", err)
	}
	return newDevice(bff.NewID(bff.PrefixDevice, now).String(), alg, key)
}

func newDevice(id string, alg Algorithm, key jwk.Key) (*Device, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("public part of device key: %w", err)
	}
	sum, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("thumbprint of device key: %w", err)
	}
	return &Device{id: id, alg: alg, key: key, public: public, thumbprint: base64.RawURLEncoding.EncodeToString(sum)}, nil
}

// ID is dev_<ULID>.
func (d *Device) ID() string { return d.id }

// Thumbprint is the key's RFC 7638 thumbprint, which tokens carry as cnf.jkt.
func (d *Device) Thumbprint() string { return d.thumbprint }

// PublicJWK returns the public half of the key.
func (d *Device) PublicJWK() (json.RawMessage, error) { return json.Marshal(d.public) }

// Proof is what a device signs for one request (RFC 9449 §4.2).
type Proof struct {
	Method      string
	URL         string    // query and fragment are cut off
	AccessToken string    // hashed into ath; empty at sign-in and refresh, which send none
	Nonce       string    // the server's, where it gave one
	ID          string    // jti; empty means a fresh one
	At          time.Time // by the device's own clock
}

// Prove signs a proof, to be sent as the header DPoP.
func (d *Device) Prove(p Proof) (string, error) {
	u, err := url.Parse(p.URL)
	if err != nil {
		return "", fmt.Errorf("prove possession: %w", err)
	}
	u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = "", false, "", ""
	claims := map[string]any{"htm": p.Method, "htu": u.String(), "iat": p.At.Unix(), "jti": p.ID}
	if p.ID == "" {
		claims["jti"] = rand.Text()
	}
	if p.AccessToken != "" {
		sum := sha256.Sum256([]byte(p.AccessToken))
		claims["ath"] = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if p.Nonce != "" {
		claims["nonce"] = p.Nonce
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("prove possession: %w", err)
	}
	header := jws.NewHeaders()
	if err := errors.Join(header.Set(jws.TypeKey, "dpop+jwt"), header.Set(jws.JWKKey, d.public)); err != nil {
		return "", fmt.Errorf("prove possession: %w", err)
	}
	signed, err := jws.Sign(payload, jws.WithKey(d.algorithm(), d.key, jws.WithProtectedHeaders(header)))
	if err != nil {
		return "", fmt.Errorf("prove possession: %w", err)
	}
	return string(signed), nil
}

func (d *Device) algorithm() jwa.SignatureAlgorithm {
	if d.alg == ES256 {
		return jwa.ES256()
	}
	return jwa.EdDSA()
}

// deviceFile is a device on disk; the key is the private one.
type deviceFile struct {
	ID        string          `json:"id"`
	Algorithm Algorithm       `json:"algorithm"`
	Key       json.RawMessage `json:"key"`
}

// MarshalJSON writes the device with its private key: only for a file that its
// owner alone can read.
func (d *Device) MarshalJSON() ([]byte, error) {
	key, err := json.Marshal(d.key)
	if err != nil {
		return nil, err
	}
	return json.Marshal(deviceFile{d.id, d.alg, key})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Device) UnmarshalJSON(b []byte) error {
	var f deviceFile
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if _, err := bff.ParseID(bff.PrefixDevice, f.ID); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	key, err := jwk.ParseKey(f.Key)
	if err != nil {
		return fmt.Errorf("device key: %w", err)
	}
	if private, err := jwk.IsPrivateKey(key); err != nil || !private {
		return errors.New("device key: not a private key")
	}
	read, err := newDevice(f.ID, f.Algorithm, key)
	if err != nil {
		return err
	}
	*d = *read
	return nil
}
