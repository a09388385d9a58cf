package consumerstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
	"melmastoon.ghasi.io/bff/internal/consumer/guest"
	"melmastoon.ghasi.io/bff/internal/postgres"
)

// clearedSession is how long the id of a purged session is refused: as long as a
// card can be used that was made while it was purged. Postgres keeps the same for
// when Redis loses it.
const clearedSession = consumer.CardLifetime + 24*time.Hour

var (
	// clearHashScript and its siblings leave a mark that keeps what is still on
	// its way from bringing the key back.
	//
	//	KEYS[1] key; ARGV[1] life of the mark in seconds; ARGV[2] mark
	clearHashScript = rueidis.NewLuaScript(`
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], ARGV[2], '1')
return redis.call('EXPIRE', KEYS[1], ARGV[1])`)
	clearListScript = rueidis.NewLuaScript(`
redis.call('DEL', KEYS[1])
redis.call('RPUSH', KEYS[1], ARGV[2])
return redis.call('EXPIRE', KEYS[1], ARGV[1])`)
	clearSetScript = rueidis.NewLuaScript(`
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[1], '+inf', ARGV[2])
return redis.call('EXPIRE', KEYS[1], ARGV[1])`)
)

// PurgeSession deletes all that is kept of a session: the rows of its wishlist
// and its idempotent answers, with the event in the same transaction, then its
// keys. The ledger of hand-offs is security state and goes by its own age. When
// it fails it may be repeated, and must be until it does not.
func (s *Store) PurgeSession(ctx context.Context, guestID bff.ID, e *bff.Event) error {
	searches, err := s.listSearches(ctx, guestID)
	if err != nil {
		return unreachable(err)
	}
	var answers []string
	err = postgres.InTx(ctx, s.cfg.DB, func(tx pgx.Tx) (err error) {
		if err := lockWishlist(ctx, tx, guestID, false); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM bff_consumer.wishlist_anonymous WHERE guest_session_id = $1`, guestID.String()); err != nil {
			return fmt.Errorf("purge wishlist: %w", err)
		}
		if err := s.addClearing(ctx, tx, guestID); err != nil {
			return err
		}
		if answers, err = s.once.Forget(ctx, tx, guestID.String()); err != nil {
			return err
		}
		return s.tell(ctx, tx, e)
	})
	if err != nil {
		return durable(err)
	}
	s.cfg.Waker.Wake()
	return unreachable(s.purgeKeys(ctx, guestID, searches, answers))
}

func (s *Store) purgeKeys(ctx context.Context, guestID bff.ID, searches, answers []string) error {
	ctx, cancel := s.within(ctx, purgeTimeout)
	defer cancel()
	c, key := s.cfg.Sessions, s.sessionKey(guestID)
	errs := []error{clearHashScript.Exec(ctx, c, []string{key}, []string{seconds(clearedSession), clearedField}).Error()}
	for _, list := range []string{key + ":wishlist", key + ":recent", key + ":history"} {
		errs = append(errs, clearListScript.Exec(ctx, c, []string{list}, []string{seconds(clearedLife), clearedMark}).Error())
	}
	errs = append(errs, clearSetScript.Exec(ctx, c, []string{s.searchesKey(guestID)}, []string{seconds(clearedLife), clearedMark}).Error())
	cmds := rueidis.Commands{c.B().Zrem().Key(s.seenKey(guestID)).Member(guestID.String()).Build()}
	for _, composite := range answers {
		cmds = append(cmds, c.B().Del().Key(copies{s}.key(composite)).Build())
	}
	for _, id := range searches {
		cmds = append(cmds, c.B().Del().Key(s.cfg.Keys.Key("srs", id)).Build())
	}
	return errors.Join(append(errs, all("purge session", c.DoMulti(ctx, cmds...)))...)
}

// purgeTimeout is longer than that of a read: the guest asked for this.
const purgeTimeout = time.Second

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// unreachable codes a failure of Redis on a route that cannot do without it.
func unreachable(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return &bff.Error{Code: bff.CodeServiceUnavailable, RetryAfter: retryStore, Err: err}
}

// expireScript takes members that were last seen before a moment out of a
// sorted set. Of any number of sweeps one gets each member.
//
//	KEYS[1] sorted set; ARGV[1] moment; ARGV[2] most members
var expireScript = rueidis.NewLuaScript(`
local gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for i = 1, #gone, 2 do redis.call('ZREM', KEYS[1], gone[i]) end
return gone`)

// sweepBatch bounds what one script does at a time: Redis serves no other call
// meanwhile.
const sweepBatch = 200

// EndExpired announces the end of sessions that were unused for thirty days, once
// each, and returns how many. It is best effort: what a crash takes along is not
// announced.
func (s *Store) EndExpired(ctx context.Context, tell *consumer.Telemetry, now time.Time) (int, error) {
	ended := 0
	for shard := range seenShards {
		for {
			n, err := s.endExpired(ctx, s.seenShard(shard), tell, now)
			ended += n
			if err != nil {
				return ended, err
			}
			if n < sweepBatch {
				break
			}
		}
	}
	return ended, nil
}

// later returns the later of two: a session that never came back stands in the set
// with a time before it began.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *Store) endExpired(ctx context.Context, key string, tell *consumer.Telemetry, now time.Time) (int, error) {
	limit := strconv.FormatInt(now.Add(-consumer.SessionLifetime).Unix(), 10)
	gone, err := expireScript.Exec(ctx, s.cfg.Sessions, []string{key}, []string{limit, strconv.Itoa(sweepBatch)}).AsStrSlice()
	if err != nil {
		return 0, fmt.Errorf("sweep sessions: %w", err)
	}
	var events []bff.Event
	for i := 0; i+1 < len(gone); i += 2 {
		id, err := bff.ParseID(bff.PrefixGuestSession, gone[i])
		seen, scoreErr := strconv.ParseFloat(gone[i+1], 64)
		if err != nil || scoreErr != nil {
			continue
		}
		// The set holds sessions that agreed to telemetry; the blob itself has expired.
		session := consumer.GuestSession{
			ID: id, CreatedAt: id.Time(), LastSeenAt: later(id.Time(), time.Unix(int64(seen), 0)), Consent: consumer.Consent{Telemetry: true},
		}
		e, leaves, err := tell.Event(session, guest.NewSessionEnded(session, guest.EndedByTime, now), consumer.Occasion{}, now)
		if err == nil && leaves {
			events = append(events, e)
		}
	}
	if err := s.cfg.Appender.Append(ctx, events...); err != nil {
		return len(gone) / 2, fmt.Errorf("sweep sessions: %w", err)
	}
	return len(gone) / 2, nil
}
