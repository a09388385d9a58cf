package ratelimit

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// settleScript is settle of source.go. It touches one key, so that it runs on a
// cluster, and takes the time from the caller, so that it can be tested. Numbers
// travel packed: as words of the protocol, each would cost as much as the rest.
//
// A bucket that is full again is the same as none: it goes then. Otherwise each address
// that sends a single request would have a key for a minute.
//
// %.0f, because Lua would print a microsecond clock as 1.7e+15.
const settleScript = `
local now, since, interval, window, charge, want, need, share, ttl, margin = struct.unpack('>i8i8i8i8i8i8i8i8i8i8', ARGV[1])
local was = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
local tat = math.min(was, now + 2 * window)
if charge > 0 then
  tat = math.max(tat, math.min(since, now)) + charge * interval
end
local from = math.max(tat, now)
local left = math.floor(math.max(now + window - from, 0) / interval)
local granted = math.max(math.min(want, math.max(need, math.floor(left / share)), left), 0)
if granted > 0 then
  tat = from + granted * interval
end
if tat ~= was and tat > now then
  local life = math.min(ttl, math.ceil((tat - now) / 1000) + margin)
  redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', string.format('%.0f', life))
end
return struct.pack('>i8i8i8', tat, from, granted)
`

// BucketTTL is how long Redis keeps a bucket at most (DATA_MODEL §5). A full burst must
// refill within it.
const BucketTTL = time.Minute

// bucketMargin is how much longer than until it is full a bucket is kept: the clocks of
// processes differ.
const bucketMargin = 2 * time.Second

// Redis is the source that all processes share.
type Redis struct {
	client rueidis.Client
	key    func(bucket string) string
	sha    string
}

// NewRedis keeps buckets under the keys that key makes of their names, such as
// "prod:some-service:rl:" + bucket.
func NewRedis(client rueidis.Client, key func(bucket string) string) *Redis {
	sum := sha1.Sum([]byte(settleScript)) //nolint:gosec // as above
	return &Redis{client: client, key: key, sha: hex.EncodeToString(sum[:])}
}

// Settle implements [Source]: one pipeline for all asks.
func (r *Redis) Settle(ctx context.Context, asks []Ask, answers []Answer) error {
	if len(asks) == 0 {
		return nil
	}
	cmds := make(rueidis.Commands, len(asks))
	for i := range asks {
		cmds[i] = r.client.B().Evalsha().Sha1(r.sha).Numkeys(1).Key(r.key(asks[i].Bucket)).Arg(pack(&asks[i])).Build()
	}
	var again []int // a server that was restarted has forgotten the script
	var failed error
	for i, resp := range r.client.DoMulti(ctx, cmds...) {
		if e, ok := rueidis.IsRedisErr(resp.Error()); ok && e.IsNoScript() {
			again = append(again, i)
			continue
		}
		var err error
		if answers[i], err = parse(resp); err != nil { //nolint:gosec // one answer per ask, as the interface says
			failed = err
		}
	}
	if len(again) > 0 {
		cmds = make(rueidis.Commands, len(again))
		for n, i := range again {
			cmds[n] = r.client.B().Eval().Script(settleScript).Numkeys(1).Key(r.key(asks[i].Bucket)).Arg(pack(&asks[i])).Build()
		}
		for n, resp := range r.client.DoMulti(ctx, cmds...) {
			var err error
			if answers[again[n]], err = parse(resp); err != nil {
				failed = err
			}
		}
	}
	if failed != nil { // the last one stands for all
		return fmt.Errorf("settle rate limits: %w", failed)
	}
	return nil
}

// pack writes an ask as the script reads it.
func pack(a *Ask) string {
	var b [10 * 8]byte
	for i, n := range [...]int64{a.Now, a.Since, a.Interval, a.Window, a.Charge, a.Want, a.Need, a.Share, BucketTTL.Milliseconds(), bucketMargin.Milliseconds()} {
		binary.BigEndian.PutUint64(b[8*i:], uint64(n)) //nolint:gosec // the same bits
	}
	return string(b[:])
}

// parse reads what the script writes.
func parse(resp rueidis.RedisResult) (Answer, error) {
	text, err := resp.ToString()
	if err != nil {
		return Answer{}, err
	}
	if len(text) != 3*8 {
		return Answer{}, fmt.Errorf("%d bytes instead of 24", len(text))
	}
	n := func(i int) int64 { return int64(binary.BigEndian.Uint64([]byte(text[8*i : 8*i+8]))) } //nolint:gosec // the same bits
	return Answer{TAT: n(0), From: n(1), Granted: n(2), OK: true}, nil
}
