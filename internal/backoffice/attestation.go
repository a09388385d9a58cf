package backoffice

import (
	"context"
	"encoding/hex"
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
	// UsedFor is the mutation that has used it up; empty = it can be used.
	UsedFor string `json:"usedFor,omitempty"`
}

// Covers reports whether the attestation is for this action in this session, or was
// used for an earlier attempt at it.
func (a *Attestation) Covers(s *Session, use Use, now time.Time) bool {
	return a.Tenant == s.Tenant && a.Operator == s.Operator && a.Device == s.Device && a.Session == s.ID &&
		a.Scope == use.Scope && (a.Resource == "" || a.Resource == use.Resource) &&
		(a.UsedFor == "" && now.Before(a.ExpiresAt) || a.UsedFor == use.Once.name())
}

// ErrNoAttestation says that there is no such attestation, or no longer, or that it
// is another's.
var ErrNoAttestation = errors.New("no such attestation")

// Attestations keeps attestations.
type Attestations interface {
	AddAttestation(ctx context.Context, a Attestation) error
	FindAttestation(ctx context.Context, tenant, id bff.ID) (Attestation, error)
	// UseAttestation notes what an attestation that was found unused is used for, and
	// reports true to exactly one caller. It is remembered for as long as the mutation.
	UseAttestation(ctx context.Context, found Attestation, usedFor string) (bool, error)
}

// ConsumeAttestation uses an attestation up for an action, before the action: of any
// number of requests that name it at once, one passes. The same request again passes
// as well: its first attempt may have been cut off after this. An attestation that is
// for something else is left alone: its holder may still need it.
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
		return Away(err)
	}
	if !a.Covers(&v.Session, use, now) {
		return invalid
	}
	if a.UsedFor != "" {
		return nil
	}
	first, err := kept.UseAttestation(ctx, a, use.Once.name())
	if err != nil {
		return Away(err)
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
	Once     Once // the mutation
}

// name is the mutation as an attestation remembers it.
func (o Once) name() string { return o.Key + " " + hex.EncodeToString(o.Digest[:]) }
