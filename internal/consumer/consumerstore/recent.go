package consumerstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
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
var pushScript = newScript(`
if redis.call('LINDEX', KEYS[1], 0) == ARGV[2] then return 0 end
for _, old in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  if string.find(old, ARGV[5], 1, true) then redis.call('LREM', KEYS[1], 0, old) end
end
redis.call('LPUSH', KEYS[1], ARGV[3])
redis.call('LTRIM', KEYS[1], 0, tonumber(ARGV[4]) - 1)
redis.call('EXPIRE', KEYS[1], ARGV[1])
return redis.call('LLEN', KEYS[1])`)

// trailLife is how long the lists of a step's guest live.
func trailLife(step *guest.Step) string {
	if step.New {
		return newLifetimeText
	}
	return lifetimeText
}

// push puts an item in front of a list.
func push(key, life, item string, most int, same string) call {
	return pushScript.call(key, life, clearedMark, item, strconv.Itoa(most), same)
}

func (s *Store) pushViewed(step *guest.Step) (call, error) {
	v := step.Viewed
	source, err := json.Marshal(v.Source)
	same := `"propertyId":"` + v.PropertyID.String() + `"`
	item := `{` + same + `,"tenantId":"` + v.TenantID.String() + `","viewedAt":"` + v.ViewedAt.String() + `","source":` + string(source) + `}`
	return push(s.sessionKey(step.Guest)+":recent", trailLife(step), item, guest.MaxRecentlyViewed, same), err
}

func (s *Store) pushSearch(step *guest.Step) call {
	ss := step.Search
	return push(s.sessionKey(ss.Guest)+":history", trailLife(step), guest.EncodeHistory(*ss), guest.MaxSearchHistory, ss.Query.Same)
}

// Follow writes steps in one pipeline. They are memories, not promises: one that
// fails does not undo the others.
func (s *Store) Follow(ctx context.Context, steps []guest.Step) error {
	var (
		errs  []error
		cmds  = make(rueidis.Commands, 0, 4*len(steps))
		calls = make([]call, 0, 3*len(steps))
		noted = map[int]*consumer.SearchSession{} // by the place of its call
	)
	for i := range steps {
		step := &steps[i]
		if !step.Touch.IsZero() {
			touched, err := s.touch(step.Guest, step.Touch)
			errs, calls = append(errs, err), append(calls, touched)
			cmds = append(cmds, s.extend(step.Guest, step.Touch)...)
		}
		if step.Search != nil {
			cmds = append(cmds, s.saveSearch(step.Search)...)
			noted[len(calls)] = step.Search
			calls = append(calls, s.noteSearch(step.Search), s.pushSearch(step))
		}
		if step.Viewed != nil {
			viewed, err := s.pushViewed(step)
			errs, calls = append(errs, err), append(calls, viewed)
		}
	}
	if err := errors.Join(errs...); err != nil { // plain fields always encode
		return fmt.Errorf("follow guests: %w", err)
	}
	ctx, cancel := s.within(ctx, followTimeout)
	defer cancel()
	results := s.pipeline(ctx, cmds, calls)
	var late rueidis.Commands // searches of guests who had their sessions purged meanwhile
	for i, ss := range noted {
		if kept, err := results[len(cmds)+i].AsInt64(); err == nil && kept == 0 {
			late = append(late, s.cfg.Sessions.B().Del().Key(s.searchKey(ss.ID)).Build())
		}
	}
	if len(late) > 0 {
		results = append(results, s.cfg.Sessions.DoMulti(ctx, late...)...)
	}
	return all("follow guests", results)
}

// FindTrail reads both lists in one round trip.
func (s *Store) FindTrail(ctx context.Context, guestID bff.ID) (guest.Trail, error) {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c, key := s.cfg.Sessions, s.sessionKey(guestID)
	lists := c.DoMulti(ctx,
		c.B().Lrange().Key(key+":recent").Start(0).Stop(-1).Build(),
		c.B().Lrange().Key(key+":history").Start(0).Stop(-1).Build())
	var t guest.Trail
	if err := decodeList(lists[0], &t.RecentlyViewed); err != nil {
		return guest.Trail{}, fmt.Errorf("find recently viewed: %w", err)
	}
	if err := decodeList(lists[1], &t.SearchHistory); err != nil {
		return guest.Trail{}, fmt.Errorf("find search history: %w", err)
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
