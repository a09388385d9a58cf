package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ErrSignedOut means that no operator is signed in on this device, or not any
// more.
var ErrSignedOut = errors.New("not signed in")

// Operator says who signs in: by user name, or by operator and tenant.
type Operator struct {
	Username   string `json:"username,omitempty"`
	OperatorID string `json:"operatorId,omitempty"`
	TenantID   string `json:"tenantId,omitempty"` // needed by an operator who works for several
}

// renewAhead is how long before its end an access token is refreshed.
const renewAhead = 30 * time.Second

// signedIn is a sign-in as a device keeps it.
type signedIn struct {
	Operator

	Platform     string    `json:"platform"` // tokens are of no use elsewhere
	AccessToken  string    `json:"accessToken"`
	RefreshToken string    `json:"refreshToken"`
	Expires      time.Time `json:"expires"` // by the device's own clock
	// RetryKey names the refresh that is under way. It is kept before the request is
	// sent: after a lost answer or a crash iam answers the same key once more.
	RetryKey    string `json:"retryKey,omitempty"`
	LastEventID string `json:"lastEventId,omitempty"`
}

type tokens struct {
	AccessToken  string `json:"accessToken"`
	RefreshToken string `json:"refreshToken"`
	ExpiresIn    int    `json:"expiresIn"`
}

// adopt takes new tokens over.
func (in *signedIn) adopt(t tokens, now time.Time) {
	in.AccessToken, in.RefreshToken, in.RetryKey = t.AccessToken, t.RefreshToken, ""
	in.Expires = now.Add(time.Duration(t.ExpiresIn) * time.Second)
}

// SignIn signs an operator in at iam, in place of the one before.
func (c *Client) SignIn(ctx context.Context, who Operator) error {
	body, err := json.Marshal(struct {
		Operator
		DeviceID string `json:"deviceId"`
	}{who, c.Device().ID()})
	if err != nil {
		return err
	}
	got, err := c.tokens(ctx, message{
		method: http.MethodPost, url: c.cfg.IAMURL + "/api/v1/auth/sign-in",
		header: http.Header{"Content-Type": {"application/json"}}, body: body,
	})
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	in := &signedIn{Operator: who, Platform: c.platform()}
	in.adopt(got, c.cfg.Now())
	return c.update(func(s *state) error { s.SignedIn = in; return nil })
}

// platform tells one staff service and its iam from others.
func (c *Client) platform() string { return c.cfg.BackofficeURL + " " + c.cfg.IAMURL }

// SignedIn returns who is signed in on this device at this platform, and who was
// the last time if it is no one.
func (c *Client) SignedIn() (now bool, last Operator) {
	in := c.look().SignedIn
	if in == nil {
		return false, Operator{}
	}
	return in.AccessToken != "" && in.Platform == c.platform(), in.Operator
}

// AccessToken returns a token that is good for a while, refreshed if need be.
func (c *Client) AccessToken(ctx context.Context) (string, error) {
	in, err := c.signedIn(ctx)
	return in.AccessToken, err
}

func (c *Client) signedIn(ctx context.Context) (signedIn, error) {
	in, err := c.current()
	if err != nil || c.cfg.Now().Add(renewAhead).Before(in.Expires) {
		return in, err
	}
	if err := c.renew(ctx, in.RefreshToken); err != nil {
		return in, err
	}
	return c.current()
}

func (c *Client) current() (signedIn, error) {
	in := c.look().SignedIn
	if in == nil || in.AccessToken == "" || in.Platform != c.platform() {
		return signedIn{}, ErrSignedOut
	}
	return *in, nil
}

// Refresh exchanges the refresh token for new ones.
func (c *Client) Refresh(ctx context.Context) error {
	in, err := c.current()
	if err != nil {
		return err
	}
	return c.renew(ctx, in.RefreshToken)
}

// renew spends a refresh token, unless another call or process has spent it
// meanwhile: a token that is used twice ends the sign-in.
func (c *Client) renew(ctx context.Context, spent string) error {
	err := c.update(func(s *state) error {
		if in := s.SignedIn; in != nil && in.RefreshToken == spent && in.RetryKey == "" {
			next := *in
			next.RetryKey = c.newKey()
			s.SignedIn = &next
		}
		return nil
	})
	if err != nil {
		return err
	}
	var refused error
	err = c.update(func(s *state) error {
		in := s.SignedIn
		switch {
		case in == nil || in.RefreshToken == "":
			return ErrSignedOut
		case in.RefreshToken != spent:
			return nil
		}
		m, err := c.message(Call{Method: http.MethodPost, Path: "/auth/refresh", Body: map[string]string{"refreshToken": spent}, IdempotencyKey: in.RetryKey})
		if err != nil {
			return err
		}
		got, err := c.tokens(ctx, m)
		if lost(err) && ctx.Err() == nil {
			got, err = c.tokens(ctx, m)
		}
		if r, ok := errors.AsType[*Refusal](err); ok && r.Status == http.StatusUnauthorized && !r.wantsNonce() {
			refused = fmt.Errorf("%w any more: %w", ErrSignedOut, err)
			s.SignedIn = &signedIn{Operator: in.Operator}
			return nil
		}
		if err != nil {
			return fmt.Errorf("refresh: %w", err)
		}
		next := *in
		next.adopt(got, c.cfg.Now())
		s.SignedIn = &next
		return nil
	})
	return errors.Join(err, refused)
}

// lost reports whether a request may have been done although its answer is not
// known.
func lost(err error) bool {
	r, refused := errors.AsType[*Refusal](err)
	return err != nil && (!refused || r.Status >= http.StatusInternalServerError)
}

// tokens sends a message that is answered with tokens.
func (c *Client) tokens(ctx context.Context, m message) (t tokens, err error) {
	res, err := c.exchange(ctx, m)
	if err != nil {
		return t, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	if err != nil {
		return t, err
	}
	if res.StatusCode != http.StatusOK {
		return t, readRefusal(res.StatusCode, b)
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return t, err
	}
	if t.AccessToken == "" || t.RefreshToken == "" || t.ExpiresIn <= 0 {
		return t, errors.New("the answer has no tokens")
	}
	return t, nil
}

// SignOut closes the session and forgets the tokens. The device keeps its key.
func (c *Client) SignOut(ctx context.Context) error {
	a, err := c.Do(ctx, http.MethodPost, "/auth/sign-out", nil)
	if err != nil && !errors.Is(err, ErrSignedOut) {
		return err
	}
	if err == nil && a.Status != http.StatusUnauthorized {
		if err := a.Err(); err != nil {
			return fmt.Errorf("sign out: %w", err)
		}
	}
	return c.update(func(s *state) error {
		if s.SignedIn != nil {
			s.SignedIn = &signedIn{Operator: s.SignedIn.Operator}
		}
		return nil
	})
}

// StepUp proves the operator's second factor for a scope, and for one resource
// where one is named. The attestation goes into X-Mfa-Attestation of one request.
func (c *Client) StepUp(ctx context.Context, scope, resourceID, code string) (attestationID string, err error) {
	body := map[string]string{"scope": scope, "code": code}
	if resourceID != "" {
		body["resourceId"] = resourceID
	}
	a, err := c.Do(ctx, http.MethodPost, "/auth/mfa/step-up", body)
	if err != nil {
		return "", err
	}
	var out struct{ AttestationID string }
	if err := errors.Join(a.Err(), a.Into(&out)); err != nil {
		return "", fmt.Errorf("step up: %w", err)
	}
	return out.AttestationID, nil
}
