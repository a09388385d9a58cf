package consumerstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

// clearedMark stands alone in the lists of a session that its guest had purged,
// for long enough that no push on its way can bring them back.
const (
	clearedMark = "cleared"
	clearedLife = 10 * time.Minute
)

// pushScript puts an item in front of a capped list, in place of an earlier one
// that says the same.
//
//	KEYS[1] list; ARGV[1] life in seconds; ARGV[2] mark of a cleared list;
//	ARGV[3] item; ARGV[4] most items; ARGV[5] text that the same item holds
var pushScript = rueidis.NewLuaScript(`
if redis.call('LINDEX', KEYS[1], 0) == ARGV[2] then return 0 end
for _, old in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if string.find(old, ARGV[5], 1, true) then redis.call('LREM', KEYS[1], 0, old) end
end
redis.call('LPUSH', KEYS[1], ARGV[3])
redis.call('LTRIM', KEYS[1], 0, tonumber(ARGV[4]) - 1)
redis.call('EXPIRE', KEYS[1], ARGV[1])
return redis.call('LLEN', KEYS[1])`)

func (s *Store) push(ctx context.Context, key string, item any, most int, same string) error {
	b, err := json.Marshal(item)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	return pushScript.Exec(ctx, s.cfg.Sessions, []string{key},
		[]string{strconv.FormatInt(lifetime, 10), clearedMark, string(b), strconv.Itoa(most), same}).Error()
}

// PushViewed remembers a hotel that a guest looked at.
func (s *Store) PushViewed(ctx context.Context, guest bff.ID, v consumer.RecentlyViewed) error {
	same := `"propertyId":"` + v.PropertyID.String() + `"`
	if err := s.push(ctx, s.sessionKey(guest)+":recent", v, consumer.MaxRecentlyViewed, same); err != nil {
		return fmt.Errorf("push viewed: %w", err)
	}
	return nil
}

// PushSearch remembers a search.
func (s *Store) PushSearch(ctx context.Context, guest bff.ID, e consumer.SearchHistoryEntry) error {
	same := `"queryHash":"` + e.QueryHash.String() + `"`
	if err := s.push(ctx, s.sessionKey(guest)+":history", e, consumer.MaxSearchHistory, same); err != nil {
		return fmt.Errorf("push search: %w", err)
	}
	return nil
}

// FindTrail reads both lists in one round trip.
func (s *Store) FindTrail(ctx context.Context, guest bff.ID) (consumer.Trail, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	c, key := s.cfg.Sessions, s.sessionKey(guest)
	lists := c.DoMulti(ctx,
		c.B().Lrange().Key(key+":recent").Start(0).Stop(-1).Build(),
		c.B().Lrange().Key(key+":history").Start(0).Stop(-1).Build())
	var t consumer.Trail
	if err := decodeList(lists[0], &t.RecentlyViewed); err != nil {
		return consumer.Trail{}, fmt.Errorf("find recently viewed: %w", err)
	}
	if err := decodeList(lists[1], &t.SearchHistory); err != nil {
		return consumer.Trail{}, fmt.Errorf("find search history: %w", err)
	}
	return t, nil
}

// decodeList reads a list; what cannot be read is left out.
func decodeList[T any](r rueidis.RedisResult, out *[]T) error {
	items, err := r.AsStrSlice()
	if err != nil {
		return err
	}
	for _, item := range items {
		var v T
		if json.Unmarshal([]byte(item), &v) == nil {
			*out = append(*out, v)
		}
	}
	return nil
}
