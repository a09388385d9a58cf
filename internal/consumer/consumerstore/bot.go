package consumerstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/bot"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// Bots keeps what the instances tell each other of visitors: it implements the
// domain's BotMemory.
type Bots struct {
	*Store
	instance string // among all that ever ran
}

// NewBots returns the memory of this process.
func NewBots(s *Store) *Bots { return &Bots{Store: s, instance: rand.Text()} }

// A visitor is known by a number that says nothing without the pepper.

func (s *Bots) botKey(what string, visitor uint64) string {
	return s.cfg.Keys.Key("bot", what, fmt.Sprintf("%016x", visitor))
}

func (s *Bots) blockedKey() string { return s.cfg.Keys.Key("bot", "blocked") }

// Burn implements challenge.Burner: SET NX decides the one first caller.
func (s *Bots) Burn(ctx context.Context, id string, ttl time.Duration) (bool, error) {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	err := c.Do(ctx, c.B().Set().Key(s.cfg.Keys.Key("bot", "burnt", id)).Value("1").Nx().PxMilliseconds(ttl.Milliseconds()).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("burn: %w", err)
	}
	return true, nil
}

// Solved remembers that a visitor solved a challenge.
func (s *Bots) Solved(ctx context.Context, visitor uint64, until time.Time) error {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c, at := s.cfg.Sessions, until.UnixMilli()
	return wrap(
		"remember solution",
		c.Do(ctx, c.B().Set().Key(s.botKey("solved", visitor)).Value(strconv.FormatInt(at, 10)).PxatMillisecondsTimestamp(at).Build()).Error(),
	)
}

// FindReputation returns what is remembered of a visitor.
func (s *Bots) FindReputation(ctx context.Context, visitor uint64) (bot.Reputation, error) {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	ms, err := c.Do(ctx, c.B().Get().Key(s.botKey("solved", visitor)).Build()).AsInt64()
	if rueidis.IsRedisNil(err) {
		return bot.Reputation{}, nil
	}
	if err != nil {
		return bot.Reputation{}, fmt.Errorf("find reputation: %w", err)
	}
	return bot.Reputation{SolvedUntil: time.UnixMilli(ms)}, nil
}

// maxBlocked bounds what is kept of who is shut out. Beyond it the first to
// be let in again make room.
const maxBlocked = 10_000

// Block shuts a visitor out.
func (s *Bots) Block(ctx context.Context, visitor uint64, until time.Time) error {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c, key := s.cfg.Sessions, s.blockedKey()
	return all("block", c.DoMulti(ctx,
		c.B().Zadd().Key(key).ScoreMember().ScoreMember(float64(until.UnixMilli()), fmt.Sprintf("%016x", visitor)).Build(),
		c.B().Zremrangebyrank().Key(key).Start(0).Stop(-maxBlocked-1).Build(),
		c.B().Expire().Key(key).Seconds(int64(time.Hour/time.Second)).Build()))
}

// Blocked returns who is shut out.
func (s *Bots) Blocked(ctx context.Context, now time.Time) (map[uint64]time.Time, error) {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c, key, from := s.cfg.Sessions, s.blockedKey(), strconv.FormatInt(now.UnixMilli(), 10)
	found, err := c.Do(ctx, c.B().Zrange().Key(key).Min("("+from).Max("+inf").Byscore().Limit(0, maxBlocked).Withscores().Build()).AsZScores()
	if err != nil {
		return nil, fmt.Errorf("find blocked: %w", err)
	}
	blocked := make(map[uint64]time.Time, len(found))
	for _, z := range found {
		if id, err := strconv.ParseUint(z.Member, 16, 64); err == nil {
			blocked[id] = time.UnixMilli(int64(z.Score))
		}
	}
	return blocked, nil
}

// paceScript appends what one instance counted to the visitor's list, drops what
// is older than a minute, and returns what the others counted since this one last
// looked. An entry is "milliseconds instance count"; one key, so it runs on a
// cluster.
//
// KEYS[1] list; ARGV: now, instance, count, since
var paceScript = rueidis.NewLuaScript(`
local now, since = tonumber(ARGV[1]), tonumber(ARGV[4])
local others = 0
for _, entry in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
  local at, who, n = string.match(entry, '^(%d+) (%S+) (%d+)$')
  if at and tonumber(at) > since and who ~= ARGV[2] then others = others + tonumber(n) end
end
redis.call('RPUSH', KEYS[1], ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3])
for _ = 1, 512 do
  local first = redis.call('LINDEX', KEYS[1], 0)
  local at = first and tonumber(string.match(first, '^(%d+)')) or now
  if at >= now - 60000 then break end
  redis.call('LPOP', KEYS[1])
end
redis.call('LTRIM', KEYS[1], -256, -1)
redis.call('EXPIRE', KEYS[1], 60)
return others
`)

// ExchangePaces implements bot.BotMemory. The list is the sliding window of
// DATA_MODEL §5, with one entry for what an instance saw in about a second.
func (s *Bots) ExchangePaces(ctx context.Context, paces []bot.Pace, now time.Time) ([]int, error) {
	if len(paces) == 0 {
		return nil, nil
	}
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c, at := s.cfg.Sessions, strconv.FormatInt(now.UnixMilli(), 10)
	runs := make([]rueidis.LuaExec, len(paces))
	for i, p := range paces {
		since := "0"
		if !p.Since.IsZero() {
			since = strconv.FormatInt(p.Since.UnixMilli(), 10)
		}
		runs[i] = rueidis.LuaExec{
			Keys: []string{s.botKey("cadence", p.Client)},
			Args: []string{at, s.instance, strconv.Itoa(p.Requests), since},
		}
	}
	others := make([]int, len(paces))
	var failed error
	for i, r := range paceScript.ExecMulti(ctx, c, runs...) {
		n, err := r.AsInt64()
		if err != nil {
			failed = err // the last one stands for all
			continue
		}
		others[i] = int(n)
	}
	return others, wrap("exchange paces", failed)
}

const (
	// collisionLifetime is that of DATA_MODEL §5.
	collisionLifetime = 24 * time.Hour
	// maxCollisions bounds one crowd's set: beyond it the oldest make room.
	maxCollisions = 1000
)

// Collide implements bot.BotMemory.
func (s *Bots) Collide(ctx context.Context, crowd, session uint64, now time.Time) (int, error) {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c, key := s.cfg.Sessions, s.botKey("fp-collisions", crowd)
	results := c.DoMulti(ctx,
		c.B().Zadd().Key(key).ScoreMember().ScoreMember(float64(now.UnixMilli()), fmt.Sprintf("%016x", session)).Build(),
		c.B().Zremrangebyrank().Key(key).Start(0).Stop(-maxCollisions-1).Build(),
		c.B().Expire().Key(key).Seconds(int64(collisionLifetime/time.Second)).Build(),
		c.B().Zcount().Key(key).Min(strconv.FormatInt(now.Add(-time.Minute).UnixMilli(), 10)).Max("+inf").Build())
	if err := all("note collision", results); err != nil {
		return 0, err
	}
	n, err := results[len(results)-1].AsInt64()
	return int(n), wrap("note collision", err)
}

// LogVerdict keeps a verdict with its event in one transaction.
func (s *Store) LogVerdict(ctx context.Context, b bot.BotSuspected, e *bff.Event) error {
	signals, err := json.Marshal(b.Signals)
	if err != nil {
		return fmt.Errorf("log bot score: %w", err)
	}
	err = postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO bff_consumer.bot_score_log
			(id, guest_session_id, fingerprint_hash, ip_hash, user_agent_hash, score, verdict, signals, action_taken, evaluated_at)
			VALUES ($1, nullif($2, ''), $3, $4, $5, $6, $7, $8, $9, $10)`,
			bff.NewID(bff.PrefixBotScore, b.EvaluatedAt.Time).String(), b.GuestSessionID.String(), b.FingerprintHash[:], b.IPHash[:], b.UserAgentHash[:],
			b.Score, b.Verdict, signals, b.ActionTaken, b.EvaluatedAt.Time); err != nil {
			return fmt.Errorf("log bot score: %w", err)
		}
		if e != nil {
			return s.cfg.Outbox.Append(ctx, tx, *e)
		}
		return nil
	})
	if err == nil && e != nil {
		s.cfg.Waker.Wake()
	}
	return durable(err)
}

// penaltyHalfLife is how long until a misdeed weighs half: a shared fingerprint
// is not marked for the day.
const penaltyHalfLife = 5 * time.Minute

// penaltyScript adds to a weight that halves with time. The value is "weight
// milliseconds".
//
// KEYS[1]; ARGV: now, weight, half-life, lifetime; all times in milliseconds
var penaltyScript = rueidis.NewLuaScript(`
local now, weight = tonumber(ARGV[1]), tonumber(ARGV[2])
local was, at = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+)$')
if was then weight = weight + tonumber(was) * 2 ^ (-math.max(now - tonumber(at), 0) / tonumber(ARGV[3])) end
redis.call('SET', KEYS[1], string.format('%.6f %.0f', weight, now), 'PX', ARGV[4])
return 1
`)

func (s *Store) penalise(ctx context.Context, b bot.BotSuspected) error {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	return wrap("penalise", penaltyScript.Exec(ctx, s.cfg.Sessions, []string{s.PenaltyKey(b.FingerprintHash)}, []string{
		num(b.EvaluatedAt.UnixMilli()), strconv.FormatFloat(b.Score, 'f', 6, 64), num(penaltyHalfLife.Milliseconds()), num(PenaltyLifetime.Milliseconds()),
	}).Error())
}

// Penalty returns what a fingerprint's misdeeds still weigh.
func (s *Store) Penalty(ctx context.Context, fingerprint consumer.Hash, now time.Time) (float64, error) {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	text, err := c.Do(ctx, c.B().Get().Key(s.PenaltyKey(fingerprint)).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("find penalty: %w", err)
	}
	weight, at, _ := strings.Cut(text, " ")
	w, errW := strconv.ParseFloat(weight, 64)
	ms, errAt := strconv.ParseInt(at, 10, 64)
	if err := errors.Join(errW, errAt); err != nil || math.IsNaN(w) {
		return 0, nil // not ours: no penalty
	}
	return w * math.Exp2(-max(now.Sub(time.UnixMilli(ms)), 0).Minutes()/penaltyHalfLife.Minutes()), nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
