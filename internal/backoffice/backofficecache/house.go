package backofficecache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"melmastoon.ghasi.io/bff"
	"melmastoon.ghasi.io/bff/internal/backoffice/board"
	"melmastoon.ghasi.io/bff/internal/cache"
	"melmastoon.ghasi.io/bff/internal/redis"
)

// House remembers readings in this process: dashboards of several roles and views
// that are made at once share the calls, and the last good reading stands in for an
// upstream that fails or is slow. What is shared between processes are the finished
// dashboards and views.
type House struct {
	next  board.House
	cache *cache.Cache
	keys  redis.Keys
}

var _ board.House = (*House)(nil)

const (
	// readingFresh lets views and dashboards that are asked for together share a
	// reading; they are themselves kept for longer.
	readingFresh = 2 * time.Second
	// readingStale is how long the last good reading stands in.
	readingStale = 5 * time.Minute
	// noPlaceFor is how long "there is no such property" is believed.
	noPlaceFor    = 10 * time.Second
	readingBytes  = 64 << 20
	readingWithin = 2 * time.Second // more than any upstream may take
	// maxReadings bounds the calls at the same time. It is generous: an upstream that
	// hangs is held back by its own client, and must not take the places of others.
	maxReadings = 4096
)

// NewHouse returns a memory in front of next.
func NewHouse(next board.House, store *cache.Store, keys redis.Keys) (*House, error) {
	c, err := cache.New(store, cache.Config{
		Name: "reading", Raw: true, MaxBytes: readingBytes, FillTimeout: readingWithin, MaxFills: maxReadings,
		TTL: func() cache.TTL { return cache.TTL{Fresh: readingFresh, Stale: readingStale} },
	})
	return &House{next: next, cache: c, keys: keys}, err
}

// readingTag names all readings of a property, or with a zero property of a tenant.
func readingTag(tenant, property bff.ID) string {
	return "reading:" + tenant.String() + ":" + property.String()
}

// Read implements board.House. A caller whose time is up gets the last good
// reading; the call goes on, and its answer serves the next.
func (h *House) Read(ctx context.Context, from board.Source, at board.Place) (board.Reading, error) {
	keys, err := h.keys.Tenant(at.Tenant)
	if err != nil {
		return board.Reading{}, err
	}
	key := readingKey(keys, from, at)
	entry, st, err := h.cache.Get(ctx, key, func(ctx context.Context) (cache.Fill, error) {
		return h.fill(ctx, from, at)
	})
	stale := st.Result == cache.Stale
	if err != nil {
		var ok bool
		if entry, ok = h.cache.Peek(key); !ok || !errors.Is(err, context.DeadlineExceeded) {
			return board.Reading{}, err
		}
		stale = true
	}
	value, err := entry.Value(func([]byte) (any, error) { return nil, errors.New("a reading without its value") })
	if err != nil {
		return board.Reading{}, err
	}
	reading, _ := value.(board.Reading) // only fill makes them
	reading.Stale = stale
	if stays, ok := reading.Value.([]board.Stay); ok && entry.Age() > board.NamesKept {
		reading.Value = board.Nameless(stays)
	}
	return reading, nil
}

func (h *House) fill(ctx context.Context, from board.Source, at board.Place) (cache.Fill, error) {
	r, err := h.next.Read(ctx, from, at)
	if bff.CodeOf(err) == bff.CodeResourceNotFound {
		return cache.Fill{}, cache.Negative(err, noPlaceFor)
	}
	if err != nil {
		return cache.Fill{}, err
	}
	body, err := json.Marshal(r.Value) // for its weight alone
	if err != nil {
		return cache.Fill{}, fmt.Errorf("weigh reading of %s: %w", from, err)
	}
	return cache.Fill{Body: body, Value: r, Tags: []string{readingTag(at.Tenant, bff.ID{}), readingTag(at.Tenant, at.Property)}}, nil
}
