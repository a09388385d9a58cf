package backoffice_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
)

// attestations keeps one.
type attestations struct {
	kept         backoffice.Attestation
	found, taken error
	lost         bool // another request was quicker
	uses         int
}

func (*attestations) AddAttestation(context.Context, backoffice.Attestation) error { return nil }

func (a *attestations) FindAttestation(_ context.Context, _, id bff.ID) (backoffice.Attestation, error) {
	if a.found == nil && id != a.kept.ID {
		return backoffice.Attestation{}, backoffice.ErrNoAttestation
	}
	return a.kept, a.found
}

func (a *attestations) UseAttestation(_ context.Context, _ backoffice.Attestation, usedFor string) (bool, error) {
	a.uses++
	if a.taken == nil && !a.lost {
		a.kept.UsedFor = usedFor
	}
	return !a.lost, a.taken
}

// A second factor is good for one action of one operator at one device in one session,
// once, until it expires; and a request that was cut off may repeat itself.
func TestConsumeAttestation(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	session := backoffice.Session{
		ID: bff.NewID(bff.PrefixBackofficeLogin, now), Tenant: bff.NewID(bff.PrefixTenant, now), Operator: "opt_1", Device: bff.NewID(bff.PrefixDevice, now),
	}
	use := backoffice.Use{Scope: backoffice.ScopeRefund, Resource: "fol_1", Once: backoffice.Once{Key: "key", Digest: [32]byte{1}}}
	good := backoffice.Attestation{
		ID: bff.NewID(bff.PrefixMFA, now), Tenant: session.Tenant, Operator: session.Operator, Device: session.Device, Session: session.ID,
		Scope: use.Scope, Resource: use.Resource, ExpiresAt: now.Add(time.Minute),
	}
	for name, tc := range map[string]struct {
		change   func(a *attestations)
		id       string // instead of the attestation's
		after    time.Duration
		used     bool // by the same request before
		usedBy   backoffice.Once
		want     bff.Code
		wantUses int
	}{
		"good":               {wantUses: 1},
		"of any resource":    {change: func(a *attestations) { a.kept.Resource = "" }, wantUses: 1},
		"at its last moment": {after: time.Minute - 1, wantUses: 1},
		"expired":            {after: time.Minute, want: bff.CodeMFAAttestationInvalid},
		"none":               {id: "-", want: bff.CodeMFARequired},
		"no id":              {id: "mfa", want: bff.CodeMFAAttestationInvalid},
		"unknown":            {id: bff.NewID(bff.PrefixMFA, now).String(), want: bff.CodeMFAAttestationInvalid},
		"another tenant's":   {change: func(a *attestations) { a.kept.Tenant = bff.NewID(bff.PrefixTenant, now) }, want: bff.CodeMFAAttestationInvalid},
		"another operator's": {change: func(a *attestations) { a.kept.Operator = "opt_2" }, want: bff.CodeMFAAttestationInvalid},
		"another device's":   {change: func(a *attestations) { a.kept.Device = bff.NewID(bff.PrefixDevice, now) }, want: bff.CodeMFAAttestationInvalid},
		"another session's": {
			change: func(a *attestations) { a.kept.Session = bff.NewID(bff.PrefixBackofficeLogin, now) }, want: bff.CodeMFAAttestationInvalid,
		},
		"for another scope":              {change: func(a *attestations) { a.kept.Scope = backoffice.ScopeLargeCharge }, want: bff.CodeMFAAttestationInvalid},
		"for another resource":           {change: func(a *attestations) { a.kept.Resource = "fol_2" }, want: bff.CodeMFAAttestationInvalid},
		"used for this":                  {used: true, usedBy: use.Once},
		"used for this, then expired":    {used: true, usedBy: use.Once, after: time.Hour},
		"used with another key":          {used: true, usedBy: backoffice.Once{Key: "other", Digest: use.Once.Digest}, want: bff.CodeMFAAttestationInvalid},
		"used for another body":          {used: true, usedBy: backoffice.Once{Key: use.Once.Key, Digest: [32]byte{2}}, want: bff.CodeMFAAttestationInvalid},
		"another request is quicker":     {change: func(a *attestations) { a.lost = true }, want: bff.CodeMFAAttestationInvalid, wantUses: 1},
		"the store is away":              {change: func(a *attestations) { a.found = errors.New("away") }, want: bff.CodeServiceUnavailable},
		"the store goes away at the end": {change: func(a *attestations) { a.taken = errors.New("away") }, want: bff.CodeServiceUnavailable, wantUses: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &attestations{kept: good}
			v := &backoffice.Visit{Session: session}
			if tc.used {
				earlier := use
				earlier.Once = tc.usedBy
				if err := backoffice.ConsumeAttestation(t.Context(), a, v, good.ID.String(), earlier, now); err != nil {
					t.Fatal(err)
				}
				a.uses = 0
			}
			if tc.change != nil {
				tc.change(a)
			}
			id := good.ID.String()
			switch tc.id {
			case "":
			case "-":
				id = ""
			default:
				id = tc.id
			}
			err := backoffice.ConsumeAttestation(t.Context(), a, v, id, use, now.Add(tc.after))
			if (err != nil) != (tc.want != "") || err != nil && bff.CodeOf(err) != tc.want || a.uses != tc.wantUses {
				t.Errorf("%v, used %d times; want %q, %d", err, a.uses, tc.want, tc.wantUses)
			}
		})
	}
}
