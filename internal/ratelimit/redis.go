package ratelimit

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// settleScript is settle of source.go. It touches one key, so that it runs on a
// cluster, and takes the time from the caller, so that it can be tested.
//
// %.0f, because Lua would print a microsecond clock as 1.7e+15.
const settleScript = `
local now, since = tonumber(ARGV[1]), tonumber(ARGV[2])
local interval, window = tonumber(ARGV[3]), tonumber(ARGV[4])
local charge, want = tonumber(ARGV[5]), tonumber(ARGV[6])
local need, share = tonumber(ARGV[7]), tonumber(ARGV[8])
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
  redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', ARGV[9])
end
return {tat, from, granted}
`

// BucketTTL is how long Redis keeps a bucket (DATA_MODEL §5). A full burst must
// refill within it.
const BucketTTL = time.Minute

// Redis is the source that all processes share.
type Redis struct {
	client rueidis.Client
	key    func(bucket string) string
	sha    string
	ttl    string
}

// NewRedis keeps buckets under the keys that key makes of their names, such as
// "prod:bff-consumer:rl:" + bucket.
func NewRedis(client rueidis.Client, key func(bucket string) string) *Redis {
	sum := sha1.Sum([]byte(settleScript)) //nolint:gosec // as above
	return &Redis{
		client: client, key: key, sha: hex.EncodeToString(sum[:]),
		ttl: strconv.FormatInt(BucketTTL.Milliseconds(), 10),
	}
}

// Settle implements [Source]: one pipeline for all asks.
func (r *Redis) Settle(ctx context.Context, asks []Ask, answers []Answer) error {
	if len(asks) == 0 {
		return nil
	}
	cmds := make(rueidis.Commands, len(asks))
	for i := range asks {
		cmds[i] = r.client.B().Evalsha().Sha1(r.sha).Numkeys(1).Key(r.key(asks[i].Bucket)).Arg(r.args(&asks[i])...).Build()
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
			cmds[n] = r.client.B().Eval().Script(settleScript).Numkeys(1).Key(r.key(asks[i].Bucket)).Arg(r.args(&asks[i])...).Build()
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

func (r *Redis) args(a *Ask) []string {
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []string{
		num(a.Now), num(a.Since), num(a.Interval), num(a.Window),
		num(a.Charge), num(a.Want), num(a.Need), num(a.Share), r.ttl,
	}
}

func parse(resp rueidis.RedisResult) (Answer, error) {
	v, err := resp.AsIntSlice()
	if err != nil {
		return Answer{}, err
	}
	if len(v) != 3 {
		return Answer{}, fmt.Errorf("%d values instead of 3", len(v))
	}
	return Answer{TAT: v[0], From: v[1], Granted: v[2], OK: true}, nil
}
