package sim

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"melmastoon.ghasi.io/bff"
)

// keyOverlap is how long a replaced key stays published: every token that it
// signed has ended by then, wherever a copy of the old keys is held for another
// five minutes.
const keyOverlap = accessLife + 5*time.Minute

// keyring is what iam signs access tokens with. Its keys follow from the seed,
// so that tokens outlive a restart of the simulator.
type keyring struct {
	seed uint64

	mu   sync.Mutex
	keys []signingKey // the last one signs
}

type signingKey struct {
	jwk.Key

	alg     jwa.SignatureAlgorithm
	retired time.Time // when the next key took over
}

func newKeyring(seed uint64) (*keyring, error) {
	r := &keyring{seed: seed}
	return r, r.rotate(jwa.EdDSA(), time.Time{})
}

// rotate lets a new key sign from now on.
func (r *keyring) rotate(alg jwa.SignatureAlgorithm, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.keys)
	key, err := deriveKey(r.seed, n, alg)
	if err != nil {
		return err
	}
	if n > 0 {
		r.keys[n-1].retired = now
	}
	r.keys = append(r.keys, signingKey{Key: key, alg: alg})
	return nil
}

// drop stops publishing every key but the one that signs, as after a leak.
func (r *keyring) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.keys[:len(r.keys)-1] {
		r.keys[i].retired = time.Time{}
	}
}

// published returns the keys with which a token may be verified now.
func (r *keyring) published(now time.Time) (jwk.Set, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := jwk.NewSet()
	for i, k := range r.keys {
		if i < len(r.keys)-1 && now.Sub(k.retired) > keyOverlap {
			continue
		}
		public, err := k.PublicKey()
		if err == nil {
			err = set.AddKey(public)
		}
		if err != nil {
			return nil, fmt.Errorf("publish signing key: %w", err)
		}
	}
	return set, nil
}

func (r *keyring) sign(t jwt.Token) (string, error) {
	r.mu.Lock()
	k := r.keys[len(r.keys)-1]
	r.mu.Unlock()
	signed, err := jwt.Sign(t, jwt.WithKey(k.alg, k.Key))
	if err != nil {
		return "", fmt.Errorf("sign access token: %w", err)
	}
	return string(signed), nil
}

// deriveKey makes the nth key of a seed.
func deriveKey(seed uint64, n int, alg jwa.SignatureAlgorithm) (jwk.Key, error) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], seed)
	binary.BigEndian.PutUint64(b[8:], uint64(n)) //nolint:gosec // a count
	sum := sha256.Sum256(append([]byte("sim iam signing key "), b[:]...))
	var private any = ed25519.NewKeyFromSeed(sum[:])
	if alg == jwa.ES256() {
		sum[0] &= 0x7f // below the order of the curve, whatever the seed
		p256, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), sum[:])
		if err != nil {
			return nil, fmt.Errorf("derive signing key: %w", err)
		}
		private = p256
	}
	key, err := jwk.Import(private)
	if err != nil {
		return nil, fmt.Errorf("import signing key: %w", err)
	}
	thumb, err := key.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("name signing key: %w", err)
	}
	err = errors.Join(
		key.Set(jwk.KeyIDKey, "sim-"+base64.RawURLEncoding.EncodeToString(thumb)[:12]),
		key.Set(jwk.AlgorithmKey, alg), key.Set(jwk.KeyUsageKey, "sig"))
	if err != nil {
		return nil, fmt.Errorf("describe signing key: %w", err)
	}
	return key, nil
}

// RotateKeys lets iam sign with a new key, EdDSA or ES256. The old ones stay
// published until their last token has ended; dropOld takes them away at once,
// as after a leak.
func (s *Sim) RotateKeys(alg string, dropOld bool) error {
	known := map[string]jwa.SignatureAlgorithm{"": jwa.EdDSA(), "EdDSA": jwa.EdDSA(), "ES256": jwa.ES256()}
	a, ok := known[alg]
	if !ok {
		return refused(bff.FieldErrors{{Field: "alg", Code: bff.FieldUnsupported}})
	}
	if err := s.iam.keys.rotate(a, s.cfg.Now()); err != nil {
		return err
	}
	if dropOld {
		s.iam.keys.drop()
	}
	return nil
}
