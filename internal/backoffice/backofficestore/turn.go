package backofficestore

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff/internal/backoffice/board"
)

var _ board.TurnMarks = (*Sessions)(nil)

// turnLifetime is far beyond what the clocks of instances differ by.
const turnLifetime = time.Hour

// FirstToTell implements board.TurnMarks.
func (s *Sessions) FirstToTell(ctx context.Context, at board.Place) (bool, error) {
	keys, err := s.keys.Tenant(at.Tenant)
	if err != nil {
		return false, err
	}
	set := s.client.B().Set().Key(keys.Turn(at).Name()).Value("").Nx().ExSeconds(int64(turnLifetime / time.Second)).Build()
	err = s.client.Do(ctx, set).Error()
	if rueidis.IsRedisNil(err) { // another instance was quicker
		return false, nil
	}
	return err == nil, err
}
