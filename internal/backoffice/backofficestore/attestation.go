package backofficestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice"
	"melmastoon.ghasi.io/bff/internal/idempotency"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// AddAttestation implements backoffice.Attestations.
func (s *Sessions) AddAttestation(ctx context.Context, a backoffice.Attestation) error {
	t, err := s.keys.Tenant(a.Tenant)
	if err != nil {
		return err
	}
	blob, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("write attestation: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	key := t.Attestation(a.ID)
	life := int64(backoffice.AttestationLifetime / time.Second)
	return away(s.client.Do(ctx, s.client.B().Set().Key(key.Name()).Value(string(key.Seal(blob))).ExSeconds(life).Build()).Error())
}

// FindAttestation implements backoffice.Attestations.
func (s *Sessions) FindAttestation(ctx context.Context, tenant, id bff.ID) (backoffice.Attestation, error) {
	var a backoffice.Attestation
	t, err := s.keys.Tenant(tenant)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	key := t.Attestation(id)
	raw, err := s.client.Do(ctx, s.client.B().Get().Key(key.Name()).Build()).AsBytes()
	if rueidis.IsRedisNil(err) {
		return a, backoffice.ErrNoAttestation
	}
	if err != nil {
		return a, away(err)
	}
	blob, err := key.Open(raw)
	if errors.Is(err, redis.ErrForeign) {
		return a, backoffice.ErrNoAttestation
	}
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(blob, &a); err != nil {
		return a, fmt.Errorf("read attestation: %w", err)
	}
	// Whether one of before the tier was lost was used is not known. The marks were looked
	// at when this request came in.
	if m := s.life.known.Load(); m != nil && a.UsedFor == "" && a.ExpiresAt.Add(-backoffice.AttestationLifetime).Before(m.born) {
		return a, backoffice.ErrNoAttestation
	}
	return a, nil
}

// use replaces an attestation by what it was used for, unless it was used meanwhile.
var use = rueidis.NewLuaScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1`)

// UseAttestation implements backoffice.Attestations.
func (s *Sessions) UseAttestation(ctx context.Context, found backoffice.Attestation, usedFor string) (bool, error) {
	t, err := s.keys.Tenant(found.Tenant)
	if err != nil {
		return false, err
	}
	before, err := json.Marshal(found)
	if err != nil {
		return false, fmt.Errorf("write attestation: %w", err)
	}
	found.UsedFor = usedFor
	after, err := json.Marshal(found)
	if err != nil {
		return false, fmt.Errorf("write attestation: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	key := t.Attestation(found.ID)
	n, err := use.Exec(ctx, s.client, []string{key.Name()}, []string{
		string(key.Seal(before)), string(key.Seal(after)), strconv.Itoa(int(idempotency.Lifetime / time.Second)),
	}).AsInt64()
	return n == 1, away(err)
}
