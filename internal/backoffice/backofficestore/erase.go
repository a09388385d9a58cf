package backofficestore

import (
	"context"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/identity"
)

// Erase removes all that the session tier has of an operator at a device, and of the
// tenant as a whole, without tombstones: of a tenant that is no hotel.
func (s *Sessions) Erase(ctx context.Context, tenant, device bff.ID, operator string, proofs ...identity.Proof) error {
	t, err := s.keys.Tenant(tenant)
	if err != nil {
		return err
	}
	found, err := s.atDevice(ctx, t, device)
	if err != nil {
		return away(err)
	}
	names := []string{
		t.Device(device).Name(), t.Revoked(device).Name(), t.Operator(operator).Name(), t.OperatorAccess(operator).Name(),
		t.All().Name(), t.TenantAccess().Name(),
	}
	if found != nil {
		names = append(names, t.Session(found.ID).Name())
	}
	for _, p := range proofs {
		names = append(names, s.keys.Proof(p.KeyPrint, p.ID))
	}
	cmds := make(rueidis.Commands, len(names)) // one key each: they lie on several nodes of a cluster
	for i, name := range names {
		cmds[i] = s.client.B().Del().Key(name).Build()
	}
	return away(all(s.client.DoMulti(ctx, cmds...)))
}

// EraseAttestation removes an attestation, used or not.
func (s *Sessions) EraseAttestation(ctx context.Context, tenant, id bff.ID) error {
	t, err := s.keys.Tenant(tenant)
	if err != nil {
		return err
	}
	return away(s.client.Do(ctx, s.client.B().Del().Key(t.Attestation(id).Name()).Build()).Error())
}
