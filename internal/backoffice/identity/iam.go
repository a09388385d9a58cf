package identity

import (
	"context"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// Tokens are what iam gives to a device.
type Tokens struct {
	AccessToken  string `json:"accessToken"`
	RefreshToken string `json:"refreshToken"`
	ExpiresIn    int    `json:"expiresIn"` // seconds
}

// IAM signs operators in; it is not asked on the way of ordinary requests.
type IAM interface {
	// Refresh spends a refresh token. The retry key lets a client that lost the answer
	// get it again; it may be empty.
	Refresh(ctx context.Context, h *Holder, refreshToken, retryKey string) (Tokens, error)
	// SignOut ends the refresh tokens of an operator at a device.
	SignOut(ctx context.Context, s *backoffice.Session) error
	// StepUp verifies a second factor.
	StepUp(ctx context.Context, s *backoffice.Session, use backoffice.Use, code string) error
}

// Needs is what a route demands of its caller, beyond being an operator with a
// session.
type Needs struct {
	// Proof alone: the caller has no access token, as at a refresh.
	ProofOnly bool
	// Roles of which the caller has at least one; empty = every operator.
	Roles []backoffice.Role
	// Property: the request names a property, which is in the caller's scope.
	Property bool
	// OwnProperty: the query may name a property, which is then in the caller's scope.
	// The header X-Property-Id says where the device stands, and is not asked.
	OwnProperty bool
}

// Holder is a caller that has proved to hold a key, and no more: at a refresh the
// access token may be gone.
type Holder struct {
	Device   bff.ID
	KeyPrint string
	Proof    string // as it was sent, for iam to see
	// Vouched charges the request to the device's limit: iam has said whose it is.
	Vouched func(ctx context.Context, tenant string)
}
