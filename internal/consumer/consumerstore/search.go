package consumerstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/consumer"
)

func (s *Store) searchKey(id bff.ID) string { return s.cfg.Keys.Key("srs", id.String()) }

// orderKey: equal orders share a key, whoever saw them.
func (s *Store) orderKey(name consumer.Hash) string {
	return s.cfg.Keys.Key("order", hex.EncodeToString(name[:]))
}

const orderField = "order:"

// SaveSearch writes a search session, or adds an order to one that is there.
// Its hour counts from its start: reading it does not prolong it.
func (s *Store) SaveSearch(ctx context.Context, ss consumer.SearchSession) error {
	query, err := json.Marshal(ss.Query)
	if err != nil {
		return fmt.Errorf("save search: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	c, key := s.cfg.Sessions, s.searchKey(ss.ID)
	set := c.B().Hset().Key(key).FieldValue().
		FieldValue("guestSessionId", ss.Guest.String()).FieldValue("queryHash", ss.QueryHash.String()).
		FieldValue("query", string(query)).FieldValue("startedAt", bff.At(ss.StartedAt).String())
	for window, name := range ss.Orders {
		set = set.FieldValue(orderField+strconv.Itoa(window), name.String())
	}
	ends := ss.StartedAt.Add(consumer.SearchSessionLifetime)
	for _, r := range c.DoMulti(ctx, set.Build(), c.B().Pexpireat().Key(key).MillisecondsTimestamp(ends.UnixMilli()).Build()) {
		if err := r.Error(); err != nil {
			return fmt.Errorf("save search: %w", err)
		}
	}
	return s.PushSearch(ctx, ss.Guest, consumer.HistoryOf(ss))
}

// FindSearch reads a search session; one that cannot be read is as good as none.
func (s *Store) FindSearch(ctx context.Context, id bff.ID) (consumer.SearchSession, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	c := s.cfg.Sessions
	m, err := c.Do(ctx, c.B().Hgetall().Key(s.searchKey(id)).Build()).AsStrMap()
	if err != nil {
		return consumer.SearchSession{}, false, fmt.Errorf("find search: %w", err)
	}
	ss := consumer.SearchSession{ID: id, Orders: map[int]consumer.Hash{}}
	var started bff.Timestamp
	guest, guestErr := bff.ParseID(bff.PrefixGuestSession, m["guestSessionId"])
	if err := errors.Join(guestErr, ss.QueryHash.UnmarshalText([]byte(m["queryHash"])),
		started.UnmarshalText([]byte(m["startedAt"])), json.Unmarshal([]byte(m["query"]), &ss.Query)); err != nil {
		return consumer.SearchSession{}, false, nil
	}
	ss.Guest, ss.StartedAt = guest, started.Time
	for field, name := range m {
		window, ok := strings.CutPrefix(field, orderField)
		n, err := strconv.Atoi(window)
		var h consumer.Hash
		if ok && err == nil && h.UnmarshalText([]byte(name)) == nil {
			ss.Orders[n] = h
		}
	}
	return ss, true, nil
}

// SaveOrder keeps an order a little longer than any session that can name it.
func (s *Store) SaveOrder(ctx context.Context, name consumer.Hash, hotels []bff.ID) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
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
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
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
