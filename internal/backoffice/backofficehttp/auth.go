package backofficehttp

import (
	"cmp"
	"errors"
	"net/http"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
	"melmastoon.ghasi.io/bff/internal/web"
)

const (
	maxRefreshToken = 4096
	maxRetryKey     = 128
	maxCode         = 12
	maxResource     = 64
)

// refresh has iam exchange a refresh token. No session is touched: whatever happens
// on the way, the device has the same session after it as before.
func (a *API) refresh(w http.ResponseWriter, r *http.Request) error {
	holder, ok := web.From(r.Context()).Local.(*identity.Holder)
	if !ok {
		panic("a request reached its handler without passing the guard")
	}
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("refreshToken")
	token := in.String("refreshToken", maxRefreshToken)
	retryKey := cmp.Or(r.Header.Get("X-Idempotency-Key"), r.Header.Get("Idempotency-Key"))
	if alias := r.Header.Get("Idempotency-Key"); alias != "" && alias != retryKey {
		in.Refuse("Idempotency-Key", bff.FieldConflict)
	}
	if len(retryKey) > maxRetryKey {
		in.Refuse("X-Idempotency-Key", bff.FieldLength)
	}
	if err := in.Err(); err != nil {
		return err
	}
	tokens, err := a.cfg.IAM.Refresh(r.Context(), holder, token, retryKey)
	if err != nil {
		return err
	}
	// What is handed out must be of use to this key alone, whatever iam compared.
	fresh, err := a.cfg.Tokens.Await(r.Context(), tokens.AccessToken, now(r))
	if err != nil {
		return bff.Wrap(bff.CodeUpstreamUnavailable, err)
	}
	device := fresh.Claim("device_id")
	if device == "" {
		device = fresh.Claim("did")
	}
	if fresh.KeyPrint != holder.KeyPrint || device != holder.Device.String() {
		return &bff.Error{
			Code: bff.CodeDeviceMismatch, Detail: "the refresh token belongs to another device: sign in on this one",
			Err: errors.New("iam gave out a token for another key or device"),
		}
	}
	holder.Vouched(r.Context(), fresh.Claim("tid"))
	return web.WriteJSON(w, http.StatusOK, tokens)
}

// signOut closes the session. The refresh tokens end as well; if iam cannot be asked,
// they are left to expire or to be revoked there, and the device forgets them.
func (a *API) signOut(w http.ResponseWriter, r *http.Request) error {
	v := visitOf(r)
	if err := a.cfg.Access.SignOut(r.Context(), v, now(r)); err != nil {
		return err
	}
	if err := a.cfg.IAM.SignOut(r.Context(), &v.Session); err != nil {
		a.cfg.Log.WarnContext(r.Context(), "session closed, but iam could not be told: its refresh token lives on", "error", err.Error())
	}
	w.Header()["Cache-Control"] = []string{"private, no-store"}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// stepUp has iam verify a second factor and keeps an attestation of it.
func (a *API) stepUp(w http.ResponseWriter, r *http.Request) (err error) {
	defer func() { a.attestations.WithLabelValues(outcome(err)).Inc() }()
	v := visitOf(r)
	in, err := web.ReadBody(w, r)
	if err != nil {
		return err
	}
	in.Require("scope", "code")
	use := backoffice.Use{Scope: backoffice.AttestationScope(in.Enum("scope", scopes()...)), Resource: in.String("resourceId", maxResource)}
	code := in.String("code", maxCode)
	if err := in.Err(); err != nil {
		return err
	}
	if err := a.cfg.IAM.StepUp(r.Context(), &v.Session, use, code); err != nil {
		return a.cfg.Access.RefuseStepUp(r.Context(), v, use, err, now(r))
	}
	att, err := a.cfg.Access.Attest(r.Context(), a.cfg.Attestations, v, use, now(r))
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, struct {
		AttestationID bff.ID        `json:"attestationId"`
		ExpiresAt     bff.Timestamp `json:"expiresAt"`
	}{att.ID, bff.At(att.ExpiresAt)})
}

func scopes() []string {
	var words []string
	for _, s := range backoffice.AttestationScopes() {
		words = append(words, string(s))
	}
	return words
}

// Outcomes of a request for an attestation.
const (
	attested = "attested"
	refused  = "refused"
	failed   = "failed"
)

func outcomes() []string { return []string{attested, refused, failed} }

func outcome(err error) string {
	switch {
	case err == nil:
		return attested
	case bff.CodeOf(err) == bff.CodeMFAAttestationInvalid:
		return refused
	}
	return failed
}
