package backoffice

import (
	"context"
	"errors"
	"time"

	"melmastoon.ghasi.io/bff"
)

// AttestationLifetime is how long an attestation can be used.
const AttestationLifetime = 5 * time.Minute

// AttestationScope names what a second factor was given for.
type AttestationScope string

// The scopes there are.
const (
	ScopeLockRevoke  AttestationScope = "lock.revoke"
	ScopeLargeCharge AttestationScope = "folio.charge.large"
	ScopeRefund      AttestationScope = "folio.refund"
)

// AttestationScopes lists every scope.
func AttestationScopes() []AttestationScope {
	return []AttestationScope{ScopeLockRevoke, ScopeLargeCharge, ScopeRefund}
}

// Attestation says that an operator has given a second factor, for one action.
type Attestation struct {
	ID        bff.ID           `json:"id"`
	Tenant    bff.ID           `json:"tenantId"`
	Operator  string           `json:"operatorId"`
	Device    bff.ID           `json:"deviceId"`
	Session   bff.ID           `json:"sessionId"`
	Scope     AttestationScope `json:"scope"`
	Resource  string           `json:"resourceId,omitempty"` // empty = any of the scope
	ExpiresAt time.Time        `json:"expiresAt"`
}

// Covers reports whether the attestation is for this action in this session.
func (a *Attestation) Covers(s *Session, scope AttestationScope, resource string, now time.Time) bool {
	return a.Tenant == s.Tenant && a.Operator == s.Operator && a.Device == s.Device && a.Session == s.ID &&
		a.Scope == scope && (a.Resource == "" || a.Resource == resource) && now.Before(a.ExpiresAt)
}

// ErrNoAttestation says that there is no such attestation, or no longer, or that it
// is another's.
var ErrNoAttestation = errors.New("no such attestation")

// Attestations keeps attestations.
type Attestations interface {
	AddAttestation(ctx context.Context, a Attestation) error
	FindAttestation(ctx context.Context, tenant, id bff.ID) (Attestation, error)
	// RemoveAttestation reports true to exactly one caller.
	RemoveAttestation(ctx context.Context, tenant, id bff.ID) (bool, error)
}

// ConsumeAttestation uses an attestation up for an action, before the action: of any
// number of requests that name it at once, one passes. An attestation that is for
// something else is left alone: its holder may still need it.
func ConsumeAttestation(ctx context.Context, kept Attestations, v *Visit, id string, use Use, now time.Time) error {
	if id == "" {
		return bff.Errorf(bff.CodeMFARequired, "this needs a second factor: ask POST /auth/mfa/step-up for the scope %s and send X-Mfa-Attestation", use.Scope)
	}
	invalid := bff.Errorf(bff.CodeMFAAttestationInvalid, "the attestation is used, expired, or for something else: ask for a new one")
	parsed, err := bff.ParseID(bff.PrefixMFA, id)
	if err != nil {
		return invalid
	}
	a, err := kept.FindAttestation(ctx, v.Session.Tenant, parsed)
	if errors.Is(err, ErrNoAttestation) {
		return invalid
	}
	if err != nil {
		return err
	}
	if !a.Covers(&v.Session, use.Scope, use.Resource, now) {
		return invalid
	}
	first, err := kept.RemoveAttestation(ctx, v.Session.Tenant, parsed)
	if err != nil {
		return err
	}
	if !first {
		return invalid
	}
	return nil
}

// Use is an action that needs an attestation.
type Use struct {
	Scope    AttestationScope
	Resource string
}
