package backoffice

import "context"

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
	SignOut(ctx context.Context, s *Session) error
	// StepUp verifies a second factor.
	StepUp(ctx context.Context, s *Session, use Use, code string) error
}
