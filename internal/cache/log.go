package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// The invalidation log is one sorted set: a member per tag, its score the
// number of the tag's latest invalidation. One key, so that a script can number
// and append atomically on a Redis Cluster too; a bounded one, because a tag
// invalidated again moves and does not grow it, and the oldest are cut.
//
// The member with score +inf names the log. It is random: when the log is lost,
// to a restart or to eviction, the next one has another name, and no process
// takes its numbers for the old ones.
//
// Pub/sub only rings the bell; what was invalidated is always read from the
// log. A message that gets lost therefore costs time, not truth: the log is
// read every second, bell or no bell.

// kind says what an invalidation does to the entries of its tag.
type kind byte

const (
	kindInvalidate kind = '!' // never served again
	kindExpire     kind = '~' // served as stale until refreshed
)

const (
	logPage     = 2000 // numbers read in one call
	logBatch    = 500  // tags written in one call
	maxTagBytes = 256
)

var exchangeScript = rueidis.NewLuaScript(`
local log, known, pos, fresh = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local most, page, bell = tonumber(ARGV[4]), ARGV[5], ARGV[6]
local name = fresh
local head = redis.call('ZRANGE', log, -1, -1, 'WITHSCORES')
if head[2] == 'inf' then
  name = head[1]
else
  redis.call('DEL', log)
  redis.call('ZADD', log, '+inf', name)
end
if name ~= known then pos = '0' end
if #ARGV > 6 then
  local top = redis.call('ZREVRANGEBYSCORE', log, '(+inf', '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local seq = tonumber(top[2] or '0')
  for i = 7, #ARGV do
    seq = seq + 1
    redis.call('ZADD', log, seq, ARGV[i])
  end
  redis.call('ZREMRANGEBYRANK', log, 0, -(most + 2))
  redis.call('PUBLISH', bell, '')
end
local low = '0'
if redis.call('ZCARD', log) > most then
  low = redis.call('ZRANGE', log, 0, 0, 'WITHSCORES')[2]
end
return {name, low, redis.call('ZRANGEBYSCORE', log, '(' .. pos, '(+inf', 'WITHSCORES', 'LIMIT', 0, page)}
`)

// news is what one reading of the log brought.
type news struct {
	epoch uint64
	floor uint64 // up to here the log may have been cut
	items []item
}

type item struct {
	kind kind
	tag  string
	seq  uint64
}

// tagLog connects the log in Redis with this process's table.
type tagLog struct {
	redis   *link
	table   *tagTable
	key     string
	bell    string
	timeout time.Duration

	// turn serialises exchanges: answers are applied in the order in which the
	// server gave them.
	turn sync.Mutex

	mu      sync.Mutex
	pending map[string]struct{} // members that could not be logged yet
}

// write logs the invalidation of tags and reads the log up to it. Tags that
// cannot be logged are kept, and logged when Redis answers again.
func (l *tagLog) write(ctx context.Context, k kind, tags []string) error {
	members := make([]string, len(tags))
	for i, tag := range tags {
		members[i] = string(k) + tag
	}
	var errs []error
	for batch := range slices.Chunk(members, logBatch) {
		if err := l.exchange(ctx, batch, l.redis.do); err != nil {
			l.postpone(batch)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sync reads what is new and logs what had to wait.
func (l *tagLog) sync(ctx context.Context) error {
	for {
		batch := l.waiting()
		if err := l.exchange(ctx, batch, l.redis.call); err != nil {
			return err
		}
		if len(batch) == 0 {
			return nil
		}
		l.mu.Lock()
		for _, m := range batch {
			delete(l.pending, m)
		}
		l.mu.Unlock()
	}
}

func (l *tagLog) waiting() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var batch []string
	for m := range l.pending {
		if batch = append(batch, m); len(batch) == logBatch {
			break
		}
	}
	return batch
}

func (l *tagLog) postpone(members []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range members {
		if len(l.pending) >= l.table.most {
			return // the caller has been told, and redelivers
		}
		l.pending[m] = struct{}{}
	}
}

// exchange appends members and reads on to the end of the log.
func (l *tagLog) exchange(ctx context.Context, members []string, call caller) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	for {
		known := l.table.stamp()
		args := append([]string{
			epochName(known.epoch), strconv.FormatUint(known.seq, 10), epochName(newEpoch()),
			strconv.Itoa(l.table.most), strconv.Itoa(logPage), l.bell,
		}, members...)
		var n news
		err := call(ctx, l.timeout, "log", func(ctx context.Context, c rueidis.Client) error {
			reply, err := exchangeScript.Exec(ctx, c, []string{l.key}, args).ToArray()
			if err == nil {
				n, err = parseNews(reply)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("invalidation log: %w", err)
		}
		l.table.apply(n)
		if len(n.items) < logPage {
			return nil
		}
		members = nil
	}
}

func parseNews(reply []rueidis.RedisMessage) (news, error) {
	if len(reply) != 3 {
		return news{}, fmt.Errorf("malformed reply of %d parts", len(reply))
	}
	name, err := reply[0].ToString()
	if err != nil {
		return news{}, fmt.Errorf("log name: %w", err)
	}
	epoch, err := strconv.ParseUint(name, 16, 64)
	if err != nil {
		return news{}, fmt.Errorf("log name: %w", err)
	}
	n := news{epoch: epoch}
	low, err := reply[1].AsUint64()
	if err != nil {
		return news{}, fmt.Errorf("log floor: %w", err)
	}
	n.floor = max(low, 1) - 1
	flat, err := reply[2].AsStrSlice()
	if err != nil {
		return news{}, fmt.Errorf("log items: %w", err)
	}
	for pair := range slices.Chunk(flat, 2) {
		if len(pair) != 2 || len(pair[0]) < 2 {
			return news{}, errors.New("malformed item")
		}
		seq, err := strconv.ParseUint(pair[1], 10, 64)
		if err != nil {
			return news{}, fmt.Errorf("log number: %w", err)
		}
		n.items = append(n.items, item{kind: kind(pair[0][0]), tag: pair[0][1:], seq: seq})
	}
	return n, nil
}
