package cache

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	crand "crypto/rand"
)

const (
	syncEvery = time.Second
	// syncLate is when a process that cannot read the log stops trusting what
	// others share.
	syncLate = 3 * time.Second
	// probeEvery is the pause between attempts while Redis is gone.
	probeEvery = 250 * time.Millisecond

	// closeGrace is what cancelled fills have to end, beside a write that is under way.
	closeGrace = time.Second

	maxTTL = 30 * 24 * time.Hour
)

// StoreConfig describes what the caches of one process share.
type StoreConfig struct {
	// Redis is the shared tier; nil leaves memory alone.
	Redis rueidis.Client
	// Bus is the client for pub/sub; nil takes Redis.
	Bus rueidis.Client
	// Prefix begins every key: "{env}:{service}:".
	Prefix string
	// LockPrefix begins, below the prefix, the key of the lease of each entry; default
	// "lock:".
	LockPrefix string
	// Namespace and Registerer are for metrics; a nil Registerer registers none.
	Namespace  string
	Registerer prometheus.Registerer

	ReadTimeout  time.Duration // of a lookup in Redis; default 50 ms
	WriteTimeout time.Duration // of leases, writes and the log; default 250 ms
	MaxBody      int           // bytes of a body that is kept; default 4 MiB
	MaxTags      int           // tags that invalidations are remembered of; default 50,000

	// EncodeError and DecodeError carry the failure of a fill to the processes
	// that waited for it, as a short code. The defaults know timeouts from the
	// rest and answer with a [*LeaderError].
	EncodeError func(error) string
	DecodeError func(code string) error
}

// Store is what the caches of one process share.
type Store struct {
	prefix, locks, namespace  string
	readTimeout, writeTimeout time.Duration
	leaseTTL                  time.Duration
	maxBody                   int
	encodeError               func(error) string
	decodeError               func(string) error

	base    time.Time
	metrics *storeMetrics
	codec   *compressor
	link    *link
	tags    *tagTable
	log     *tagLog
	bus     *bus

	ctx    context.Context //nolint:containedctx // the life of background work
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	names  map[string]bool
	stops  []func() // of the caches

	flights, loops sync.WaitGroup
}

// NewStore starts the background work of the shared tier. A Redis that does not
// answer is no error: the caches start on memory alone and join it later.
func NewStore(cfg StoreConfig) (*Store, error) {
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = 50 * time.Millisecond
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = 250 * time.Millisecond
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = 4 << 20
	}
	if cfg.MaxTags == 0 {
		cfg.MaxTags = 50_000
	}
	if cfg.LockPrefix == "" {
		cfg.LockPrefix = "lock:"
	}
	if cfg.Bus == nil {
		cfg.Bus = cfg.Redis
	}
	if cfg.EncodeError == nil || cfg.DecodeError == nil {
		cfg.EncodeError, cfg.DecodeError = defaultEncodeError, defaultDecodeError
	}
	var errs []error
	if cfg.Prefix == "" && cfg.Redis != nil {
		errs = append(errs, errors.New("prefix: is required with Redis"))
	}
	if cfg.ReadTimeout < 0 || cfg.WriteTimeout < 0 || cfg.MaxBody < 0 || cfg.MaxTags < 0 {
		errs = append(errs, errors.New("timeouts, MaxBody and MaxTags must not be negative"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("cache store: %w", err)
	}
	metrics, err := newStoreMetrics(cfg.Namespace, cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("cache store: %w", err)
	}
	codec, err := newCompressor(cfg.MaxBody)
	if err != nil {
		return nil, fmt.Errorf("cache store: %w", err)
	}
	s := &Store{
		prefix: cfg.Prefix, locks: cfg.Prefix + cfg.LockPrefix, namespace: cfg.Namespace, readTimeout: cfg.ReadTimeout, writeTimeout: cfg.WriteTimeout,
		leaseTTL: leaseTTL, maxBody: cfg.MaxBody,
		encodeError: cfg.EncodeError, decodeError: cfg.DecodeError,
		base: time.Now(), metrics: metrics, codec: codec,
		link: newLink(cfg.Redis, metrics), tags: newTagTable(cfg.MaxTags),
		bus:   newBus(cfg.Bus, cfg.Prefix+"cache-log", cfg.Prefix+"cache-fills"),
		names: map[string]bool{},
	}
	s.log = &tagLog{
		redis: s.link, table: s.tags, key: cfg.Prefix + "cache-log", bell: s.bus.bell,
		timeout: cfg.WriteTimeout, pending: map[string]struct{}{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if cfg.Redis != nil {
		s.sync()
		s.loops.Go(func() { s.bus.run(s.ctx) })
		s.loops.Go(s.keepInSync)
	}
	return s, nil
}

// keepInSync follows the log, and finds out when a lost Redis is back.
func (s *Store) keepInSync() {
	read := time.Now()
	for {
		pause := syncEvery
		if !s.link.up() {
			pause = probeEvery
		}
		t := time.NewTimer(pause/2 + rand.N(pause)) //nolint:gosec // jitter
		select {
		case <-s.ctx.Done():
			t.Stop()
			return
		case <-s.bus.ring:
			t.Stop()
		case <-t.C:
		}
		if s.sync() {
			read = time.Now()
		} else if time.Since(read) > syncLate {
			s.link.trip()
		}
	}
}

func (s *Store) sync() bool {
	if err := s.log.sync(s.ctx); err != nil {
		return false
	}
	s.link.restore()
	return true
}

// Up says whether the shared tier is in use.
func (s *Store) Up() bool { return s.link.up() }

// Invalidate has no entry with one of the tags served again, here from this
// moment, elsewhere as soon as the word gets there. A fill that is under way
// does not bring it back.
//
// An error says that the other processes could not be told. This one remembers
// and tells them when Redis is back; a caller that can ask again later should,
// as this process may not live that long.
func (s *Store) Invalidate(ctx context.Context, tags ...string) error {
	return s.outdate(ctx, kindInvalidate, tags)
}

// Expire ends the freshness of entries with one of the tags: each is refreshed
// when it is next asked for, and meanwhile served as its Grace and Stale allow.
// It is the gentle form for news that may arrive a moment late, such as a new
// price; for what must not be seen again use [Store.Invalidate].
func (s *Store) Expire(ctx context.Context, tags ...string) error {
	return s.outdate(ctx, kindExpire, tags)
}

func (s *Store) outdate(ctx context.Context, k kind, tags []string) error {
	if len(tags) == 0 {
		return nil
	}
	for _, tag := range tags {
		if tag == "" || len(tag) > maxTagBytes {
			return fmt.Errorf("cache: tag has %d bytes, must have 1 to %d", len(tag), maxTagBytes)
		}
	}
	s.metrics.invalidations.WithLabelValues(k.String()).Add(float64(len(tags)))
	s.tags.markLocal(k, tags)
	if s.link.client == nil {
		return nil
	}
	return s.log.write(ctx, k, tags)
}

func (k kind) String() string {
	if k == kindExpire {
		return "expire"
	}
	return "invalidate"
}

// Close ends background work. Fills that are under way may finish until the
// context ends, then they are cancelled. Clients are the caller's to close.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return nil
	}
	err := ended(ctx, &s.flights)
	s.cancel()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.writeTimeout+closeGrace)
	defer cancel()
	if rest := errors.Join(ended(last, &s.flights), ended(last, &s.loops)); rest != nil {
		return fmt.Errorf("close cache: %w", rest) // a fill that does not heed its context
	}
	for _, stop := range s.stops {
		stop()
	}
	s.codec.close()
	if err != nil {
		return fmt.Errorf("close cache: fills cancelled: %w", err)
	}
	return nil
}

// ended waits for a group, or for the context.
func ended(ctx context.Context, wg *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// spawn runs a flight, which Close waits for.
func (s *Store) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.flights.Go(f)
	return true
}

// now is the time since the store began. It is monotonic, and cheaper to ask
// for than the time of day.
func (s *Store) now() int64 { return int64(time.Since(s.base)) }

// lockKey is "{env}:{service}:{lock}:{cacheKey}" (DATA_MODEL §5; §3.2 of the staff's).
func (s *Store) lockKey(key string) string {
	return s.locks + strings.TrimPrefix(key, s.prefix)
}

func newEpoch() uint64 {
	var b [8]byte
	_, _ = crand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:]) | 1
}

func epochName(e uint64) string { return fmt.Sprintf("%016x", e) }
