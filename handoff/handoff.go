package handoff

import (
	"errors"
	"time"

	bff "melmastoon.ghasi.io/bff"
)

// MaxSkew is how far ahead of the verifier's clock a token may have been
// minted.
const MaxSkew = time.Minute

// Causes of a refusal, for the log. A client sees one code for all but expiry:
// telling a forger which check failed would only help the forger.
var (
	ErrUnknownKey = errors.New("key is neither active nor in grace")
	ErrSignature  = errors.New("signature does not match")
	ErrFuture     = errors.New("minted in the future")
	ErrExpired    = errors.New("token has expired")

	// ErrNoKey is the cause when there is no active key to mint with.
	ErrNoKey = errors.New("no active key")
)

// Mint signs the claims with the ring's active key. It returns the token and
// everything that the token says.
func Mint(ring *Keyring, c Claims, now time.Time) (string, Payload, error) {
	if err := c.Validate().Err(); err != nil {
		return "", Payload{}, err
	}
	minted := bff.At(now)
	if !validMinted(minted.UnixMilli()) {
		return "", Payload{}, bff.Wrap(bff.CodeInternal, errors.New("mint handoff: the clock is outside the years of a token"))
	}
	key := ring.KeySet().active()
	if key == nil {
		return "", Payload{}, bff.Wrap(bff.CodeServiceUnavailable, ErrNoKey)
	}
	p := Payload{
		Claims:    c,
		MintedAt:  minted,
		ExpiresAt: bff.Timestamp{Time: minted.Add(Lifetime)},
		KeyID:     key.id,
	}
	s := key.secret.signer()
	defer key.secret.release(s)
	return s.seal(&p), p, nil
}

// Verify returns what a genuine, living token says. Every error is a
// *bff.Error: CodeHandoffExpired for a genuine token past its time, else
// CodeHandoffSignatureInvalid. It does not know whether the token was already
// used: only the ledger does.
func Verify(ring *Keyring, token string, now time.Time) (Payload, error) {
	var t decoded
	if err := t.decode(token); err != nil {
		return Payload{}, refuse(err)
	}
	key := ring.KeySet().verifying(t.keyID())
	if key == nil {
		return Payload{}, refuse(ErrUnknownKey)
	}
	t.payload.KeyID = key.id
	s := key.secret.signer()
	genuine := s.check(&t.payload, t.mac())
	key.secret.release(s)
	// Time is looked at last: a token that we did not sign does not tell
	// whether it would still be alive.
	switch {
	case !genuine:
		return Payload{}, refuse(ErrSignature)
	case t.payload.MintedAt.Sub(now) > MaxSkew:
		return Payload{}, refuse(ErrFuture)
	case now.After(t.payload.ExpiresAt.Time):
		return Payload{}, &bff.Error{Code: bff.CodeHandoffExpired, Detail: "the hand-off token has expired", Err: ErrExpired}
	}
	return t.payload, nil
}

// Inspect returns what a token says without asking whether it is genuine: for
// support tools and tests. Nothing may be decided on its answer.
func Inspect(token string) (Payload, error) {
	var t decoded
	if err := t.decode(token); err != nil {
		return Payload{}, refuse(err)
	}
	t.payload.KeyID = string(t.keyID())
	return t.payload, nil
}

func refuse(cause error) error {
	return &bff.Error{Code: bff.CodeHandoffSignatureInvalid, Detail: "the hand-off token is not genuine", Err: cause}
}
