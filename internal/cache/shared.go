package cache

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

// readScript answers value and milliseconds left in one step: read apart, the
// time of a newer value could be taken for the older one's.
var readScript = rueidis.NewLuaScript(`
local v = redis.call('GET', KEYS[1])
if not v then return false end
return {v, redis.call('PTTL', KEYS[1])}
`)

// readShared looks a key up in Redis; nil is a miss.
func (c *Cache) readShared(ctx context.Context, key string) (*Entry, error) {
	s := c.store
	// Both from before the call: the entry may look older than it is, not younger.
	at, now := s.tags.stamp(), s.now()
	var blob []byte
	var left int64
	err := s.link.do(ctx, s.readTimeout, "read", func(ctx context.Context, r rueidis.Client) error {
		reply, err := readScript.Exec(ctx, r, []string{key}, nil).ToArray()
		if rueidis.IsRedisNil(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(reply) != 2 {
			return errors.New("cache: malformed reply to a read")
		}
		if blob, err = reply[0].AsBytes(); err != nil {
			return err
		}
		left, err = reply[1].AsInt64()
		return err
	})
	if err != nil || blob == nil || left <= 0 || len(blob) > 3*s.maxBody {
		return nil, err
	}
	e, err := c.decode(key, blob)
	if err != nil {
		return nil, nil //nolint:nilerr // another release's, or damaged: a miss, to be overwritten
	}
	e.stamp.tick = at.tick
	age := e.ttl.life() - time.Duration(left)*time.Millisecond
	e.born = now - int64(max(age, 0))
	return e, nil
}

// writeShared gives an entry to the other processes.
func (c *Cache) writeShared(ctx context.Context, key string, e *Entry) {
	s := c.store
	if e.stamp.epoch == 0 {
		return // filled before the log was known: other processes could not judge it
	}
	left := e.ttl.life() - e.Age()
	if left < time.Millisecond {
		return
	}
	// A failure needs no handling: it is counted, and others fill for themselves.
	_ = s.link.do(ctx, s.writeTimeout, "write", func(ctx context.Context, r rueidis.Client) error {
		return r.Do(ctx, r.B().Set().Key(key).Value(rueidis.BinaryString(e.encode())).Px(left).Build()).Error()
	})
}

func (c *Cache) deleteShared(ctx context.Context, key string) error {
	s := c.store
	return s.link.do(ctx, s.writeTimeout, "delete", func(ctx context.Context, r rueidis.Client) error {
		return r.Do(ctx, r.B().Del().Key(key).Build()).Error()
	})
}
