package consumerstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

func (s *Store) searchKey(id bff.ID) string { return s.cfg.Keys.Key("srs", id.String()) }

// orderKey: equal orders share a key, whichever guests saw them.
func (s *Store) orderKey(name consumer.Hash) string {
	return s.cfg.Keys.Key("order", hex.EncodeToString(name[:]))
}

const orderField = "order:"

// searchesKey is a sorted set of a guest's search sessions by the moment they end:
// the history names one of each query, a purge needs them all.
func (s *Store) searchesKey(guest bff.ID) string { return s.sessionKey(guest) + ":searches" }

// noteScript adds a search session to those of its guest and forgets those that
// ended. It refuses where the guest had the session purged.
//
//	KEYS[1] sorted set; ARGV[1] life in seconds; ARGV[2] mark of a cleared session;
//	ARGV[3] search session; ARGV[4] its end; ARGV[5] now
var noteScript = newScript(`
if redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[4], ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[5])
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1`)

// noteSearch adds a search session to those of its guest.
func (s *Store) noteSearch(ss *consumer.SearchSession) call {
	const life = consumer.SearchSessionLifetime
	return noteScript.call(s.searchesKey(ss.Guest), seconds(life), clearedMark,
		ss.ID.String(), strconv.FormatInt(ss.StartedAt.Add(life).Unix(), 10), strconv.FormatInt(time.Now().Unix(), 10))
}

// listSearches returns the search sessions of a guest that have not ended.
func (s *Store) listSearches(ctx context.Context, guest bff.ID) ([]string, error) {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	ids, err := c.Do(ctx, c.B().Zrange().Key(s.searchesKey(guest)).Min("0").Max("-1").Build()).AsStrSlice()
	if err != nil {
		return nil, fmt.Errorf("list searches: %w", err)
	}
	return ids, nil
}

// saveSearch writes a search session, or adds an order to one that is there.
// Its hour counts from its start: reading it does not prolong it.
func (s *Store) saveSearch(ss *consumer.SearchSession) rueidis.Commands {
	c, key := s.cfg.Sessions, s.searchKey(ss.ID)
	set := c.B().Hset().Key(key).FieldValue().
		FieldValue("guestSessionId", ss.Guest.String()).FieldValue("queryHash", ss.Query.What.String()).FieldValue("listHash", ss.Query.ListText).
		FieldValue("query", ss.Query.Encoded).FieldValue("startedAt", bff.At(ss.StartedAt).String()).
		FieldValue("lastInteractionAt", bff.At(latest(ss.StartedAt, ss.LastAt)).String()).FieldValue("resultCount", strconv.Itoa(ss.ResultCount)).
		FieldValue("ttlExpiresAt", bff.At(ss.StartedAt.Add(consumer.SearchSessionLifetime)).String())
	for _, o := range ss.Orders {
		set = set.FieldValue(orderField+strconv.Itoa(o.Window), o.Name.String())
	}
	ends := ss.StartedAt.Add(consumer.SearchSessionLifetime)
	return rueidis.Commands{set.Build(), c.B().Pexpireat().Key(key).MillisecondsTimestamp(ends.UnixMilli()).Build()}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// FindSearch reads a search session; one that cannot be read is as good as none.
func (s *Store) FindSearch(ctx context.Context, id, guest bff.ID, q *consumer.Asked) (consumer.SearchSession, bool, error) {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	m, err := c.Do(ctx, c.B().Hgetall().Key(s.searchKey(id)).Build()).AsStrMap()
	if err != nil {
		return consumer.SearchSession{}, false, fmt.Errorf("find search: %w", err)
	}
	var started bff.Timestamp
	if m["guestSessionId"] != guest.String() || m["listHash"] != q.ListText || started.UnmarshalText([]byte(m["startedAt"])) != nil {
		return consumer.SearchSession{}, false, nil
	}
	ss := consumer.SearchSession{ID: id, Guest: guest, Query: q, StartedAt: started.Time}
	for field, name := range m {
		window, ok := strings.CutPrefix(field, orderField)
		n, err := strconv.Atoi(window)
		var h consumer.Hash
		if ok && err == nil && h.UnmarshalText([]byte(name)) == nil {
			ss.Orders = append(ss.Orders, consumer.Order{Window: n, Name: h})
		}
	}
	return ss, true, nil
}

// SaveOrder keeps an order a little longer than any session that can name it.
func (s *Store) SaveOrder(ctx context.Context, name consumer.Hash, hotels []bff.ID) error {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	raw := make([]byte, 0, 16*len(hotels))
	for _, id := range hotels {
		b := id.Bytes()
		raw = append(raw, b[:]...)
	}
	c := s.cfg.Sessions
	life := consumer.SearchSessionLifetime + 10*time.Minute
	if err := c.Do(ctx, c.B().Set().Key(s.orderKey(name)).Value(string(raw)).Ex(life).Build()).Error(); err != nil {
		return fmt.Errorf("save order: %w", err)
	}
	return nil
}

// FindOrder returns an order that is still kept.
func (s *Store) FindOrder(ctx context.Context, name consumer.Hash) ([]bff.ID, bool, error) {
	ctx, cancel := s.within(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	raw, err := c.Do(ctx, c.B().Get().Key(s.orderKey(name)).Build()).AsBytes()
	if rueidis.IsRedisNil(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("find order: %w", err)
	}
	hotels := make([]bff.ID, 0, len(raw)/16)
	for ; len(raw) >= 16; raw = raw[16:] {
		hotels = append(hotels, bff.IDFromBytes(bff.PrefixProperty, [16]byte(raw)))
	}
	return hotels, true, nil
}
