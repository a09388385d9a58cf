package backofficeupstream

import (
	"context"
	"errors"
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/upstream"
)

// IAM is iam-service: refresh tokens and second factors.
type IAM struct{ client *upstream.Client }

var _ identity.IAM = (*IAM)(nil)

// Refresh implements identity.IAM. The device's proof goes along as it came: iam
// compares its key with that of the sign-in.
func (i *IAM) Refresh(ctx context.Context, h *identity.Holder, refreshToken, retryKey string) (identity.Tokens, error) {
	in := struct {
		RefreshToken string `json:"refreshToken"`
		DeviceID     string `json:"deviceId"`
	}{refreshToken, h.Device.String()}
	var out struct {
		AccessToken  string `json:"accessToken" upstream:"required"`
		RefreshToken string `json:"refreshToken" upstream:"required"`
		ExpiresIn    int    `json:"expiresIn" upstream:"required"`
	}
	options := []upstream.Option{upstream.Header("DPoP", h.Proof)}
	if retryKey != "" {
		options = append(options, upstream.Header("Idempotency-Key", retryKey))
	}
	const route = "/api/v1/auth/refresh"
	err := i.client.Post(ctx, route, route, in, &out, options...)
	if e, ok := errors.AsType[*upstream.Error](err); ok && e.Refused() {
		return identity.Tokens{}, refusedRefresh(e)
	}
	return identity.Tokens(out), failed(err)
}

func refusedRefresh(e *upstream.Error) error {
	switch e.Code {
	case "REFRESH_REUSED", "USER_LOCKED", "DEVICE_REVOKED":
		return &bff.Error{Code: bff.CodeSessionRevoked, Detail: "this sign-in was ended: sign in again", Err: e}
	case "DPOP_INVALID":
		return &bff.Error{Code: bff.CodeDPoPInvalid, Detail: "the refresh token belongs to another key: sign in on this device", Err: e}
	}
	return &bff.Error{Code: bff.CodeUnauthenticated, Detail: "the refresh token is not valid: sign in again", Err: e}
}

// SignOut implements identity.IAM.
func (i *IAM) SignOut(ctx context.Context, s *backoffice.Session) error {
	in := struct {
		TenantID   string `json:"tenantId"`
		OperatorID string `json:"operatorId"`
		DeviceID   string `json:"deviceId"`
	}{s.Tenant.String(), s.Operator, s.Device.String()}
	const route = "/api/v1/auth/sign-out"
	return failed(i.client.Post(ctx, route, route, in, nil, upstream.Idempotent()))
}

// StepUp implements identity.IAM.
func (i *IAM) StepUp(ctx context.Context, s *backoffice.Session, use backoffice.Use, code string) error {
	in := struct {
		TenantID   string `json:"tenantId"`
		OperatorID string `json:"operatorId"`
		DeviceID   string `json:"deviceId"`
		Scope      string `json:"scope"`
		ResourceID string `json:"resourceId,omitempty"`
		Code       string `json:"code"`
	}{s.Tenant.String(), s.Operator, s.Device.String(), string(use.Scope), use.Resource, code}
	var out struct {
		Attested bool `json:"attested" upstream:"required"`
	}
	const route = "/api/v1/auth/step-up"
	err := i.client.Post(ctx, route, route, in, &out)
	invalid := &bff.Error{Code: bff.CodeMFAAttestationInvalid, Detail: "the code is wrong or was used: try the next one", Err: err}
	e, ok := errors.AsType[*upstream.Error](err)
	switch {
	case err == nil && out.Attested:
		return nil
	case err == nil:
		return invalid
	case ok && e.Status == http.StatusForbidden:
		return &bff.Error{Code: bff.CodeSessionRevoked, Detail: "this operator is locked: ask an administrator", Err: err}
	case ok && e.Refused():
		return invalid
	}
	return failed(err)
}
